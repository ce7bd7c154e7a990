// SPDX-License-Identifier: MIT
#ifndef CAIRN_LOADMAP_MAPS_H
#define CAIRN_LOADMAP_MAPS_H

// /proc/self/maps, read by system calls alone into memory of the caller. Signal-safe; errno may
// change.

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#define MAPS_RANGES 256

struct maps_range {
    uintptr_t start, end;
};

struct maps_mapping {
    uintptr_t start, end;
    bool executable;
    uint64_t offset;
    const char *path;
};

// Working memory of a reading.
struct maps_lines {
    char buffer[4096];
    char line[PATH_MAX + 128];
};

// Reports each mapping, in order of address. True if all of it could be read.
bool maps_visit(struct maps_lines *lines,
                void (*take)(void *context, const struct maps_mapping *mapping), void *context);

struct maps_reader {
    // The file mapped at the address that was asked for, with all of its neighbouring mappings.
    uintptr_t start, end;
    uint64_t offset; // of start, in the file
    bool executable; // at the address itself
    char path[PATH_MAX];
    // Executable memory that belongs to no file, in order of address, neighbours joined.
    unsigned ranges;
    struct maps_range range[MAPS_RANGES];
    struct maps_lines lines;
    char run_path[PATH_MAX];
};

// Reads all of it. True if it could be read; reader->path is empty if the address is not in a file.
bool maps_read(struct maps_reader *reader, uintptr_t address);

// The file that is mapped from `start` to `end`, and neither less nor more. False: there is no such
// mapping, or of no file. One system call, however many mappings there are.
bool maps_read_path(uintptr_t start, uintptr_t end, char path[PATH_MAX]);
// The same of a link below /proc.
bool maps_read_link(const char *link, char path[PATH_MAX]);

// The same line by line (without their ends).
void maps_begin(struct maps_reader *reader);
void maps_line(struct maps_reader *reader, uintptr_t address, const char *line);
void maps_end(struct maps_reader *reader, uintptr_t address);

#endif
