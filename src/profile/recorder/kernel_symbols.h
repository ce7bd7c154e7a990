// SPDX-License-Identifier: MIT
#ifndef CAIRN_PROFILE_RECORDER_KERNEL_SYMBOLS_H
#define CAIRN_PROFILE_RECORDER_KERNEL_SYMBOLS_H

// The functions of the running kernel (/proc/kallsyms). Addresses are good until the next boot, so
// a recording keeps the names of those that it has met.

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct kernel_symbols;

struct kernel_symbol {
    uint64_t begin, end; // addresses
    const char *name;    // with the kernel's module, if it is of one: "ext4_sync_file [ext4]"
    bool told;           // for whoever has asked
};

// NULL: they cannot be read, or their addresses are hidden (kernel.kptr_restrict).
struct kernel_symbols *kernel_symbols_read(FILE *file);
struct kernel_symbols *kernel_symbols_open(void);
void kernel_symbols_free(struct kernel_symbols *symbols);

// True if kernel_symbols_open() would succeed; cheaper.
bool kernel_symbols_are_readable(void);

// The function at an address; NULL: none.
struct kernel_symbol *kernel_symbols_find(struct kernel_symbols *symbols, uint64_t address);

#endif
