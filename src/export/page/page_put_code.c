// SPDX-License-Identifier: MIT

// The instructions of functions, what each cost in each context, and the sources.

#include "analyze/annotate/source_file.h"
#include "base/memory.h"
#include "export/page/page_code.h"
#include "export/page/page_columns.h"
#include <stdlib.h>

enum { MOST_SOURCE_BYTES = 32 << 20 }; // in a page

// Lists of numbers and texts, one column after the other.
struct code_columns {
    struct bytes addresses, files, lines, lengths, texts;
};

static void put_instruction(struct page_columns *page, const struct page_piece *piece,
                            size_t number, struct code_columns *columns)
{
    const struct disassembled *instruction = &piece->lines.code.instructions[number];
    const struct spot *spot = functions_look_up(
        page->functions, piece->code.process, place_make(piece->code.module, instruction->offset));
    const struct located *here = spot ? functions_located(page->functions, spot) : NULL;
    const char *target = piece->lines.lines[number].target;
    char *text = NULL;
    const int length = asprintf(&text, "%s%s%s%s", instruction->text, target ? " <" : "",
                                target ? target : "", target ? ">" : "");
    if (length < 0)
        memory_checked(NULL);
    bytes_put_varint(&columns->addresses, number ? instruction->offset - instruction[-1].offset
                                                 : piece->lines.code.base + instruction->offset);
    bytes_put_varint(&columns->files, here && here->file ? page_file(page, here->file) + 1 : 0);
    bytes_put_varint(&columns->lines, here ? here->line : 0);
    bytes_put_varint(&columns->lengths, (uint64_t)length);
    bytes_put(&columns->texts, text, (size_t)length);
    free(text);
}

static void put_pieces(struct page_columns *page, const struct page_code *code)
{
    struct code_columns columns = {0};
    const size_t begin = page_section_begin(&page->out, "CODE");
    bytes_put_varint(&page->out, code->piece_count);
    for (size_t i = 0; i < code->piece_count; i++)
        bytes_put_varint(&page->out, page_function(page, code->pieces[i].function));
    for (size_t i = 0; i < code->piece_count; i++)
        bytes_put_varint(&page->out, code->pieces[i].lines.code.count);
    for (size_t i = 0; i < code->piece_count; i++)
        for (size_t n = 0; n < code->pieces[i].lines.code.count; n++)
            put_instruction(page, &code->pieces[i], n, &columns);
    page_put_bytes(page, &columns.addresses);
    page_put_bytes(page, &columns.files);
    page_put_bytes(page, &columns.lines);
    page_section_end(&page->out, begin);
    const size_t texts = page_section_begin(&page->out, "CTXT");
    bytes_put_varint(&page->out, code->instructions);
    page_put_bytes(page, &columns.lengths);
    page_put_bytes(page, &columns.texts);
    page_section_end(&page->out, texts);
}

// An address with the rows that it belongs to.
struct address_row {
    uint32_t node, line; // line: its row and 1; 0: it is not known
    const struct page_address *address;
};

static int compare_rows(const void *left, const void *right)
{
    const struct address_row *a = left, *b = right;
    const uint32_t one = a->address->instruction, other = b->address->instruction;
    return a->node != b->node ? (a->node > b->node) - (a->node < b->node)
           : one != other     ? (one > other) - (one < other)
                              : (a->line > b->line) - (a->line < b->line);
}

static bool same_row(const struct address_row *one, const struct address_row *other)
{
    return compare_rows(one, other) == 0;
}

static struct address_row *sorted_rows(const struct page_columns *page,
                                       const struct page_code *code)
{
    struct address_row *rows = memory_array(code->address_count, sizeof *rows);
    for (size_t i = 0; i < code->address_count; i++) {
        const struct page_address *address = &code->addresses[i];
        const uint32_t node = page->id[address->node];
        rows[i] = (struct address_row){node, page_line_row(page, node, address->line), address};
    }
    if (code->address_count > 1)
        qsort(rows, code->address_count, sizeof *rows, compare_rows);
    return rows;
}

