// SPDX-License-Identifier: MIT
// The functions by which programs map memory, and grow and shrink their data segment. Allocators
// inside of libc do so by functions of its own: these are not seen.

#undef _FILE_OFFSET_BITS // headers would give mmap() the name of mmap64(): both are wanted

#include "agent/interpose/dl_interpose.h"
#include "agent/interpose/events/alloc.h"
#include "agent/interpose/interposed.h"
#include <stdarg.h>
#include <sys/mman.h>
#include <unistd.h>

__attribute__((constructor(101))) static void look_up_maps(void)
{
    interposed_look_up_all(INTERPOSED_GROUP(interposed_map));
}

struct interposed_group alloc_map_functions(void)
{
    return INTERPOSED_GROUP(interposed_map);
}

void alloc_tell_trackers_of_maps(void)
{
    interposed_tell_trackers(alloc_map_functions());
}

#define FRAME __builtin_frame_address(0)

// As the kernel takes it.
static uint64_t whole_pages(size_t bytes)
{
    return (bytes + 4095) & ~UINT64_C(4095);
}

// Whether the call is the program's, and counts. The agent maps memory, too.
#define COUNTS                                                                                     \
    (counted_is_on(LIVE_EVENT_ALLOC) && !dl_interpose_is_ours(__builtin_return_address(0)))

void *mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset);
void *mmap64(void *address, size_t bytes, int protection, int flags, int fd, off64_t offset);
int munmap(void *address, size_t bytes);
void *mremap(void *address, size_t bytes, size_t more, int flags, ...);
int brk(void *end);
void *sbrk(intptr_t more);
INTERPOSED_FUNCTION(mmap, interposed_map);
INTERPOSED_FUNCTION(mmap64, interposed_map);
INTERPOSED_FUNCTION(munmap, interposed_map);
INTERPOSED_FUNCTION(mremap, interposed_map);
INTERPOSED_FUNCTION(brk, interposed_map);
INTERPOSED_FUNCTION(sbrk, interposed_map);

#define MAP(name)                                                                                  \
    ({                                                                                             \
        void *const mapped = INTERPOSED_REAL(name)(address, bytes, protection, flags, fd, offset); \
        if (mapped != MAP_FAILED && COUNTS)                                                        \
            alloc_note_mapping(whole_pages(bytes), 0, FRAME);                                      \
        mapped;                                                                                    \
    })

INTERPOSED void *mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    return MAP(mmap);
}

INTERPOSED void *mmap64(void *address, size_t bytes, int protection, int flags, int fd,
                        off64_t offset)
{
    return MAP(mmap64);
}

INTERPOSED int munmap(void *address, size_t bytes)
{
    const int result = INTERPOSED_REAL(munmap)(address, bytes);
    if (result == 0 && COUNTS)
        alloc_note_mapping(0, whole_pages(bytes), FRAME);
    return result;
}

INTERPOSED void *mremap(void *address, size_t bytes, size_t more, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    void *to = flags & MREMAP_FIXED ? va_arg(arguments, void *) : NULL;
    va_end(arguments);
    void *const moved = INTERPOSED_REAL(mremap)(address, bytes, more, flags, to);
    const uint64_t before = whole_pages(bytes), after = whole_pages(more);
    if (moved != MAP_FAILED && COUNTS)
        alloc_note_mapping(after > before ? after - before : 0, before > after ? before - after : 0,
                           FRAME);
    return moved;
}

// By how much the data segment has grown; or shrunk, a negative number.
static void note_growth(intptr_t bytes, const void *frame)
{
    if (bytes)
        alloc_note_mapping(bytes > 0 ? (uint64_t)bytes : 0, bytes < 0 ? 0 - (uint64_t)bytes : 0,
                           frame);
}

INTERPOSED int brk(void *end)
{
    const bool counts = COUNTS;
    const char *const before = counts ? INTERPOSED_REAL(sbrk)(0) : NULL;
    const int result = INTERPOSED_REAL(brk)(end);
    if (counts && result == 0)
        note_growth((const char *)end - before, FRAME);
    return result;
}

INTERPOSED void *sbrk(intptr_t more)
{
    void *const before = INTERPOSED_REAL(sbrk)(more);
    if ((intptr_t)before != -1 && COUNTS)
        note_growth(more, FRAME);
    return before;
}
