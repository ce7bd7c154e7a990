// SPDX-License-Identifier: MIT
#include "patch/stubs/stub_cfi.h"
#include "patch/stubs/bump_allocator.h"
#include <elf.h>
#include <string.h>

#define TABLE 64 // where .eh_frame begins in the head of a region
#define EXPRESSION_BYTES 16

static stub_cfi_asked asked;
static stub_cfi_searched *searched;

void stub_cfi_ask(stub_cfi_asked ask, stub_cfi_searched *search)
{
    asked = ask;
    searched = search;
}

void stub_cfi_search(uintptr_t pc, const uintptr_t *frame)
{
    if (searched)
        searched(pc, frame);
}

struct cfi_writer {
    unsigned char *bytes;
    size_t at;
};

static void put(struct cfi_writer *writer, const void *bytes, size_t count)
{
    memcpy(writer->bytes + writer->at, bytes, count);
    writer->at += count;
}

static void put_byte(struct cfi_writer *writer, unsigned byte)
{
    const unsigned char value = (unsigned char)byte;
    put(writer, &value, 1);
}

static void put_word(struct cfi_writer *writer, uint64_t value)
{
    const uint32_t word = (uint32_t)value;
    put(writer, &word, sizeof word);
}

// v = return address register; slot = v & -size; slot + [slot] - bias
static void put_expression(struct cfi_writer *writer, unsigned shift)
{
    const uint16_t mask = (uint16_t) - (1u << shift);
    const uint32_t bias = (uint32_t)DISTANCE_BIAS;
    put(writer, "\x80\x00\x0b", 3); // breg16 0, const2s
    put(writer, &mask, sizeof mask);
    put(writer, "\x1a\x12\x94\x04\x22\x0c", 6); // and, dup, deref_size 4, plus, const4u
    put(writer, &bias, sizeof bias);
    put_byte(writer, 0x1c); // minus
}

// Ends an entry that began at `start` with its length.
static void finish_entry(struct cfi_writer *writer, size_t start)
{
    while ((writer->at - start) % 8 != 4)
        put_byte(writer, 0); // no-op
    const uint32_t length = (uint32_t)(writer->at - start - 4);
    memcpy(writer->bytes + start, &length, sizeof length);
}

// One CIE and one FDE, as they are at the start of a region.
static void put_frame_section(struct cfi_writer *writer, const struct region *region)
{
    const uintptr_t address = region->start + TABLE;
    const size_t cie = writer->at;
    put_word(writer, 0);
    put_word(writer, 0);
    put_byte(writer, 1);
    put(writer, asked ? "zPR" : "zR", asked ? 4 : 3);
    put(writer, "\x01\x78\x10", 3); // factors 1, -8; register 16
    put_byte(writer, asked ? 2 + sizeof asked : 1);
    if (asked) {
        put_byte(writer, 0); // an address as it is
        put(writer, &asked, sizeof asked);
    }
    put_byte(writer, 0x1b);                 // pcrel, four bytes
    put(writer, "\x0c\x07\x01", 3);         // CFA = rsp + 1
    put(writer, "\x16\x07\x02\x31\x1c", 5); // rsp is CFA - 1
    put(writer, "\x16\x10", 2);             // r16, the return address, is
    put_byte(writer, EXPRESSION_BYTES);
    put_expression(writer, region->shift);
    finish_entry(writer, cie);
    const size_t fde = writer->at;
    put_word(writer, 0);
    put_word(writer, fde + 4 - cie);
    put_word(writer, region->start + REGION_HEAD - (address + writer->at - cie));
    put_word(writer, region->end - region->start - REGION_HEAD);
    put_byte(writer, 0);
    finish_entry(writer, fde);
    put_word(writer, 0);
}

void stub_cfi_make_table(const struct region *region, unsigned char head[REGION_HEAD])
{
    memset(head, 0, REGION_HEAD);
    struct cfi_writer writer = {head, TABLE};
    put_frame_section(&writer, region);
    uint32_t cie_bytes;
    memcpy(&cie_bytes, head + TABLE, sizeof cie_bytes);
    const size_t fde = TABLE + 4 + cie_bytes;
    // The index: one function.
    struct cfi_writer index = {head, 0};
    put(&index, "\x01\x1b\x03\x3b", 4);
    put_word(&index, TABLE - 4);
    put_word(&index, 1);
    put_word(&index, REGION_HEAD);
    put_word(&index, fde);
}

bool stub_cfi_find(uintptr_t pc, uintptr_t *start, uintptr_t *end, void **table)
{
    const struct region *region = region_at(pc);
    if (!region)
        return false;
    *start = region->start;
    *end = region->end;
    *table = (void *)region->start;
    return true;
}

int stub_cfi_iterate(int (*callback)(struct dl_phdr_info *, size_t, void *), void *context)
{
    const struct region *region;
    for (size_t i = 0; (region = region_number(i)); i++) {
        const size_t bytes = region->end - region->start;
        const Elf64_Phdr headers[2] = {
            {.p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_memsz = bytes, .p_filesz = bytes},
            {.p_type = PT_GNU_EH_FRAME, .p_flags = PF_R, .p_memsz = TABLE, .p_filesz = TABLE},
        };
        struct dl_phdr_info info = {
            .dlpi_addr = region->start,
            .dlpi_name = "[call stubs]",
            .dlpi_phdr = headers,
            .dlpi_phnum = 2,
        };
        int result = callback(&info, sizeof info, context);
        if (result)
            return result;
    }
    return 0;
}

