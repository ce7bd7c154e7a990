// SPDX-License-Identifier: MIT
#include "symbol/dwarf/die_names.h"
#include "base/memory.h"
#include "symbol/names/names.h"
#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

// A function's declaration and its name.
struct diename {
    const void *declaration; // NULL: free
    const char *name;
};

static const char *linkage_name(Dwarf_Die *function)
{
    Dwarf_Attribute attribute;
    if (dwarf_attr_integrate(function, DW_AT_linkage_name, &attribute) ||
        dwarf_attr_integrate(function, DW_AT_MIPS_linkage_name, &attribute))
        return dwarf_formstring(&attribute);
    return NULL;
}

static struct diename *find_slot(struct diename *slots, size_t capacity, const void *declaration)
{
    size_t slot = pool_hash(&declaration, sizeof declaration) & (capacity - 1);
    while (slots[slot].declaration && slots[slot].declaration != declaration)
        slot = (slot + 1) & (capacity - 1);
    return &slots[slot];
}

static struct diename *slot_of(struct dienames *names, const void *declaration)
{
    if (names->count * 2 >= names->capacity) {
        size_t capacity = names->capacity ? names->capacity * 2 : 256;
        struct diename *slots = memory_array(capacity, sizeof *slots);
        for (size_t i = 0; i < names->capacity; i++)
            if (names->slots[i].declaration)
                *find_slot(slots, capacity, names->slots[i].declaration) = names->slots[i];
        free(names->slots);
        names->slots = slots;
        names->capacity = capacity;
    }
    return find_slot(names->slots, names->capacity, declaration);
}

// Scopes are needed only where the compiler gave no linkage name: for local functions, mostly.
static const char *make_name(struct dienames *names, Dwarf_Die *function, Dwarf_Die *declaration)
{
    const char *name = linkage_name(function);
    if (name && *name)
        return names_display(names->pool, name, NAMES_CLONES);
    name = dwarf_diename(function); // follows references too
    if (!name || !*name)
        return NULL;
    return names_shortened(names->pool,
                           diescopes_qualify(&names->scopes, declaration, name, names->pool));
}

const char *dienames_get(struct dienames *names, Dwarf_Die *function)
{
    Dwarf_Die declaration = diescopes_declaration(function);
    struct diename *slot = slot_of(names, declaration.addr);
    if (slot->declaration)
        return slot->name;
    slot->name = make_name(names, function, &declaration);
    slot->declaration = declaration.addr;
    names->count++;
    return slot->name;
}

void dienames_free(struct dienames *names)
{
    free(names->slots);
    diescopes_free(&names->scopes);
    memset(names, 0, sizeof *names);
}
