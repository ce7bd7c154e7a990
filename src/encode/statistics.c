// SPDX-License-Identifier: MIT
#include "encode/statistics.h"

void encoding_count(struct encoding_statistics *statistics, const struct numbering *numbering)
{
    const struct graph *graph = numbering->graph;
    *statistics = (struct encoding_statistics){
        .stamp = numbering->dictionary->stamp,
        .functions = graph->function_count,
        .sites = graph->site_count,
        .edges = graph->edge_count,
        .encoded = numbering->encoded,
        .zero = numbering->zero,
        .back = numbering->back,
        .cut = numbering->cut,
        .loops = numbering->loops,
        .fresh = graph->edge_count - numbering->dictionary->edges,
        .max_id = numbering->dictionary->max_id,
        .dictionary_bytes = numbering->dictionary->bytes,
    };
    for (uint32_t i = 0; i < numbering->covered; i++)
        statistics->saving += numbering_code(numbering, i)->save;
    for (uint32_t i = 0; i < graph->site_count; i++)
        statistics->plain += numbering_plain(numbering, i);
}

void dictionary_count(struct encoding_statistics *statistics, const struct dictionary *dictionary)
{
    *statistics = (struct encoding_statistics){
        .stamp = dictionary->stamp,
        .functions = dictionary->functions,
        .edges = dictionary->edges,
        .encoded = dictionary->steps,
        .max_id = dictionary->max_id,
        .dictionary_bytes = dictionary->bytes,
    };
    for (uint32_t f = 0; f < dictionary->functions; f++) {
        const struct dictionary_function *into = &dictionary->function[f];
        statistics->zero += into->calls > 0 && into->own == 0;
    }
}

static unsigned class_of(uint32_t depth)
{
    unsigned class = depth ? 32 - (unsigned)__builtin_clz(depth) : 0;
    return class < DEPTH_CLASSES ? class : DEPTH_CLASSES - 1;
}

void depth_count(struct depth_statistics *statistics, uint32_t path, uint32_t stack)
{
    statistics->contexts++;
    statistics->path_sum += path;
    statistics->stack_sum += stack;
    statistics->path_class[class_of(path)]++;
    statistics->stack_class[class_of(stack)]++;
}
