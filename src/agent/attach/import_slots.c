// SPDX-License-Identifier: MIT
#include "agent/attach/imports.h"
#include "agent/session/real.h"
#include "loadmap/dynamic.h"
#include "loadmap/image.h"
#include "loadmap/lookup.h"
#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#define PAGE 4096

struct import_pass {
    const struct imports *imports;
    enum imports_direction direction;
    struct dynamic dynamic;
    uintptr_t fixed, fixed_end; // read-only since relocation
    uintptr_t own, libc;        // begins of modules: the first stays as it is
};

static bool read_module(const struct dl_phdr_info *info, struct dynamic *dynamic)
{
    static struct image image; // one call at a time: the loader holds its lock
    image_from_headers(&image, info->dlpi_addr, info->dlpi_phdr, info->dlpi_phnum);
    return dynamic_read(dynamic, &image.ref, info->dlpi_addr, info->dlpi_phdr, info->dlpi_phnum);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const struct import *)a)->name, ((const struct import *)b)->name);
}

static const struct import *import_of(const struct import_pass *pass, const ElfW(Sym) * symbol)
{
    const struct dynamic *dynamic = &pass->dynamic;
    const bool in_libc = dynamic->start == pass->libc;
    if ((symbol->st_shndx != SHN_UNDEF && !in_libc) || symbol->st_name >= dynamic->string_bytes)
        return NULL;
    const struct import key = {.name = (const char *)dynamic->strings + symbol->st_name};
    const struct import *found =
        bsearch(&key, pass->imports->list, pass->imports->count, sizeof key, compare_names);
    return found && in_libc && found->scope == IMPORT_BESIDE_LIBC ? NULL : found;
}

static const struct import *import_for(const struct import_pass *pass,
                                       const ElfW(Rela) * relocation)
{
    const struct dynamic *dynamic = &pass->dynamic;
    const uintptr_t at = dynamic->symbols + ELF64_R_SYM(relocation->r_info) * sizeof(ElfW(Sym));
    const unsigned type = ELF64_R_TYPE(relocation->r_info);
    if ((type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT) ||
        !ELF64_R_SYM(relocation->r_info) || !dynamic_holds(dynamic, at, sizeof(ElfW(Sym))))
        return NULL;
    return import_of(pass, (const ElfW(Sym) *)at);
}