// Gives the same rows the same number, and returns how many there are.
static uint32_t number_rows(struct page_columns *page, const struct page_code *code,
                            const struct address_row *rows)
{
    const struct profile *profile = page->input->analysis->profile;
    uint32_t count = 0;
    page->address_of = memory_array(profile->tree_count, sizeof *page->address_of);
    for (unsigned t = 0; t < profile->tree_count; t++)
        page->address_of[t] = memory_array(profile->trees[t].count, sizeof **page->address_of);
    for (size_t i = 0; i < code->address_count; i++) {
        count += i == 0 || !same_row(&rows[i - 1], &rows[i]);
        page->address_of[rows[i].address->tree][rows[i].address->from] = count;
    }
    return count;
}

static void put_addresses(struct page_columns *page, const struct page_code *code)
{
    const unsigned metrics = page->tree->metrics;
    struct address_row *rows = sorted_rows(page, code);
    const size_t begin = page_section_begin(&page->out, "ADDR");
    const uint32_t count = number_rows(page, code, rows);
    struct bytes nodes = {0}, lines = {0}, instructions = {0};
    uint64_t *sums = memory_array((size_t)count * metrics, sizeof *sums);
    uint32_t row = 0, node = 0;
    for (size_t i = 0; i < code->address_count; i++) {
        if (i == 0 || !same_row(&rows[i - 1], &rows[i])) {
            bytes_put_varint(&nodes, rows[i].node - node);
            bytes_put_varint(&lines, rows[i].line);
            bytes_put_varint(&instructions, rows[i].address->instruction);
            node = rows[i].node;
            row++;
        }
        for (unsigned m = 0; m < metrics; m++)
            sums[(size_t)(row - 1) * metrics + m] += rows[i].address->values[m];
    }
    bytes_put_varint(&page->out, count);
    page_put_bytes(page, &nodes);
    page_put_bytes(page, &lines);
    page_put_bytes(page, &instructions);
    for (unsigned m = 0; m < metrics; m++)
        for (uint32_t i = 0; i < count; i++)
            bytes_put_varint(&page->out, sums[(size_t)i * metrics + m]);
    page_section_end(&page->out, begin);
    free(sums);
    free(rows);
}

// The program that a file was compiled for: any whose functions lie in it.
static const char *program_of(const struct page_columns *page, uint32_t file)
{
    const struct profile *profile = page->input->analysis->profile;
    for (uint32_t i = 0; i < page->function.count; i++) {
        const struct function *function = functions_get(page->functions, page->function.old_of[i]);
        if (function->file == file && function->module < profile->module_count)
            return profile->modules[function->module].path;
    }
    return profile->module_count ? profile->modules[0].path : NULL;
}

// Files without a line that has a cost are not asked for.
static void put_sources(struct page_columns *page)
{
    struct bytes numbers = {0}, lengths = {0}, texts = {0};
    uint64_t count = 0;
    for (uint32_t i = 0; i < page->file.count && texts.size < MOST_SOURCE_BYTES; i++) {
        const uint32_t number = page->file.old_of[i];
        const struct source_search search = {.path = functions_file(page->functions, number),
                                             .program = program_of(page, number),
                                             .folder = page->input->folder};
        struct source_file source;
        if (!search.path || !source_file_open(&source, &search))
            continue;
        uint64_t length = 0;
        for (size_t n = 0; n < source.count; n++) {
            bytes_put(&texts, source.lines[n], strlen(source.lines[n]));
            bytes_put(&texts, "\n", 1);
            length += strlen(source.lines[n]) + 1;
        }
        bytes_put_varint(&numbers, i);
        bytes_put_varint(&lengths, length);
        count++;
        source_file_close(&source);
    }
    const size_t files = page_section_begin(&page->out, "SRCF");
    bytes_put_varint(&page->out, count);
    page_put_bytes(page, &numbers);
    page_section_end(&page->out, files);
    const size_t content = page_section_begin(&page->out, "SRCT");
    bytes_put_varint(&page->out, count);
    page_put_bytes(page, &lengths);
    page_put_bytes(page, &texts);
    page_section_end(&page->out, content);
}

void page_put_code(struct page_columns *page)
{
    put_pieces(page, page->input->code);
    put_addresses(page, page->input->code);
    put_sources(page);
}
