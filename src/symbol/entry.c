// SPDX-License-Identifier: MIT
#include "symbol/entry.h"
#include <endian.h>
#include <string.h>

enum { ENTRY_BYTES = 64 }; // of `_start` that are looked at, at most

static const unsigned char *code_at(const struct object *object, uint64_t address, size_t *bytes)
{
    Elf_Scn *section = NULL;
    while ((section = elf_nextscn(object->elf, section))) {
        GElf_Shdr header;
        if (!gelf_getshdr(section, &header) || !(header.sh_flags & SHF_EXECINSTR) ||
            address < header.sh_addr || address - header.sh_addr >= header.sh_size)
            continue;
        const Elf_Data *data = elf_getdata(section, NULL);
        const uint64_t at = address - header.sh_addr;
        if (!data || !data->d_buf || at >= data->d_size)
            return NULL;
        *bytes = data->d_size - at < ENTRY_BYTES ? data->d_size - at : ENTRY_BYTES;
        return (const unsigned char *)data->d_buf + at;
    }
    return NULL;
}

// On x86-64, libc's `_start` clears rbp, takes argc off the stack, and puts the address of main
// into rdi: lea main(%rip), %rdi, or mov $main, %rdi.
static bool find_main(const unsigned char *code, size_t bytes, uint64_t address, uint64_t *main)
{
    static const unsigned char endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};
    static const unsigned char begin[] = {0x31, 0xed, 0x49, 0x89, 0xd1, 0x5e, 0x48, 0x89,
                                          0xe2, 0x48, 0x83, 0xe4, 0xf0, 0x50, 0x54};
    static const unsigned char lea[] = {0x48, 0x8d, 0x3d}, mov[] = {0x48, 0xc7, 0xc7};
    size_t at =
        bytes >= sizeof endbr64 && !memcmp(code, endbr64, sizeof endbr64) ? sizeof endbr64 : 0;
    if (bytes - at < sizeof begin || memcmp(code + at, begin, sizeof begin) != 0)
        return false;
    for (at += sizeof begin; at + 7 <= bytes; at++) {
        const bool relative = !memcmp(code + at, lea, sizeof lea);
        uint32_t operand;
        if (!relative && memcmp(code + at, mov, sizeof mov) != 0)
            continue;
        memcpy(&operand, code + at + 3, sizeof operand);
        *main = (uint64_t)(int64_t)(int32_t)le32toh(operand) + (relative ? address + at + 7 : 0);
        return true;
    }
    return false;
}

// The function that begins there, if unwind tables know one and no symbol names it.
static bool find_unnamed(const struct symtab *table, const struct object *object,
                         const struct bounds *bounds, uint64_t address,
                         struct bounds_function *function)
{
    const uint64_t offset = address - object->base;
    if (address < object->base || !bounds_find(bounds, offset, function) ||
        function->start != offset)
        return false;
    const struct symtab_symbol *symbol = symtab_find(table, offset);
    return !symbol || (symbol->open_ended && symbol->start < offset);
}

unsigned entry_add(struct symtab *table, const struct object *object, const struct bounds *bounds)
{
    GElf_Ehdr header;
    size_t bytes;
    uint64_t main;
    if (object->machine != EM_X86_64 || !gelf_getehdr(object->elf, &header) || !header.e_entry)
        return 0;
    const unsigned char *code = code_at(object, header.e_entry, &bytes);
    if (!code || !find_main(code, bytes, header.e_entry, &main) || main == header.e_entry)
        return 0;
    // Nothing can be found in the table between an addition and the next time it is sorted.
    struct bounds_function entered, called;
    const bool adds_start = find_unnamed(table, object, bounds, header.e_entry, &entered);
    const bool adds_main = find_unnamed(table, object, bounds, main, &called);
    if (adds_start)
        symtab_add(table, "_start", entered.start, entered.end);
    if (adds_main)
        symtab_add(table, "main", called.start, called.end);
    return adds_start + adds_main;
}
