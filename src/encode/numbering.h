// SPDX-License-Identifier: MIT
#ifndef CAIRN_ENCODE_NUMBERING_H
#define CAIRN_ENCODE_NUMBERING_H

// The encoding in force: a dictionary, and what the code at each call site does because of it.
//
//   action          before the call                             after it
//   ACTION_PUSH     push (id, edge) on ccStack; id = base + add pop: id = what was pushed
//   ACTION_ADD      id += add                                   id -= add
//   ACTION_REPEAT   as PUSH, but if the entry on top is the     count it down again, or pop
//                   same (id, edge), count it up instead
// with base = max_id + 1; what is added to it is the first id of the function called
// (dictionary_own(), 0 unless silent edges are about). An edge that was met after the numbering is
// PUSH, back edges are REPEAT, edges that were cut because ids would overflow are PUSH. A silent
// edge is ADD 0: nothing happens.

#include "encode/dictionary.h"
#include "encode/state.h"

enum action {
    ACTION_PUSH,
    ACTION_ADD,
    ACTION_REPEAT,
};

struct code {
    uint64_t add;
    uint8_t action;
};

struct numbering_options {
    uint32_t stamp;
    unsigned id_bits; // ID_BITS (state.h); fewer to force overflow
};

struct numbering {
    const struct graph *graph;
    struct dictionary *dictionary;
    struct numbering_options options;
    uint32_t covered;                  // edges that have a code
    struct series codes;               // struct code, by edge
    uint32_t encoded, zero, back, cut; // edges by what became of them
};

// The empty encoding, stamp as told: nothing is encoded, max_id is 0. 0 or -ENOMEM.
int numbering_start(struct numbering *numbering, const struct graph *graph,
                    const struct numbering_options *options);

// Encodes all edges that are known, from hot to cold. 0 or -ENOMEM.
int numbering_make(struct numbering *numbering, const struct graph *graph,
                   const struct numbering_options *options);

// Gives codes to the edges that were added since: calls push. 0 or -ENOMEM.
//
// Where a silent edge that is new leads to, and in what a new root leads to silently, ids may be
// without meaning until all is encoded anew: context_decode() then says -EBADMSG.
int numbering_cover(struct numbering *numbering);

// The dictionary stays: it belongs to whoever keeps the stamps.
void numbering_free(struct numbering *numbering);

static inline const struct code *numbering_code(const struct numbering *numbering, uint32_t edge)
{
    return series_at(&numbering->codes, edge);
}

// What a call by an edge does to the state of its thread: see state.h.
static inline int64_t numbering_word(const struct numbering *numbering, uint32_t edge)
{
    const struct code *code = numbering_code(numbering, edge);
    if (code->action == ACTION_ADD)
        return (int64_t)code->add;
    return WORD_PUSH | (code->action == ACTION_REPEAT ? WORD_REPEATS : 0) | edge;
}

#endif
