// SPDX-License-Identifier: MIT
#include "inject/room.h"
#include "inject/injected.h"
#include "inject/mapping.h"
#include "inject/process.h"
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE UINT64_C(4096)
#define MOST_HEADERS 64

#define OF_OTHERS (-1)

pid_t room_user(pid_t pid, uint64_t room)
{
    static const unsigned char nothing[INJECTED_CALL_BYTES];
    unsigned char found[INJECTED_CALL_BYTES];
    struct injected_call call;
    if (!process_read(pid, room, found, sizeof found))
        return OF_OTHERS;
    memcpy(&call, found + INJECTED_CALL_DATA, sizeof call);
    if (!memcmp(found, nothing, sizeof found))
        return 0;
    return memcmp(found, injected_call_code, sizeof injected_call_code) ? OF_OTHERS
                                                                        : (pid_t)call.thread;
}

// The end of the code that a module has there. 0: not known.
static uint64_t end_of_code(pid_t pid, uint64_t base, const struct mapping *mapping)
{
    Elf64_Ehdr header;
    Elf64_Phdr parts[MOST_HEADERS];
    if (!process_read(pid, base, &header, sizeof header) ||
        memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_phnum > MOST_HEADERS ||
        header.e_phentsize != sizeof *parts ||
        !process_read(pid, base + header.e_phoff, parts, header.e_phnum * sizeof *parts))
        return 0;
    uint64_t bias = 0;
    bool first = true;
    for (unsigned i = 0; i < header.e_phnum; i++) {
        if (parts[i].p_type != PT_LOAD)
            continue;
        if (first)
            bias = base - (parts[i].p_vaddr & -PAGE);
        first = false;
        const uint64_t end = bias + parts[i].p_vaddr + parts[i].p_filesz;
        if (parts[i].p_flags & PF_X && parts[i].p_memsz == parts[i].p_filesz &&
            end > mapping->start && end <= mapping->end && mapping->end - end < PAGE)
            return end;
    }
    return 0;
}

static uint64_t room_in(pid_t pid, uint64_t base, const struct mapping *mapping)
{
    const uint64_t end = end_of_code(pid, base, mapping), room = (end + 15) & -UINT64_C(16);
    return end && room + INJECTED_CALL_BYTES <= mapping->end && room_user(pid, room) != OF_OTHERS
               ? room
               : 0;
}

uint64_t room_find(pid_t pid)
{
    static struct mapping mapping, base;
    char path[40], *line = NULL;
    size_t capacity = 0;
    uint64_t room = 0;
    snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    FILE *maps = fopen(path, "re");
    base.inode = 0;
    base.path[0] = 0;
    while (maps && !room && getline(&line, &capacity, maps) > 0) {
        if (!mapping_read(line, &mapping))
            continue;
        if (!mapping.offset)
            base = mapping;
        if (mapping.executable && *mapping.path && !strcmp(mapping.path, base.path) &&
            mapping.inode == base.inode)
            room = room_in(pid, base.start, &mapping);
    }
    free(line);
    if (maps)
        fclose(maps);
    return room;
}

bool room_take(pid_t pid, uint64_t room, const struct injected_call *call)
{
    unsigned char all[INJECTED_CALL_BYTES] = {0};
    memcpy(all, injected_call_code, sizeof injected_call_code);
    memcpy(all + INJECTED_CALL_DATA, call, sizeof *call);
    return process_write(pid, room, all, sizeof all); // within a page: at once
}

void room_give_back(pid_t pid, uint64_t room)
{
    static const unsigned char nothing[INJECTED_CALL_BYTES];
    process_write(pid, room, nothing, sizeof nothing);
}
