// SPDX-License-Identifier: MIT
#include "symbol/dwarf/lines.h"
#include "base/memory.h"
#include "base/spans.h"
#include "symbol/dwarf/die_names.h"
#include "symbol/dwarf/line_budget.h"
#include "symbol/files/related.h"
#include "symbol/files/unpacked.h"
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <stdlib.h>
#include <string.h>

// Inlining deeper than this, or trees of damaged files.
enum { DEEPEST = 512 };

struct lines {
    struct related related;
    struct unpacked unpacked;
    Dwarf *dwarf; // opened when first needed: compressed sections are unpacked then
    bool opened;
    struct line_budget budget;
    uint64_t base;
    struct text_pool *pool;
    struct dienames names;
    struct spans unit_spans; // items are indices of units
    Dwarf_CU **units;
    size_t unit_count, unit_capacity;
    bool damaged;
    bool skeletons;      // units whose tree is in another file
    bool incomplete;     // some of it is in files that may be there another time
    const char *missing; // a file of split DWARF that is not there
};

// A query on its way: the functions around it, outermost (not inlined) first.
struct lines_search {
    struct lines_query *query;
    uint64_t address;
    uint32_t unit;
    bool settled; // by an earlier pass over the unit
    unsigned depth;
    size_t capacity;
    Dwarf_Die *chain;
};

// The searches that fall into one unit, sorted by address.
struct unit_walk {
    struct lines *lines;
    struct lines_search *searches;
    size_t count;
    bool everywhere; // second try: look into types and declarations too
};

static void visit_children(struct unit_walk *walk, Dwarf_Die *parent, size_t low, size_t high,
                           unsigned depth);

