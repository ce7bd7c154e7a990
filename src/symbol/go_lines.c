// SPDX-License-Identifier: MIT
#include "symbol/go_lines.h"
#include "base/gotable.h"
#include "base/memory.h"
#include "base/place.h"
#include "symbol/names/names.h"
#include <string.h>

#define WORD 8
#define DEEPEST 64         // inlined calls within each other
#define CANDIDATES_MOST 64 // words that are looked at as the begin of the record

// The runtime's record of a module: words behind the table's address.
enum { RECORD_TEXT = 22, RECORD_INLINED_1_18 = 38, RECORD_INLINED_1_20 = 40 };

struct golines {
    const struct object *object;
    struct text_pool *pool;
    struct gotable table;
    // Where the inlined calls of all functions are, from the begin to the end of their section;
    // NULL if it could not be found out.
    const unsigned char *inlined;
    size_t inlined_bytes;
};

static Elf_Data *content(Elf_Scn *section)
{
    Elf_Data *data = elf_rawdata(section, NULL);
    return data && data->d_buf ? data : NULL;
}

// The content from an address to the end of its section; NULL if no section has it in the file.
static const unsigned char *bytes_at(const struct object *object, uint64_t address, size_t *bytes)
{
    Elf_Scn *section = NULL;
    while ((section = elf_nextscn(object->elf, section))) {
        GElf_Shdr header;
        if (!gelf_getshdr(section, &header) || header.sh_type != SHT_PROGBITS ||
            !(header.sh_flags & SHF_ALLOC) || header.sh_flags & SHF_COMPRESSED ||
            address < header.sh_addr || address - header.sh_addr >= header.sh_size)
            continue;
        Elf_Data *data = content(section);
        if (!data || address - header.sh_addr >= data->d_size)
            return NULL;
        *bytes = data->d_size - (address - header.sh_addr);
        return (const unsigned char *)data->d_buf + (address - header.sh_addr);
    }
    return NULL;
}

// A word that the loader will store, and its place.
struct relocated {
    uint64_t address, value;
};

// By address, or by value if that is not 0.
static bool find_relocated(const struct object *object, uint64_t address, uint64_t value,
                           struct relocated *found)
{
    GElf_Shdr header;
    Elf_Scn *section = object_section(object, ".rela.dyn", &header);
    Elf_Data *data = section ? elf_getdata(section, NULL) : NULL;
    size_t one = gelf_fsize(object->elf, ELF_T_RELA, 1, EV_CURRENT);
    if (!data || header.sh_type != SHT_RELA || !one)
        return false;
    for (size_t i = 0; i < data->d_size / one && i <= INT32_MAX; i++) {
        GElf_Rela relocation;
        if (!gelf_getrela(data, (int)i, &relocation))
            return false;
        *found = (struct relocated){relocation.r_offset, (uint64_t)relocation.r_addend};
        if (GELF_R_SYM(relocation.r_info) == 0 &&
            (found->address == address || (value && found->value == value)))
            return true;
    }
    return false;
}

// A word as it is in the running program, but for where that is loaded.
static uint64_t word_at(const struct object *object, uint64_t address)
{
    struct relocated found;
    if (find_relocated(object, address, 0, &found))
        return found.value;
    size_t bytes;
    uint64_t word = 0;
    const unsigned char *at = bytes_at(object, address, &bytes);
    if (at && bytes >= WORD)
        memcpy(&word, at, WORD);
    return word;
}

// The record of the module has the table's address first, and that of the text further on.
static bool is_record(const struct golines *golines, uint64_t address)
{
    uint64_t text = word_at(golines->object, address + WORD * RECORD_TEXT);
    return text && (!golines->table.text || text == golines->table.text);
}

static uint64_t search_section(const struct golines *golines, Elf_Scn *section,
                               const GElf_Shdr *header, uint64_t table)
{
    Elf_Data *data = content(section);
    unsigned candidates = 0;
    for (size_t at = 0; data && at + WORD <= data->d_size; at += WORD) {
        if (memcmp((const char *)data->d_buf + at, &table, WORD) != 0)
            continue;
        if (is_record(golines, header->sh_addr + at))
            return header->sh_addr + at;
        if (++candidates == CANDIDATES_MOST) // nothing like a table's address
            return 0;
    }
    return 0;
}

static uint64_t find_record(const struct golines *golines, uint64_t table)
{
    struct relocated found;
    // Where programs can be loaded anywhere, it is among what the loader fills in.
    if (find_relocated(golines->object, UINT64_MAX, table, &found))
        return is_record(golines, found.address) ? found.address : 0;
    Elf_Scn *section = NULL;
    while ((section = elf_nextscn(golines->object->elf, section))) {
        GElf_Shdr header;
        if (!gelf_getshdr(section, &header) || header.sh_type != SHT_PROGBITS ||
            (header.sh_flags & (SHF_ALLOC | SHF_WRITE)) != (SHF_ALLOC | SHF_WRITE) ||
            header.sh_flags & SHF_COMPRESSED)
            continue;
        uint64_t record = search_section(golines, section, &header, table);
        if (record)
            return record;
    }
    return 0;
}

