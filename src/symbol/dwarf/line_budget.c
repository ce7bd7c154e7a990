// SPDX-License-Identifier: MIT
#include "symbol/dwarf/line_budget.h"
#include <dwarf.h>
#include <gelf.h>
#include <string.h>

enum { FREE = 4 << 20 };

static bool is_line_section(const char *name)
{
    static const char *const names[] = {".debug_line", ".debug_line.dwo", ".zdebug_line",
                                        ".zdebug_line.dwo"};
    for (size_t i = 0; name && i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

struct line_budget line_budget_make(uint64_t file_bytes)
{
    return (struct line_budget){.left = FREE + file_bytes};
}

static void find_section(struct line_budget *budget, Dwarf *dwarf)
{
    *budget = (struct line_budget){.left = budget->left, .dwarf = dwarf};
    Elf *elf = dwarf_getelf(dwarf);
    Elf_Scn *section = NULL;
    size_t names;
    if (!elf || elf_getshdrstrndx(elf, &names) != 0)
        return;
    while ((section = elf_nextscn(elf, section))) {
        GElf_Shdr header;
        if (!gelf_getshdr(section, &header) ||
            !is_line_section(elf_strptr(elf, names, header.sh_name)))
            continue;
        Elf_Data *data = elf_getdata(section, NULL); // libdw has unpacked it
        if (data && data->d_buf)
            *budget = (struct line_budget){budget->left, dwarf, data->d_buf, data->d_size};
    }
}

// With its header. All the rest of the section, if that is damaged.
static uint64_t program_bytes(const struct line_budget *budget, uint64_t offset)
{
    enum { SHORT = 4, LONG = 12 };
    const uint64_t rest = budget->bytes - offset;
    const uint8_t *head = budget->section + offset;
    uint32_t length;
    uint64_t bytes;
    if (rest < LONG)
        return rest;
    memcpy(&length, head, sizeof length);
    bytes = length;
    if (length == UINT32_MAX)
        memcpy(&bytes, head + SHORT, sizeof bytes);
    return bytes < rest ? bytes : rest;
}

bool line_budget_allows(struct line_budget *budget, Dwarf_Die *unit)
{
    Dwarf_Attribute attribute;
    Dwarf_Word offset = 0; // as in split units, which do not say it
    dwarf_formudata(dwarf_attr(unit, DW_AT_stmt_list, &attribute), &offset);
    Dwarf *dwarf = dwarf_cu_getdwarf(unit->cu);
    if (dwarf != budget->dwarf)
        find_section(budget, dwarf);
    if (offset >= budget->bytes)
        return true; // there are none
    const uint64_t bytes = program_bytes(budget, offset);
    if (bytes > budget->left)
        return false;
    budget->left -= bytes;
    return true;
}
