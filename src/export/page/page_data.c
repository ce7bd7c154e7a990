// SPDX-License-Identifier: MIT

#include "export/page/page_data.h"
#include "analyze/names/short_name.h"
#include "base/memory.h"
#include "export/page/page_columns.h"

enum { FLAG_KERNEL = 1, FLAG_STARTUP = 2, FLAG_STANDARD = 4, FLAG_ADDRESS = 8 };

static struct renumbering renumbering_new(size_t old)
{
    return (struct renumbering){.new_of = memory_array(old, sizeof(uint32_t)),
                                .old_of = memory_array(old, sizeof(uint32_t))};
}

static void renumbering_free(struct renumbering *numbers)
{
    free(numbers->new_of);
    free(numbers->old_of);
}

static uint32_t renumbered(struct renumbering *numbers, uint32_t old)
{
    if (!numbers->new_of[old]) {
        numbers->old_of[numbers->count++] = old;
        numbers->new_of[old] = numbers->count;
    }
    return numbers->new_of[old];
}

// Puts one varint for each row of a column.
typedef uint64_t column_value(const struct page_columns *page, uint32_t row, unsigned metric);

static void put_column(struct page_columns *page, size_t rows, column_value *value, unsigned metric)
{
    uint8_t *at = memory_checked(bytes_room_for_varints(&page->out, rows));
    for (uint32_t row = 0; row < rows; row++)
        at = bytes_put_here(at, value(page, row, metric));
    bytes_put_until(&page->out, at);
}

static const struct call_node *node_of(const struct page_columns *page, uint32_t row)
{
    return &page->tree->nodes[page->order[row]];
}

// How many rows above the parent stands.
static uint64_t node_parent(const struct page_columns *page, uint32_t row, unsigned metric)
{
    (void)metric;
    const uint32_t parent = node_of(page, row)->parent;
    return parent == CALL_NONE ? 0 : row - page->id[parent];
}

static uint64_t node_function(const struct page_columns *page, uint32_t row, unsigned metric)
{
    (void)metric;
    return page->function.new_of[node_of(page, row)->function] - 1;
}

static uint64_t node_kind(const struct page_columns *page, uint32_t row, unsigned metric)
{
    (void)metric;
    return node_of(page, row)->kind;
}

static uint64_t node_line(const struct page_columns *page, uint32_t row, unsigned metric)
{
    (void)metric;
    const uint32_t line = node_of(page, row)->call_line;
    return line == LINE_SEVERAL ? LINE_MANY : line ? (uint64_t)line + LINE_FIRST - 1 : LINE_UNKNOWN;
}

static uint64_t node_returns(const struct page_columns *page, uint32_t row, unsigned metric)
{
    (void)metric;
    return calltree_returns(page->tree, page->order[row]);
}

static uint64_t node_self(const struct page_columns *page, uint32_t row, unsigned metric)
{
    return calltree_self(page->tree, page->order[row], metric);
}

static void put_nodes(struct page_columns *page)
{
    const size_t begin = page_section_begin(&page->out, "NODE"), rows = page->tree->count;
    bytes_put_varint(&page->out, rows);
    put_column(page, rows, node_parent, 0);
    put_column(page, rows, node_function, 0);
    put_column(page, rows, node_kind, 0);
    put_column(page, rows, node_line, 0);
    put_column(page, rows, node_returns, 0);
    for (unsigned i = 0; i < page->tree->metrics; i++)
        put_column(page, rows, node_self, i);
    page_section_end(&page->out, begin);
}

static const struct function *function_of(const struct page_columns *page, uint32_t row)
{
    return functions_get(page->functions, page->function.old_of[row]);
}

static uint64_t function_module(const struct page_columns *page, uint32_t row, unsigned metric)
{
    (void)metric;
    const uint32_t module = function_of(page, row)->module;
    return module == MODULE_NONE ? 0 : page->module.new_of[module];
}

