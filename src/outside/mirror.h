// SPDX-License-Identifier: MIT
#ifndef CAIRN_OUTSIDE_MIRROR_H
#define CAIRN_OUTSIDE_MIRROR_H

// The files that foreign processes run, mapped into the tool as the kernel and the loader map them.
//
//   process 1   0x55..  ─┐                 the mirror region, where
//   process 2   0x56..  ─┴─► /bin/prog ──► no process has anything:   [ prog ][ libc ][ ... ]
//                 words of a stack that are code addresses become addresses there
//
// So the unwinder walks a copy of a foreign stack as it walks its own: a module that several
// processes share has one mirror, whose recipes they share, too. One thread uses all of it.

#include "base/gotable.h"
#include "loadmap/loadmap.h"
#include <sys/types.h>

#define MIRROR_BUILD_ID 32

// Nothing in a Linux process lies here by itself: programs and their heaps lie at 0x55..., stacks
// and libraries at 0x7f..., Go's heap at 0xc0..., shadows of sanitizers at the two ends.
#define MIRROR_REGION UINT64_C(0x200000000000)
#define MIRROR_REGION_BYTES (UINT64_C(1) << 40)

struct mirror {
    struct module_ref ref;  // where it lies in the mirror region; ref.id is its number in places
    uintptr_t bias;         // a virtual address of the file lies so far from there
    uint64_t device, inode; // 0: the kernel's own
    char *path;             // as the process knows it
    uint8_t build_id[MIRROR_BUILD_ID];
    unsigned build_id_bytes;
    bool is_narrow;         // for 32 bits: only named, not unwound
    bool is_data;           // no program or library: code that a program has made itself
    unsigned segment_count; // of code
    struct mirror_segment {
        uint64_t offset, bytes; // in the file
        uint64_t address;       // virtual
    } * segments;
};

// A file that is mapped in a process.
struct mirrored_file {
    pid_t pid;
    uint64_t start, end; // one of its mappings
    uint64_t device, inode;
    const char *path;
};

// The mirror of a file; made when it is met first. NULL: it is no file, or there is no memory. One
// that cannot be opened has a mirror without content.
const struct mirror *mirror_of(const struct mirrored_file *file);

// The distance from a mapping, which shows the file from `offset` on at `start`, to its place in
// the mirror. False: no segment is mapped so.
bool mirror_shift(const struct mirror *mirror, uint64_t start, uint64_t offset, uintptr_t *shift);

// NULL: there is none.
const struct mirror *mirror_at(uintptr_t address);

// The table of a Go program, whose addresses are those of the mirror. NULL: it has none.
const struct gotable *mirror_go_table(const struct module_ref *module);

// Memory for the copy of a stack, apart from all that a word of a foreign stack may point to. NULL:
// none.
void *mirror_stack(size_t bytes);

#endif
