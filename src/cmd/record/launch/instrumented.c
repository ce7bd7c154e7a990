// SPDX-License-Identifier: MIT

#include "cmd/record/launch/instrumented.h"
#include "cmd/line/command.h"
#include "cmd/record/launch/libraries.h"
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <limits.h>
#include <linux/membarrier.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ENTRIES_SECTION "__patchable_function_entries" // -fpatchable-function-entry
#define ENTER_HOOK "__cyg_profile_func_enter"          // -finstrument-functions

// The result of a look at a file. NOT_ELF: a script, or not to be read.
enum hooks_finding { NOT_ELF, PLAIN, INSTRUMENTED };

static bool imports_hook(Elf *elf, Elf_Scn *section, const GElf_Shdr *head)
{
    Elf_Data *data = elf_getdata(section, NULL);
    if (!data || !head->sh_entsize)
        return false;
    for (size_t i = 0; i < head->sh_size / head->sh_entsize; i++) {
        GElf_Sym symbol;
        if (!gelf_getsym(data, (int)i, &symbol))
            return false;
        const char *name = elf_strptr(elf, head->sh_link, symbol.st_name);
        if (name && symbol.st_shndx == SHN_UNDEF && !strcmp(name, ENTER_HOOK))
            return true;
    }
    return false;
}

static bool has_hooks(Elf *elf)
{
    size_t names;
    if (elf_getshdrstrndx(elf, &names))
        return false;
    for (Elf_Scn *section = NULL; (section = elf_nextscn(elf, section));) {
        GElf_Shdr head;
        if (!gelf_getshdr(section, &head))
            continue;
        const char *name = elf_strptr(elf, names, head.sh_name);
        if (name && !strcmp(name, ENTRIES_SECTION) && head.sh_size)
            return true;
        if (head.sh_type == SHT_DYNSYM && imports_hook(elf, section, &head))
            return true;
    }
    return false;
}

// *loader: the loader that the program names, "" if none.
static void read_loader(Elf *elf, char *loader, size_t size)
{
    size_t count, bytes;
    const char *file = elf_rawfile(elf, &bytes);
    *loader = 0;
    if (!file || elf_getphdrnum(elf, &count))
        return;
    for (size_t i = 0; i < count; i++) {
        GElf_Phdr segment;
        if (gelf_getphdr(elf, (int)i, &segment) && segment.p_type == PT_INTERP &&
            segment.p_offset < bytes && segment.p_filesz <= bytes - segment.p_offset)
            snprintf(loader, size, "%.*s", (int)segment.p_filesz, file + segment.p_offset);
    }
}

static enum hooks_finding look_at(const char *path, char *loader, size_t size)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return NOT_ELF;
    enum hooks_finding finding = NOT_ELF;
    elf_version(EV_CURRENT);
    Elf *elf = elf_begin(file, ELF_C_READ, NULL);
    if (elf && elf_kind(elf) == ELF_K_ELF) {
        finding = has_hooks(elf) ? INSTRUMENTED : PLAIN;
        if (loader)
            read_loader(elf, loader, size);
    }
    elf_end(elf);
    close(file);
    return finding;
}

static bool note_instrumented(void *found, const char *library)
{
    *(bool *)found = look_at(library, NULL, 0) == INSTRUMENTED;
    return !*(bool *)found;
}

static bool libraries_are_instrumented(const char *loader, const char *path)
{
    bool found = false;
    each_library(loader, path, note_instrumented, &found);
    return found;
}

static enum hooks_finding look_at_program(const char *path)
{
    char loader[PATH_MAX] = "";
    const enum hooks_finding finding = look_at(path, loader, sizeof loader);
    return finding == PLAIN && *loader && libraries_are_instrumented(loader, path) ? INSTRUMENTED
                                                                                   : finding;
}

const char *why_sites_cannot_be_patched(void)
{
#ifndef __x86_64__
    return "it needs a processor of the x86-64 kind";
#else
    static const unsigned char code[16] = {0xc3};
    const long commands = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
    if (commands < 0 || !(commands & MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE))
        return "this kernel has no membarrier for code";
    void *page = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return "memory cannot be made executable here";
    const int memory = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
    const bool written =
        memory >= 0 && pwrite(memory, code, sizeof code, (off_t)(uintptr_t)page) == sizeof code;
    if (memory >= 0)
        close(memory);
    munmap(page, 4096);
    return written ? NULL : "/proc/self/mem is closed";
#endif
}

int choose_calls(const char *path, struct record_options *options)
{
    const enum hooks_finding finding = options->calls_by_given ? PLAIN : look_at_program(path);
    const bool needs_entries = options->trigger || options->burst_interval_ns;
    if (!options->calls_by_given && !needs_entries)
        options->calls_by = finding == INSTRUMENTED ? LIVE_BY_ENTRIES : LIVE_BY_LIBRARIES;
    // A script may run programs of any kind.
    if (needs_entries && finding == PLAIN) {
        complain("%s needs a program built for it, and neither %s nor a library of it is: build it "
                 "with CC='cairn cc gcc' (or g++, clang, ...)",
                 options->trigger ? "a stack sample at calls" : "--burst", path);
        return STATUS_MISUSE;
    }
    const char *why = options->calls_by == LIVE_BY_ENTRIES ? NULL : why_sites_cannot_be_patched();
    if (!why)
        return 0;
    complain("cannot follow the calls of %s by its call sites: %s; build it with CC='cairn cc gcc' "
             "(or g++, clang, ...), or sample it (-e cpu)",
             path, why);
    return STATUS_MISUSE;
}
