// SPDX-License-Identifier: MIT
#include "symbol/files/unpacking.h"
#include <endian.h>
#include <gelf.h>
#include <string.h>

// Debug information becomes 3 to 6 times as large.
enum { UNPACK_FREE = 64 << 20, UNPACK_RATIO = 32 };

// The old way to compress: known by the section's name; "ZLIB" and the size come first.
static bool old_size(Elf *elf, Elf_Scn *section, const GElf_Shdr *header, uint64_t *size)
{
    size_t names;
    const char *name =
        elf_getshdrstrndx(elf, &names) == 0 ? elf_strptr(elf, names, header->sh_name) : NULL;
    Elf_Data *data = name && strncmp(name, ".zdebug", 7) == 0 ? elf_rawdata(section, NULL) : NULL;
    if (!data || !data->d_buf || data->d_size < 12 || memcmp(data->d_buf, "ZLIB", 4) != 0)
        return false;
    uint64_t stated;
    memcpy(&stated, (const char *)data->d_buf + 4, sizeof stated);
    *size = be64toh(stated);
    return true;
}

void unpacking_add(struct unpacking *sum, Elf *elf)
{
    Elf_Scn *section = NULL;
    size_t file_bytes = 0;
    uint64_t stored = 0;
    elf_rawfile(elf, &file_bytes);
    while ((section = elf_nextscn(elf, section))) {
        GElf_Shdr header;
        GElf_Chdr compressed;
        uint64_t size;
        if (!gelf_getshdr(section, &header) || header.sh_type == SHT_NOBITS)
            continue;
        if (header.sh_flags & SHF_COMPRESSED) {
            if (!gelf_getchdr(section, &compressed))
                continue;
            size = compressed.ch_size;
        } else if (!old_size(elf, section, &header, &size)) {
            continue;
        }
        stored += header.sh_size;
        sum->unpacked = size > UINT64_MAX - sum->unpacked ? UINT64_MAX : sum->unpacked + size;
    }
    sum->stored += stored < file_bytes ? stored : file_bytes; // sections may overlap
}

bool unpacking_is_modest(const struct unpacking *sum)
{
    return sum->unpacked <= UNPACK_FREE ||
           (sum->unpacked - UNPACK_FREE) / UNPACK_RATIO <= sum->stored;
}
