// SPDX-License-Identifier: MIT
#ifndef CAIRN_PATCH_X86_64_RETURN_LOAD_H
#define CAIRN_PATCH_X86_64_RETURN_LOAD_H

// Functions that load their own return address: setjmp() under any name, users of
// __builtin_return_address(), the first functions of an unwinder. Nothing but the true address may
// stand there while they run. Their code shows it: a load from CFA - 8.
//
// Signal-safe; call between loadmap_enter() and loadmap_leave().

#include "patch/x86_64/decode.h"

// A way through the instructions of a function, in their order.
struct return_search {
    const struct module_ref *module;
    int64_t depth; // of the stack pointer below the CFA, through straight code; negative: see .c
};

// `whole`: at its first instruction the return address is on top of the stack.
struct return_search return_search_begin(const struct module_ref *module, bool whole);

// Whether the instruction at pc loads the return address; it is the next one on the way.
bool return_search_step(struct return_search *search, uintptr_t pc, const struct instruction *in);

// Whether the function at pc may load its return address, for callers that cannot wait until it is
// decoded: by all bytes that would be an operand there. True, too, if that is not known: no table,
// no code, more than `most` bytes.
bool return_may_be_loaded(const struct module_ref *module, uintptr_t pc, size_t most);

#endif
