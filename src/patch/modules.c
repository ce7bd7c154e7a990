// SPDX-License-Identifier: MIT
#include "patch/modules.h"
#include "patch/functions.h"
#include "patch/heap.h"
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <string.h>
#include <sys/auxv.h>

#define MODULES 2048
#define KEPT_MOST 64
#define PAGE ((uintptr_t)4096)

// Their calls stay as they are.
static const char *const names[] = {
    // come back to their return address a second time
    "setjmp",
    "_setjmp",
    "__sigsetjmp",
    "sigsetjmp",
    "savectx",
    "vfork",
    "__vfork",
    "getcontext",
    "swapcontext",
    "__getcontext",
    "__swapcontext",
    "clone",
    "__clone",
    // ask who calls
    "dlopen",
    "dlmopen",
    "dlsym",
    "dlvsym",
    "dlinfo",
    "__libc_dlopen_mode",
    "_dl_open",
    "mcount",
    "_mcount",
    "__mcount",
    "__fentry__",
    "__morestack",
    "__morestack_non_split",
    // follow a convention of their own
    "__tls_get_addr",
    "_dl_runtime_resolve",
};
#define NAMES (sizeof names / sizeof *names)

static uintptr_t named[NAMES];
// Never read without the lock.
static struct patch_module *modules[MODULES];
static unsigned module_count;

static bool is_named(const char *name)
{
    if (!strchr("_sdvgcm", name[0]))
        return false;
    for (size_t i = 0; i < NAMES; i++)
        if (!strcmp(name, names[i]))
            return true;
    return false;
}

void functions_start(void)
{
    for (size_t i = 0; i < NAMES; i++) {
        // The real ones, whatever the agent interposes.
        void *address = dlsym(RTLD_NEXT, names[i]);
        named[i] = (uintptr_t)(address ? address : dlsym(RTLD_DEFAULT, names[i]));
    }
}

bool modules_is_named(uintptr_t address)
{
    for (size_t i = 0; i < NAMES; i++)
        if (named[i] == address)
            return true;
    return false;
}

struct dynamic {
    uintptr_t bias, symbols, strings, relocations[2];
    size_t string_bytes, bytes[2];
};

static uintptr_t relocated(const struct dynamic *dynamic, uintptr_t value)
{
    // The loader adds the base where it may write; to addresses alone.
    return value < dynamic->bias ? value + dynamic->bias : value;
}

static void take_tag(struct dynamic *dynamic, const Elf64_Dyn *entry)
{
    const uintptr_t value = entry->d_un.d_ptr;
    switch (entry->d_tag) {
    case DT_SYMTAB:
        dynamic->symbols = relocated(dynamic, value);
        break;
    case DT_STRTAB:
        dynamic->strings = relocated(dynamic, value);
        break;
    case DT_STRSZ:
        dynamic->string_bytes = value;
        break;
    case DT_RELA:
        dynamic->relocations[0] = relocated(dynamic, value);
        break;
    case DT_RELASZ:
        dynamic->bytes[0] = value;
        break;
    case DT_JMPREL:
        dynamic->relocations[1] = relocated(dynamic, value);
        break;
    case DT_PLTRELSZ:
        dynamic->bytes[1] = value;
        break;
    }
}

static bool is_inside(const struct module_ref *ref, uintptr_t start, size_t bytes)
{
    return start >= ref->start && start < ref->end && bytes <= ref->end - start;
}

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
    memset(dynamic, 0, sizeof *dynamic);
    dynamic->bias = segments.bias;
    for (unsigned i = 0; i < segments.count; i++) {
        const Elf64_Phdr *segment = &segments.segment[i];
        const uintptr_t start = segments.bias + segment->p_vaddr;
        if (segment->p_type != PT_DYNAMIC || !is_inside(ref, start, segment->p_memsz))
            continue;
        const Elf64_Dyn *entry = (const void *)start;
        const size_t count = segment->p_memsz / sizeof *entry;
        for (size_t k = 0; k < count && entry[k].d_tag != DT_NULL; k++)
            take_tag(dynamic, &entry[k]);
        return is_inside(ref, dynamic->symbols, sizeof(Elf64_Sym)) &&
               is_inside(ref, dynamic->strings, dynamic->string_bytes);
    }
    return false;
}

static size_t rounded(uint32_t bytes)
{
    return ((size_t)bytes + 3) & ~(size_t)3;
}

