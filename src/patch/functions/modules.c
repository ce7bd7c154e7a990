// SPDX-License-Identifier: MIT
#include "patch/functions/modules.h"
#include "base/gc_hidden.h"
#include "loadmap/dynamic.h"
#include "patch/functions/dl_notify.h"
#include "patch/functions/functions.h"
#include "patch/functions/unpatchable.h"
#include "patch/stubs/bump_allocator.h"
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <string.h>
#include <sys/auxv.h>

#define MODULES 4096
#define KEPT_MOST 64
#define PAGE ((uintptr_t)4096)
#define LINKAGE 1 // which of the two tables of relocations (loadmap/dynamic.h)

// In order of address. Never read without the lock.
static struct patch_module *modules[MODULES] GC_HIDDEN;
static unsigned module_count;

// The program headers, as the loader has mapped them.
struct segments {
    const Elf64_Phdr *segment;
    unsigned count;
    uintptr_t bias;
};

static struct segments segments_of(const struct module_ref *ref)
{
    struct segments segments = {0};
    const Elf64_Ehdr *head = (const Elf64_Ehdr *)ref->start;
    if (!loadmap_readable(ref->start) || memcmp(head->e_ident, ELFMAG, SELFMAG) ||
        head->e_phentsize != sizeof(Elf64_Phdr) || head->e_phoff > PAGE ||
        head->e_phnum > (PAGE - head->e_phoff) / sizeof(Elf64_Phdr))
        return segments;
    segments.segment = (const void *)(ref->start + head->e_phoff);
    segments.count = head->e_phnum;
    uintptr_t low = UINTPTR_MAX;
    for (unsigned i = 0; i < segments.count; i++)
        if (segments.segment[i].p_type == PT_LOAD && segments.segment[i].p_vaddr < low)
            low = segments.segment[i].p_vaddr & ~(PAGE - 1);
    segments.bias = ref->start - low;
    return segments;
}

static bool read_dynamic(const struct module_ref *ref, struct dynamic *dynamic)
{
    const struct segments segments = segments_of(ref);
    return dynamic_read(dynamic, ref, segments.bias, segments.segment, segments.count);
}

static void extend(struct patch_range *range, uintptr_t word)
{
    if (range->start == range->end)
        *range = (struct patch_range){word, word};
    if (word < range->start)
        range->start = word;
    if (word + 8 > range->end)
        range->end = word + 8;
}

// Collects the words that the loader binds to functions: the GOT, and those of its words that are
// bound by name to one of our functions, bound yet or not.
static void collect_bound(struct patch_module *module, const struct dynamic *dynamic,
                          unsigned which)
{
    const uintptr_t table = dynamic->relocations[which];
    if (!dynamic_holds(dynamic, table, dynamic->bytes[which]))
        return;
    const Elf64_Rela *rela = (const void *)table;
    if (which == LINKAGE && dynamic->bytes[which] && dynamic_holds(dynamic, dynamic->linkage, 24))
        extend(&module->got[which], dynamic->linkage + 16); // the first entry jumps through it
    for (size_t i = 0; i < dynamic->bytes[which] / sizeof *rela; i++) {
        const uint32_t type = ELF64_R_TYPE(rela[i].r_info);
        const uintptr_t word = dynamic->bias + rela[i].r_offset;
        // Of the others, some are of variables that the program may change.
        if (which == LINKAGE || type == R_X86_64_GLOB_DAT)
            extend(&module->got[which], word);
        if (type != R_X86_64_GLOB_DAT && type != R_X86_64_JUMP_SLOT && type != R_X86_64_64)
            continue;
        const uintptr_t at = dynamic->symbols + ELF64_R_SYM(rela[i].r_info) * sizeof(Elf64_Sym);
        if (!dynamic_holds(dynamic, at, sizeof(Elf64_Sym)))
            continue;
        const Elf64_Sym *symbol = (const void *)at;
        if (symbol->st_name < dynamic->string_bytes &&
            unpatchable_name((const char *)dynamic->strings + symbol->st_name) &&
            module->kept_count < KEPT_MOST)
            module->kept[module->kept_count++] = word;
    }
}

static bool is_refused(const struct module_ref *ref)
{
    const uintptr_t loader = getauxval(AT_BASE), kernel = getauxval(AT_SYSINFO_EHDR);
    const uintptr_t ours = (uintptr_t)&unpatchable_start;
    return (loader && loader >= ref->start && loader < ref->end) ||
           (kernel >= ref->start && kernel < ref->end) || (ours >= ref->start && ours < ref->end) ||
           ref->runtime != RUNTIME_NONE;
}

// How many of them end at or below an address.
static unsigned count_below(uintptr_t address)
{
    unsigned low = 0, high = module_count;
    while (low < high) {
        const unsigned middle = (low + high) / 2;
        if (modules[middle]->ref.end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct patch_module *add_module(const struct module_ref *ref)
{
    struct patch_module *module = bump_take(sizeof *module);
    uintptr_t *kept = bump_take(KEPT_MOST * sizeof *kept);
    if (module_count == MODULES || !module || !kept)
        return NULL;
    const unsigned at = count_below(ref->start);
    module->ref = *ref;
    module->kept = kept;
    module->refused = is_refused(ref);
    struct dynamic dynamic;
    if (!module->refused && read_dynamic(ref, &dynamic))
        for (unsigned which = 0; which < 2; which++)
            collect_bound(module, &dynamic, which);
    memmove(&modules[at + 1], &modules[at], (module_count - at) * sizeof *modules);
    module_count++;
    return modules[at] = module;
}

struct patch_module *functions_module(uintptr_t pc)
{
    struct module_ref ref;
    const unsigned at = count_below(pc);
    if (at < module_count && modules[at]->ref.start <= pc)
        return modules[at];
    // The facts about a module that may be unloaded are dropped when the loader reports that it
    // was.
    return loadmap_peek(pc, &ref) && (ref.permanent || dl_is_watched()) ? add_module(&ref) : NULL;
}

bool functions_slot_must_stay(const struct patch_module *module, uintptr_t slot)
{
    for (unsigned i = 0; i < module->kept_count; i++)
        if (module->kept[i] == slot)
            return true;
    return false;
}

struct patch_module *modules_take_out(uintptr_t start, uintptr_t end)
{
    const unsigned at = count_below(start);
    if (at == module_count || modules[at]->ref.start >= end)
        return NULL;
    struct patch_module *module = modules[at];
    module_count--;
    memmove(&modules[at], &modules[at + 1], (module_count - at) * sizeof *modules);
    return module;
}

void modules_free(struct patch_module *module)
{
    bump_give_back(module->kept, KEPT_MOST * sizeof *module->kept);
    bump_give_back(module, sizeof *module);
}