static size_t first_at_or_after(const struct unit_walk *walk, size_t low, size_t high,
                                uint64_t address)
{
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (walk->searches[middle].address < address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void push(struct lines_search *search, const Dwarf_Die *die)
{
    if (search->depth >= DEEPEST)
        return;
    search->chain =
        memory_grown(search->chain, &search->capacity, search->depth + 1, sizeof *search->chain);
    search->chain[search->depth++] = *die;
}

// Enters a function or inlined function in the chains of the searches in low..high that it holds.
// True if it holds any; *low and *high then are the first and last of them.
static bool enter(struct unit_walk *walk, Dwarf_Die *die, bool inlined, size_t *low, size_t *high)
{
    size_t first = SIZE_MAX, last = 0;
    Dwarf_Addr base, start, end;
    ptrdiff_t state = 0;
    while ((state = dwarf_ranges(die, state, &base, &start, &end)) > 0) {
        size_t i = first_at_or_after(walk, *low, *high, start);
        for (; i < *high && walk->searches[i].address < end; i++) {
            // The first function that holds an address is taken for it: a second one is a
            // duplicate.
            struct lines_search *search = &walk->searches[i];
            if (search->settled || (search->depth > 0) != inlined)
                continue;
            push(search, die);
            first = i < first ? i : first;
            last = i > last ? i : last;
        }
    }
    if (state < 0)
        walk->lines->damaged = true;
    if (first == SIZE_MAX)
        return false;
    *low = first;
    *high = last + 1;
    return true;
}

static bool holds_any(struct unit_walk *walk, Dwarf_Die *die, size_t low, size_t high)
{
    Dwarf_Addr base, start, end;
    ptrdiff_t state = 0;
    bool has_ranges = false;
    while ((state = dwarf_ranges(die, state, &base, &start, &end)) > 0) {
        has_ranges = true;
        size_t i = first_at_or_after(walk, low, high, start);
        if (i < high && walk->searches[i].address < end)
            return true;
    }
    return !has_ranges;
}

static void visit(struct unit_walk *walk, Dwarf_Die *die, size_t low, size_t high, unsigned depth)
{
    switch (dwarf_tag(die)) {
    case DW_TAG_subprogram:
        if (enter(walk, die, false, &low, &high) || walk->everywhere)
            visit_children(walk, die, low, high, depth);
        break;
    case DW_TAG_inlined_subroutine:
        if (enter(walk, die, true, &low, &high))
            visit_children(walk, die, low, high, depth);
        break;
    case DW_TAG_lexical_block:
    case DW_TAG_try_block:
    case DW_TAG_catch_block:
        if (walk->everywhere || holds_any(walk, die, low, high))
            visit_children(walk, die, low, high, depth);
        break;
    case DW_TAG_namespace:
    case DW_TAG_module:
    case DW_TAG_entry_point:
        visit_children(walk, die, low, high, depth);
        break;
    case DW_TAG_class_type:
    case DW_TAG_structure_type:
    case DW_TAG_union_type:
    case DW_TAG_enumeration_type:
    case DW_TAG_interface_type:
        if (walk->everywhere)
            visit_children(walk, die, low, high, depth);
        break;
    default:
        break;
    }
}

static void visit_children(struct unit_walk *walk, Dwarf_Die *parent, size_t low, size_t high,
                           unsigned depth)
{
    Dwarf_Die child, next;
    int result = depth < DEEPEST ? dwarf_child(parent, &child) : 1;
    while (result == 0) {
        visit(walk, &child, low, high, depth + 1);
        result = dwarf_siblingof(&child, &next);
        // A damaged reference to a sibling may lead back, for ever.
        if (result == 0 && (char *)next.addr <= (char *)child.addr)
            result = -1;
        child = next;
    }
    if (result < 0)
        walk->lines->damaged = true;
}

static int by_unit_and_address(const void *left, const void *right)
{
    const struct lines_search *a = left, *b = right;
    if (a->unit != b->unit)
        return a->unit < b->unit ? -1 : 1;
    return (a->address > b->address) - (a->address < b->address);
}

// The row of the line table that holds an address: the last one at or before it that ends no
// sequence.
static Dwarf_Line *find_row(Dwarf_Lines *rows, size_t count, uint64_t address)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        Dwarf_Addr at;
        if (dwarf_lineaddr(dwarf_onesrcline(rows, middle), &at) != 0)
            return NULL;
        if (at <= address)
            low = middle + 1;
        else
            high = middle;
    }
    // Line 0 is code that the compiler made for no line in particular: the one before it is near
    // enough.
    while (low-- > 0) {
        Dwarf_Line *row = dwarf_onesrcline(rows, low);
        bool ends = true;
        int number = 0;
        if (dwarf_lineendsequence(row, &ends) != 0 || ends || dwarf_lineno(row, &number) != 0)
            return NULL;
        if (number > 0)
            return row;
    }
    return NULL;
}

static const char *call_file(struct lines *lines, Dwarf_Files *files, Dwarf_Die *inlined)
{
    Dwarf_Attribute attribute;
    Dwarf_Word index;
    if (!files || !dwarf_attr(inlined, DW_AT_call_file, &attribute) ||
        dwarf_formudata(&attribute, &index) != 0)
        return NULL;
    const char *path = dwarf_filesrc(files, index, NULL, NULL);
    return path ? pool_string(lines->pool, path) : NULL;
}

static unsigned call_line(Dwarf_Die *inlined)
{
    Dwarf_Attribute attribute;
    Dwarf_Word line;
    if (!dwarf_attr(inlined, DW_AT_call_line, &attribute) ||
        dwarf_formudata(&attribute, &line) != 0 || line > INT32_MAX)
        return 0;
    return (unsigned)line;
}

static void note_function(const struct lines *lines, struct lines_query *query, Dwarf_Die *function)
{
    Dwarf_Addr entry;
    if (dwarf_entrypc(function, &entry) != 0 || entry < lines->base)
        return;
    query->function = entry - lines->base;
    query->function_known = true;
}

