// SPDX-License-Identifier: MIT
#ifndef CAIRN_AGENT_INTERPOSE_OWN_SIGNALS_H
#define CAIRN_AGENT_INTERPOSE_OWN_SIGNALS_H

// The agent's two signals, and sets of them as bits: bit i stands for own_signals[i], in
// thread->hidden as elsewhere.

#include "event/clock.h"
#include <signal.h>
#include <stddef.h>
#include <stdint.h>

static const int own_signals[] = {SIGTRAP, CLOCK_SIGNAL};
#define OWN_SIGNALS (sizeof own_signals / sizeof *own_signals)

// -1 for a signal that is not one of them.
static inline int own_signal_index(int signal)
{
    for (size_t i = 0; i < OWN_SIGNALS; i++)
        if (own_signals[i] == signal)
            return (int)i;
    return -1;
}

// Removes them from a set. Returns those that were in it.
static inline uint32_t own_signals_strip(sigset_t *set)
{
    uint32_t found = 0;
    for (size_t i = 0; i < OWN_SIGNALS; i++) {
        if (sigismember(set, own_signals[i]) == 1)
            found |= 1u << i;
        sigdelset(set, own_signals[i]);
    }
    return found;
}

static inline void own_signals_restore(sigset_t *set, uint32_t hidden)
{
    for (size_t i = 0; i < OWN_SIGNALS; i++)
        if (hidden & 1u << i)
            sigaddset(set, own_signals[i]);
}

#endif
