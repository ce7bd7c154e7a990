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
//   ACTION_LOOP     (tail calls only) forget the tail calls since the last real call, then push
//
// with base = max_id + 1; what is added to it is the first id of the function called
// (dictionary_own(), 0 unless silent edges are about). An edge that was met after the numbering is
// PUSH, back edges are REPEAT, edges that were cut because ids would overflow are PUSH. A silent
// edge is ADD 0: nothing happens.
//
// `save` says that a call's way back does not undo what was done, but restores what (id, ccStack)
// were, from TcStack: the function called may leave by a tail call that changed them.

#include "encode/dictionary.h"

enum action {
    ACTION_PUSH,
    ACTION_ADD,
    ACTION_REPEAT,
    ACTION_LOOP,
};

struct code {
    uint64_t add;
    uint8_t action;
    bool save;
};

struct numbering_options {
    uint32_t stamp;
    unsigned id_bits;       // 64; fewer to force overflow
    uint32_t chain_targets; // an indirect call with more targets looks them up in a hash table
    // Calls of functions with tail calls that never ran save, too, so that a first tail call need
    // not change its callers; but not those with this much heat, which it would slow. 0: none do.
    uint64_t save_unseen_tails;
    // Nobody asks whether new silent edges and roots fit: COVER_STALE is not told.
    bool ignores_stale;
};

struct numbering {
    const struct graph *graph;
    struct dictionary *dictionary;
    struct numbering_options options;
    uint32_t covered, covered_functions; // edges and functions that have a code, or a mark below
    uint32_t covered_roots;
    struct series codes;  // struct code, by edge
    struct series leaves; // bool, by function: may leave by a tail call that changes
    bool saves_changed;   // while edges are covered: a known call must save
    uint32_t encoded, zero, back, cut, loops; // edges by what became of them
};

// The empty encoding, stamp as told: nothing is encoded, max_id is 0. 0 or -ENOMEM.
int numbering_start(struct numbering *numbering, const struct graph *graph,
                    const struct numbering_options *options);

// Encodes all edges that are known, from hot to cold. 0 or -ENOMEM.
int numbering_make(struct numbering *numbering, const struct graph *graph,
                   const struct numbering_options *options);

// What new edges mean for the encoding in force.
enum cover {
    COVER_FITS,
    // Calls that were encoded before must now save (a first tail call was met in a function): stubs
    // of such edges are to be made anew, and the threads' states regenerated (context_translate()
    // with the same dictionary) before anybody goes on.
    COVER_SAVES,
    // A silent edge leads to, or from, a function that was encoded without it, or a function that
    // silent edges leave has become a root: encode anew before it runs.
    COVER_STALE,
};

// Gives codes to the edges that were added since. 0 or -ENOMEM.
int numbering_cover(struct numbering *numbering, enum cover *cover);

// The dictionary stays: it belongs to whoever keeps the stamps.
void numbering_free(struct numbering *numbering);

static inline const struct code *numbering_code(const struct numbering *numbering, uint32_t edge)
{
    return series_at(&numbering->codes, edge);
}

// The id that the function called by an edge begins with when it is pushed, without the base.
static inline uint64_t numbering_own(const struct numbering *numbering, uint32_t edge)
{
    return dictionary_own(numbering->dictionary, graph_edge(numbering->graph, edge)->callee);
}

// Whether the code of a site may run as it was compiled: nothing to do, before or after. Only where
// the target is certain; an indirect call has to look for new ones.
bool numbering_plain(const struct numbering *numbering, uint32_t site);

#endif