// Finds what the table itself does not have: the begin of the text, and the inlined calls.
static void complete(struct golines *golines, uint64_t address)
{
    struct gotable *table = &golines->table;
    if (table->layout < GOTABLE_1_18)
        return;
    if (!table->text)
        table->text = word_at(golines->object, address + table->text_at);
    uint64_t record = find_record(golines, address);
    if (!record)
        return;
    if (!table->text)
        table->text = word_at(golines->object, record + WORD * RECORD_TEXT);
    unsigned word = table->layout == GOTABLE_1_18 ? RECORD_INLINED_1_18 : RECORD_INLINED_1_20;
    golines->inlined = bytes_at(golines->object, word_at(golines->object, record + WORD * word),
                                &golines->inlined_bytes);
}

// Linkers other than Go's own join its section with others where addresses are relocated.
static Elf_Scn *find_section(const struct object *object, GElf_Shdr *header)
{
    static const char *const names[] = {".gopclntab", ".data.rel.ro.gopclntab", ".data.rel.ro"};
    size_t identity_bytes;
    const char *identity = elf_getident(object->elf, &identity_bytes);
    if (!identity || identity[EI_CLASS] != ELFCLASS64 || identity[EI_DATA] != ELFDATA2LSB ||
        !(object_has_section(object, ".note.go.buildid") ||
          object_has_section(object, ".go.buildinfo") || object_has_section(object, names[0])))
        return NULL;
    Elf_Scn *section = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && !section; i++)
        section = object_section(object, names[i], header);
    return section && !(header->sh_flags & SHF_COMPRESSED) ? section : NULL;
}

struct golines *golines_open(const struct object *object, struct text_pool *pool)
{
    GElf_Shdr header;
    Elf_Scn *section = find_section(object, &header);
    Elf_Data *data = section ? content(section) : NULL;
    struct gotable table;
    size_t at = data ? gotable_search(&table, data->d_buf, data->d_size, header.sh_addr) : SIZE_MAX;
    if (at == SIZE_MAX)
        return NULL;
    struct golines *golines = memory_array(1, sizeof *golines);
    *golines = (struct golines){.object = object, .pool = pool, .table = table};
    complete(golines, header.sh_addr + at);
    return golines;
}

void golines_close(struct golines *golines)
{
    free(golines);
}

static bool find(const struct golines *golines, uint64_t offset, uint64_t *pc,
                 struct gotable_function *function)
{
    *pc = golines->object->base + offset - golines->table.text;
    return gotable_find(&golines->table, *pc, function);
}

static const char *name_of(const struct golines *golines, uint32_t name)
{
    const char *raw = gotable_name(&golines->table, name);
    return raw && *raw ? names_display(golines->pool, raw, NAMES_DOTTED) : NULL;
}

const char *golines_function(const struct golines *golines, uint64_t offset, uint64_t *start)
{
    struct gotable_function function;
    uint64_t pc;
    if (!golines || !find(golines, offset, &pc, &function))
        return NULL;
    *start = offset - (pc - function.start);
    return name_of(golines, function.name);
}

// An inlined call: the function called, and a pc in the caller, at the call.
static bool inlined_call(const struct golines *golines, const struct gotable_function *function,
                         int32_t index, uint32_t *name, uint32_t *caller)
{
    bool first = golines->table.layout == GOTABLE_1_18;
    size_t bytes = first ? 20 : 16, at_name = first ? 12 : 4;
    uint64_t at = function->inlined_calls + (uint64_t)index * bytes;
    if (index < 0 || !golines->inlined || !function->has_inlined_calls ||
        golines->inlined_bytes < bytes || at > golines->inlined_bytes - bytes)
        return false;
    memcpy(name, golines->inlined + at + at_name, sizeof *name);
    memcpy(caller, golines->inlined + at + at_name + 4, sizeof *caller);
    return true;
}

static struct symbol_frame frame_at(const struct golines *golines,
                                    const struct gotable_function *function, uint64_t pc,
                                    uint32_t name)
{
    const struct gotable *table = &golines->table;
    struct symbol_frame frame = {.function = name_of(golines, name)};
    int32_t file, line;
    if (gotable_value(table, function, function->file_list, pc, &file))
        frame.file = gotable_file(table, function, file);
    if (frame.file)
        frame.file = pool_string(golines->pool, frame.file);
    if (gotable_value(table, function, function->line_list, pc, &line) && line > 0)
        frame.line = (unsigned)line;
    return frame;
}

void golines_resolve(const struct golines *golines, struct lines_query *query)
{
    struct gotable_function function;
    struct symbol_frame frames[DEEPEST];
    uint64_t pc, place;
    unsigned count = 0;
    if (query->offset == PLACE_OFFSET_UNKNOWN || !find(golines, query->offset, &pc, &function))
        return;
    place = query->offset - (pc - function.start);
    while (count < DEEPEST - 1) {
        int32_t index;
        uint32_t name, caller;
        if (!gotable_value(&golines->table, &function, function.inline_list, pc, &index) ||
            !inlined_call(golines, &function, index, &name, &caller) ||
            caller >= function.end - function.start)
            break;
        frames[count++] = frame_at(golines, &function, pc, name);
        pc = function.start + caller;
    }
    frames[count++] = frame_at(golines, &function, pc, function.name);
    query->frames = pool_take(golines->pool, count * sizeof *frames);
    memcpy(query->frames, frames, count * sizeof *frames);
    query->count = count;
    query->function = place;
    query->function_known = true;
}
