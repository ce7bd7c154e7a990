// SPDX-License-Identifier: MIT
// What becomes of a program's calls: the exact calls of one profile, by what the last numbering of
// another one makes of each. Writes a line of JSON.
//
//   encode_shares CALLS ENCODED
//
// CALLS is of `cairn record --track calls`, ENCODED of `--track encode` with ask_sometimes.so.

#include "encode/codebook/codebook.h"
#include "profile/profile.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum share {
    SHARE_PLAIN,     // runs as it was compiled: number 0, or a call that needs none
    SHARE_ADDED,     // has a number
    SHARE_INDIRECT,  // has a number, which is looked for by the target
    SHARE_NO_NUMBER, // has none: it pushes, or is not followed
    SHARES
};

struct book {
    const struct profile *profile;
    const struct profile_contexts *contexts;
    struct pool pool;
    struct codebook codebook;
    uint32_t stamp;      // of the last numbering
    bool *has_number;    // by edge
    uint64_t *number;    // by edge
    unsigned *module_of; // from modules of the other profile; 0: not known
};

static void *map(size_t bytes)
{
    return calloc(1, bytes);
}

static void unmap(void *memory, size_t bytes)
{
    (void)bytes;
    free(memory);
}

static struct profile *read_profile(const char *name)
{
    char *error = NULL;
    struct profile *profile = profile_read(name, &error);
    if (!profile) {
        fprintf(stderr, "encode_shares: %s\n", error);
        exit(2);
    }
    return profile;
}

static void read_numbers(struct book *book, const struct dictionary *dictionary)
{
    const uint32_t edges = book->codebook.graph.edge_count;
    book->has_number = calloc(edges + 1u, sizeof *book->has_number);
    book->number = calloc(edges + 1u, sizeof *book->number);
    for (uint32_t f = 0; f < dictionary->functions; f++) {
        const struct dictionary_function *function = &dictionary->function[f];
        for (uint32_t i = 0; i < function->count; i++) {
            const struct dictionary_step *step = &dictionary->step[function->first + i];
            if (step->edge == GRAPH_NONE || step->edge >= edges)
                continue;
            book->has_number[step->edge] = true;
            book->number[step->edge] = step->start;
        }
    }
}

// The process with most to decode.
static const struct profile_contexts *largest(const struct profile *profile)
{
    const struct profile_contexts *found = NULL;
    for (unsigned i = 0; i < profile->process_count; i++) {
        const struct profile_contexts *contexts = &profile->processes[i].contexts;
        if (contexts->bytes && (!found || contexts->bytes > found->bytes))
            found = contexts;
    }
    return found;
}

static void match_modules(struct book *book, const struct profile *other)
{
    book->module_of = calloc(other->module_count + 1u, sizeof *book->module_of);
    for (unsigned n = MODULE_FIRST_FILE; n < book->contexts->module_count; n++) {
        const unsigned mapped = book->contexts->modules[n];
        if (!mapped || mapped >= book->profile->module_count)
            continue;
        for (unsigned m = MODULE_FIRST_FILE; m < other->module_count; m++)
            if (strcmp(other->modules[m].path, book->profile->modules[mapped].path) == 0)
                book->module_of[m] = n;
    }
}

static bool open_book(struct book *book, const struct profile *profile)
{
    book->profile = profile;
    book->contexts = largest(profile);
    if (!book->contexts)
        return false;
    book->pool = (struct pool){.map = map, .unmap = unmap, .piece = 1 << 16};
    codebook_init(&book->codebook, &book->pool);
    if (codebook_read(&book->codebook, book->contexts->sections, book->contexts->bytes) < 0 ||
        book->codebook.dictionary_count == 0)
        return false;
    const uint32_t last = book->codebook.dictionary_count - 1;
    const struct dictionary *dictionary =
        *(struct dictionary **)series_at(&book->codebook.dictionaries, last);
    book->stamp = dictionary->stamp;
    read_numbers(book, dictionary);
    return true;
}

static place_t translate(const struct book *book, place_t place)
{
    const unsigned module = place_module(place);
    return module < MODULE_FIRST_FILE ? place
                                      : place_make(book->module_of[module], place_offset(place));
}

static enum share share_of(const struct book *book, const struct profile_node *node)
{
    const struct graph *graph = &book->codebook.graph;
    const uint32_t site = graph_find_site(graph, translate(book, node->site));
    if (site == GRAPH_NONE)
        return SHARE_PLAIN; // of a leaf function, or by code that takes no part
    const uint32_t callee = graph_find_function(graph, translate(book, node->function));
    uint32_t edge = callee == GRAPH_NONE
                        ? GRAPH_NONE
                        : graph_find_edge(graph, translate(book, node->site), callee);
    // Of one target, whatever its name is there.
    const uint32_t first = graph_site(graph, site)->first_edge;
    if (edge == GRAPH_NONE && graph_edge(graph, first)->next_at_site == GRAPH_NONE)
        edge = first;
    if (edge == GRAPH_NONE)
        return SHARE_NO_NUMBER;
    const struct graph_edge *known = graph_edge(graph, edge);
    if (edge_is_silent(known))
        return SHARE_PLAIN;
    if (!book->has_number[edge])
        return SHARE_NO_NUMBER;
    if (known->kind == EDGE_INDIRECT)
        return SHARE_INDIRECT;
    return book->number[edge] ? SHARE_ADDED : SHARE_PLAIN;
}

static unsigned calls_metric(const struct profile *profile)
{
    for (unsigned i = 0; i < profile->metric_count; i++)
        if (profile_counts_calls(&profile->metrics[i]))
            return i;
    fputs("encode_shares: no calls in the first profile\n", stderr);
    exit(2);
}

int main(int count, char **words)
{
    static const char *const names[SHARES] = {"plain", "added", "indirect", "no number"};
    struct book book = {0};
    double calls[SHARES] = {0}, total = 0;
    if (count != 3) {
        fputs("usage: encode_shares CALLS ENCODED\n", stderr);
        return 2;
    }
    const struct profile *exact = read_profile(words[1]);
    const unsigned metric = calls_metric(exact);
    if (!open_book(&book, read_profile(words[2]))) {
        fputs("encode_shares: no numbering in the second profile\n", stderr);
        return 2;
    }
    match_modules(&book, exact);
    for (unsigned t = 0; t < exact->tree_count; t++) {
        const struct profile_tree *tree = &exact->trees[t];
        for (uint32_t i = 1; i < tree->count; i++) {
            if (!tree->nodes[i].function)
                continue;
            const uint64_t times = tree->values[(size_t)i * exact->metric_count + metric];
            calls[share_of(&book, &tree->nodes[i])] += (double)times;
            total += (double)times;
        }
    }
    printf("{\"stamp\": %u", book.stamp);
    for (unsigned i = 0; i < SHARES; i++)
        printf(", \"%s\": %.6f", names[i], total > 0 ? calls[i] / total : 0);
    puts("}");
    return 0;
}
