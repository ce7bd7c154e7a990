// SPDX-License-Identifier: MIT
#include "symbol/files/object.h"
#include <elfutils/libdwelf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

// Mappings begin on pages, so the lowest loaded address does too, whatever the program header says.
enum { PAGE_BYTES = 4096 };

static void read_build_id(struct object *object)
{
    const void *id;
    ssize_t bytes = dwelf_elf_gnu_build_id(object->elf, &id);
    if (bytes <= 0)
        return;
    if (bytes > BUILD_ID_LIMIT)
        bytes = BUILD_ID_LIMIT;
    memcpy(object->build_id, id, (size_t)bytes);
    object->build_id_bytes = (unsigned)bytes;
}

static int read_extent(struct object *object)
{
    size_t count;
    if (elf_getphdrnum(object->elf, &count) != 0)
        return -ENOEXEC;
    uint64_t low = UINT64_MAX, high = 0;
    for (size_t i = 0; i < count && i < 65536; i++) {
        GElf_Phdr header;
        if (!gelf_getphdr(object->elf, (int)i, &header) || header.p_type != PT_LOAD)
            continue;
        if (header.p_vaddr < low)
            low = header.p_vaddr;
        if (header.p_vaddr + header.p_memsz > high)
            high = header.p_vaddr + header.p_memsz;
    }
    if (low >= high)
        return -ENOEXEC;
    object->base = low & ~(uint64_t)(PAGE_BYTES - 1);
    object->end = high;
    return 0;
}

static int examine(struct object *object)
{
    GElf_Ehdr header;
    if (!object->elf || elf_kind(object->elf) != ELF_K_ELF || !gelf_getehdr(object->elf, &header))
        return -ENOEXEC;
    if (header.e_type != ET_EXEC && header.e_type != ET_DYN)
        return -ENOEXEC;
    // A file that was cut off still has its program headers, but the table of its sections was at
    // its end.
    size_t sections = 0;
    if (header.e_shoff && (elf_getshdrnum(object->elf, &sections) != 0 || sections == 0))
        return -ENOEXEC;
    object->machine = header.e_machine;
    int error = read_extent(object);
    if (error)
        return error;
    read_build_id(object);
    return 0;
}

static int finish(struct object *object, const char *name)
{
    int error = examine(object);
    if (!error && !(object->path = strdup(name)))
        error = -ENOMEM;
    if (error)
        object_close(object);
    return error;
}

int object_open(struct object *object, const char *path)
{
    *object = (struct object){.fd = -1};
    elf_version(EV_CURRENT);
    // Not blocking: a path in a profile may name a pipe today.
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return -errno;
    struct stat status;
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
        close(fd);
        return -ENOEXEC;
    }
    object->fd = fd;
    object->elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
    return finish(object, path);
}

static int open_image(struct object *object, void *image, size_t bytes, const char *name)
{
    *object = (struct object){.fd = -1};
    elf_version(EV_CURRENT);
    object->elf = elf_memory(image, bytes);
    return finish(object, name);
}

void object_close(struct object *object)
{
    elf_end(object->elf);
    if (object->fd >= 0)
        close(object->fd);
    free(object->path);
    *object = (struct object){.fd = -1};
}

static Elf_Scn *find_section(const struct object *object, const char *name, GElf_Shdr *header)
{
    size_t names;
    if (!object->elf || elf_getshdrstrndx(object->elf, &names) != 0)
        return NULL;
    Elf_Scn *section = NULL;
    while ((section = elf_nextscn(object->elf, section))) {
        if (!gelf_getshdr(section, header))
            continue;
        const char *found = elf_strptr(object->elf, names, header->sh_name);
        if (found && strcmp(found, name) == 0)
            return section;
    }
    return NULL;
}

Elf_Scn *object_section(const struct object *object, const char *name, GElf_Shdr *header)
{
    Elf_Scn *section = find_section(object, name, header);
    return section && header->sh_type != SHT_NOBITS && header->sh_size > 0 ? section : NULL;
}

bool object_has_section(const struct object *object, const char *name)
{
    GElf_Shdr header;
    return object_section(object, name, &header) != NULL;
}

// The image's size is that of its mapping: its own headers are not to be trusted with that.
static size_t vdso_bytes(unsigned long start)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    if (!maps)
        return 0;
    char line[512];
    size_t bytes = 0;
    while (!bytes && fgets(line, sizeof line, maps)) {
        unsigned long from, to;
        if (sscanf(line, "%lx-%lx", &from, &to) == 2 && from == start && to > from)
            bytes = to - from;
    }
    fclose(maps);
    return bytes;
}

int object_open_vdso(struct object *object)
{
    *object = (struct object){.fd = -1};
    unsigned long start = getauxval(AT_SYSINFO_EHDR);
    size_t bytes = start ? vdso_bytes(start) : 0;
    if (!bytes)
        return -ENOENT;
    return open_image(object, (void *)start, bytes, "[vdso]");
}
