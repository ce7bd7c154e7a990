// SPDX-License-Identifier: MIT
#include "symbol/files/related.h"
#include "base/memory.h"
#include "symbol/files/debug_file.h"
#include <dwarf.h>
#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct related_file {
    dev_t device;
    ino_t inode;
};

void related_open(struct related *related, const struct object *object)
{
    *related = (struct related){.object = object, .common_fd = -1};
    unpacking_add(&related->unpacking, object->elf);
}

void related_close(struct related *related)
{
    dwarf_end(related->common);
    elf_end(related->common_elf);
    dwarf_end(related->nothing);
    elf_end(related->nothing_elf);
    if (related->common_fd >= 0)
        close(related->common_fd);
    free(related->seen);
    *related = (struct related){.common_fd = -1};
}

// -1 if it is not there; -2 if it is no regular file.
enum { ABSENT = -1, IRREGULAR = -2 };

static int open_regular(const char *path, struct stat *status)
{
    // Not blocking: the path may name a pipe.
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return ABSENT;
    if (fstat(fd, status) == 0 && S_ISREG(status->st_mode))
        return fd;
    close(fd);
    return IRREGULAR;
}

// `file` as seen from the folder of the object, in `folder` if one is given. False if too long.
static bool resolve_path(const struct related *related, const char *folder, const char *file,
                         char path[PATH_MAX])
{
    int length;
    if (file[0] == '/') {
        length = snprintf(path, PATH_MAX, "%s", file);
    } else if (folder && folder[0] == '/') {
        length = snprintf(path, PATH_MAX, "%s/%s", folder, file);
    } else {
        char *real = realpath(related->object->path, NULL);
        if (!real)
            return false;
        length = snprintf(path, PATH_MAX, "%s/%s%s%s", dirname(real), folder ? folder : "",
                          folder ? "/" : "", file);
        free(real);
    }
    return length < PATH_MAX;
}

static bool try_common(struct related *related, const char *path, const void *id, size_t bytes)
{
    struct stat status;
    int fd = open_regular(path, &status);
    if (fd < 0)
        return false;
    Elf *elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
    const void *found = NULL;
    struct unpacking sum = related->unpacking;
    if (elf && elf_kind(elf) == ELF_K_ELF &&
        dwelf_elf_gnu_build_id(elf, &found) == (ssize_t)bytes && memcmp(found, id, bytes) == 0) {
        unpacking_add(&sum, elf);
        if (unpacking_is_modest(&sum))
            related->common = dwarf_begin_elf(elf, DWARF_C_READ, NULL);
    }
    if (!related->common) {
        elf_end(elf);
        close(fd);
        return false;
    }
    related->unpacking = sum;
    related->common_elf = elf;
    related->common_fd = fd;
    return true;
}

// Debug information without any unit. libdw looks for a common file until it is given one.
static Dwarf *empty_dwarf(Elf **elf)
{
    static const struct {
        Elf64_Ehdr head;
        Elf64_Shdr sections[3];
        char names[24];
        char content[8];
    } image = {
        .head = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
                             EV_CURRENT},
                 .e_type = ET_DYN,
                 .e_machine = EM_X86_64,
                 .e_version = EV_CURRENT,
                 .e_ehsize = sizeof(Elf64_Ehdr),
                 .e_shoff = sizeof(Elf64_Ehdr),
                 .e_shentsize = sizeof(Elf64_Shdr),
                 .e_shnum = 3,
                 .e_shstrndx = 2},
        .sections = {{0},
                     {.sh_name = 1,
                      .sh_type = SHT_PROGBITS,
                      .sh_offset = sizeof(Elf64_Ehdr) + 3 * sizeof(Elf64_Shdr) + 24,
                      .sh_size = 8,
                      .sh_addralign = 1},
                     {.sh_name = 13,
                      .sh_type = SHT_STRTAB,
                      .sh_offset = sizeof(Elf64_Ehdr) + 3 * sizeof(Elf64_Shdr),
                      .sh_size = 24,
                      .sh_addralign = 1}},
        .names = "\0.debug_info\0.shstrtab",
    };
    *elf = elf_memory((char *)&image, sizeof image);
    return *elf ? dwarf_begin_elf(*elf, DWARF_C_READ, NULL) : NULL;
}

