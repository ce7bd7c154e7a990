// SPDX-License-Identifier: MIT
#ifndef CAIRN_TESTS_SITES_FORMS_H
#define CAIRN_TESTS_SITES_FORMS_H

// The functions of sites_forms.S, and what is known of them.

#include "patch/sites.h"
#include "sites_support.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

void set_probe(long (*function)(long));
long callee(long);
long form_direct(long);
long form_bnd(long);
long form_stack(long);
long form_plt(long);
long form_got(long);
long form_register(long);
long form_extended(long);
long form_notrack(long);
long form_memory(long);
long form_memory_near(long);
long form_memory_stack(long);
long form_memory_far(long);
long form_memory_indexed(long);
long form_memory_rip(long);
long form_then_rip(long);
long form_then_branch(long);
long form_then_jump(long);
long form_then_return(long);
long form_reached(long);
long form_trapped(long);
long form_trapped_long(long);
long form_displaced_six(long);
long form_displaced_seven(long);
long form_displaced_eight(long);
long form_displaced_nine(long);
long form_displaced_ten(long);
long form_displaced_block(long);
long form_displaced_raced(long);
long form_displaced_loop(long);
long form_displaced_twice(long);
long form_last(long);
long form_pair(long);
long form_probe(long);
long form_lead_long(long);
long form_lead_short(long);
long form_lead_several(long);
long form_probe_far(long);
long form_thunk(long);
long form_tail(long);
long form_tail_plt(long);
long form_tail_rip(long);
long form_tail_register(long);
long form_tail_memory(long);
long form_tail_member(long);
long form_tail_ends(long);
long form_tail_counts(long);
long form_tail_between(long);
long form_shared_neighbour(long);
long form_then_part(long);
long form_two(long);
long stays_switch(long), stays_next(long), stays_reads(long), stays_prefixed(long);
long where_am_i(void), where_with_frame(void);
long stays_cold(long), cold_part(long), stays_named(long), thunk_rax(long), jump_to_probe(long);