static void answer(struct lines *lines, struct lines_search *search, Dwarf_Lines *rows,
                   size_t row_count, Dwarf_Files *files)
{
    struct lines_query *query = search->query;
    Dwarf_Line *row = rows ? find_row(rows, row_count, search->address) : NULL;
    if (!row && !search->depth)
        return;
    query->count = search->depth ? search->depth : 1;
    query->frames = pool_take(lines->pool, query->count * sizeof *query->frames);
    int line = 0;
    if (row) {
        const char *path = dwarf_linesrc(row, NULL, NULL);
        if (path)
            query->frames[0].file = pool_string(lines->pool, path);
        if (dwarf_lineno(row, &line) == 0 && line > 0)
            query->frames[0].line = (unsigned)line;
    }
    for (unsigned i = 0; i < search->depth; i++) {
        Dwarf_Die *die = &search->chain[search->depth - 1 - i];
        query->frames[i].function = dienames_get(&lines->names, die);
        if (i + 1 < search->depth) {
            query->frames[i + 1].file = call_file(lines, files, die);
            query->frames[i + 1].line = call_line(die);
        }
    }
    if (search->depth)
        note_function(lines, query, &search->chain[0]);
}

static void note_missing(struct lines *lines, Dwarf_Die *skeleton)
{
    Dwarf_Attribute attribute;
    const char *name = NULL;
    if (dwarf_attr(skeleton, DW_AT_dwo_name, &attribute) ||
        dwarf_attr(skeleton, DW_AT_GNU_dwo_name, &attribute))
        name = dwarf_formstring(&attribute);
    if (!lines->missing && name)
        lines->missing = pool_string(lines->pool, name);
}

static bool open_split(struct lines *lines, Dwarf_CU *unit, Dwarf_Die *skeleton, Dwarf_Die *split)
{
    lines->incomplete = true;
    if (!related_allows_split(&lines->related, skeleton)) {
        lines->damaged = true;
        return false;
    }
    if (dwarf_cu_info(unit, NULL, NULL, NULL, split, NULL, NULL, NULL) || !split->addr) {
        note_missing(lines, skeleton);
        return false;
    }
    related_seal(&lines->related, dwarf_cu_getdwarf(split->cu));
    return true;
}

static void resolve_unit(struct lines *lines, struct lines_search *searches, size_t count)
{
    Dwarf_Die unit, split;
    Dwarf_CU *handle = lines->units[searches[0].unit];
    uint8_t type;
    if (dwarf_cu_info(handle, NULL, &type, &unit, NULL, NULL, NULL, NULL)) {
        lines->damaged = true;
        return;
    }
    // A skeleton has the lines, the file it points to has the tree.
    Dwarf_Die *tree =
        type == DW_UT_skeleton && open_split(lines, handle, &unit, &split) ? &split : &unit;
    struct unit_walk walk = {.lines = lines, .searches = searches, .count = count};
    visit_children(&walk, tree, 0, count, 0);
    bool missed = false;
    for (size_t i = 0; i < count; i++) {
        searches[i].settled = searches[i].depth > 0;
        missed |= !searches[i].settled;
    }
    if (missed) {
        walk.everywhere = true;
        visit_children(&walk, tree, 0, count, 0);
    }
    Dwarf_Lines *rows = NULL;
    size_t row_count = 0, file_count;
    if (!line_budget_allows(&lines->budget, &unit) ||
        dwarf_getsrclines(&unit, &rows, &row_count) != 0) {
        rows = NULL;
        lines->damaged |= dwarf_hasattr(&unit, DW_AT_stmt_list);
    }
    Dwarf_Files *files = NULL;
    const bool has_files = tree == &unit ? rows != NULL : line_budget_allows(&lines->budget, tree);
    if (!has_files || dwarf_getsrcfiles(tree, &files, &file_count) != 0)
        files = NULL;
    for (size_t i = 0; i < count; i++)
        answer(lines, &searches[i], rows, row_count, files);
}

