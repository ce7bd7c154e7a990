// SPDX-License-Identifier: MIT
#include "symbol/symtab.h"
#include "base/memory.h"
#include <stdlib.h>
#include <string.h>

// A symbol as found, before it is known which of several at one address gives the name.
static void add_symbol(struct symtab *table, const struct symtab_symbol *symbol, uint64_t end)
{
    if (symbol->start >= end || table->count >= UINT32_MAX)
        return;
    table->symbols =
        memory_grown(table->symbols, &table->capacity, table->count + 1, sizeof *table->symbols);
    table->symbols[table->count] = *symbol;
    spans_add(&table->spans, symbol->start, end, (uint32_t)table->count);
    table->count++;
}

void symtab_add(struct symtab *table, const char *name, uint64_t start, uint64_t end)
{
    add_symbol(table, &(struct symtab_symbol){.name = name, .start = start}, end);
}

struct section_extent {
    uint64_t start, end; // both 0 if there is no code in it
};

static struct section_extent *code_sections(Elf *elf, size_t *count)
{
    *count = 0;
    if (elf_getshdrnum(elf, count) != 0 || *count == 0)
        return NULL;
    struct section_extent *extents = memory_array(*count, sizeof *extents);
    Elf_Scn *section = NULL;
    while ((section = elf_nextscn(elf, section))) {
        GElf_Shdr header;
        size_t index = elf_ndxscn(section);
        if (index >= *count || !gelf_getshdr(section, &header))
            continue;
        if ((header.sh_flags & SHF_EXECINSTR) && (header.sh_flags & SHF_ALLOC))
            extents[index] =
                (struct section_extent){header.sh_addr, header.sh_addr + header.sh_size};
    }
    return extents;
}

// Names that tools put among the symbols and that are no functions: local labels, mapping symbols.
static bool is_label(const char *name)
{
    return name[0] == '\0' || name[0] == '$' || (name[0] == '.' && name[1] == 'L');
}

static void add_elf_symbol(struct symtab *table, const GElf_Sym *symbol, const char *name,
                           uint64_t base, const struct section_extent *extent)
{
    unsigned type = GELF_ST_TYPE(symbol->st_info);
    if (type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE)
        return;
    if (!name || is_label(name) || symbol->st_value < extent->start ||
        symbol->st_value >= extent->end || extent->start < base)
        return;
    bool sized = symbol->st_size > 0 && symbol->st_size <= extent->end - symbol->st_value;
    struct symtab_symbol found = {
        .name = name,
        .file = GELF_ST_BIND(symbol->st_info) == STB_LOCAL ? table->files : 0,
        .open_ended = !sized || type == STT_NOTYPE,
        .start = symbol->st_value - base,
    };
    add_symbol(table, &found, (sized ? symbol->st_value + symbol->st_size : extent->end) - base);
}

size_t symtab_add_section(struct symtab *table, const struct object *object, const char *name)
{
    GElf_Shdr header;
    Elf_Scn *section = object_section(object, name, &header);
    Elf_Data *data = section ? elf_getdata(section, NULL) : NULL;
    if (!data || (header.sh_type != SHT_SYMTAB && header.sh_type != SHT_DYNSYM))
        return 0;
    size_t before = table->count, section_count;
    struct section_extent *extents = code_sections(object->elf, &section_count);
    size_t one = gelf_fsize(object->elf, ELF_T_SYM, 1, EV_CURRENT);
    size_t count = extents && one ? data->d_size / one : 0;
    table->files++;
    for (size_t i = 0; i < count && i <= INT32_MAX; i++) {
        GElf_Sym symbol;
        if (!gelf_getsym(data, (int)i, &symbol))
            break;
        if (GELF_ST_TYPE(symbol.st_info) == STT_FILE)
            table->files++;
        else if (symbol.st_shndx != SHN_UNDEF && symbol.st_shndx < section_count)
            add_elf_symbol(table, &symbol, elf_strptr(object->elf, header.sh_link, symbol.st_name),
                           object->base, &extents[symbol.st_shndx]);
    }
    free(extents);
    return table->count - before;
}

static unsigned underscores(const char *name)
{
    return (unsigned)strspn(name, "_");
}

