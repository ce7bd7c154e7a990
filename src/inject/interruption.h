// SPDX-License-Identifier: MIT
#ifndef CAIRN_INJECT_INTERRUPTION_H
#define CAIRN_INJECT_INTERRUPTION_H

// The effect of a stop on the system call that a thread sleeps in. The kernel makes most calls again by
// itself, but not all (signal(7), "Interruption of system calls by stop signals").

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum interruption {
    INTERRUPTION_UNSEEN,  // the call is made again, and has no time that could begin anew
    INTERRUPTION_COUNTED, // the kernel knows how much time is left, unless a handler runs meanwhile
    INTERRUPTION_FAILS,   // it fails, and has no time: we make it again
    INTERRUPTION_ANEW,    // it fails; made again, its time begins anew
    INTERRUPTION_NOT_KNOWN // nothing is known of the call
};

// Of a thread that sleeps, before it is stopped.
enum interruption interruption_of(pid_t pid, pid_t tid);

// Whether a stop lets this call fail.
bool interruption_fails(long number);

// Whether a signal of the program's is on its way to the thread, that the call may fail for.
bool interruption_is_of_program(pid_t pid, pid_t tid);

// The lock, or other word, that a thread waits at; 0: at none.
uint64_t interruption_lock_of(pid_t pid, pid_t tid);

#endif
