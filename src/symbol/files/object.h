// SPDX-License-Identifier: MIT
#ifndef CAIRN_SYMBOL_FILES_OBJECT_H
#define CAIRN_SYMBOL_FILES_OBJECT_H

// An ELF file that was opened to be asked about: the program itself, or the debug file that goes
// with it.

#include <gelf.h>
#include <libelf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BUILD_ID_LIMIT = 32 };

struct object {
    Elf *elf; // NULL: not open
    int fd;   // -1: an image in memory
    char *path;
    uint64_t base; // the lowest loaded address, to which offsets of places are relative
    uint64_t end;  // the end of the highest loaded address
    unsigned machine;
    uint8_t build_id[BUILD_ID_LIMIT];
    unsigned build_id_bytes;
};

// 0; -errno if the file cannot be read; -ENOEXEC if it is no ELF file or is damaged.
int object_open(struct object *object, const char *path);
void object_close(struct object *object);

// The section of that name, with its header; NULL if there is none or it has no content.
Elf_Scn *object_section(const struct object *object, const char *name, GElf_Shdr *header);
bool object_has_section(const struct object *object, const char *name);

// The kernel's vDSO as it is mapped in this very process.
int object_open_vdso(struct object *object);

#endif
