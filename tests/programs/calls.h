// SPDX-License-Identifier: MIT
#ifndef CAIRN_TESTS_CALLS_H
#define CAIRN_TESTS_CALLS_H

// Counting calls where they are made, without a call.

#include "common.h"
#include <signal.h>
#include <sys/time.h>

struct true_edge {
    const char *caller, *callee;
    uint64_t count;
    struct true_edge *next;
};

static struct true_edge *true_edges;

__attribute__((always_inline)) static inline void count_truth(struct true_edge *edge)
{
    if (__atomic_fetch_add(&edge->count, 1, __ATOMIC_RELAXED))
        return;
    edge->next = __atomic_load_n(&true_edges, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&true_edges, &edge->next, edge, 0, __ATOMIC_ACQ_REL,
                                        __ATOMIC_RELAXED)) {
    }
}

#define TRUTH(from, to)                                                                            \
    ({                                                                                             \
        static struct true_edge edge = {#from, #to, 0, 0};                                         \
        count_truth(&edge);                                                                        \
    })

// A call of `to` in the function `from`.
#define CALL(from, to, ...)                                                                        \
    ({                                                                                             \
        TRUTH(from, to);                                                                           \
        to(__VA_ARGS__);                                                                           \
    })

__attribute__((always_inline)) static inline void tell_truth(void)
{
    for (struct true_edge *edge = true_edges; edge; edge = edge->next)
        printf("%s %s %llu\n", edge->caller, edge->callee, (unsigned long long)edge->count);
}

// A handler that comes at any instruction: in the hooks, too.
__attribute__((always_inline)) static inline void interrupt_each(int microseconds,
                                                                 void (*handler)(int))
{
    struct timeval period = {0, microseconds};
    struct itimerval often = {period, period};
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    setitimer(ITIMER_REAL, &often, NULL);
}

#endif
