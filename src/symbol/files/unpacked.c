// SPDX-License-Identifier: MIT
#include "symbol/files/unpacked.h"
#include "base/memory.h"
#include <libdeflate.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <zstd.h>

#ifndef ELFCOMPRESS_ZSTD
#define ELFCOMPRESS_ZSTD 2
#endif

// The sections that functions, inlined functions and lines are read from.
static const char *const wanted[] = {
    ".debug_info",     ".debug_types",       ".debug_abbrev",     ".debug_line",
    ".debug_line_str", ".debug_str",         ".debug_ranges",     ".debug_rnglists",
    ".debug_addr",     ".debug_str_offsets", ".gnu_debugaltlink",
};

enum {
    WANTED = sizeof wanted / sizeof *wanted,
    SECTIONS = WANTED + 2,
    ALIGNMENT = 16,
    WORTH_A_THREAD = 16 << 20, // bytes to unpack
};

struct section {
    const char *name;
    const char *data;
    size_t stored, size;
    unsigned compression; // 0: none
    size_t at;            // in the image
    size_t name_at;
};

struct layout {
    struct section sections[WANTED];
    size_t count;
    bool compressed;
    size_t names_at, names_bytes, bytes;
};

static const char *wanted_name(Elf *elf, size_t names, const GElf_Shdr *header)
{
    const char *name = elf_strptr(elf, names, header->sh_name);
    for (size_t i = 0; name && i < WANTED; i++)
        if (strcmp(name, wanted[i]) == 0)
            return wanted[i];
    return NULL;
}

static bool describe(struct section *section, Elf_Scn *handle, const GElf_Shdr *header)
{
    Elf_Data *data = elf_rawdata(handle, NULL);
    if (!data || !data->d_buf)
        return false;
    section->data = data->d_buf;
    section->stored = section->size = data->d_size;
    if (!(header->sh_flags & SHF_COMPRESSED))
        return true;
    GElf_Chdr compressed;
    if (data->d_size < sizeof(Elf64_Chdr) || !gelf_getchdr(handle, &compressed))
        return false;
    section->compression = compressed.ch_type;
    section->data += sizeof(Elf64_Chdr);
    section->stored -= sizeof(Elf64_Chdr);
    section->size = compressed.ch_size;
    return true;
}

static bool find_sections(struct layout *layout, Elf *elf)
{
    size_t names;
    if (elf_getshdrstrndx(elf, &names) != 0)
        return false;
    Elf_Scn *handle = NULL;
    while ((handle = elf_nextscn(elf, handle)) && layout->count < WANTED) {
        GElf_Shdr header;
        if (!gelf_getshdr(handle, &header) || header.sh_type == SHT_NOBITS || !header.sh_size)
            continue;
        struct section section = {.name = wanted_name(elf, names, &header)};
        if (!section.name)
            continue;
        if (!describe(&section, handle, &header))
            return false;
        layout->compressed |= section.compression != 0;
        layout->sections[layout->count++] = section;
    }
    return true;
}

static int by_size(const void *left, const void *right)
{
    const struct section *a = left, *b = right;
    return (a->stored < b->stored) - (a->stored > b->stored);
}

