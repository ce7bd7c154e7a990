// SPDX-License-Identifier: MIT
#include "base/now.h"
#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>

static int ask_kernel(clockid_t clock, struct timespec *time)
{
    return (int)syscall(SYS_clock_gettime, clock, time);
}

int (*now_read)(clockid_t clock, struct timespec *time) = ask_kernel;

bool now_has_no_counter;

void now_without_counter(void)
{
    now_has_no_counter = true;
    now_read = ask_kernel;
}

// The tables of the library that the kernel maps into every process.
struct tables {
    const Elf64_Sym *symbols;
    const char *names;
};

static bool find_tables(uintptr_t base, struct tables *tables, uintptr_t *bias)
{
    const Elf64_Ehdr *head = (const Elf64_Ehdr *)base;
    const Elf64_Phdr *segment = (const Elf64_Phdr *)(base + head->e_phoff);
    const Elf64_Dyn *dynamic = NULL;
    bool loaded = false;
    for (unsigned i = 0; i < head->e_phnum; i++, segment++) {
        if (segment->p_type == PT_LOAD && !loaded) {
            *bias = base + segment->p_offset - segment->p_vaddr;
            loaded = true;
        }
        if (segment->p_type == PT_DYNAMIC)
            dynamic = (const Elf64_Dyn *)(base + segment->p_offset);
    }
    *tables = (struct tables){0};
    for (; loaded && dynamic && dynamic->d_tag != DT_NULL; dynamic++) {
        if (dynamic->d_tag == DT_SYMTAB)
            tables->symbols = (const Elf64_Sym *)(*bias + dynamic->d_un.d_ptr);
        if (dynamic->d_tag == DT_STRTAB)
            tables->names = (const char *)(*bias + dynamic->d_un.d_ptr);
    }
    return tables->symbols && tables->names;
}

// Names follow symbols there, as linkers lay them out: so it is known how many there are.
static uintptr_t find_function(uintptr_t base, const char *name)
{
    struct tables tables;
    uintptr_t bias = 0;
    if (!base || !find_tables(base, &tables, &bias))
        return 0;
    for (const Elf64_Sym *symbol = tables.symbols; (const char *)(symbol + 1) <= tables.names;
         symbol++)
        if (symbol->st_shndx != SHN_UNDEF && ELF64_ST_TYPE(symbol->st_info) == STT_FUNC &&
            !strcmp(tables.names + symbol->st_name, name))
            return bias + symbol->st_value;
    return 0;
}

// Early: everything of ours may ask.
__attribute__((constructor(101))) static void find_fast_way(void)
{
    const uintptr_t function = find_function(getauxval(AT_SYSINFO_EHDR), "__vdso_clock_gettime");
    if (function)
        now_read = (int (*)(clockid_t, struct timespec *))function;
}
