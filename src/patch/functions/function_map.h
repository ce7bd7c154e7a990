// SPDX-License-Identifier: MIT
#ifndef CAIRN_PATCH_FUNCTIONS_FUNCTION_MAP_H
#define CAIRN_PATCH_FUNCTIONS_FUNCTION_MAP_H

// How a function is laid out: where its instructions begin, and what they lead to. That of one at a
// time is known, the last that was read. In a transaction.

#include "patch/functions/functions.h"
#include "patch/x86_64/table_jump.h"

static inline const unsigned char *code_at(uintptr_t pc)
{
    return (const unsigned char *)pc;
}

// Decodes it, unless it is the one that is known, and examines it on the way, so that it is decoded
// but once. False: there is something in it that is no code.
bool function_map_of(struct patch_function *function);
// Functions are gone, and others may take their place.
void function_map_forget(void);

// Whether an instruction begins there.
bool function_map_begins(const struct patch_function *function, uintptr_t pc);

// Whether a branch of the function leads to one of the bytes.
bool function_map_is_reached(const struct patch_function *function, uintptr_t pc, size_t bytes);

// The next call, or jump out of it, from there on; 0: there is none.
uintptr_t function_map_way_out(const struct patch_function *function, uintptr_t pc);

// The instructions that lead to one.
struct jump_trail function_map_trail_to(const struct patch_function *function, uintptr_t pc);

#endif
