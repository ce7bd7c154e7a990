// SPDX-License-Identifier: MIT
#ifndef CAIRN_TESTS_SITES_SUPPORT_H
#define CAIRN_TESTS_SITES_SUPPORT_H

// Patching functions of another module, with a handler for traps.

#include "patch/transaction.h"

extern __thread uint64_t number;        // what stubs add to
extern __thread const int64_t *numbers; // the table of table_plan()
extern __thread uintptr_t told_target;
extern uint64_t hook_calls, traps_met;

// Once: the load map, patching, and the handler.
void support_start(void);
int support_set_up(void **state); // the same, for a group of tests

struct stub_plan plain_plan(void);
struct stub_plan hook_plan(void);
struct stub_plan table_plan(uint32_t index);
// The same by a table of its own, which holds this word; not of tail jumps.
struct stub_plan adding_plan(int64_t word);

// As sites_find(), stub_make() and patch_add(), each in a transaction of its own.
int find_sites(uintptr_t function, struct site_list *list, struct site_counts *counts);
int make_stub(struct site *site, const struct stub_plan *plan, struct stub **stub);
int lead_site(struct site *site, struct stub *stub);

// Leads all sites of a function through new stubs; returns how many.
unsigned patch(const void *function, const struct stub_plan *plan);

// The same through chains, whose targets have words of the table.
struct chain_target {
    uintptr_t target;
    uint32_t index;
};
unsigned patch_chain(const void *function, const struct chain_target *targets, unsigned count);
// ... and back.
void unpatch(const void *function);

// Runs function(argument) instruction by instruction; `seen` is called before each.
long step_through(long (*function)(long), long argument, void (*seen)(uintptr_t pc, uintptr_t sp));

#endif
