// SPDX-License-Identifier: MIT
#include "outside/frame_index.h"
#include "unwind/tables.h"
#include <stdlib.h>
#include <unistd.h>

#define LARGEST (UINT64_C(256) << 20) // bytes of .eh_frame
#define USUAL_ENCODING 0x1b           // of pointers: four bytes with a sign, from where they are
#define WIDE_LENGTH 0xffffffff

struct frame_section {
    const unsigned char *start;
    uint64_t address, bytes;
};

// Whether the CIE at that offset says that its FDEs have pointers of the usual kind: "zR", with
// others of known lengths in between.
static bool is_usual(const struct frame_section *section, uint64_t offset)
{
    struct reader reader = reader_make(section->start + offset, section->start + section->bytes);
    const uint32_t length = reader_u32(&reader), mark = reader_u32(&reader);
    const uint8_t version = reader_u8(&reader);
    const char *letters = (const char *)reader.at;
    if (mark != 0 || length == WIDE_LENGTH || version != 1 || reader_u8(&reader) != 'z')
        return false;
    while (reader_u8(&reader) && !reader.failed)
        continue;
    reader_uleb(&reader); // factors of code and data, the return address, bytes that follow
    reader_sleb(&reader);
    reader_u8(&reader);
    reader_uleb(&reader);
    for (letters++; !reader.failed && *letters; letters++) {
        const uint8_t encoding = reader_u8(&reader);
        if (*letters == 'R')
            return encoding == USUAL_ENCODING;
        if (*letters == 'P')
            reader_skip(&reader, (encoding & 0x0f) == 0x0b || (encoding & 0x0f) == 0x03 ? 4 : 8);
        else if (*letters != 'L')
            return false;
    }
    return false;
}

static bool add(struct frame_index *index, size_t *room, uint64_t function, uint64_t fde)
{
    if (index->count == *room) {
        *room = *room ? 2 * *room : 1024;
        void *more = realloc(index->entries, *room * sizeof *index->entries);
        if (!more)
            return false;
        index->entries = more;
    }
    index->entries[index->count++] = (struct frame_index_entry){function, fde};
    return true;
}

// False: it holds something unusual, of which an index would miss a part.
static bool read_entries(struct frame_index *index, const struct frame_section *section)
{
    size_t room = 0;
    uint64_t usual = UINT64_MAX; // the CIE that was looked at last
    struct reader all = reader_make(section->start, section->start + section->bytes);
    while (reader_left(&all) >= 4) {
        const uint64_t at = (uint64_t)(all.at - section->start);
        const uint32_t length = reader_u32(&all);
        if (length == 0)
            return true;
        if (length == WIDE_LENGTH || length > reader_left(&all) || length < 4)
            return false;
        struct reader entry = reader_make(all.at, all.at + length);
        reader_skip(&all, length);
        const uint32_t back = reader_u32(&entry);
        if (back == 0)
            continue; // a CIE
        const uint64_t cie = at + 4 - back;
        if (back > at + 4 || (cie != usual && !is_usual(section, cie)))
            return false;
        usual = cie;
        const uint64_t pointer = section->address + at + 8;
        const uint64_t function = pointer + (uint64_t)(int64_t)(int32_t)reader_u32(&entry);
        if (entry.failed || !add(index, &room, function, section->address + at))
            return false;
    }
    return true;
}

static int compare(const void *a, const void *b)
{
    const struct frame_index_entry *left = a, *right = b;
    return left->function < right->function ? -1 : left->function > right->function;
}

void frame_index_read(struct frame_index *index, const struct elf_file *file, int fd)
{
    *index = (struct frame_index){.count = 0};
    const uint64_t bytes = file->eh_frame_bytes;
    unsigned char *content = file->eh_frame && bytes <= LARGEST ? malloc(bytes) : NULL;
    const struct frame_section section = {content, file->eh_frame, bytes};
    if (!content || pread(fd, content, bytes, (off_t)file->eh_frame_offset) != (ssize_t)bytes ||
        !read_entries(index, &section))
        index->count = 0;
    free(content);
    if (index->count)
        qsort(index->entries, index->count, sizeof *index->entries, compare);
}
