// SPDX-License-Identifier: MIT
// The modules of a process in its live memory, and places in them.

#include "profile/loader.h"
#include "profile/place_names.h"
#include "profile/recorder/kernel_symbols.h"
#include "profile/recorder/live_reader_state.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PATH_BYTES = 4096, MOST_NAME_BYTES = 8192 };

// That all addresses of the kernel have, and places have not.
#define KERNEL_BITS (~PLACE_OFFSET_UNKNOWN)

static void learn_vdso(struct live_sink *sink, const struct live_module *module,
                       unsigned build_id_bytes)
{
    struct profile_module *vdso = &sink->modules->modules[MODULE_VDSO];
    if (vdso->path)
        return;
    vdso->path = strdup("[vdso]");
    memcpy(vdso->build_id, module->build_id, build_id_bytes);
    vdso->build_id_bytes = build_id_bytes;
    write_module(sink->batch, MODULE_VDSO, vdso);
}

static void read_module(struct live_reader *reader, ref_t ref)
{
    const struct live_module *module = live_record_at(reader, ref, sizeof *module);
    if (!module)
        return;
    uint32_t id = __atomic_load_n(&module->id, __ATOMIC_RELAXED);
    uint32_t build_id_bytes = __atomic_load_n(&module->build_id_bytes, __ATOMIC_RELAXED);
    uint32_t path_bytes = __atomic_load_n(&module->path_bytes, __ATOMIC_RELAXED);
    if (id >= MODULE_LIMIT || build_id_bytes > sizeof module->build_id ||
        path_bytes > MOST_PATH_BYTES || !live_record_at(reader, ref, sizeof *module + path_bytes)) {
        reader->damaged = true;
        return;
    }
    if (id == MODULE_VDSO)
        learn_vdso(reader->sink, module, build_id_bytes);
    if (id < MODULE_FIRST_FILE)
        return;
    char path[MOST_PATH_BYTES]; // a copy that does not change while it is looked at
    memcpy(path, module->path, path_bytes);
    uint8_t build_id[sizeof module->build_id];
    memcpy(build_id, module->build_id, sizeof build_id);
    if (id >= reader->module_count) {
        if (!profile_grow((void **)&reader->module_map, reader->module_count, id + (size_t)1,
                          sizeof *reader->module_map))
            return;
        reader->module_count = id + 1;
    }
    reader->module_map[id] = (uint16_t)module_table_id(reader->sink->modules, path, path_bytes,
                                                       build_id, build_id_bytes);
}

// Reads what is new in a list of which all from *known on is known.
static void read_new(struct live_reader *reader, const _Atomic ref_t *list, ref_t *known,
                     void (*read)(struct live_reader *reader, ref_t ref))
{
    // The agent pushes with release: behind a head that we acquire, all records are whole.
    const ref_t head = atomic_load_explicit(list, memory_order_acquire);
    ref_t *refs;
    const size_t count = live_new_in_list(reader, head, *known, &refs);
    for (size_t i = 0; i < count; i++)
        read(reader, refs[i]);
    *known = head;
    free(refs);
}

void live_modules_read(struct live_reader *reader)
{
    read_new(reader, &live_process_of(reader)->modules, &reader->modules, read_module);
}

// Addresses of the kernel are others after each boot.
static unsigned kernel_module(struct module_table *modules)
{
    uint8_t boot[16] = {0};
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    for (unsigned i = 0; file && i < sizeof boot; i++) {
        unsigned value = 0;
        if (fscanf(file, "%*[-]") == EOF || fscanf(file, "%2x", &value) != 1)
            break;
        boot[i] = (uint8_t)value;
    }
    if (file)
        fclose(file);
    return module_table_id(modules, PLACE_KERNEL, strlen(PLACE_KERNEL), boot, sizeof boot);
}