static uint64_t function_file(const struct page_columns *page, uint32_t row, unsigned metric)
{
    (void)metric;
    const uint32_t file = function_of(page, row)->file;
    return file ? page->file.new_of[file] : 0;
}

static uint64_t function_line(const struct page_columns *page, uint32_t row, unsigned metric)
{
    (void)metric;
    return function_of(page, row)->line;
}

static uint64_t function_flags(const struct page_columns *page, uint32_t row, unsigned metric)
{
    (void)metric;
    const struct function *function = function_of(page, row);
    return (function->kernel ? FLAG_KERNEL : 0) |
           (name_is_startup(function->name) ? FLAG_STARTUP : 0) |
           (name_is_standard(function->name) ? FLAG_STANDARD : 0) |
           (name_is_address(function->name) ? FLAG_ADDRESS : 0);
}

static void put_functions(struct page_columns *page)
{
    const size_t rows = page->function.count;
    const size_t begin = page_section_begin(&page->out, "FUNC");
    bytes_put_varint(&page->out, rows);
    put_column(page, rows, function_module, 0);
    put_column(page, rows, function_file, 0);
    put_column(page, rows, function_line, 0);
    put_column(page, rows, function_flags, 0);
    page_section_end(&page->out, begin);
}

static const struct call_line *line_of(const struct page_columns *page, uint32_t row)
{
    return &page->tree->lines[page->line_order[row]];
}

// How many nodes behind that of the row above.
static uint64_t line_node(const struct page_columns *page, uint32_t row, unsigned metric)
{
    (void)metric;
    return page->id[line_of(page, row)->node] -
           (row > 0 ? page->id[line_of(page, row - 1)->node] : 0);
}

static uint64_t line_file(const struct page_columns *page, uint32_t row, unsigned metric)
{
    (void)metric;
    return page->file.new_of[line_of(page, row)->file] - 1;
}

static uint64_t line_number(const struct page_columns *page, uint32_t row, unsigned metric)
{
    (void)metric;
    return line_of(page, row)->line;
}

static uint64_t line_value(const struct page_columns *page, uint32_t row, unsigned metric)
{
    return page->tree->line_values[(size_t)page->line_order[row] * page->tree->metrics + metric];
}

static void order_lines(struct page_columns *page)
{
    uint32_t *lines, *first = calltree_lines(page->tree, &lines);
    for (uint32_t row = 0; row < page->tree->count; row++) {
        page->line_begin[row] = page->line_count;
        for (uint32_t i = first[page->order[row]]; i < first[page->order[row] + 1]; i++)
            if (page->tree->lines[lines[i]].file)
                page->line_order[page->line_count++] = lines[i];
    }
    page->line_begin[page->tree->count] = page->line_count;
    free(lines);
    free(first);
}

static void put_lines(struct page_columns *page)
{
    const size_t begin = page_section_begin(&page->out, "LINE"), rows = page->line_count;
    bytes_put_varint(&page->out, rows);
    put_column(page, rows, line_node, 0);
    put_column(page, rows, line_file, 0);
    put_column(page, rows, line_number, 0);
    for (unsigned i = 0; i < page->tree->metrics; i++)
        put_column(page, rows, line_value, i);
    page_section_end(&page->out, begin);
}

typedef const char *text_value(const struct page_columns *page, uint32_t old);

static const char *function_text(const struct page_columns *page, uint32_t old)
{
    return functions_get(page->functions, old)->name;
}

static const char *module_text(const struct page_columns *page, uint32_t old)
{
    const struct profile *profile = page->input->analysis->profile;
    return old < profile->module_count ? profile->modules[old].path : NULL;
}

static const char *file_text(const struct page_columns *page, uint32_t old)
{
    return functions_file(page->functions, old);
}

