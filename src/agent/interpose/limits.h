// SPDX-License-Identifier: MIT
#ifndef CAIRN_AGENT_INTERPOSE_LIMITS_H
#define CAIRN_AGENT_INTERPOSE_LIMITS_H

// Limits of memory, which are about the program's memory alone. If it has a limit of address space
// or of data, the kernel gets that plus the agent's memory, and the program sees its own.

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>

// Before anything is mapped. `text`: the result of limits_print() for this image, or NULL.
void limits_start(const char *text);

// Limits in force, for the next image of the process: a word for limits_start(), at most
// LIMITS_TEXT bytes, written at `text`; returns its end. Signal-safe, as what follows.
#define LIMITS_TEXT 128
char *limits_print(char *text);

// Around an exec of a program that will not have the agent: it gets the limits that the program
// set.
void limits_let_go(void);
void limits_take_back(void);

// Whether there is room for so many bytes of ours, beside all that the program may take.
bool limits_have_room_for(size_t bytes);

// The address space that the program may use; RLIM_INFINITY: all there is.
uint64_t limits_of_space(void);

// SYS_getrlimit, SYS_setrlimit and SYS_prlimit64, as the program makes them.
long limits_call(long number, const unsigned long argument[5]);

// Whether the process has a capability (CAP_*).
bool limits_may(unsigned capability);

#endif
