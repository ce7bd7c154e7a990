// SPDX-License-Identifier: MIT
#ifndef CAIRN_TRACK_RUNTIMES_JAVA_CODE_H
#define CAIRN_TRACK_RUNTIMES_JAVA_CODE_H

// The code that a Java virtual machine has generated. It lies in few heaps, each of which has a map
// of segments; a map leads from an address to the block of code ("blob") that holds it. Compiled
// code lists positions, and which methods each stands in: one, and those it was inlined into.
// All of it signal-safe.

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum java_code_kind {
    JAVA_STUB,        // called by other code, with or without a frame
    JAVA_INTERPRETED, // the interpreter
    JAVA_COMPILED,    // a method
    JAVA_NATIVE,      // a method that calls native code
};

struct java_code {
    uintptr_t blob, limit; // all that is known of it lies there
    uintptr_t begin, end;  // instructions
    enum java_code_kind kind;
    uint32_t frame_words; // 0: none, or not known
};

// Whether an address is in the memory for generated code.
bool java_code_holds(uintptr_t address);

// The code at an address. False: there is none.
bool java_code_at(uintptr_t pc, struct java_code *code);

// The methods at a position of compiled code, from the inlined ones outwards.
struct java_scopes {
    uintptr_t blob, limit;
    uintptr_t stream; // 0: no more
    unsigned left;
};

struct java_scope {
    uintptr_t method;
    int32_t position; // of its bytecode; below 0: none
};

// `pc` is a return address, or an instruction that was interrupted.
struct java_scopes java_scopes(const struct java_code *code, uintptr_t pc, bool interrupted);
bool java_scopes_next(struct java_scopes *scopes, struct java_scope *scope);

// Whether a position of compiled code is listed, so that a call may end there or an exception
// begin.
bool java_code_lists(const struct java_code *code, uintptr_t pc);

// The name of the code, as the machine has it.
uintptr_t java_code_name(const struct java_code *code);

// The method of a blob of a method, native or not.
uintptr_t java_code_method(const struct java_code *code);

// Where a compiled method begins whose caller's types are known.
uintptr_t java_code_entry(const struct java_code *code);

// True if compiled code is being given up: `pc` is where it goes then, instead of the return
// address that lies in its frame at *offset from the stack pointer.
bool java_code_is_abandoned(const struct java_code *code, uintptr_t pc, uintptr_t *offset);

#endif
