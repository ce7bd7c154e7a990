// SPDX-License-Identifier: MIT
#include "symbol/module.h"
#include "base/memory.h"
#include "base/text/text.h"
#include "symbol/dwarf/line_cache.h"
#include "symbol/entry.h"
#include "symbol/files/debug_file.h"
#include "symbol/files/server.h"
#include "symbol/go_lines.h"
#include "symbol/plt.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool is_recorded_build(const struct object *object, const struct profile_module *recorded)
{
    if (recorded->build_id_bytes == 0)
        return true; // nothing to compare with
    return object->build_id_bytes == recorded->build_id_bytes &&
           memcmp(object->build_id, recorded->build_id, object->build_id_bytes) == 0;
}

static void open_main(struct module *module)
{
    const struct profile_module *recorded = module->recorded;
    int error = module->vdso     ? object_open_vdso(&module->main)
                : recorded->path ? object_open(&module->main, recorded->path)
                                 : -ENOENT;
    if (error) {
        module->trouble = error == -ENOEXEC ? MODULE_DAMAGED : MODULE_MISSING;
        module->error = error;
        return;
    }
    if (!is_recorded_build(&module->main, recorded))
        module->trouble = MODULE_CHANGED;
}

static bool has_dwarf(const struct object *object)
{
    return object_has_section(object, ".debug_info") || object_has_section(object, ".zdebug_info");
}

// The debug file is looked for when something is missing from the program itself.
static void open_debug(struct module *module, const struct module_means *means)
{
    const struct object *main = module->trouble == MODULE_FINE ? &module->main : NULL;
    bool complete = main && has_dwarf(main) && object_has_section(main, ".symtab");
    if (complete || module->vdso)
        return;
    const struct profile_module *recorded = module->recorded;
    const uint8_t *id = recorded->build_id_bytes ? recorded->build_id
                        : main                   ? main->build_id
                                                 : NULL;
    unsigned bytes = recorded->build_id_bytes ? recorded->build_id_bytes
                     : main                   ? main->build_id_bytes
                                              : 0;
    if (id && bytes && debugfile_by_id(&module->debug, id, bytes))
        return;
    if (main && debugfile_by_link(&module->debug, main))
        return;
    if (id && bytes && means->lines && !(main && has_dwarf(main)))
        server_fetch(means->server, id, bytes, module->short_name, &module->debug);
}

static void read_tables(struct module *module, struct text_pool *pool)
{
    const struct object *main = module->main.elf ? &module->main : NULL;
    const struct object *debug = module->debug.elf ? &module->debug : NULL;
    size_t found = 0;
    if (main)
        found = symtab_add_section(&module->table, main, ".symtab");
    if (!found && debug)
        found = symtab_add_section(&module->table, debug, ".symtab");
    if (main && !found && embedded_open(&module->embedded, main))
        symtab_add_section(&module->table, &module->embedded.object, ".symtab");
    if (main) {
        symtab_add_section(&module->table, main, ".dynsym");
        plt_add(&module->table, main, pool);
        bounds_read(&module->bounds, main);
        module->golines = golines_open(main, pool);
        if (module->golines)
            module->dialect = NAMES_DOTTED;
    }
    symtab_sort(&module->table);
    if (main && entry_add(&module->table, main, &module->bounds))
        symtab_sort(&module->table);
}

static const char *short_name(const struct profile_module *recorded)
{
    if (!recorded->path || !*recorded->path)
        return "[unknown]";
    return last_part(recorded->path);
}

void module_open(struct module *module, const struct module_means *means)
{
    if (module->opened)
        return;
    module->opened = module->examined = true;
    module->trouble = MODULE_FINE;
    module->main.fd = module->debug.fd = module->embedded.object.fd = -1;
    module->short_name = short_name(module->recorded);
    open_main(module);
    open_debug(module, means);
    if (module->trouble == MODULE_CHANGED)
        object_close(&module->main); // wrong names are worse than none
    module->used_separate_file = module->debug.elf != NULL;
    read_tables(module, means->pool);
    const struct object *with_dwarf = has_dwarf(&module->main)    ? &module->main
                                      : has_dwarf(&module->debug) ? &module->debug
                                                                  : NULL;
    if (with_dwarf && means->lines) {
        module->lines = lines_open(with_dwarf, means->pool);
        module->cache = linecache_open(with_dwarf, means->pool);
    }
    module->quality = with_dwarf                ? SYMBOLS_DWARF
                      : module->golines         ? SYMBOLS_OWN
                      : module->table.count > 0 ? SYMBOLS_TABLE
                                                : SYMBOLS_NONE;
}

void module_close(struct module *module)
{
    if (!module->opened)
        return;
    if (lines_final(module->lines))
        linecache_save(module->cache);
    linecache_close(module->cache);
    module->cache = NULL;
    lines_close(module->lines);
    module->lines = NULL;
    golines_close(module->golines);
    module->golines = NULL;
    symtab_free(&module->table);
    bounds_free(&module->bounds);
    embedded_close(&module->embedded);
    object_close(&module->debug);
    object_close(&module->main);
    module->opened = false;
}

// A move of the system call's number, and the call.
enum { LONGEST_SIGNAL_RETURN = 16 };

