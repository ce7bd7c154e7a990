// SPDX-License-Identifier: MIT
#include "agent/event_starts.h"
#include "agent/interpose/events/alloc.h"
#include "agent/interpose/events/io.h"
#include "agent/interpose/events/lock.h"
#include "agent/session/agent.h"

int event_starts(void)
{
    static int (*const starts[LIVE_EVENTS])(void) = {[LIVE_EVENT_ALLOC] = alloc_start,
                                                     [LIVE_EVENT_IO] = io_start,
                                                     [LIVE_EVENT_LOCK] = lock_start};
    int error = 0;
    for (unsigned event = 0; event < LIVE_EVENTS && !error; event++)
        if (starts[event] && live_has(&agent.session->options, event))
            error = starts[event]();
    return error;
}