// Of several names for one function, which would the programmer use? "malloc" rather than
// "__libc_malloc", "write" rather than "__write", the exported rather than the internal.
static bool is_better(const struct symtab_symbol *a, const struct symtab_symbol *b)
{
    if (a->open_ended != b->open_ended)
        return b->open_ended;
    if (underscores(a->name) != underscores(b->name))
        return underscores(a->name) < underscores(b->name);
    if ((a->file == 0) != (b->file == 0))
        return a->file == 0;
    if (strlen(a->name) != strlen(b->name))
        return strlen(a->name) < strlen(b->name);
    return strcmp(a->name, b->name) < 0;
}

// Keeps one span for each start: that of the best name, as far as the longest that has a size.
static void merge_aliases(struct symtab *table)
{
    struct spans *spans = &table->spans;
    size_t kept = 0;
    for (size_t i = 0; i < spans->count; i++) {
        struct span *next = &spans->list[i], *last = kept ? &spans->list[kept - 1] : NULL;
        if (!last || last->start != next->start) {
            spans->list[kept++] = *next;
            continue;
        }
        const struct symtab_symbol *old = &table->symbols[last->item];
        const struct symtab_symbol *candidate = &table->symbols[next->item];
        uint64_t end = last->end;
        if (old->open_ended != candidate->open_ended)
            end = old->open_ended ? next->end : last->end;
        else if (next->end > end)
            end = next->end;
        if (is_better(candidate, old))
            last->item = next->item;
        last->end = end;
    }
    spans->count = kept;
}

void symtab_sort(struct symtab *table)
{
    spans_sort(&table->spans);
    merge_aliases(table);
    struct spans *spans = &table->spans;
    uint64_t reach = 0;
    for (size_t i = 0; i < spans->count; i++) {
        struct span *span = &spans->list[i];
        if (table->symbols[span->item].open_ended && i + 1 < spans->count &&
            span[1].start < span->end)
            span->end = span[1].start;
        if (span->end > reach)
            reach = span->end;
        span->reach = reach;
    }
    free(table->by_name);
    table->by_name = NULL;
}

const struct symtab_symbol *symtab_find(const struct symtab *table, uint64_t offset)
{
    // A label inside of a function that has a size does not cut the function in two.
    const struct symtab_symbol *label = NULL;
    size_t index = spans_find(&table->spans, offset);
    for (; index != SPANS_NONE; index = spans_outer(&table->spans, index, offset)) {
        const struct symtab_symbol *symbol = &table->symbols[table->spans.list[index].item];
        if (!symbol->open_ended)
            return symbol;
        if (!label)
            label = symbol;
    }
    return label;
}

static int by_name(const void *left, const void *right, void *context)
{
    const struct symtab *table = context;
    const struct symtab_symbol *a = &table->symbols[*(const uint32_t *)left];
    const struct symtab_symbol *b = &table->symbols[*(const uint32_t *)right];
    int order = strcmp(a->name, b->name);
    return order ? order : (a->file > b->file) - (a->file < b->file);
}

static void make_name_index(struct symtab *table)
{
    if (table->by_name)
        return;
    table->by_name = memory_array(table->count, sizeof *table->by_name);
    for (size_t i = 0; i < table->count; i++)
        table->by_name[i] = (uint32_t)i;
    qsort_r(table->by_name, table->count, sizeof *table->by_name, by_name, table);
}

const struct symtab_symbol *symtab_named(struct symtab *table, const char *name, size_t length,
                                         uint32_t file)
{
    make_name_index(table);
    size_t low = 0, high = table->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strncmp(table->symbols[table->by_name[middle]].name, name, length) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    // Equal names stand together, the global one (file 0) first; a local one in the same file is
    // meant rather than it, and one of another file never.
    const struct symtab_symbol *global = NULL;
    for (; low < table->count; low++) {
        const struct symtab_symbol *symbol = &table->symbols[table->by_name[low]];
        if (strncmp(symbol->name, name, length) != 0 || symbol->name[length] != '\0')
            break;
        if (symbol->file == file)
            return symbol;
        if (symbol->file == 0)
            global = symbol;
    }
    return global;
}

void symtab_free(struct symtab *table)
{
    free(table->symbols);
    free(table->by_name);
    spans_free(&table->spans);
    memset(table, 0, sizeof *table);
}
