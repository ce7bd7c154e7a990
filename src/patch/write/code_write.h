// SPDX-License-Identifier: MIT
#ifndef CAIRN_PATCH_WRITE_CODE_WRITE_H
#define CAIRN_PATCH_WRITE_CODE_WRITE_H

// Writing to code without ever making it writable: through /proc/self/mem, which changes a private
// mapping in place and leaves its protection alone.

#include <stddef.h>
#include <stdint.h>

// A descriptor for code_write(), to be closed by the caller; -errno. Signal-safe.
int code_open(void);
void code_close(int fd);

// Writes bytes to code. Not atomic towards threads that run there: see entries.h. 0 or -errno.
// Signal-safe.
int code_write(int fd, uintptr_t address, const void *bytes, size_t count);

// A jump to anywhere.
#define CODE_RELAY_BYTES 14
void code_make_relay(unsigned char code[CODE_RELAY_BYTES], void (*target)(void));

// A page of memory within reach of a 32-bit jump from everything in [low, high), filled with
// `bytes`, executable and not writable. NULL: there is no room nearby.
void *code_page_near(uintptr_t low, uintptr_t high, const void *bytes, size_t count);

// Memory within reach as above, executable and not writable: code_write() fills it. Rather below
// than above, where the heap of a program grows, and not where the program has just unmapped
// something, if there is another place. NULL: there is no room.
void *code_map_near(uintptr_t low, uintptr_t high, size_t bytes);
// The same at one address.
void *code_map_at(uintptr_t address, size_t bytes);

#endif
