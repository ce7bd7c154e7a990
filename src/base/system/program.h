// SPDX-License-Identifier: MIT
#ifndef CAIRN_BASE_SYSTEM_PROGRAM_H
#define CAIRN_BASE_SYSTEM_PROGRAM_H

// The properties of an executable file that decide whether the agent can be preloaded. Signal-safe:
// system calls and the stack alone, none of them a point of cancellation.

#include <stdbool.h>
#include <stddef.h>

#if defined(__x86_64__)
#define PROGRAM_MACHINE_NAME "x86-64"
#elif defined(__aarch64__)
#define PROGRAM_MACHINE_NAME "AArch64"
#else
#error "an architecture without an unwinder"
#endif

#define PROGRAM_INTERPRETERS_MAX 5 // as many "#!" as the kernel follows
#define PROGRAM_NAME_MAX 256

enum program_kind {
    PROGRAM_UNKNOWN, // neither of these, or not to be read
    PROGRAM_SCRIPT,  // `name` is its interpreter; empty: it names none
    PROGRAM_ELF,     // `name` is its loader; empty: it has none
};

struct program {
    enum program_kind kind;
    char name[PROGRAM_NAME_MAX];
    // Of an ELF file:
    bool has_long_name;    // longer than there is room: only its begin is known
    bool is_narrow;        // for 32 bits
    bool is_foreign;       // for another machine, or for 32 bits: no more is known of it
    bool is_damaged;       // its headers lie outside of the file
    bool needs_musl;       // its loader is that of another C library
    bool is_library;       // has a name as a library: without a loader, it is one itself
    bool needs_no_library; // nothing is linked to it, not even libc
    bool needs_sanitizer;  // AddressSanitizer as a library, which gives up unless it is the first
};

void program_read(int file, struct program *program);

#endif
