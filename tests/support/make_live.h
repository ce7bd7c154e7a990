// SPDX-License-Identifier: MIT
#ifndef CAIRN_TESTS_MAKE_LIVE_H
#define CAIRN_TESTS_MAKE_LIVE_H

// Live memory as the tool makes it and agents fill it, for tests of the recorder.

#include "live/live.h"
#include <stdint.h>
#include <sys/types.h>

struct fake_live {
    int fd;
    struct live_session *session;
    uint64_t slice_bytes;
};

struct fake_process {
    struct arena arena;
    struct live_process *process;
    uint64_t bytes;
};

struct fake_live fake_live_new(uint64_t slice_bytes, unsigned most_slices);
void fake_live_free(struct fake_live *live);

// Takes the next slice. command: words with NUL between and behind them.
struct fake_process fake_process_new(struct fake_live *live, pid_t pid, const char *command,
                                     size_t command_bytes);
void fake_process_free(struct fake_process *process); // unmaps; the slice stays
void fake_module(struct fake_process *process, unsigned id, const char *path);
struct live_thread *fake_thread(struct fake_process *process, place_t start);
// A step of a path on which threads were created (level 0: a frame); its number.
uint32_t fake_creation(struct fake_process *process, uint32_t parent, uint32_t level, place_t site,
                       place_t function);
void fake_note(struct fake_process *process, const char *text);

// One sample at the path of functions path[0..depth-1] (offsets in module 3) and the statement pc.
void fake_sample(struct fake_process *process, struct live_thread *thread, const uint64_t *path,
                 unsigned depth, uint64_t pc, uint64_t cost);

#endif
