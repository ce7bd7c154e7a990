// SPDX-License-Identifier: MIT
#include "encode/decode.h"
#include "encode/graph/silent_path.h"
#include <errno.h>

struct path_decoder {
    const struct graph *graph;
    const struct dictionary *dictionary;
    uint32_t *path;
    uint32_t at; // what lies behind it is filled
    uint32_t edges;
    uint64_t id;
    uint32_t function;
    enum silent_kinds kinds; // SILENT_JUMPS: the context is confirmed
};

static int emit(struct path_decoder *decoder, uint32_t edge)
{
    if (decoder->at == 0)
        return -ENOSPC;
    decoder->path[--decoder->at] = edge;
    return 0;
}

// A function has left by jumps that change nothing, which end in the one that is decoded.
static int decode_silent(struct path_decoder *decoder, uint32_t head)
{
    if (head >= graph_functions(decoder->graph))
        return -EBADMSG;
    uint32_t edges[SILENT_MOST];
    int count = silent_path(decoder->graph, decoder->kinds, head, decoder->function, edges);
    if (count < 0)
        return -EBADMSG;
    for (int i = 1; i <= count; i++) {
        if (emit(decoder, edges[SILENT_MOST - i]) < 0)
            return -ENOSPC;
    }
    return 0;
}

// The head has no ids of its own, and has left silently. If the id 0 means something else in any
// function that it may have come to, it is not known where it is.
static int decode_head(struct path_decoder *decoder, uint32_t head)
{
    if (decoder->id != 0 || head >= graph_functions(decoder->graph))
        return -EBADMSG;
    if (decoder->kinds == SILENT_JUMPS)
        return decode_silent(decoder, head);
    struct silent_search search;
    const bool all = silent_search_all(&search, decoder->graph, head);
    for (uint32_t i = 0; i < search.count; i++)
        if (dictionary_find(decoder->dictionary, search.reached[i].function, 0))
            return -EBADMSG;
    return all ? decode_silent(decoder, head) : -EBADMSG;
}

// The sub-path from its head, with its id there, to the function. Encoded edges make no circle, so
// the head is met once.
static int decode_part(struct path_decoder *decoder, uint32_t head, uint64_t id)
{
    while (decoder->id != id || decoder->function != head) {
        const struct dictionary_step *step =
            dictionary_find(decoder->dictionary, decoder->function, decoder->id);
        if (!step)
            return id == 0 ? decode_head(decoder, head) : -EBADMSG;
        int status = step->edge == GRAPH_NONE ? decode_silent(decoder, step->caller)
                                              : emit(decoder, step->edge);
        if (status < 0)
            return status;
        if (step->edge != GRAPH_NONE)
            decoder->id -= dictionary_number(decoder->dictionary, step);
        decoder->function = step->caller;
    }
    return 0;
}

static uint64_t number_in(const struct encoded_context *context, uint32_t function, uint64_t id)
{
    return id_number(id, function < context->open_count && context->open[function]);
}

static int64_t decode(struct path_decoder *decoder, const struct encoded_context *context)
{
    const struct graph *graph = decoder->graph;
    const struct dictionary *dictionary = decoder->dictionary;
    const uint32_t limit = decoder->at;
    decoder->edges = graph_edges(graph);
    decoder->id = number_in(context, context->function, context->id);
    decoder->function = context->function;
    uint32_t depth = context->depth, repeated = 0; // of the entry on top: how often it was decoded
    for (;;) {
        const struct cc_entry *top = depth > 0 ? &context->stack[depth - 1] : NULL;
        const struct graph_edge *edge =
            top && top->edge < decoder->edges ? graph_edge(graph, top->edge) : NULL;
        // A sub-path that began with an unencoded edge says so by the range of its id.
        if ((top != NULL) != (decoder->id > dictionary->max_id) || (top && !edge))
            return -EBADMSG;
        if (top)
            decoder->id -= dictionary_base(dictionary);
        int status =
            edge ? decode_part(decoder, edge->callee, dictionary_own(dictionary, edge->callee))
                 : decode_part(decoder, context->root, dictionary_root(dictionary, context->root));
        if (status < 0)
            return status;
        if (!edge)
            return limit - decoder->at;
        if (emit(decoder, top->edge) < 0)
            return -ENOSPC;
        decoder->id = number_in(context, edge->caller, top->id);
        decoder->function = edge->caller;
        if (repeated < top->count) {
            repeated++;
        } else {
            repeated = 0;
            depth--;
        }
    }
}

int64_t context_decode(const struct graph *graph, const struct dictionary *dictionary,
                       const struct encoded_context *context, uint32_t *path, uint32_t limit)
{
    return decode(&(struct path_decoder){.graph = graph,
                                         .dictionary = dictionary,
                                         .path = path,
                                         .at = limit,
                                         .kinds = SILENT_ALL},
                  context);
}

int64_t context_decode_confirmed(const struct graph *graph, const struct dictionary *dictionary,
                                 const struct encoded_context *context, uint32_t *path,
                                 uint32_t limit)
{
    return decode(&(struct path_decoder){.graph = graph,
                                         .dictionary = dictionary,
                                         .path = path,
                                         .at = limit,
                                         .kinds = SILENT_JUMPS},
                  context);
}

uint32_t path_to_walk(const struct graph *graph, const uint32_t *path, uint32_t count,
                      struct walked *frames)
{
    uint32_t made = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct graph_edge *edge = graph_edge(graph, path[i]);
        place_t function = graph_function(graph, edge->callee)->entry;
        if (edge->kind != EDGE_SILENT_JUMP)
            frames[made++] = (struct walked){graph_site(graph, edge->site)->place, function};
        else if (made > 0)
            frames[made - 1].function = function;
    }
    return made;
}