static void read_units(struct lines *lines)
{
    Dwarf_CU *unit = NULL;
    uint8_t type;
    Dwarf_Die die;
    int result;
    while ((result = dwarf_get_units(lines->dwarf, unit, &unit, NULL, &type, &die, NULL)) == 0) {
        if ((type != DW_UT_compile && type != DW_UT_skeleton) || lines->unit_count >= UINT32_MAX)
            continue;
        lines->skeletons |= type == DW_UT_skeleton;
        Dwarf_Addr base, start, end;
        ptrdiff_t state = 0;
        while ((state = dwarf_ranges(&die, state, &base, &start, &end)) > 0)
            if (start > 0) // functions that the linker dropped stay behind at address 0
                spans_add(&lines->unit_spans, start, end, (uint32_t)lines->unit_count);
        lines->damaged |= state < 0 || dwarf_tag(&die) == DW_TAG_invalid;
        lines->units = memory_grown(lines->units, &lines->unit_capacity, lines->unit_count + 1,
                                    sizeof *lines->units);
        lines->units[lines->unit_count++] = unit;
    }
    lines->damaged |= result < 0;
    spans_sort(&lines->unit_spans);
}

struct lines *lines_open(const struct object *object, struct text_pool *pool)
{
    if (!object->elf ||
        (!object_has_section(object, ".debug_info") && !object_has_section(object, ".zdebug_info")))
        return NULL;
    struct lines *lines = memory_array(1, sizeof *lines);
    related_open(&lines->related, object);
    size_t file_bytes = 0;
    elf_rawfile(object->elf, &file_bytes);
    lines->budget = line_budget_make(file_bytes);
    lines->base = object->base;
    lines->pool = pool;
    lines->names.pool = pool;
    return lines;
}

bool lines_final(const struct lines *lines)
{
    return lines && !lines->damaged && !lines->incomplete;
}

bool lines_damaged(const struct lines *lines)
{
    return lines && lines->damaged;
}

const char *lines_missing(const struct lines *lines)
{
    return lines ? lines->missing : NULL;
}

static bool begin_dwarf(struct lines *lines, Elf *elf)
{
    lines->dwarf = dwarf_begin_elf(elf, DWARF_C_READ, NULL);
    if (!lines->dwarf)
        return false;
    lines->incomplete |= !related_link_common(&lines->related, lines->dwarf);
    read_units(lines);
    return true;
}

static void end_dwarf(struct lines *lines)
{
    dwarf_end(lines->dwarf);
    lines->dwarf = NULL;
    spans_free(&lines->unit_spans);
    lines->unit_count = 0;
    unpacked_close(&lines->unpacked);
}

void lines_close(struct lines *lines)
{
    if (!lines)
        return;
    end_dwarf(lines);
    related_close(&lines->related);
    dienames_free(&lines->names);
    free(lines->units);
    free(lines);
}

static void open_dwarf(struct lines *lines)
{
    if (lines->opened)
        return;
    lines->opened = true;
    Elf *elf = lines->related.object->elf;
    enum unpacked_result result = unpacking_is_modest(&lines->related.unpacking)
                                      ? unpacked_open(&lines->unpacked, elf)
                                      : UNPACKED_DAMAGED;
    if (result == UNPACKED_DAMAGED ||
        !begin_dwarf(lines, lines->unpacked.elf ? lines->unpacked.elf : elf)) {
        lines->damaged = true;
        return;
    }
    // libdw finds the files that were split off beside the file that it was given.
    if (result == UNPACKED && lines->skeletons) {
        end_dwarf(lines);
        lines->damaged |= !begin_dwarf(lines, elf);
    }
}

void lines_resolve(struct lines *lines, struct lines_query *queries, size_t count)
{
    open_dwarf(lines);
    if (!lines->dwarf)
        return;
    struct lines_search *searches = memory_array(count, sizeof *searches);
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t address = lines->base + queries[i].offset;
        size_t index = spans_find(&lines->unit_spans, address);
        if (index == SPANS_NONE)
            continue;
        searches[used++] = (struct lines_search){
            .query = &queries[i], .address = address, .unit = lines->unit_spans.list[index].item};
    }
    qsort(searches, used, sizeof *searches, by_unit_and_address);
    for (size_t first = 0, next; first < used; first = next) {
        for (next = first + 1; next < used && searches[next].unit == searches[first].unit;)
            next++;
        resolve_unit(lines, &searches[first], next - first);
    }
    for (size_t i = 0; i < used; i++)
        free(searches[i].chain);
    free(searches);
}
