// SPDX-License-Identifier: MIT
#ifndef CAIRN_EVENT_MAPPED_EVENT_H
#define CAIRN_EVENT_MAPPED_EVENT_H

// A perf event of a thread that needs no descriptor.
//
// The event lives as long as its page is mapped, so the descriptor is closed when the event starts.
// The program finds no descriptor of ours, cannot close it, and numbers its own as without cairn.
// Where the page cannot be mapped, the descriptor stays, with a number above the program's.

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct perf_event_attr;

struct mapped_event {
    uintptr_t page; // with a bit that says whether a ring lies behind; 0: not mapped
    int descriptor; // until it runs; kept only if mapping failed; -1
};

static inline struct mapped_event mapped_event_none(void)
{
    return (struct mapped_event){.descriptor = -1};
}

// Opens an event of a thread (0: the calling one), disabled. A descriptor, or -errno.
int mapped_event_open(pid_t thread, const struct perf_event_attr *attributes);

// Ties the event's life to a mapping: its page, and one with a ring (ring.h) behind that if the
// event is to have one, and there is room.
enum mapped_ring { MAPPED_ALONE, MAPPED_WITH_RING };
void mapped_event_keep(struct mapped_event *event, int descriptor, enum mapped_ring ring);

// Lets it run, for ever or for one overflow. Signal-safe, as all that follow.
void mapped_event_start(struct mapped_event *event);
void mapped_event_start_once(struct mapped_event *event);

// NULL: it has none.
void *mapped_event_ring(const struct mapped_event *event);

// The end. `ours`: the process is the one that has opened it; a forked child has neither the event
// nor its page.
void mapped_event_close(struct mapped_event *event, bool ours);

// From another thread: it overflows no more. Its owner may close it as usual.
void mapped_event_take_away(struct mapped_event *event);

#endif
