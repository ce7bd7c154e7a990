// SPDX-License-Identifier: MIT
#include "outside/load_map.h"
#include "loadmap/gomodules.h"
#include "outside/space.h"

static const struct space *current;

_Atomic uint32_t loadmap_generation_count = 1, loadmap_questions;
struct loadmap_hull loadmap_hulls[2] = {{MIRROR_REGION, MIRROR_REGION_BYTES}};

void load_map_of(const struct space *space)
{
    current = space;
}

void loadmap_enter(void)
{
}

void loadmap_leave(void)
{
}

bool loadmap_is_generated(uintptr_t pc)
{
    const struct space_mapping *mapping = current ? space_find(current, pc) : NULL;
    return mapping && !mapping->mirror;
}

bool loadmap_peek(uintptr_t pc, struct module_ref *module)
{
    const struct mirror *mirror = mirror_at(pc);
    if (mirror)
        *module = mirror->ref;
    else
        module->id = loadmap_is_generated(pc) ? MODULE_ANONYMOUS : MODULE_NONE;
    return mirror != NULL;
}

bool loadmap_find(uintptr_t pc, struct module_ref *module, bool *unloading)
{
    *unloading = false;
    return loadmap_peek(pc, module);
}

bool loadmap_is_likely(uintptr_t address)
{
    return mirror_at(address) || loadmap_is_generated(address);
}

// Code of the mirrors alone: a word of a foreign stack that was left as it is points to nothing of
// ours.
bool loadmap_readable(uintptr_t address)
{
    const struct mirror *mirror = mirror_at(address);
    return mirror && address >= mirror->ref.code_start && address < mirror->ref.code_end;
}

const struct gotable *gomodules_find(const struct module_ref *module)
{
    return mirror_go_table(module);
}
