// SPDX-License-Identifier: MIT
#include "inject/symbols.h"
#include <fcntl.h>
#include <gelf.h>
#include <string.h>
#include <unistd.h>

static void look_through(Elf *elf, Elf_Scn *section, const char *const *names, uint64_t *found,
                         unsigned count)
{
    GElf_Shdr header;
    Elf_Data *data = elf_getdata(section, NULL);
    if (!gelf_getshdr(section, &header) || header.sh_type != SHT_DYNSYM || !data ||
        !header.sh_entsize)
        return;
    for (size_t i = 0; i < header.sh_size / header.sh_entsize; i++) {
        GElf_Sym symbol;
        const char *name = gelf_getsym(data, (int)i, &symbol)
                               ? elf_strptr(elf, header.sh_link, symbol.st_name)
                               : NULL;
        for (unsigned n = 0; name && n < count; n++)
            if (symbol.st_shndx != SHN_UNDEF && !strcmp(name, names[n]))
                found[n] = symbol.st_value;
    }
}

bool symbols_find(const char *path, const char *const *names, uint64_t *found, unsigned count)
{
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return false;
    elf_version(EV_CURRENT);
    Elf *elf = elf_begin(file, ELF_C_READ_MMAP, NULL);
    for (Elf_Scn *section = NULL; elf && (section = elf_nextscn(elf, section));)
        look_through(elf, section, names, found, count);
    elf_end(elf);
    close(file);
    return elf != NULL;
}
