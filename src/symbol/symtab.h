// SPDX-License-Identifier: MIT
#ifndef CAIRN_SYMBOL_SYMTAB_H
#define CAIRN_SYMBOL_SYMTAB_H

// The functions of one module by their symbols, out of any number of symbol tables. All addresses
// are offsets of places: relative to the module's lowest loaded address.

#include "base/spans.h"
#include "symbol/files/object.h"

struct symtab_symbol {
    const char *name; // raw; lives as long as the object it came from
    uint32_t file;    // which source file's local symbols it stands among; 0: global
    bool open_ended;  // has no size of its own: reaches to the next symbol
    uint64_t start;
};

struct symtab {
    struct symtab_symbol *symbols;
    size_t count, capacity;
    struct spans spans;
    uint32_t files; // source files met so far
    // Symbols by name, to find the parents of cold parts; made when first asked for.
    uint32_t *by_name;
};

// Adds the functions of a symbol table section (".symtab", ".dynsym"); how many.
size_t symtab_add_section(struct symtab *table, const struct object *object, const char *section);
void symtab_add(struct symtab *table, const char *name, uint64_t start, uint64_t end);
// After the last addition.
void symtab_sort(struct symtab *table);
void symtab_free(struct symtab *table);

// The function that holds an offset, NULL if none does.
const struct symtab_symbol *symtab_find(const struct symtab *table, uint64_t offset);
// The symbol whose raw name is name[0..length) and that a symbol standing in `file` would mean by
// it.
const struct symtab_symbol *symtab_named(struct symtab *table, const char *name, size_t length,
                                         uint32_t file);

#endif