// ---- the object files that debuggers read

// The interface that gdb and lldb define for compilers at run time; they look these names up.
struct jit_code_entry {
    struct jit_code_entry *next_entry, *prev_entry;
    const char *symfile_addr;
    uint64_t symfile_size;
};

struct jit_descriptor {
    uint32_t version, action_flag;
    struct jit_code_entry *relevant_entry, *first_entry;
};

struct jit_descriptor __jit_debug_descriptor = {.version = 1};

void __jit_debug_register_code(void);
__attribute__((noinline)) void __jit_debug_register_code(void)
{
    __asm__ volatile("" ::: "memory");
}

struct stub_object {
    struct jit_code_entry entry;
    Elf64_Ehdr head;
    Elf64_Shdr section[5];
    Elf64_Sym symbol[2];
    char names[64];
    unsigned char frames[192];
};

enum { SECTION_NONE, SECTION_TEXT, SECTION_FRAMES, SECTION_SYMBOLS, SECTION_NAMES, SECTIONS };

static const char object_names[] = "\0.text\0.eh_frame\0.symtab\0.strtab\0call_stub";
enum { NAME_TEXT = 1, NAME_FRAMES = 7, NAME_SYMBOLS = 17, NAME_NAMES = 25, NAME_STUB = 33 };

static void fill_sections(struct stub_object *object, const struct region *region,
                          size_t frame_bytes)
{
    const char *file = (const char *)&object->head;
    const uintptr_t text = region->start + REGION_HEAD;
    Elf64_Shdr *section = object->section;
    section[SECTION_TEXT] = (Elf64_Shdr){.sh_name = NAME_TEXT,
                                         .sh_type = SHT_NOBITS,
                                         .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
                                         .sh_addr = text,
                                         .sh_size = region->end - text,
                                         .sh_addralign = 16};
    section[SECTION_FRAMES] =
        (Elf64_Shdr){.sh_name = NAME_FRAMES,
                     .sh_type = SHT_PROGBITS,
                     .sh_flags = SHF_ALLOC,
                     .sh_addr = region->start + TABLE,
                     .sh_offset = (size_t)((const char *)object->frames - file),
                     .sh_size = frame_bytes,
                     .sh_addralign = 8};
    section[SECTION_SYMBOLS] =
        (Elf64_Shdr){.sh_name = NAME_SYMBOLS,
                     .sh_type = SHT_SYMTAB,
                     .sh_offset = (size_t)((const char *)object->symbol - file),
                     .sh_size = sizeof object->symbol,
                     .sh_link = SECTION_NAMES,
                     .sh_info = 1,
                     .sh_addralign = 8,
                     .sh_entsize = sizeof(Elf64_Sym)};
    section[SECTION_NAMES] = (Elf64_Shdr){.sh_name = NAME_NAMES,
                                          .sh_type = SHT_STRTAB,
                                          .sh_offset = (size_t)(object->names - file),
                                          .sh_size = sizeof object_names,
                                          .sh_addralign = 1};
    object->symbol[1] = (Elf64_Sym){.st_name = NAME_STUB,
                                    .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
                                    .st_shndx = SECTION_TEXT,
                                    .st_value = text,
                                    .st_size = region->end - text};
}

void stub_cfi_show_debugger(const struct region *region)
{
    struct stub_object *object = bump_take(sizeof *object);
    if (!object)
        return;
    struct cfi_writer writer = {object->frames, 0};
    put_frame_section(&writer, region);
    memcpy(object->names, object_names, sizeof object_names);
    fill_sections(object, region, writer.at);
    Elf64_Ehdr *head = &object->head;
    memcpy(head->e_ident, ELFMAG "\2\1\1", SELFMAG + 3);
    head->e_type = ET_EXEC;
    head->e_machine = EM_X86_64;
    head->e_version = EV_CURRENT;
    head->e_shoff = sizeof *head;
    head->e_ehsize = sizeof *head;
    head->e_shentsize = sizeof(Elf64_Shdr);
    head->e_shnum = SECTIONS;
    head->e_shstrndx = SECTION_NAMES;
    object->entry.symfile_addr = (const char *)head;
    object->entry.symfile_size = sizeof *object - offsetof(struct stub_object, head);
    object->entry.next_entry = __jit_debug_descriptor.first_entry;
    if (object->entry.next_entry)
        object->entry.next_entry->prev_entry = &object->entry;
    // A debugger may stop us at any instruction and read the list: whole entries only.
    __atomic_store_n(&__jit_debug_descriptor.first_entry, &object->entry, __ATOMIC_RELEASE);
    __jit_debug_descriptor.relevant_entry = &object->entry;
    __jit_debug_descriptor.action_flag = 1;
    __jit_debug_register_code();
}
