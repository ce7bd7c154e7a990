// SPDX-License-Identifier: MIT
#ifndef CAIRN_TRACK_RUNTIMES_RUNTIME_NAMES_H
#define CAIRN_TRACK_RUNTIMES_RUNTIME_NAMES_H

// Places of functions that only a language's runtime can name. Such a place is a hash of the names:
// the same function and line is the same place in every process. The names lie beside the trees, in
// the memory that the recorder reads.

#include "base/arena.h"
#include "base/place.h"
#include "live/live.h"

// The process, or a child of fork, which tells what its parent has not: they are in one profile. In
// normal context, before threads are sampled.
// `note` hears when there is no room for more names.
void runtime_names_start(struct arena *arena, _Atomic ref_t *names, void (*note)(const char *text));

// Another recording begins in this process, and hears all names anew. Before runtime_names_start().
void runtime_names_forget(void);

// A function that a runtime runs.
struct runtime_frame {
    place_t function;
    place_t line;    // of what it executes
    uintptr_t proof; // a word of the runtime's that shows later that it still is that one; 0: none
};

// A place of a module (MODULE_PYTHON, MODULE_JAVA) by a hash. Even, so that a place after it is free for the
// return address of a call. Never an offset of another meaning.
place_t runtime_place(unsigned module, uint64_t hash);

static inline uint64_t runtime_hash(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

// True once for each place: then its names are to be told. Signal-safe.
bool runtime_names_lack(place_t place);

// A record with room for the texts, the function's name first, then the file. NULL: no memory. It
// is told when it is pushed. Both signal-safe.
struct live_name *runtime_name_new(size_t function_bytes, size_t file_bytes);
void runtime_name_push(struct live_name *name);

#endif
