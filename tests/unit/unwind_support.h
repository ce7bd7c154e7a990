// SPDX-License-Identifier: MIT
#ifndef CAIRN_TESTS_UNWIND_SUPPORT_H
#define CAIRN_TESTS_UNWIND_SUPPORT_H

// Walks by our unwinder beside walks by the one that C++ exceptions use.

#include "unwind/unwind.h"
#include <stddef.h>

#define WALK_MOST 4096

struct walk {
    unsigned count;
    enum verdict verdict;
    uintptr_t pc[WALK_MOST];
    unsigned flags[WALK_MOST];
    uintptr_t cfa[WALK_MOST];
    struct unwind_frame left[WALK_MOST];
    place_t function[WALK_MOST];
    place_t place[WALK_MOST];
};

// The stack of the calling thread.
struct unwind_bounds own_bounds(void);

void walk_ours(struct walk *walk, const void *ucontext, struct unwind_bounds bounds);

// libgcc's, of the code that the innermost signal interrupted; called in the handler, `pc` being
// the interrupted one.
void walk_reference(struct walk *walk, uintptr_t pc);

// -1 if they are the same, else the index of the first difference.
int walk_difference(const struct walk *ours, const struct walk *reference);

void walk_print(const char *name, const struct walk *walk);

uintptr_t interrupted_pc(const void *ucontext);

#endif
