// SPDX-License-Identifier: MIT
#include "symbol/plt.h"
#include "base/memory.h"
#include <endian.h>
#include <stdlib.h>
#include <string.h>

enum { STUB_BYTES = 16 };

// A slot of the global offset table, and the symbol whose address the loader puts there.
struct slot {
    uint64_t address;
    const char *name;
};

struct slots {
    struct slot *list; // in the order of .rela.plt first, as lazy stubs number them
    struct slot *sorted;
    size_t count, capacity, lazy_count;
};

static void add_relocations(struct slots *slots, const struct object *object, const char *section)
{
    GElf_Shdr header, symbols_header;
    Elf_Scn *found = object_section(object, section, &header);
    Elf_Data *data = found ? elf_getdata(found, NULL) : NULL;
    Elf_Scn *symbols_section = data ? elf_getscn(object->elf, header.sh_link) : NULL;
    Elf_Data *symbols = symbols_section ? elf_getdata(symbols_section, NULL) : NULL;
    if (!symbols || header.sh_type != SHT_RELA || !gelf_getshdr(symbols_section, &symbols_header) ||
        (symbols_header.sh_type != SHT_DYNSYM && symbols_header.sh_type != SHT_SYMTAB))
        return;
    size_t one = gelf_fsize(object->elf, ELF_T_RELA, 1, EV_CURRENT);
    for (size_t i = 0; one && i < data->d_size / one && i <= INT32_MAX; i++) {
        GElf_Rela relocation;
        GElf_Sym symbol;
        if (!gelf_getrela(data, (int)i, &relocation))
            return;
        const char *name = NULL;
        size_t index = GELF_R_SYM(relocation.r_info);
        if (index > 0 && index <= INT32_MAX && gelf_getsym(symbols, (int)index, &symbol))
            name = elf_strptr(object->elf, symbols_header.sh_link, symbol.st_name);
        slots->list =
            memory_grown(slots->list, &slots->capacity, slots->count + 1, sizeof *slots->list);
        slots->list[slots->count++] = (struct slot){relocation.r_offset, name};
    }
}

static int by_address(const void *left, const void *right)
{
    const struct slot *a = left, *b = right;
    return (a->address > b->address) - (a->address < b->address);
}

static const char *name_of_slot(const struct slots *slots, uint64_t address)
{
    struct slot key = {.address = address};
    const struct slot *found =
        bsearch(&key, slots->sorted, slots->count, sizeof *slots->sorted, by_address);
    return found ? found->name : NULL;
}

static int32_t read_int32(const unsigned char *bytes)
{
    uint32_t value;
    memcpy(&value, bytes, sizeof value);
    return (int32_t)le32toh(value);
}

// x86-64 stubs: [endbr64] [bnd] jmp *slot(%rip), or, in a table made for lazy binding with endbr64,
// [endbr64] push $index; [bnd] jmp to the first stub.
static const char *name_of_stub(const struct slots *slots, const unsigned char *code, size_t bytes,
                                uint64_t address)
{
    static const unsigned char endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};
    size_t at = bytes >= 4 && memcmp(code, endbr64, 4) == 0 ? 4 : 0;
    if (at < bytes && code[at] == 0xf2)
        at++;
    if (at + 6 <= bytes && code[at] == 0xff && code[at + 1] == 0x25)
        return name_of_slot(slots, address + at + 6 + (uint64_t)(int64_t)read_int32(code + at + 2));
    if (at + 5 <= bytes && code[at] == 0x68) {
        uint32_t index = (uint32_t)read_int32(code + at + 1);
        return index < slots->lazy_count ? slots->list[index].name : NULL;
    }
    return NULL;
}

static void add_stubs(struct symtab *table, const struct object *object, const struct slots *slots,
                      const char *section, struct text_pool *pool)
{
    GElf_Shdr header;
    Elf_Scn *found = object_section(object, section, &header);
    Elf_Data *data = found ? elf_getdata(found, NULL) : NULL;
    if (!data || !data->d_buf || header.sh_addr < object->base)
        return;
    size_t step =
        header.sh_entsize == 8 ? 8 : STUB_BYTES; // .plt.got without endbr64 has short stubs
    for (size_t at = 0; at < data->d_size; at += step) {
        size_t bytes = data->d_size - at < step ? data->d_size - at : step;
        uint64_t address = header.sh_addr + at;
        const char *name =
            name_of_stub(slots, (const unsigned char *)data->d_buf + at, bytes, address);
        name = name && *name ? pool_format(pool, "%s@plt", name) : "[plt]";
        symtab_add(table, name, address - object->base, address - object->base + bytes);
    }
}

void plt_add(struct symtab *table, const struct object *object, struct text_pool *pool)
{
    if (object->machine != EM_X86_64)
        return;
    struct slots slots = {0};
    add_relocations(&slots, object, ".rela.plt");
    slots.lazy_count = slots.count;
    add_relocations(&slots, object, ".rela.dyn");
    slots.sorted = memory_array(slots.count, sizeof *slots.sorted);
    if (slots.count) {
        memcpy(slots.sorted, slots.list, slots.count * sizeof *slots.sorted);
        qsort(slots.sorted, slots.count, sizeof *slots.sorted, by_address);
        static const char *const sections[] = {".plt", ".plt.got", ".plt.sec", ".plt.bnd"};
        for (size_t i = 0; i < sizeof sections / sizeof *sections; i++)
            add_stubs(table, object, &slots, sections[i], pool);
    }
    free(slots.list);
    free(slots.sorted);
}