// The name of a function of the kernel is written when its first address is met.
static place_t kernel_place(struct live_reader *reader, uint64_t offset)
{
    struct live_sink *sink = reader->sink;
    if (!reader->kernel)
        reader->kernel = kernel_module(sink->modules);
    if (offset >= PLACE_CALLS && offset != PLACE_OFFSET_UNKNOWN) {
        if (!sink->kernel_asked)
            sink->kernel = kernel_symbols_open();
        sink->kernel_asked = true;
        struct kernel_symbol *symbol =
            sink->kernel ? kernel_symbols_find(sink->kernel, offset | KERNEL_BITS) : NULL;
        if (symbol && !symbol->told)
            write_function(sink->batch, &(struct profile_function){
                                            .begin = place_make(reader->kernel, symbol->begin),
                                            .bytes = symbol->end - symbol->begin,
                                            .name = (char *)symbol->name});
        if (symbol)
            symbol->told = true;
    }
    return place_make(reader->kernel, offset);
}

// A place with a name of its own: of functions that only a runtime knows, or of files.
static place_t runtime_place(struct live_reader *reader, place_t place)
{
    const unsigned live = place_module(place);
    unsigned *module = live == MODULE_JAVA    ? &reader->java
                       : live == MODULE_FILES ? &reader->files
                                              : &reader->python;
    const char *path = live == MODULE_JAVA    ? PLACE_JAVA
                       : live == MODULE_FILES ? PLACE_FILES
                                              : PLACE_PYTHON;
    if (!*module)
        *module =
            module_table_id(reader->sink->modules, path, strlen(path), (const uint8_t *)"", 0);
    return place_make(*module, place_offset(place));
}

static void read_name(struct live_reader *reader, ref_t ref)
{
    const struct live_name *name = live_record_at(reader, ref, sizeof *name);
    if (!name)
        return;
    const uint32_t function_bytes = __atomic_load_n(&name->function_bytes, __ATOMIC_RELAXED);
    const uint32_t file_bytes = __atomic_load_n(&name->file_bytes, __ATOMIC_RELAXED);
    if (function_bytes > MOST_NAME_BYTES || file_bytes > MOST_NAME_BYTES ||
        !live_record_at(reader, ref, sizeof *name + function_bytes + file_bytes)) {
        reader->damaged = true;
        return;
    }
    struct profile_line line = {.function = strndup(name->text, function_bytes),
                                .file = strndup(name->text + function_bytes, file_bytes),
                                .line = name->line};
    const struct profile_place place = {
        .place = runtime_place(reader, name->place),
        .begin = runtime_place(reader, name->function),
        .line_count = 1,
        .lines = &line,
    };
    if (line.function && line.file)
        place_names_put(reader->sink->batch, &place);
    free(line.function);
    free(line.file);
}

void live_names_read(struct live_reader *reader)
{
    read_new(reader, &live_process_of(reader)->names, &reader->names, read_name);
}

place_t live_map_place(void *context, place_t place)
{
    struct live_reader *reader = context;
    unsigned module = place_module(place);
    if (module < MODULE_FIRST_FILE)
        return place;
    if (module == MODULE_KERNEL)
        return kernel_place(reader, place_offset(place));
    if (module == MODULE_PYTHON || module == MODULE_JAVA || module == MODULE_FILES)
        return runtime_place(reader, place);
    if (module >= reader->module_count || !reader->module_map[module])
        live_modules_read(reader); // met after the list was read
    if (module >= reader->module_count || !reader->module_map[module])
        return LOST_FUNCTION;
    return place_make(reader->module_map[module], place_offset(place));
}

place_t live_place_of(struct live_reader *reader, uint64_t address)
{
    if (!address)
        return PLACE_STARTUP_KERNEL;
    ref_t ref = atomic_load_explicit(&live_process_of(reader)->modules, memory_order_acquire);
    const struct live_module *module;
    for (unsigned left = LIVE_MOST_LISTED;
         left && (module = live_record_at(reader, ref, sizeof *module)); left--) {
        const uint64_t base = __atomic_load_n(&module->base, __ATOMIC_RELAXED);
        if (address - base < __atomic_load_n(&module->bytes, __ATOMIC_RELAXED)) {
            const uint32_t id = __atomic_load_n(&module->id, __ATOMIC_RELAXED);
            return id < MODULE_LIMIT ? live_map_place(reader, place_make(id, address - base)) : 0;
        }
        ref = __atomic_load_n(&module->next, __ATOMIC_RELAXED);
    }
    return 0;
}
