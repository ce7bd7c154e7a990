// SPDX-License-Identifier: MIT
#ifndef CAIRN_AGENT_SESSION_TRACER_H
#define CAIRN_AGENT_SESSION_TRACER_H

// Debuggers, strace and the like. Each signal of a thread is a stop for its tracer, our ticks too:
// a debugger takes them for its own. And a stop is a wait, after which there is a tick where waits
// are sampled: the thread would get nowhere. So a thread that is traced is not sampled.

#include <stdbool.h>
#include <stdint.h>

// Between two looks for one. Where waits are sampled a traced thread does nothing but tick.
#define TRACER_SOON_NS UINT64_C(100000000)
#define TRACER_LATER_NS UINT64_C(1000000000)

// Whether the calling thread is traced, by a look into /proc; not by the process `but`, whose stops
// are short (0: by any). Signal-safe.
bool tracer_is_present(uint32_t but);

#endif
