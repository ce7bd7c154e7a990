// SPDX-License-Identifier: MIT
#ifndef CAIRN_PATCH_CHAIN_H
#define CAIRN_PATCH_CHAIN_H

// The known targets of an indirect call or jump: the one that is there is compared with each, which
// has a call of its own.
//
//   few:   target == A? ─► call A      many:   target < C? ─► a group of four, as on the left
//          target == B? ─► call B                        └──► the next group
//          none of them: what comes behind the chain

#include "patch/emit.h"

#define IN_GROUP 4
#define GROUPS (STUB_ARMS / IN_GROUP)

// What a chain has to fill in when the rest of the stub is known.
struct chain {
    bool scratch, tail; // scratch: the target is in the scratch register, not on the stack
    // Those of the plan in the order of the code: by groups in order of address, if there are many.
    const struct stub_arm *arm[STUB_ARMS];
    size_t joins[STUB_ARMS], literals[STUB_ARMS];
    size_t misses[GROUPS]; // jumps behind the last of a group
    unsigned group_count, node_count;
    struct {
        size_t literal, jump;
        unsigned group; // the first that is not below it
    } node[2 * GROUPS];
};

void emit_chain(struct assembler *out, struct stub *stub, const struct stub_plan *plan,
                struct chain *chain);

// Here all its calls come together.
void end_joins(struct assembler *out, const struct chain *chain, const struct stub_plan *plan);

// What it compares with, at the end of the stub.
void end_chain(struct assembler *out, const struct chain *chain, const struct stub_plan *plan);

#endif
