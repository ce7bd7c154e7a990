// SPDX-License-Identifier: MIT
#include "symbol/dienames.h"
#include "symbol/names.h"
#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

struct diename {
    const void *declaration; // NULL: free
    const char *name;
};

enum { LONGEST_REFERENCE_CHAIN = 8 };

// Follows an inlined copy to its abstract function, and a definition to its declaration.
static Dwarf_Die declaration_of(const Dwarf_Die *function)
{
    Dwarf_Die die = *function, next;
    for (int i = 0; i < LONGEST_REFERENCE_CHAIN; i++) {
        Dwarf_Attribute attribute;
        if (!dwarf_attr(&die, DW_AT_abstract_origin, &attribute) &&
            !dwarf_attr(&die, DW_AT_specification, &attribute))
            break;
        if (!dwarf_formref_die(&attribute, &next))
            break;
        die = next;
    }
    return die;
}

static const char *linkage_name(Dwarf_Die *function)
{
    Dwarf_Attribute attribute;
    if (dwarf_attr_integrate(function, DW_AT_linkage_name, &attribute) ||
        dwarf_attr_integrate(function, DW_AT_MIPS_linkage_name, &attribute))
        return dwarf_formstring(&attribute);
    return NULL;
}

static bool has_scopes(Dwarf_Die *die)
{
    Dwarf_Die unit;
    if (!dwarf_diecu(die, &unit, NULL, NULL))
        return false;
    switch (dwarf_srclang(&unit)) {
    case DW_LANG_C_plus_plus:
    case DW_LANG_C_plus_plus_03:
    case DW_LANG_C_plus_plus_11:
    case DW_LANG_C_plus_plus_14:
    case 0x2a: // C++ 17 and 20, which older headers do not name
    case 0x2b:
    case DW_LANG_Rust:
    case DW_LANG_D:
        return true;
    default:
        return false;
    }
}

static bool is_scope(Dwarf_Die *die)
{
    switch (dwarf_tag(die)) {
    case DW_TAG_namespace:
    case DW_TAG_class_type:
    case DW_TAG_structure_type:
    case DW_TAG_union_type:
    case DW_TAG_module:
        return true;
    default:
        return false;
    }
}

// "outer::Inner::name"; only where the compiler gave no linkage name (local functions, mostly).
static const char *qualified_name(struct pool *pool, Dwarf_Die *declaration, const char *name)
{
    Dwarf_Die *scopes = NULL;
    int count = has_scopes(declaration) ? dwarf_getscopes_die(declaration, &scopes) : 0;
    const char *qualified = pool_string(pool, name);
    for (int i = 1; i < count; i++) {
        if (!is_scope(&scopes[i]))
            continue;
        const char *scope = dwarf_diename(&scopes[i]);
        if (!scope && dwarf_tag(&scopes[i]) == DW_TAG_namespace)
            scope = "(anonymous namespace)";
        if (scope)
            qualified = pool_format(pool, "%s::%s", scope, qualified);
    }
    free(scopes);
    return qualified;
}

static const char *make_name(struct pool *pool, Dwarf_Die *function, Dwarf_Die *declaration)
{
    const char *name = linkage_name(function);
    if (name && *name)
        return names_display(pool, name, NAMES_CLONES);
    name = dwarf_diename(function); // follows references too
    return name && *name ? qualified_name(pool, declaration, name) : NULL;
}

static struct diename *find_slot(struct diename *slots, size_t capacity, const void *declaration)
{
    size_t slot = pool_hash(&declaration, sizeof declaration) & (capacity - 1);
    while (slots[slot].declaration && slots[slot].declaration != declaration)
        slot = (slot + 1) & (capacity - 1);
    return &slots[slot];
}

static bool make_room(struct dienames *names)
{
    if (names->count * 2 < names->capacity)
        return true;
    size_t capacity = names->capacity ? names->capacity * 2 : 256;
    struct diename *slots = calloc(capacity, sizeof *slots);
    if (!slots)
        return false;
    for (size_t i = 0; i < names->capacity; i++)
        if (names->slots[i].declaration)
            *find_slot(slots, capacity, names->slots[i].declaration) = names->slots[i];
    free(names->slots);
    names->slots = slots;
    names->capacity = capacity;
    return true;
}

const char *dienames_get(struct dienames *names, Dwarf_Die *function)
{
    Dwarf_Die declaration = declaration_of(function);
    if (!make_room(names))
        return NULL;
    struct diename *slot = find_slot(names->slots, names->capacity, declaration.addr);
    if (!slot->declaration) {
        slot->declaration = declaration.addr;
        slot->name = make_name(names->pool, function, &declaration);
        names->count++;
    }
    return slot->name;
}

void dienames_free(struct dienames *names)
{
    free(names->slots);
    memset(names, 0, sizeof *names);
}