// The largest first: it takes longer than all others together.
static void place(struct layout *layout)
{
    qsort(layout->sections, layout->count, sizeof *layout->sections, by_size);
    layout->names_at = sizeof(Elf64_Ehdr) + SECTIONS * sizeof(Elf64_Shdr);
    layout->names_bytes = 1;
    for (size_t i = 0; i < layout->count; i++) {
        layout->sections[i].name_at = layout->names_bytes;
        layout->names_bytes += strlen(layout->sections[i].name) + 1;
    }
    layout->bytes = layout->names_at + layout->names_bytes;
    for (size_t i = 0; i < layout->count; i++) {
        layout->bytes = (layout->bytes + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
        layout->sections[i].at = layout->bytes;
        layout->bytes += layout->sections[i].size;
    }
}

static bool unpack(const struct section *section, struct libdeflate_decompressor *inflater,
                   char *to)
{
    switch (section->compression) {
    case 0:
        memcpy(to, section->data, section->size);
        return true;
    case ELFCOMPRESS_ZLIB:
        // Given no place for the size, it takes another one for an error.
        return libdeflate_zlib_decompress(inflater, section->data, section->stored, to,
                                          section->size, NULL) == LIBDEFLATE_SUCCESS;
    case ELFCOMPRESS_ZSTD:
        return ZSTD_decompress(to, section->size, section->data, section->stored) == section->size;
    default:
        return false;
    }
}

static void write_headers(const struct layout *layout, const Elf64_Ehdr *original, char *image)
{
    Elf64_Ehdr *head = (Elf64_Ehdr *)image;
    Elf64_Shdr *headers = (Elf64_Shdr *)(head + 1);
    memcpy(head->e_ident, original->e_ident, EI_NIDENT);
    head->e_type = original->e_type;
    head->e_machine = original->e_machine;
    head->e_version = EV_CURRENT;
    head->e_ehsize = sizeof *head;
    head->e_shoff = sizeof *head;
    head->e_shentsize = sizeof *headers;
    head->e_shnum = (uint16_t)(layout->count + 2);
    head->e_shstrndx = 1;
    headers[1] = (Elf64_Shdr){.sh_type = SHT_STRTAB,
                              .sh_offset = layout->names_at,
                              .sh_size = layout->names_bytes,
                              .sh_addralign = 1};
    for (size_t i = 0; i < layout->count; i++) {
        const struct section *section = &layout->sections[i];
        headers[i + 2] = (Elf64_Shdr){.sh_name = (Elf64_Word)section->name_at,
                                      .sh_type = SHT_PROGBITS,
                                      .sh_offset = section->at,
                                      .sh_size = section->size,
                                      .sh_addralign = 1};
        strcpy(image + layout->names_at + section->name_at, section->name);
    }
}

// Shared by two threads. Relaxed: pthread_join() orders the rest.
struct unpacking_work {
    const struct layout *layout;
    char *image;
    _Atomic size_t next; // section that nobody has begun
    _Atomic bool failed;
};

static void *unpack_sections(void *argument)
{
    struct unpacking_work *work = argument;
    const struct layout *layout = work->layout;
    struct libdeflate_decompressor *inflater = libdeflate_alloc_decompressor();
    bool fine = inflater != NULL;
    size_t i;
    while (fine &&
           (i = atomic_fetch_add_explicit(&work->next, 1, memory_order_relaxed)) < layout->count)
        fine = unpack(&layout->sections[i], inflater, work->image + layout->sections[i].at);
    if (!fine)
        atomic_store_explicit(&work->failed, true, memory_order_relaxed);
    libdeflate_free_decompressor(inflater);
    return NULL;
}

static bool unpack_all(const struct layout *layout, char *image)
{
    struct unpacking_work work = {.layout = layout, .image = image};
    pthread_t helper;
    const bool helped = layout->bytes >= WORTH_A_THREAD &&
                        pthread_create(&helper, NULL, unpack_sections, &work) == 0;
    unpack_sections(&work);
    if (helped)
        pthread_join(helper, NULL);
    return !work.failed;
}

enum unpacked_result unpacked_open(struct unpacked *unpacked, Elf *elf)
{
    *unpacked = (struct unpacked){0};
    const Elf64_Ehdr *original = elf64_getehdr(elf);
    if (!original || original->e_ident[EI_DATA] != ELFDATA2LSB)
        return UNPACKED_NOT_NEEDED;
    struct layout layout = {0};
    if (!find_sections(&layout, elf))
        return UNPACKED_DAMAGED;
    if (!layout.compressed)
        return UNPACKED_NOT_NEEDED;
    place(&layout);
    char *image =
        mmap(NULL, layout.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (image == MAP_FAILED)
        return UNPACKED_DAMAGED;
    memory_expect_use(image, layout.bytes);
    unpacked->image = image;
    unpacked->bytes = layout.bytes;
    write_headers(&layout, original, image);
    if (unpack_all(&layout, image))
        unpacked->elf = elf_memory(image, layout.bytes);
    if (unpacked->elf)
        return UNPACKED;
    unpacked_close(unpacked);
    return UNPACKED_DAMAGED;
}

void unpacked_close(struct unpacked *unpacked)
{
    elf_end(unpacked->elf);
    if (unpacked->image)
        munmap(unpacked->image, unpacked->bytes);
    *unpacked = (struct unpacked){0};
}
