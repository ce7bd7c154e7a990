// SPDX-License-Identifier: MIT

#include "export/page/page_columns.h"
#include "base/memory.h"

uint32_t page_line_row(const struct page_columns *page, uint32_t node, uint32_t number)
{
    const struct located *line = functions_line(page->functions, number);
    for (uint32_t i = page->line_begin[node]; i < page->line_begin[node + 1]; i++) {
        const struct call_line *known = &page->tree->lines[page->line_order[i]];
        if (known->file == line->file && known->line == line->line)
            return i + 1;
    }
    return 0;
}

void page_put_bytes(struct page_columns *page, struct bytes *from)
{
    if (from->failed)
        memory_checked(NULL);
    bytes_put(&page->out, from->data, from->size);
    bytes_free(from);
}

size_t page_section_begin(struct bytes *out, const char *name)
{
    bytes_put(out, name, 4);
    bytes_put_fixed(out, 0, 8);
    return out->size;
}

void page_section_end(struct bytes *out, size_t begin)
{
    if (out->failed)
        memory_checked(NULL);
    const uint64_t size = out->size - begin;
    for (unsigned i = 0; i < 8; i++)
        out->data[begin - 8 + i] = (uint8_t)(size >> 8 * i);
}
