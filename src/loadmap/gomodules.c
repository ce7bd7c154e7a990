// SPDX-License-Identifier: MIT
#include "loadmap/gomodules.h"

#define GOMODULES 4 // more than one is rare: a library of Go code beside others

struct gomodule {
    uintptr_t base;
    struct gotable table;
};

static struct gomodule modules[GOMODULES];
// Released when an entry is whole, which then never changes; acquired by who reads entries.
static _Atomic unsigned module_count;

static bool is_usable(const struct gotable *table, const struct module_ref *module)
{
    // Before Go 1.18 addresses are absolute, and relocated in the table itself.
    if (table->layout < GOTABLE_1_18)
        return true;
    return table->text >= module->code_start && table->text < module->code_end;
}

void gomodules_add(const struct module_ref *module, uintptr_t bias, const ElfW(Phdr) * headers,
                   unsigned count)
{
    unsigned used = atomic_load_explicit(&module_count, memory_order_relaxed);
    if (used == GOMODULES)
        return;
    struct gomodule *entry = &modules[used];
    for (unsigned i = 0; i < count; i++) {
        const ElfW(Phdr) *load = &headers[i];
        uintptr_t start = bias + load->p_vaddr;
        if (load->p_type != PT_LOAD || !(load->p_flags & PF_R) || load->p_flags & PF_X ||
            gotable_search(&entry->table, (const void *)start, load->p_filesz, start) == SIZE_MAX ||
            !is_usable(&entry->table, module))
            continue;
        entry->base = module->base;
        atomic_store_explicit(&module_count, used + 1, memory_order_release);
        return;
    }
}

const struct gotable *gomodules_find(const struct module_ref *module)
{
    unsigned used = atomic_load_explicit(&module_count, memory_order_acquire);
    for (unsigned i = 0; i < used; i++)
        if (modules[i].base == module->base)
            return &modules[i].table;
    return NULL;
}
