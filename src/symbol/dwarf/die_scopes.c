// SPDX-License-Identifier: MIT
#include "symbol/dwarf/die_scopes.h"
#include "base/memory.h"
#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

struct diescope {
    Dwarf_Die die;
    struct diescope *parent;   // NULL: a unit
    struct diescope *children; // scopes and functions, by address
    size_t count;
    bool listed;
};

enum { LONGEST_REFERENCE_CHAIN = 8, DEEPEST = 256 };

Dwarf_Die diescopes_declaration(const Dwarf_Die *function)
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

static bool has_scopes(Dwarf_Die *unit)
{
    // Not dwarf_srclang(): of a skeleton unit, that opens the file with the rest.
    Dwarf_Attribute attribute;
    Dwarf_Word language;
    if (!dwarf_attr(unit, DW_AT_language, &attribute) ||
        dwarf_formudata(&attribute, &language) != 0)
        return false;
    switch (language) {
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

static bool may_hold_functions(Dwarf_Die *die)
{
    switch (dwarf_tag(die)) {
    case DW_TAG_subprogram:
    case DW_TAG_namespace:
    case DW_TAG_class_type:
    case DW_TAG_structure_type:
    case DW_TAG_union_type:
    case DW_TAG_module:
    case DW_TAG_lexical_block:
        return true;
    default:
        return false;
    }
}

static void list_children(struct diescope *scope)
{
    Dwarf_Die child, next;
    size_t capacity = 0;
    if (scope->listed)
        return;
    scope->listed = true;
    if (dwarf_child(&scope->die, &child) != 0)
        return;
    for (;;) {
        if (may_hold_functions(&child)) {
            scope->children =
                memory_grown(scope->children, &capacity, scope->count + 1, sizeof *scope->children);
            scope->children[scope->count++] = (struct diescope){.die = child, .parent = scope};
        }
        // Forward only: damaged references to siblings may lead back.
        if (dwarf_siblingof(&child, &next) != 0 || (char *)next.addr <= (char *)child.addr)
            return;
        child = next;
    }
}

// The last child that begins at or before the address; NULL if there is none.
static struct diescope *child_before(const struct diescope *scope, const void *address)
{
    size_t low = 0, high = scope->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if ((const char *)scope->children[middle].die.addr <= (const char *)address)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? &scope->children[low - 1] : NULL;
}

static struct diescope *unit_of(struct diescopes *scopes, Dwarf_Die *die)
{
    Dwarf_Die unit;
    if (!dwarf_diecu(die, &unit, NULL, NULL) || !has_scopes(&unit))
        return NULL;
    for (size_t i = scopes->count; i-- > 0;) // the newest is asked for most
        if (scopes->units[i]->die.addr == unit.addr)
            return scopes->units[i];
    scopes->units =
        memory_grown(scopes->units, &scopes->capacity, scopes->count + 1, sizeof *scopes->units);
    struct diescope *root = memory_array(1, sizeof *root);
    root->die = unit;
    return scopes->units[scopes->count++] = root;
}

// The scope that a function is declared in; NULL if it is not found.
static struct diescope *find_around(struct diescopes *scopes, Dwarf_Die *declaration)
{
    struct diescope *scope = unit_of(scopes, declaration);
    for (unsigned depth = 0; scope && depth < DEEPEST; depth++) {
        list_children(scope);
        struct diescope *child = child_before(scope, declaration->addr);
        if (child && child->die.addr == declaration->addr)
            return dwarf_tag(&child->die) == DW_TAG_subprogram ? scope : NULL;
        scope = child && dwarf_haschildren(&child->die) ? child : NULL;
    }
    return NULL;
}

static const char *name_of(struct diescope *scope)
{
    int tag = dwarf_tag(&scope->die);
    if (!scope->parent || tag == DW_TAG_lexical_block)
        return NULL;
    const char *name = dwarf_diename(&scope->die);
    if (name || tag == DW_TAG_subprogram)
        return name;
    // Classes without a name are lambdas, nearly always.
    return tag == DW_TAG_namespace ? "(anonymous namespace)" : "{lambda}";
}

const char *diescopes_qualify(struct diescopes *scopes, Dwarf_Die *declaration, const char *name,
                              struct text_pool *pool)
{
    const char *qualified = pool_string(pool, name);
    struct diescope *scope = find_around(scopes, declaration);
    for (unsigned depth = 0; scope && depth < DEEPEST; depth++) {
        const char *around = name_of(scope);
        if (around)
            qualified = pool_format(pool, "%s::%s", around, qualified);
        // A function is defined outside of the namespace or class that declares it.
        if (around && dwarf_tag(&scope->die) == DW_TAG_subprogram) {
            Dwarf_Die outer = diescopes_declaration(&scope->die);
            scope = find_around(scopes, &outer);
        } else {
            scope = scope->parent;
        }
    }
    return qualified;
}

static void free_children(struct diescope *scope)
{
    for (size_t i = 0; i < scope->count; i++)
        free_children(&scope->children[i]);
    free(scope->children);
}

void diescopes_free(struct diescopes *scopes)
{
    for (size_t i = 0; i < scopes->count; i++) {
        free_children(scopes->units[i]);
        free(scopes->units[i]);
    }
    free(scopes->units);
    memset(scopes, 0, sizeof *scopes);
}
