// SPDX-License-Identifier: MIT
#ifndef CAIRN_TESTS_ENCODED_CALL_H
#define CAIRN_TESTS_ENCODED_CALL_H

// A call by an edge, and its return, under an encoding: what the driver does at a patched site.

#include "encode/numbering.h"

static inline void encoded_call(struct context_state *state, const struct numbering *numbering,
                                uint32_t edge)
{
    const struct dictionary *dictionary = numbering->dictionary;
    const uint32_t callee = graph_edge(numbering->graph, edge)->callee;
    context_call(state, numbering_word(numbering, edge),
                 dictionary_base(dictionary) + dictionary_own(dictionary, callee));
}

static inline void encoded_return(struct context_state *state, const struct numbering *numbering,
                                  uint32_t edge)
{
    context_return(state, numbering_word(numbering, edge));
}

#endif
