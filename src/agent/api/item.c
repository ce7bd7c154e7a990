// SPDX-License-Identifier: MIT
#include "agent/api/item.h"
#include "agent/session/agent.h"
#include "base/system/agent_map.h"
#include "loadmap/loadmap.h"
#include <errno.h>

#define TABLE_BYTES ((size_t)(MODULE_LIMIT + 1) * sizeof(struct live_module *))

int api_modules_open(struct api_modules *modules)
{
    modules->by_id = agent_map(TABLE_BYTES);
    if (!modules->by_id)
        return -ENOMEM;
    // Acquire: records are whole, and so are those behind them. The newest record of a module comes
    // first, and has its present address.
    ref_t ref = atomic_load_explicit(&agent.process->modules, memory_order_acquire);
    while (ref) {
        const struct live_module *module = arena_at(&agent.arena, ref);
        if (module->id <= MODULE_LIMIT && !modules->by_id[module->id])
            modules->by_id[module->id] = module;
        ref = module->next;
    }
    return 0;
}

void api_modules_close(struct api_modules *modules)
{
    if (modules->by_id)
        agent_unmap(modules->by_id, TABLE_BYTES);
}

// The present address: 0 if its module is not loaded any more.
static uintptr_t address_of(const struct live_module *module, uint64_t offset)
{
    const uintptr_t address = (uintptr_t)(module->base + offset);
    struct module_ref now;
    loadmap_enter();
    const bool found = loadmap_peek(address, &now);
    loadmap_leave();
    return found && now.id == module->id && now.base == module->base ? address : 0;
}

static void tell(const struct api_modules *modules, place_t place, uintptr_t *address,
                 const char **path, uint64_t *offset)
{
    const unsigned id = place_module(place);
    *offset = place_offset(place) == PLACE_OFFSET_UNKNOWN ? CAIRN_UNKNOWN : place_offset(place);
    *path = NULL;
    *address = 0;
    if (id == MODULE_ANONYMOUS)
        *address = (uintptr_t)place_offset(place);
    if (id == MODULE_NONE)
        *offset = CAIRN_UNKNOWN;
    const struct live_module *module = modules->by_id[id];
    if (!module)
        return;
    *path = module->path;
    if (*offset != CAIRN_UNKNOWN)
        *address = address_of(module, *offset);
}

struct cairn_frame api_frame(const struct api_modules *modules, const struct edge *edge)
{
    struct cairn_frame frame;
    tell(modules, edge->function, &frame.function, &frame.module, &frame.offset);
    tell(modules, edge->site, &frame.site, &frame.site_module, &frame.site_offset);
    return frame;
}