static bool has_note_of(const char *start, size_t bytes, const char *owner)
{
    const size_t length = strlen(owner) + 1;
    Elf64_Nhdr note;
    for (size_t at = 0; bytes >= sizeof note && at <= bytes - sizeof note;) {
        memcpy(&note, start + at, sizeof note);
        at += sizeof note;
        if (note.n_namesz >= length && length <= bytes - at && !memcmp(start + at, owner, length))
            return true;
        const size_t whole = rounded(note.n_namesz) + rounded(note.n_descsz);
        if (whole > bytes - at)
            break;
        at += whole;
    }
    return false;
}

// Go passes arguments in every register, moves its stacks, and knows each return address on them:
// its code cannot be led through stubs.
static bool is_go(const struct module_ref *ref)
{
    const struct segments segments = segments_of(ref);
    for (unsigned i = 0; i < segments.count; i++) {
        const Elf64_Phdr *segment = &segments.segment[i];
        const uintptr_t start = segments.bias + segment->p_vaddr;
        if (segment->p_type == PT_NOTE && is_inside(ref, start, segment->p_filesz) &&
            has_note_of((const char *)start, segment->p_filesz, "Go"))
            return true;
    }
    return false;
}

// The words of the GOT that are bound by name to one of ours, bound yet or not.
static void collect_kept(struct patch_module *module, const struct dynamic *dynamic, unsigned which)
{
    const struct module_ref *ref = &module->ref;
    const uintptr_t table = dynamic->relocations[which];
    if (!is_inside(ref, table, dynamic->bytes[which]))
        return;
    const Elf64_Rela *rela = (const void *)table;
    for (size_t i = 0; i < dynamic->bytes[which] / sizeof *rela; i++) {
        const uint32_t type = ELF64_R_TYPE(rela[i].r_info);
        if (type != R_X86_64_GLOB_DAT && type != R_X86_64_JUMP_SLOT && type != R_X86_64_64)
            continue;
        const uintptr_t at = dynamic->symbols + ELF64_R_SYM(rela[i].r_info) * sizeof(Elf64_Sym);
        if (!is_inside(ref, at, sizeof(Elf64_Sym)))
            continue;
        const Elf64_Sym *symbol = (const void *)at;
        if (symbol->st_name < dynamic->string_bytes &&
            is_named((const char *)dynamic->strings + symbol->st_name) &&
            module->kept_count < KEPT_MOST)
            module->kept[module->kept_count++] = dynamic->bias + rela[i].r_offset;
    }
}

static bool is_refused(const struct module_ref *ref)
{
    const uintptr_t loader = getauxval(AT_BASE), kernel = getauxval(AT_SYSINFO_EHDR);
    const uintptr_t ours = (uintptr_t)&functions_start;
    return (loader && loader >= ref->start && loader < ref->end) ||
           (kernel >= ref->start && kernel < ref->end) || (ours >= ref->start && ours < ref->end) ||
           is_go(ref);
}

static struct patch_module *add_module(const struct module_ref *ref)
{
    struct patch_module *module = heap_take(sizeof *module);
    uintptr_t *kept = heap_take(KEPT_MOST * sizeof *kept);
    if (module_count == MODULES || !module || !kept)
        return NULL;
    module->ref = *ref;
    module->kept = kept;
    module->refused = is_refused(ref);
    struct dynamic dynamic;
    if (!module->refused && read_dynamic(ref, &dynamic))
        for (unsigned which = 0; which < 2; which++)
            collect_kept(module, &dynamic, which);
    return modules[module_count++] = module;
}

struct patch_module *functions_module(uintptr_t pc)
{
    struct module_ref ref;
    for (unsigned i = 0; i < module_count; i++)
        if (pc >= modules[i]->ref.start && pc < modules[i]->ref.end)
            return modules[i];
    return loadmap_peek(pc, &ref) ? add_module(&ref) : NULL;
}

bool functions_slot_must_stay(const struct patch_module *module, uintptr_t slot)
{
    for (unsigned i = 0; i < module->kept_count; i++)
        if (module->kept[i] == slot)
            return true;
    return false;
}

void modules_forget(uintptr_t start, uintptr_t end)
{
    for (unsigned i = 0; i < module_count;)
        if (modules[i]->ref.start < end && modules[i]->ref.end > start)
            modules[i] = modules[--module_count];
        else
            i++;
}

bool modules_loaded_later(uintptr_t range[2])
{
    for (unsigned i = 0; i < module_count; i++)
        if (!modules[i]->ref.permanent) {
            range[0] = modules[i]->ref.start;
            range[1] = modules[i]->ref.end;
            return true;
        }
    return false;
}