__attribute__((unused)) static const struct form {
    const char *name;
    long (*function)(long);
    enum site_kind kind;
    enum site_form form; // of the first
    unsigned sites;
} forms[] = {
    {"direct", form_direct, SITE_CALL, FORM_JUMP, 1},
    {"bnd", form_bnd, SITE_CALL, FORM_JUMP, 1},
    {"stack", form_stack, SITE_CALL, FORM_JUMP, 1},
    {"plt", form_plt, SITE_CALL, FORM_JUMP, 1},
    {"got", form_got, SITE_CALL_INDIRECT, FORM_JUMP, 1},
    {"register", form_register, SITE_CALL_INDIRECT, FORM_BORROWED, 1},
    {"extended", form_extended, SITE_CALL_INDIRECT, FORM_BORROWED, 1},
    {"notrack", form_notrack, SITE_CALL_INDIRECT, FORM_BORROWED, 1},
    {"memory", form_memory, SITE_CALL_INDIRECT, FORM_BORROWED, 1},
    {"memory_near", form_memory_near, SITE_CALL_INDIRECT, FORM_BORROWED, 1},
    {"memory_stack", form_memory_stack, SITE_CALL_INDIRECT, FORM_BORROWED, 1},
    {"memory_far", form_memory_far, SITE_CALL_INDIRECT, FORM_JUMP, 1},
    {"memory_indexed", form_memory_indexed, SITE_CALL_INDIRECT, FORM_BORROWED, 1},
    {"memory_rip", form_memory_rip, SITE_CALL_INDIRECT, FORM_JUMP, 1},
    {"then_rip", form_then_rip, SITE_CALL_INDIRECT, FORM_BORROWED, 1},
    {"then_branch", form_then_branch, SITE_CALL_INDIRECT, FORM_BORROWED, 1},
    {"then_jump", form_then_jump, SITE_CALL_INDIRECT, FORM_BORROWED, 1},
    {"then_return", form_then_return, SITE_CALL_INDIRECT, FORM_BORROWED, 1},
    {"reached", form_reached, SITE_CALL_INDIRECT, FORM_NEAR, 1},
    {"trapped", form_trapped, SITE_CALL_INDIRECT, FORM_TRAP, 1},
    {"trapped_long", form_trapped_long, SITE_CALL_INDIRECT, FORM_TRAP, 1},
    {"displaced_six", form_displaced_six, SITE_CALL_INDIRECT, FORM_DISPLACED, 1},
    {"displaced_seven", form_displaced_seven, SITE_CALL_INDIRECT, FORM_DISPLACED, 1},
    {"displaced_eight", form_displaced_eight, SITE_CALL_INDIRECT, FORM_DISPLACED, 1},
    {"displaced_nine", form_displaced_nine, SITE_CALL_INDIRECT, FORM_DISPLACED, 1},
    {"displaced_ten", form_displaced_ten, SITE_CALL_INDIRECT, FORM_DISPLACED, 1},
    {"displaced_block", form_displaced_block, SITE_CALL_INDIRECT, FORM_DISPLACED, 1},
    {"displaced_loop", form_displaced_loop, SITE_CALL_INDIRECT, FORM_DISPLACED, 1},
    {"displaced_twice", form_displaced_twice, SITE_CALL_INDIRECT, FORM_DISPLACED, 2},
    {"last", form_last, SITE_CALL_INDIRECT, FORM_NEAR, 1},
    {"pair", form_pair, SITE_CALL_INDIRECT, FORM_NEAR, 2},
    {"lead_long", form_lead_long, SITE_CALL_INDIRECT, FORM_JUMP, 2},
    {"lead_short", form_lead_short, SITE_CALL_INDIRECT, FORM_BORROWED, 2},
    {"lead_several", form_lead_several, SITE_CALL_INDIRECT, FORM_BORROWED, 2},
    {"probe", form_probe, SITE_CALL_INDIRECT, FORM_BORROWED, 1},
    {"probe_far", form_probe_far, SITE_CALL, FORM_JUMP, 1},
    {"thunk", form_thunk, SITE_CALL, FORM_JUMP, 1},
    {"tail", form_tail, SITE_TAIL, FORM_JUMP, 1},
    {"tail_plt", form_tail_plt, SITE_TAIL, FORM_JUMP, 1},
    {"tail_rip", form_tail_rip, SITE_TAIL_INDIRECT, FORM_JUMP, 1},
    {"tail_register", form_tail_register, SITE_TAIL_INDIRECT, FORM_JUMP, 1},
    {"tail_memory", form_tail_memory, SITE_TAIL_INDIRECT, FORM_JUMP, 1},
    {"tail_member", form_tail_member, SITE_TAIL_INDIRECT, FORM_JUMP, 1},
    {"tail_ends", form_tail_ends, SITE_TAIL_INDIRECT, FORM_NEAR, 1},
    {"tail_counts", form_tail_counts, SITE_TAIL_INDIRECT, FORM_JUMP, 1},
    {"tail_between", form_tail_between, SITE_TAIL_INDIRECT, FORM_JUMP, 2},
    {"then_part", form_then_part, SITE_CALL_INDIRECT, FORM_BORROWED, 1},
    {"two", form_two, SITE_CALL_INDIRECT, FORM_BORROWED, 2},
};
#define FORMS (sizeof forms / sizeof *forms)

__attribute__((unused)) static const long arguments[] = {0, 1, 5, -7, 1000000007};
#define ARGUMENTS (sizeof arguments / sizeof *arguments)

static inline bool is_tail(const struct form *form)
{
    return form->kind == SITE_TAIL || form->kind == SITE_TAIL_INDIRECT;
}

// All of its sites are.
static inline bool is_indirect(const struct form *form)
{
    const bool first = form->kind == SITE_CALL_INDIRECT || form->kind == SITE_TAIL_INDIRECT ||
                       form->function == form_thunk;
    return first && strncmp(form->name, "lead", 4) != 0;
}

static inline struct site_list sites_of(const void *function)
{
    struct site_list list;
    assert_int_equal(find_sites((uintptr_t)function, &list, NULL), 0);
    return list;
}

static inline long other_target(long argument)
{
    return argument + 77;
}

#endif