void related_seal(struct related *related, Dwarf *dwarf)
{
    if (!related->nothing)
        related->nothing = empty_dwarf(&related->nothing_elf);
    dwarf_setalt(dwarf, related->nothing);
}

bool related_link_common(struct related *related, Dwarf *dwarf)
{
    const char *name;
    const void *id;
    char path[PATH_MAX], hex[2 * BUILD_ID_LIMIT + 1];
    ssize_t bytes = dwelf_dwarf_gnu_debugaltlink(dwarf, &name, &id);
    if (bytes <= 0)
        return true;
    bool found = related->common != NULL;
    if (!found && bytes > 2 && bytes <= BUILD_ID_LIMIT) {
        debugfile_hex(id, (unsigned)bytes, hex);
        snprintf(path, sizeof path, "/usr/lib/debug/.build-id/%.2s/%s.debug", hex, hex + 2);
        found = try_common(related, path, id, (size_t)bytes) ||
                (resolve_path(related, NULL, name, path) &&
                 try_common(related, path, id, (size_t)bytes));
    }
    if (found) {
        related_seal(related, related->common);
        dwarf_setalt(dwarf, related->common);
    } else {
        related_seal(related, dwarf);
    }
    return found;
}

// A file that many units name takes its room for each of them.
static bool is_new(struct related *related, const struct stat *status)
{
    for (size_t i = 0; i < related->seen_count; i++)
        if (related->seen[i].inode == status->st_ino && related->seen[i].device == status->st_dev)
            return false;
    related->seen = memory_grown(related->seen, &related->seen_capacity, related->seen_count + 1,
                                 sizeof *related->seen);
    related->seen[related->seen_count++] = (struct related_file){status->st_dev, status->st_ino};
    return true;
}

static bool allows(struct related *related, const char *path)
{
    struct stat status;
    int fd = open_regular(path, &status);
    if (fd < 0)
        return fd == ABSENT;
    Elf *elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
    struct unpacking one = {0};
    if (elf && elf_kind(elf) == ELF_K_ELF)
        unpacking_add(&one, elf);
    elf_end(elf);
    close(fd);
    struct unpacking sum = related->unpacking;
    if (is_new(related, &status))
        sum.stored += one.stored;
    sum.unpacked =
        one.unpacked > UINT64_MAX - sum.unpacked ? UINT64_MAX : sum.unpacked + one.unpacked;
    if (!unpacking_is_modest(&sum))
        return false;
    related->unpacking = sum;
    return true;
}

static const char *text_of(Dwarf_Die *die, unsigned name)
{
    Dwarf_Attribute attribute;
    return dwarf_attr(die, name, &attribute) ? dwarf_formstring(&attribute) : NULL;
}

bool related_allows_split(struct related *related, Dwarf_Die *skeleton)
{
    char path[PATH_MAX];
    const char *file = text_of(skeleton, DW_AT_dwo_name);
    if (!file)
        file = text_of(skeleton, DW_AT_GNU_dwo_name);
    const char *folder = text_of(skeleton, DW_AT_comp_dir);
    // As libdw has it: beside the program, in the folder of the compilation, in one package.
    if (file && resolve_path(related, NULL, file, path) && !allows(related, path))
        return false;
    if (file && file[0] != '/' && folder && resolve_path(related, folder, file, path) &&
        !allows(related, path))
        return false;
    if (!related->package_seen) {
        related->package_seen = true;
        int length = snprintf(path, sizeof path, "%s.dwp", related->object->path);
        related->package_allowed = length >= (int)sizeof path || allows(related, path);
    }
    return related->package_allowed;
}