// The function an offset belongs to: its name, and where it begins.
struct owner {
    const char *name;
    uint64_t start;
    bool start_known;
};

// The unlikely part of a function is the function: time there is its time.
static const struct symtab_symbol *without_cold_part(struct module *module,
                                                     const struct symtab_symbol *symbol)
{
    bool cold = false;
    size_t parent;
    if (module->dialect == NAMES_CLONES)
        names_base_length(symbol->name, &cold, &parent);
    const struct symtab_symbol *whole =
        cold ? symtab_named(&module->table, symbol->name, parent, symbol->file) : NULL;
    return whole ? whole : symbol;
}

static struct owner named(struct module *module, const struct symtab_symbol *symbol,
                          struct text_pool *pool)
{
    symbol = without_cold_part(module, symbol);
    const char *plt = strstr(symbol->name, "@plt");
    const char *name = names_display(pool, symbol->name, module->dialect);
    if (plt && plt[4] == '\0')
        name = pool_format(pool, "%s@plt", name);
    return (struct owner){name, symbol->start, true};
}

static struct owner find_owner(struct module *module, uint64_t offset, struct text_pool *pool)
{
    // Go's own table has names as people write them; the linker's say which calling convention it
    // is.
    uint64_t start;
    const char *name = golines_function(module->golines, offset, &start);
    if (name)
        return (struct owner){name, start, true};
    const struct symtab_symbol *symbol = symtab_find(&module->table, offset);
    struct bounds_function function = {0};
    bool bounded = bounds_find(&module->bounds, offset, &function);
    // A symbol without a size reaches to the next one, but not into the next function.
    if (symbol && symbol->open_ended && bounded && function.start > symbol->start)
        symbol = NULL;
    if (symbol)
        return named(module, symbol, pool);
    if (!bounded)
        return (struct owner){0};
    // The function that ends signal handlers begins a byte early in unwind tables: unwinders look
    // up return addresses less one.
    symbol = function.signal ? symtab_find(&module->table, function.start + 1) : NULL;
    if (symbol && symbol->start == function.start + 1)
        return named(module, symbol, pool);
    if (function.signal && function.end - function.start <= LONGEST_SIGNAL_RETURN)
        return (struct owner){"__restore_rt", function.start, true};
    return (struct owner){NULL, function.start, true};
}

static const char *unnamed(struct module *module, uint64_t offset, struct text_pool *pool)
{
    if (offset == PLACE_OFFSET_UNKNOWN)
        return pool_format(pool, "[%s]", module->short_name);
    return pool_format(pool, "%s+0x%llx", module->short_name, (unsigned long long)offset);
}

// Puts together what DWARF and the symbol table say. The symbol's name wins for the function
// itself: it is the one that is exported, and the one that all places without lines show.
static void combine(struct module *module, unsigned id, const struct lines_query *query,
                    struct symbol *symbol, struct text_pool *pool)
{
    struct owner owner = {0};
    if (query->offset != PLACE_OFFSET_UNKNOWN)
        owner = find_owner(module, query->offset, pool);
    unsigned count = query->count ? query->count : 1;
    struct symbol_frame *frames = query->frames ? query->frames : pool_take(pool, sizeof *frames);
    struct symbol_frame *last = &frames[count - 1];
    if (!owner.name && query->function_known) {
        owner.start = query->function;
        owner.start_known = true;
    }
    module->asked++;
    if (owner.name) {
        last->function = owner.name;
    } else if (!last->function) {
        last->function = unnamed(module, owner.start_known ? owner.start : query->offset, pool);
        module->unnamed++;
    }
    for (unsigned i = 0; i + 1 < count; i++)
        if (!frames[i].function)
            frames[i].function = "[inlined]";
    symbol->frames = frames;
    symbol->count = count;
    symbol->function = owner.start_known ? place_make(id, owner.start) : 0;
}

// DWARF is read for those queries alone that the cache does not answer.
static void resolve_lines(struct module *module, struct lines_query *queries, size_t count)
{
    struct lines_query *unknown = memory_array(count, sizeof *unknown);
    size_t *indices = memory_array(count, sizeof *indices), left = 0;
    for (size_t i = 0; i < count; i++)
        if (!linecache_find(module->cache, &queries[i])) {
            indices[left] = i;
            unknown[left++] = queries[i];
        }
    if (left)
        lines_resolve(module->lines, unknown, left);
    for (size_t i = 0; i < left; i++) {
        queries[indices[i]] = unknown[i];
        linecache_add(module->cache, &unknown[i]);
    }
    free(unknown);
    free(indices);
}

void module_resolve(struct module *module, const struct module_means *means,
                    const struct module_questions *questions)
{
    struct lines_query *queries = questions->queries;
    const size_t count = questions->count;
    module_open(module, means);
    if (module->lines)
        resolve_lines(module, queries, count);
    for (size_t i = 0; i < count && module->golines && means->lines; i++)
        if (queries[i].count == 0)
            golines_resolve(module->golines, &queries[i]);
    for (size_t i = 0; i < count; i++)
        combine(module, questions->id, &queries[i], &questions->symbols[i], means->pool);
}
