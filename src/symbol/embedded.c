// SPDX-License-Identifier: MIT
// The symbol table that distributions leave in stripped programs: a whole ELF file of its own,
// compressed, in .gnu_debugdata. libdwfl knows how to unpack it.
#include "symbol/symtab.h"
#include <elfutils/libdwfl.h>
#include <unistd.h>

static int find_no_debug_file(Dwfl_Module *module, void **data, const char *name, Dwarf_Addr base,
                              const char *file, const char *link, GElf_Word checksum, char **found)
{
    (void)module, (void)data, (void)name, (void)base;
    (void)file, (void)link, (void)checksum, (void)found;
    return -1; // separate debug files are looked for elsewhere, and without asking any server
}

static const Dwfl_Callbacks callbacks = {
    .find_elf = dwfl_build_id_find_elf,
    .find_debuginfo = find_no_debug_file,
    .section_address = dwfl_offline_section_address,
};

size_t symtab_add_embedded(struct symtab *table, const struct object *object, Dwfl **holder)
{
    if (!object_has_section(object, ".gnu_debugdata") || object->fd < 0)
        return 0;
    Dwfl *dwfl = dwfl_begin(&callbacks);
    int fd = dwfl ? dup(object->fd) : -1;
    Dwfl_Module *module =
        fd >= 0 ? dwfl_report_elf(dwfl, object->path, object->path, fd, 0, true) : NULL;
    if (!module && fd >= 0)
        close(fd);
    if (!module || dwfl_report_end(dwfl, NULL, NULL) != 0) {
        dwfl_end(dwfl);
        return 0;
    }
    size_t before = table->count;
    int count = dwfl_module_getsymtab(module);
    table->files++;
    for (int i = 0; i < count; i++) {
        GElf_Sym symbol;
        GElf_Addr address;
        const char *name = dwfl_module_getsym_info(module, i, &symbol, &address, NULL, NULL, NULL);
        unsigned type = GELF_ST_TYPE(symbol.st_info);
        if (name && type == STT_FUNC && symbol.st_size > 0 && address >= object->base &&
            address < object->end && symbol.st_size <= object->end - address)
            symtab_add(table, name, address - object->base,
                       address - object->base + symbol.st_size);
    }
    *holder = dwfl;
    return table->count - before;
}
