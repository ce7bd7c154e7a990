// SPDX-License-Identifier: MIT
#include "outside/space.h"
#include "inject/mapping.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

// The first mapping that ends behind an address.
static size_t index_of(const struct space *space, uint64_t address)
{
    size_t low = 0, high = space->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (space->mappings[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const struct space_mapping *space_find(const struct space *space, uint64_t address)
{
    const size_t index = index_of(space, address);
    return index < space->count && space->mappings[index].start <= address ? &space->mappings[index]
                                                                           : NULL;
}

static bool has_room(struct space *space, size_t count)
{
    if (count <= space->capacity)
        return true;
    const size_t capacity = 2 * count + 14;
    void *more = realloc(space->mappings, capacity * sizeof *space->mappings);
    if (!more)
        return false;
    space->mappings = more;
    space->capacity = capacity;
    return true;
}

// A mapping that it overlaps is cut, into two if need be.
static void put(struct space *space, const struct space_mapping *mapping)
{
    if (!has_room(space, space->count + 2))
        return;
    struct space_mapping *all = space->mappings;
    size_t from = index_of(space, mapping->start), until = from;
    while (until < space->count && all[until].start < mapping->end)
        until++;
    struct space_mapping parts[3];
    size_t count = 0;
    if (from < until && all[from].start < mapping->start) {
        parts[count] = all[from];
        parts[count++].end = mapping->start;
    }
    parts[count++] = *mapping;
    if (from < until && all[until - 1].end > mapping->end) {
        parts[count] = all[until - 1];
        parts[count++].start = mapping->end;
    }
    memmove(&all[from + count], &all[until], (space->count - until) * sizeof *all);
    memcpy(&all[from], parts, count * sizeof *all);
    space->count += count - (until - from);
}

void space_map(struct space *space, const struct mirrored_file *file, uint64_t offset)
{
    struct space_mapping mapping = {
        .start = file->start, .end = file->end, .mirror = mirror_of(file)};
    if (mapping.start >= mapping.end)
        return;
    if (mapping.mirror && (mapping.mirror->is_data ||
                           !mirror_shift(mapping.mirror, mapping.start, offset, &mapping.shift)))
        mapping.mirror = NULL;
    put(space, &mapping);
}

void space_read(struct space *space, pid_t pid)
{
    static struct mapping mapped;
    char path[40], *line = NULL;
    size_t capacity = 0;
    unsigned major = 0, minor = 0;
    snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    FILE *maps = fopen(path, "re");
    while (maps && getline(&line, &capacity, maps) > 0) {
        if (!mapping_read(line, &mapped) || !mapped.executable ||
            sscanf(line, "%*s %*s %*s %x:%x", &major, &minor) != 2 ||
            !strcmp(mapped.path, "[vsyscall]"))
            continue;
        space_map(space,
                  &(struct mirrored_file){.pid = pid,
                                          .start = mapped.start,
                                          .end = mapped.end,
                                          .device = makedev(major, minor),
                                          .inode = mapped.inode,
                                          .path = mapped.path},
                  mapped.offset);
    }
    free(line);
    if (maps)
        fclose(maps);
    space_read_stack(space, pid);
}

// The 28th field of /proc/PID/stat. The second one, in parentheses, may hold anything.
void space_read_stack(struct space *space, pid_t pid)
{
    char path[40], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    const size_t length = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file)
        fclose(file);
    text[length] = 0;
    const char *at = strrchr(text, ')');
    for (int field = 2; at && field < 28; field++)
        at = strchr(at + 1, ' ');
    space->stack_start = at ? strtoull(at, NULL, 10) : 0;
}

void space_copy(struct space *to, const struct space *from)
{
    space_clear(to);
    if (!has_room(to, from->count))
        return;
    memcpy(to->mappings, from->mappings, from->count * sizeof *from->mappings);
    to->count = from->count;
    to->stack_start = from->stack_start;
}

void space_clear(struct space *space)
{
    free(space->mappings);
    *space = (struct space){.count = 0};
}
