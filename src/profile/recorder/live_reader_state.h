// SPDX-License-Identifier: MIT
#ifndef CAIRN_PROFILE_RECORDER_LIVE_READER_STATE_H
#define CAIRN_PROFILE_RECORDER_LIVE_READER_STATE_H

// A process that is read from its live memory: between live_reader.c and live_modules.c.

#include "profile/recorder/live_contexts.h"
#include "profile/recorder/live_reader.h"
#include "profile/recorder/live_tree.h"

struct live_reader {
    const uint8_t *memory;
    struct arena arena;
    uint64_t bytes;                               // of the slice that may be touched
    ref_t modules, notes, threads, reaped, names; // heads of the lists as they were
    uint16_t *module_map; // from the process's modules to the profile's; 0: not known
    unsigned module_count;
    unsigned kernel, python, java, files; // the profile's modules for them; 0: not met yet
    struct live_tree *trees;
    unsigned tree_count;
    struct live_contexts_written contexts;
    uint32_t *creations; // from the process' steps (number - 1) to the profile's, as a creator
    uint32_t creation_count;
    struct profile_process written;
    struct live_blames_written {
        uint64_t ns, waits;
    } * blames; // by place: as written; NULL: none yet
    bool is_written;
    bool damaged; // a list or a tree made no sense
    bool damage_noted;
    bool over;              // its end is written: nothing comes after that
    uint64_t outside_ns;    // of its CPU time: start-up and exit, as written
    struct live_sink *sink; // of the update that runs
};

static inline const struct live_process *live_process_of(const struct live_reader *reader)
{
    return (const struct live_process *)reader->memory;
}

// A record of the slice, or NULL if it does not lie in there as a whole.
static inline const void *live_record_at(const struct live_reader *reader, ref_t ref,
                                         uint64_t bytes)
{
    return ref != 0 && (uint64_t)ref * 8 + bytes <= reader->bytes ? arena_at(&reader->arena, ref)
                                                                  : NULL;
}

// The records that were pushed onto a list since its head was `known`, oldest first. The number of
// them.
size_t live_new_in_list(struct live_reader *reader, ref_t head, ref_t known, ref_t **refs);

// live_blames.c: writes the pairs of waiters and holders that are new since the last time, of nodes
// that are in the profile already. True if there are any.
bool live_blames_read(struct live_reader *reader);

// live_modules.c: the modules that were found since the last time.
void live_modules_read(struct live_reader *reader);
// The names that were told since the last time.
void live_names_read(struct live_reader *reader);
// A place of the process as one of the profile. `context` is the reader.
place_t live_map_place(void *context, place_t place);
// The place of an address, by where modules lie now: those of the start-up have not moved.
place_t live_place_of(struct live_reader *reader, uint64_t address);

#endif