// All lengths, then all texts.
static void put_texts(struct page_columns *page, const char *name,
                      const struct renumbering *numbers, text_value *value)
{
    const size_t begin = page_section_begin(&page->out, name);
    bytes_put_varint(&page->out, numbers->count);
    for (uint32_t i = 0; i < numbers->count; i++) {
        const char *text = value(page, numbers->old_of[i]);
        bytes_put_varint(&page->out, text ? strlen(text) : 0);
    }
    for (uint32_t i = 0; i < numbers->count; i++) {
        const char *text = value(page, numbers->old_of[i]);
        if (text)
            bytes_put(&page->out, text, strlen(text));
    }
    page_section_end(&page->out, begin);
}

static void number_function(struct page_columns *page, uint32_t number)
{
    renumbered(&page->function, number);
    const struct function *function = functions_get(page->functions, number);
    if (function->module != MODULE_NONE)
        renumbered(&page->module, function->module);
    if (function->file)
        renumbered(&page->file, function->file);
}

// In the order of a walk, a function, its caller and its lines have numbers that are alike.
static void number_all(struct page_columns *page)
{
    const struct calltree *tree = page->tree;
    struct calltree_walk walk;
    uint32_t next = 0;
    calltree_walk_start(&walk, tree);
    for (enum walk_event event; (event = calltree_walk_next(&walk)) != WALK_END;) {
        if (event != WALK_ENTER)
            continue;
        page->order[next] = walk.node;
        page->id[walk.node] = next++;
        number_function(page, tree->nodes[walk.node].function);
    }
    calltree_walk_end(&walk);
    for (size_t i = 0; i < tree->line_count; i++)
        if (tree->lines[i].file)
            renumbered(&page->file, tree->lines[i].file);
}

uint32_t page_function(struct page_columns *page, uint32_t number)
{
    number_function(page, number);
    return page->function.new_of[number] - 1;
}

uint32_t page_file(struct page_columns *page, uint32_t number)
{
    return renumbered(&page->file, number) - 1;
}

static uint32_t most_files(const struct functions *functions, const struct calltree *tree)
{
    uint32_t most = functions_file_count(functions);
    for (uint32_t i = 0; i < functions_count(functions); i++)
        if (functions_get(functions, i)->file > most)
            most = functions_get(functions, i)->file;
    for (size_t i = 0; i < tree->line_count; i++)
        if (tree->lines[i].file > most)
            most = tree->lines[i].file;
    return most + 1;
}

static size_t most_modules(const struct functions *functions)
{
    size_t most = 0;
    for (uint32_t i = 0; i < functions_count(functions); i++) {
        const uint32_t module = functions_get(functions, i)->module;
        if (module != MODULE_NONE && module > most)
            most = module;
    }
    return most + 1;
}

struct bytes page_data(const struct page_input *input)
{
    const struct calltree *tree = input->tree;
    const struct functions *functions = input->analysis->functions;
    struct page_columns page = {
        .input = input,
        .tree = tree,
        .functions = functions,
        .order = memory_array(tree->count, sizeof *page.order),
        .id = memory_array(tree->count, sizeof *page.id),
        .line_order = memory_array(tree->line_count, sizeof *page.line_order),
        .line_begin = memory_array(tree->count + 1, sizeof *page.line_begin),
        .function = renumbering_new(functions_count(functions)),
        .module = renumbering_new(most_modules(functions)),
        .file = renumbering_new(most_files(functions, tree)),
    };
    number_all(&page);
    order_lines(&page);
    page_put_meta(&page);
    if (input->code)
        page_put_code(&page);
    put_texts(&page, "NAME", &page.function, function_text);
    put_texts(&page, "MODU", &page.module, module_text);
    put_texts(&page, "FILE", &page.file, file_text);
    put_functions(&page);
    put_nodes(&page);
    put_lines(&page);
    if (page_has_locks(input))
        page_put_locks(&page);
    if (page_has_timeline(input))
        page_put_timeline(&page);
    free(page.order);
    free(page.id);
    free(page.line_order);
    free(page.line_begin);
    for (unsigned t = 0; page.address_of && t < input->analysis->profile->tree_count; t++)
        free(page.address_of[t]);
    free(page.address_of);
    renumbering_free(&page.function);
    renumbering_free(&page.module);
    renumbering_free(&page.file);
    return page.out;
}
