// SPDX-License-Identifier: MIT
#ifndef CAIRN_INJECT_ROOM_H
#define CAIRN_INJECT_ROOM_H

// A few hundred bytes in the process that nobody uses: a thread makes its first system call there,
// before it has memory of its own.
//
//   code of a library, as its file has it | zeroes up to the end of the page
//                                           ▲ room: code, and the registers to go back with
//
// No stack is written to: whose it is, and how large, cannot be seen from outside.

#include "inject/injected.h"
#include <stdbool.h>
#include <sys/types.h>

// Looks for one. 0: there is none.
uint64_t room_find(pid_t pid);

// The thread that it was taken for by a tool that was killed; 0: it is empty; -1: others use it.
pid_t room_user(pid_t pid, uint64_t room);

bool room_take(pid_t pid, uint64_t room, const struct injected_call *call);
void room_give_back(pid_t pid, uint64_t room);

#endif
