// SPDX-License-Identifier: MIT
#include "symbol/dienames.h"
#include "base/memory.h"
#include "symbol/names.h"
#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

// A function's declaration, the scope that it stands in, and its name once it was asked for.
struct diename {
    const void *declaration; // NULL: free
    uint32_t scope;
    bool known;
    const char *name;
};

// A namespace, class or function around others. Scope 0 is that of the unit.
struct diescope {
    uint32_t parent;
    const char *name;
};

enum { LONGEST_REFERENCE_CHAIN = 8, DEEPEST = 256 };

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

static bool has_scopes(Dwarf_Die *unit)
{
    switch (dwarf_srclang(unit)) {
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
    struct diename *slot = find_slot(names->slots, names->capacity, declaration);
    if (!slot->declaration) {
        slot->declaration = declaration;
        names->count++;
    }
    return slot;
}

static uint32_t add_scope(struct dienames *names, uint32_t parent, Dwarf_Die *die)
{
    const char *name = dwarf_diename(die);
    int tag = dwarf_tag(die);
    if (!name && tag == DW_TAG_namespace)
        name = "(anonymous namespace)";
    else if (!name && tag != DW_TAG_subprogram)
        name = "{lambda}"; // what classes without a name are, nearly always
    if (!name || names->scope_count >= UINT32_MAX)
        return parent;
    // A function is defined outside of the namespace or class that declares it.
    if (tag == DW_TAG_subprogram)
        parent = slot_of(names, declaration_of(die).addr)->scope;
    names->scopes = memory_grown(names->scopes, &names->scope_capacity, names->scope_count + 1,
                                 sizeof *names->scopes);
    names->scopes[names->scope_count] = (struct diescope){.parent = parent, .name = name};
    return (uint32_t)++names->scope_count;
}

// DWARF has no way up from a function to what it stands in: a unit is walked once, and every
// function in it remembered with its scope.
static void index_children(struct dienames *names, Dwarf_Die *parent, uint32_t scope,
                           unsigned depth)
{
    Dwarf_Die child, next;
    if (depth >= DEEPEST || dwarf_child(parent, &child) != 0)
        return;
    for (;;) {
        switch (dwarf_tag(&child)) {
        case DW_TAG_subprogram:
            slot_of(names, child.addr)->scope = scope;
            // fall through
        case DW_TAG_namespace:
        case DW_TAG_class_type:
        case DW_TAG_structure_type:
        case DW_TAG_union_type:
        case DW_TAG_module:
            if (dwarf_haschildren(&child))
                index_children(names, &child, add_scope(names, scope, &child), depth + 1);
            break;
        case DW_TAG_lexical_block:
            index_children(names, &child, scope, depth + 1);
            break;
        default:
            break;
        }
        // Forward only: damaged references to siblings may lead back.
        if (dwarf_siblingof(&child, &next) != 0 || (char *)next.addr <= (char *)child.addr)
            return;
        child = next;
    }
}

// "outer::Inner::name"
static const char *qualified_name(struct dienames *names, const void *declaration, const char *name)
{
    const char *qualified = pool_string(names->pool, name);
    uint32_t scope = slot_of(names, declaration)->scope;
    for (unsigned depth = 0; scope && depth < DEEPEST; depth++) {
        const struct diescope *around = &names->scopes[scope - 1];
        qualified = pool_format(names->pool, "%s::%s", around->name, qualified);
        scope = around->parent;
    }
    return names_shortened(names->pool, qualified);
}

static void know_scopes(struct dienames *names, Dwarf_Die *declaration)
{
    Dwarf_Die unit;
    if (!dwarf_diecu(declaration, &unit, NULL, NULL))
        return;
    struct diename *slot = slot_of(names, unit.addr); // a unit stands here as one that was walked
    if (slot->known)
        return;
    slot->known = true;
    if (has_scopes(&unit))
        index_children(names, &unit, 0, 0);
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
    know_scopes(names, declaration);
    return qualified_name(names, declaration->addr, name);
}

const char *dienames_get(struct dienames *names, Dwarf_Die *function)
{
    Dwarf_Die declaration = declaration_of(function);
    struct diename *slot = slot_of(names, declaration.addr);
    if (slot->known)
        return slot->name;
    const char *name = make_name(names, function, &declaration);
    slot = slot_of(names, declaration.addr); // the table may have moved
    slot->known = true;
    slot->name = name;
    return name;
}

void dienames_free(struct dienames *names)
{
    free(names->slots);
    free(names->scopes);
    memset(names, 0, sizeof *names);
}
