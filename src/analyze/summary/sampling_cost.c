// SPDX-License-Identifier: MIT
#include "analyze/summary/sampling_cost.h"
#include "base/text/text.h"
#include <stdio.h>

struct sampling_cost sampling_cost(const struct profile_overhead *overhead, uint64_t handlers_ns,
                                   uint64_t ticks, uint64_t switches)
{
    return (struct sampling_cost){.handlers_ns = handlers_ns,
                                  .ticks_ns = ticks * overhead->tick_ns,
                                  .switches_ns = switches * overhead->switch_ns,
                                  .measured = overhead->tick_ns != 0};
}

uint64_t sampling_cost_sum(const struct sampling_cost *cost)
{
    return cost->handlers_ns + cost->ticks_ns + cost->switches_ns;
}

struct sampling_cost_text sampling_cost_text(const struct sampling_cost *cost, uint64_t time_ns)
{
    struct sampling_cost_text result;
    const double whole = (double)time_ns;
    const struct text_number handlers = text_percent((double)cost->handlers_ns, whole);
    if (!cost->measured)
        snprintf(result.text, sizeof result.text, "cost of the handlers: %s", handlers.text);
    else
        snprintf(result.text, sizeof result.text, "cost of sampling: about %s (handlers: %s)",
                 text_percent((double)sampling_cost_sum(cost), whole).text, handlers.text);
    return result;
}
