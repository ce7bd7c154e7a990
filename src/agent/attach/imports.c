// SPDX-License-Identifier: MIT
// A preloaded agent comes before libc. One that comes later writes its functions into the tables
// that modules call other modules through. The words are whole, and other threads see the old
// function or ours.

#include "agent/attach/attach.h"
#include "agent/session/real.h"
#include "loadmap/dynamic.h"
#include "loadmap/image.h"
#include <elf.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE 4096

// The functions that recording takes: threads that begin, programs that are started, and looks at
// stacks and tables.
static const char *const names[] = {
    "pthread_create",  "thrd_create",  "pthread_setname_np",
    "execl",           "execle",       "execlp",
    "execv",           "execve",       "execveat",
    "execvp",          "execvpe",      "fexecve",
    "posix_spawn",     "posix_spawnp", "popen",
    "system",          "dlclose",      "dl_iterate_phdr",
    "_dl_find_object", "backtrace",    "_exit",
    "_Exit",
};
#define NAMES (sizeof names / sizeof *names)

static struct import {
    uintptr_t theirs, ours; // 0: it is not taken
} imports[NAMES];

enum direction { TAKE, GIVE_BACK };

struct import_pass {
    enum direction direction;
    struct dynamic dynamic;
    uintptr_t fixed, fixed_end; // read-only since relocation
    uintptr_t own, libc;        // begins of modules that stay as they are
};

static const char *name_of(const struct import_pass *pass, const ElfW(Rela) * relocation)
{
    const struct dynamic *dynamic = &pass->dynamic;
    const uintptr_t at = dynamic->symbols + ELF64_R_SYM(relocation->r_info) * sizeof(ElfW(Sym));
    if (!ELF64_R_SYM(relocation->r_info) || !dynamic_holds(dynamic, at, sizeof(ElfW(Sym))))
        return NULL;
    const ElfW(Sym) *symbol = (const void *)at;
    return symbol->st_shndx == SHN_UNDEF && symbol->st_name < dynamic->string_bytes
               ? (const char *)dynamic->strings + symbol->st_name
               : NULL;
}

static const struct import *import_of(const char *name)
{
    for (size_t i = 0; name && i < NAMES; i++)
        if (!strcmp(name, names[i]))
            return imports[i].ours ? &imports[i] : NULL;
    return NULL;
}

static void put(const struct import_pass *pass, uintptr_t *slot, uintptr_t value)
{
    const uintptr_t page = (uintptr_t)slot & -(uintptr_t)PAGE;
    const bool fixed = (uintptr_t)slot >= pass->fixed && (uintptr_t)slot < pass->fixed_end;
    if (fixed && mprotect((void *)page, PAGE, PROT_READ | PROT_WRITE))
        return;
    // Relaxed: a call goes to one or the other.
    __atomic_store_n(slot, value, __ATOMIC_RELAXED);
    if (fixed)
        mprotect((void *)page, PAGE, PROT_READ);
}

// A slot that is not bound yet leads into the module itself, back to the loader.
static void change_slot(const struct import_pass *pass, const ElfW(Rela) * relocation)
{
    const unsigned type = ELF64_R_TYPE(relocation->r_info);
    if (type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT)
        return;
    const struct import *import = import_of(name_of(pass, relocation));
    const uintptr_t slot = pass->dynamic.bias + relocation->r_offset;
    if (!import || slot % sizeof slot || !dynamic_holds(&pass->dynamic, slot, sizeof slot))
        return;
    const uintptr_t now = *(const uintptr_t *)slot;
    const bool unbound = type == R_X86_64_JUMP_SLOT && dynamic_holds(&pass->dynamic, now, 1);
    if (pass->direction == TAKE && (now == import->theirs || unbound))
        put(pass, (uintptr_t *)slot, import->ours);
    else if (pass->direction == GIVE_BACK && now == import->ours)
        put(pass, (uintptr_t *)slot, import->theirs);
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
    static struct image image; // one call at a time: the loader holds its lock
    (void)size;
    image_from_headers(&image, info->dlpi_addr, info->dlpi_phdr, info->dlpi_phnum);
    const struct module_ref *ref = &image.ref;
    if (ref->start == pass->own || ref->start == pass->libc ||
        !dynamic_read(&pass->dynamic, ref, info->dlpi_addr, info->dlpi_phdr, info->dlpi_phnum))
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

static void change_all(enum direction direction)
{
    struct import_pass pass = {.direction = direction,
                               .own = module_of((uintptr_t)&imports),
                               .libc = module_of((uintptr_t)dlsym(RTLD_NEXT, "pthread_create"))};
    REAL(dl_iterate_phdr)(change_module, &pass);
}

void imports_take(void *handle)
{
    for (size_t i = 0; i < NAMES && handle; i++) {
        const uintptr_t first = (uintptr_t)dlsym(RTLD_DEFAULT, names[i]),
                        next = (uintptr_t)dlsym(RTLD_NEXT, names[i]);
        // Where another library interposes it already, it stays that library's.
        imports[i].theirs = next;
        imports[i].ours = first == next && next ? (uintptr_t)dlsym(handle, names[i]) : 0;
    }
    change_all(TAKE);
}

void imports_give_back(void)
{
    change_all(GIVE_BACK);
}