// The loader may be binding the slot at this moment: then it stays what that has written.
static void put(const struct import_pass *pass, uintptr_t *slot, uintptr_t before, uintptr_t value)
{
    const uintptr_t page = (uintptr_t)slot & -(uintptr_t)PAGE;
    const bool fixed = (uintptr_t)slot >= pass->fixed && (uintptr_t)slot < pass->fixed_end;
    if (fixed && mprotect((void *)page, PAGE, PROT_READ | PROT_WRITE))
        return;
    // Relaxed: a call goes to one or the other.
    __atomic_compare_exchange_n(slot, &before, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    if (fixed)
        mprotect((void *)page, PAGE, PROT_READ);
}

// A slot that is not bound yet leads into the module itself, back to the loader. In libc, functions
// of its own lie there, too: what it calls before it is bound is not changed.
static bool is_unbound(const struct import_pass *pass, const ElfW(Rela) * relocation, uintptr_t now)
{
    return ELF64_R_TYPE(relocation->r_info) == R_X86_64_JUMP_SLOT &&
           pass->dynamic.start != pass->libc && dynamic_holds(&pass->dynamic, now, 1);
}

static void change_slot(const struct import_pass *pass, const ElfW(Rela) * relocation)
{
    const struct import *import = import_for(pass, relocation);
    const uintptr_t slot = pass->dynamic.bias + relocation->r_offset;
    if (!import || slot % sizeof slot || !dynamic_holds(&pass->dynamic, slot, sizeof slot))
        return;
    const uintptr_t now = __atomic_load_n((const uintptr_t *)slot, __ATOMIC_RELAXED);
    if (pass->direction == IMPORTS_TAKE &&
        (now == import->theirs || is_unbound(pass, relocation, now)))
        put(pass, (uintptr_t *)slot, now, import->ours);
    else if (pass->direction == IMPORTS_GIVE_BACK && now == import->ours)
        put(pass, (uintptr_t *)slot, now, import->theirs);
}

static void find_fixed(struct import_pass *pass, const struct dl_phdr_info *info)
{
    pass->fixed = pass->fixed_end = 0;
    for (unsigned i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_GNU_RELRO) {
            pass->fixed = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
            pass->fixed_end = (pass->fixed + info->dlpi_phdr[i].p_memsz) & -(uintptr_t)PAGE;
        }
}

static int change_module(struct dl_phdr_info *info, size_t size, void *context)
{
    struct import_pass *pass = context;
    (void)size;
    if (!read_module(info, &pass->dynamic) || pass->dynamic.start == pass->own)
        return 0;
    find_fixed(pass, info);
    for (unsigned part = 0; part < 2; part++) {
        const uintptr_t start = pass->dynamic.relocations[part];
        const size_t bytes = pass->dynamic.bytes[part];
        for (size_t at = 0; at < bytes && dynamic_holds(&pass->dynamic, start, bytes);
             at += sizeof(ElfW(Rela)))
            change_slot(pass, (const ElfW(Rela) *)(start + at));
    }
    return 0;
}

static uintptr_t module_of(uintptr_t address)
{
    Dl_info info;
    return dladdr((void *)address, &info) ? (uintptr_t)info.dli_fbase : 0;
}

void imports_change(const struct imports *imports, enum imports_direction direction)
{
    struct import_pass pass = {.imports = imports,
                               .direction = direction,
                               .own = module_of((uintptr_t)&imports_change),
                               .libc = module_of((uintptr_t)dlsym(RTLD_NEXT, "pthread_create"))};
    REAL(dl_iterate_phdr)(change_module, &pass);
}

struct definition_search {
    const char *name;
    uintptr_t found;
};

static int find_definition(struct dl_phdr_info *info, size_t size, void *context)
{
    struct definition_search *search = context;
    struct dynamic dynamic;
    (void)size;
    return read_module(info, &dynamic) && dynamic_find(&dynamic, search->name, &search->found);
}

// In the order of the loader's searches. An executable that is not independent of its position may
// have an entry of its PLT stand for a function, which is what dlsym() finds then.
uintptr_t imports_definition(const char *name)
{
    struct definition_search search = {.name = name};
    const uintptr_t seen = (uintptr_t)lookup_symbol(RTLD_DEFAULT, name);
    if (!REAL(dl_iterate_phdr)(find_definition, &search))
        return 0;
    const bool by_plt = seen != search.found && !lookup_in_executable(name) &&
                        module_of(seen) == module_of((uintptr_t)getauxval(AT_ENTRY));
    return seen == search.found || by_plt ? search.found : 0;
}

// Which module has a function of that name first, for all at once.
struct owner_search {
    struct imports *imports;
    bool decided[IMPORTS_MOST], fits[IMPORTS_MOST];
};

static int decide_by_module(struct dl_phdr_info *info, size_t size, void *context)
{
    struct owner_search *search = context;
    struct dynamic dynamic;
    (void)size;
    if (!read_module(info, &dynamic))
        return 0;
    for (size_t i = 0; i < search->imports->count; i++) {
        const struct import *import = &search->imports->list[i];
        if (search->decided[i] || !dynamic_exports(&dynamic, import->name))
            continue;
        search->decided[i] = true;
        search->fits[i] = dynamic_holds(&dynamic, import->theirs, 1);
    }
    return 0;
}

void imports_prepare(struct imports *imports)
{
    struct owner_search search = {.imports = imports};
    size_t kept = 0;
    REAL(dl_iterate_phdr)(decide_by_module, &search);
    for (size_t i = 0; i < imports->count; i++)
        if (search.fits[i])
            imports->list[kept++] = imports->list[i];
    imports->count = kept;
    qsort(imports->list, imports->count, sizeof *imports->list, compare_names);
}
