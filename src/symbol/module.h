// SPDX-License-Identifier: MIT
#ifndef CAIRN_SYMBOL_MODULE_H
#define CAIRN_SYMBOL_MODULE_H

// One file of the profile, and all that can be found out about its functions.

#include "symbol/dwarf/bounds.h"
#include "symbol/dwarf/line_cache.h"
#include "symbol/dwarf/lines.h"
#include "symbol/files/embedded.h"
#include "symbol/files/server.h"
#include "symbol/go_lines.h"
#include "symbol/names/names.h"
#include "symbol/symbol.h"
#include "symbol/symtab.h"

enum module_trouble {
    MODULE_FINE,
    MODULE_MISSING, // no such file, or it cannot be read
    MODULE_DAMAGED, // not an ELF file, or none that can be read
    MODULE_CHANGED, // another build than the one that was recorded
};

struct module {
    const struct profile_module *recorded;
    bool vdso;
    bool opened;
    bool examined; // has been open: quality and trouble are known
    enum module_trouble trouble;
    int error;               // why it is missing, -errno
    bool used_separate_file; // trouble, but a debug file with the recorded build id was found
    struct object main, debug;
    struct symtab table;
    struct bounds bounds;
    struct lines *lines;
    struct linecache *cache; // of what `lines` has found; may be NULL
    struct golines *golines; // of a Go program
    struct embedded embedded;
    enum names_dialect dialect;
    enum symbol_quality quality;
    const char *short_name; // of the file, for "libfoo.so+0x1234"
    size_t asked, unnamed;  // places that were resolved, and those in functions without a name
};

struct module_means {
    struct text_pool *pool;
    struct server *server; // NULL: do not ask
    bool lines;            // files, lines and inlined functions are wanted
};

// Opens all there is; once. Never fails: see trouble.
void module_open(struct module *module, const struct module_means *means);
// May be opened again. Results live in the pool, and stay.
void module_close(struct module *module);

// Offsets to resolve. symbols[i] is filled for queries[i].offset; its function is a place in module
// number `id`.
struct module_questions {
    unsigned id;
    struct lines_query *queries;
    struct symbol *symbols;
    size_t count;
};
void module_resolve(struct module *module, const struct module_means *means,
                    const struct module_questions *questions);

#endif
