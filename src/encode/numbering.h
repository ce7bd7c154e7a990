// SPDX-License-Identifier: MIT
#ifndef CAIRN_ENCODE_NUMBERING_H
#define CAIRN_ENCODE_NUMBERING_H

// The encoding in force: a dictionary, and what a call by each edge does because of it, as a word
// (state.h).
//
//   edge                                     word
//   has a number                             the number
//   silent                                   0: nothing happens
//   closes a cycle                           pushes, and counts repetitions
//   does not fit, is flagged, or is newer    pushes

#include "encode/dictionary.h"
#include "encode/state.h"

struct numbering_options {
    uint32_t stamp;
    unsigned id_bits; // ID_NUMBER_BITS (state.h); fewer to force overflow
};

struct numbering {
    const struct graph *graph;
    struct dictionary *dictionary;
    struct numbering_options options;
    uint64_t cold;               // edges of less heat were left out, for others to fit
    struct series words;         // int64_t, by edge of the dictionary
    uint32_t encoded, back, cut; // edges by what became of them
};

// Encodes all edges that are known, from hot to cold. 0 or -ENOMEM.
//
// Where a silent edge that is newer leads to, ids may be without meaning until all is encoded anew:
// context_decode() then says -EBADMSG.
int numbering_make(struct numbering *numbering, const struct graph *graph,
                   const struct numbering_options *options);

// The dictionary stays: it belongs to the keeper of the stamps.
void numbering_free(struct numbering *numbering);

// The effect of a call by an edge on the state of its thread: see state.h.
static inline int64_t numbering_word(const struct numbering *numbering, uint32_t edge)
{
    if (edge < numbering->dictionary->edges)
        return *(const int64_t *)series_at(&numbering->words, edge);
    return edge_is_silent(graph_edge(numbering->graph, edge)) ? 0 : WORD_PUSH | edge;
}

#endif
