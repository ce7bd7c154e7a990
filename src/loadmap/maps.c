// SPDX-License-Identifier: MIT
#include "loadmap/maps.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

// Between two segments of one image. A program may map parts of its own file elsewhere again (V8
// does, amid generated code): that is far away.
#define RUN_GAP (UINT64_C(1) << 26)

static const char *parse_hex(const char *text, uint64_t *value)
{
    *value = 0;
    for (;; text++) {
        unsigned digit;
        if (*text >= '0' && *text <= '9')
            digit = (unsigned)(*text - '0');
        else if (*text >= 'a' && *text <= 'f')
            digit = (unsigned)(*text - 'a' + 10);
        else
            return text;
        *value = *value << 4 | digit;
    }
}

static const char *skip_word(const char *text)
{
    while (*text && *text != ' ')
        text++;
    while (*text == ' ')
        text++;
    return text;
}

// start-end perms offset device inode path
static bool parse_line(const char *line, struct maps_mapping *mapping)
{
    uint64_t start, end, offset;
    const char *text = parse_hex(line, &start);
    if (*text++ != '-')
        return false;
    text = parse_hex(text, &end);
    if (*text++ != ' ' || strlen(text) < 5 || end <= start)
        return false;
    mapping->executable = text[2] == 'x';
    text = parse_hex(skip_word(text), &offset);
    if (*text != ' ')
        return false;
    text = skip_word(skip_word(skip_word(text)));
    mapping->start = start;
    mapping->end = end;
    mapping->offset = offset;
    mapping->path = text;
    return true;
}

// Generated code is often mapped twice from such a file without a name.
static bool is_file(const char *path)
{
    return path[0] == '/' && strncmp(path, "/memfd:", 7) != 0 && strncmp(path, "/dev/", 5) != 0 &&
           strncmp(path, "/SYSV", 5) != 0;
}

static void add_range(struct maps_reader *reader, uintptr_t start, uintptr_t end)
{
    struct maps_range *last = reader->ranges ? &reader->range[reader->ranges - 1] : NULL;
    if (last && last->end == start)
        last->end = end;
    else if (reader->ranges < MAPS_RANGES)
        reader->range[reader->ranges++] = (struct maps_range){start, end};
}

void maps_begin(struct maps_reader *reader)
{
    reader->start = reader->end = 0;
    reader->path[0] = reader->run_path[0] = 0;
    reader->executable = false;
    reader->ranges = 0;
}

// While lines come in, start and end are those of the run of mappings of run_path; once the run
// that holds the address is over, its path is kept in `path` and nothing changes any more.
static void end_run(struct maps_reader *reader, uintptr_t address)
{
    if (!reader->path[0] && reader->run_path[0] && address >= reader->start &&
        address < reader->end)
        strcpy(reader->path, reader->run_path);
}

static void add_mapping(struct maps_reader *reader, uintptr_t address,
                        const struct maps_mapping *mapping)
{
    if (address >= mapping->start && address < mapping->end)
        reader->executable = mapping->executable;
    bool file = is_file(mapping->path) && strlen(mapping->path) < PATH_MAX;
    if (mapping->executable && !file && mapping->path[0] != '[')
        add_range(reader, mapping->start, mapping->end);
    if (reader->path[0])
        return;
    if (file && strcmp(mapping->path, reader->run_path) == 0 && mapping->offset != 0 &&
        mapping->start - reader->end < RUN_GAP) {
        reader->end = mapping->end;
        return;
    }
    end_run(reader, address);
    if (reader->path[0] || !file)
        return; // memory of no file between two mappings of one file does not end a run: .bss, gaps
    strcpy(reader->run_path, mapping->path);
    reader->start = mapping->start;
    reader->end = mapping->end;
    reader->offset = mapping->offset;
}

void maps_line(struct maps_reader *reader, uintptr_t address, const char *line)
{
    struct maps_mapping mapping;
    if (parse_line(line, &mapping))
        add_mapping(reader, address, &mapping);
}

void maps_end(struct maps_reader *reader, uintptr_t address)
{
    end_run(reader, address);
    if (!reader->path[0])
        reader->start = reader->end = 0;
}

static bool each_line(struct maps_lines *lines, void (*take)(void *context, const char *line),
                      void *context)
{
    long file = syscall(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return false;
    size_t used = 0;
    long got;
    do {
        got = syscall(SYS_read, (int)file, lines->buffer, sizeof lines->buffer);
        for (long i = 0; i < got; i++) {
            if (lines->buffer[i] != '\n') {
                if (used < sizeof lines->line - 1)
                    lines->line[used++] = lines->buffer[i];
                continue;
            }
            lines->line[used] = 0;
            used = 0;
            take(context, lines->line);
        }
    } while (got > 0 || (got < 0 && errno == EINTR));
    syscall(SYS_close, (int)file);
    return got == 0;
}

struct maps_visitor {
    void (*take)(void *context, const struct maps_mapping *mapping);
    void *context;
};

static void visit_line(void *context, const char *line)
{
    const struct maps_visitor *visitor = context;
    struct maps_mapping mapping;
    if (parse_line(line, &mapping))
        visitor->take(visitor->context, &mapping);
}

bool maps_visit(struct maps_lines *lines,
                void (*take)(void *context, const struct maps_mapping *mapping), void *context)
{
    struct maps_visitor visitor = {take, context};
    return each_line(lines, visit_line, &visitor);
}

struct maps_reading {
    struct maps_reader *reader;
    uintptr_t address;
};

static void read_line(void *context, const char *line)
{
    const struct maps_reading *reading = context;
    maps_line(reading->reader, reading->address, line);
}

bool maps_read(struct maps_reader *reader, uintptr_t address)
{
    struct maps_reading reading = {reader, address};
    maps_begin(reader);
    const bool whole = each_line(&reader->lines, read_line, &reading);
    maps_end(reader, address);
    return whole;
}

static char *put_hex(char *text, uint64_t value)
{
    unsigned shift = 64;
    while (shift > 4 && !(value >> (shift - 4)))
        shift -= 4;
    for (; shift > 0; shift -= 4)
        *text++ = "0123456789abcdef"[value >> (shift - 4) & 15];
    return text;
}

bool maps_read_link(const char *link, char path[PATH_MAX])
{
    const long got = syscall(SYS_readlink, link, path, PATH_MAX - 1);
    path[got > 0 ? got : 0] = 0;
    return is_file(path);
}

bool maps_read_path(uintptr_t start, uintptr_t end, char path[PATH_MAX])
{
    static const char folder[] = "/proc/self/map_files/";
    char link[sizeof folder + 2 * 16 + 1];
    char *text = put_hex(mempcpy(link, folder, sizeof folder - 1), start);
    *text++ = '-';
    *put_hex(text, end) = 0;
    return maps_read_link(link, path);
}
