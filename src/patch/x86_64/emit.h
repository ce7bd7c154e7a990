// SPDX-License-Identifier: MIT
#ifndef CAIRN_PATCH_X86_64_EMIT_H
#define CAIRN_PATCH_X86_64_EMIT_H

// Instructions, one behind the other, into the slot of a stub.

#include "patch/stubs/stub.h"
#include "patch/x86_64/decode.h"

struct assembler {
    unsigned char *code;
    size_t at;
    uintptr_t slot; // where it will be; 0: only its size is wanted
    bool failed;
};

void emit(struct assembler *out, const void *bytes, size_t count);
void emit_word(struct assembler *out, uint32_t word);

// The distance to an address, as the last four bytes of an instruction.
void emit_distance(struct assembler *out, uintptr_t target);

// call *literal(%rip); the literal comes at the end. Returns where its distance is.
size_t emit_hook(struct assembler *out);

// `behind` is the end of the instruction that refers to it.
void emit_literal(struct assembler *out, size_t behind, uintptr_t literal);

// An instruction of the program, which was at `from`.
void emit_moved(struct assembler *out, const struct instruction *in, const unsigned char *bytes,
                uintptr_t from);

// lea 8(%rsp), %rsp: what was pushed is gone
void emit_drop(struct assembler *out, struct stub_call *call);

// jne over what follows, up to end_skip(); where its distance is to be put.
size_t emit_skip(struct assembler *out);
void end_skip(struct assembler *out, size_t skip);

// The same for any distance, or another condition.
size_t emit_far(struct assembler *out, const char *jump, size_t bytes);
void end_far(struct assembler *out, size_t jump);

#endif
