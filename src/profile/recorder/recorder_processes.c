// SPDX-License-Identifier: MIT
#include "base/system/huge.h"
#include "profile/loader.h"
#include "profile/recorder/recorder_state.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    MOST_PIDFDS = 256,
    // Processes that were never seen alive have most likely ended before the first look; but a
    // program in a pid namespace looks the same. So they are read on, until there are too many of
    // them.
    MOST_UNPROVEN = 64,
    FAR_TOO_MANY_UNPROVEN = 1024,
    MOST_WAITING = 512,   // processes, when those that are gone are let go at once
    MOST_WAITS = 2,       // readings
    MOST_STARTING = 4096, // processes that have a slice and have written nothing yet
};

// How much of a slice lies in the file: the program can reach the file and may have cut it.
static uint64_t readable_bytes(const struct recorder *recorder, const struct slice_place *place)
{
    struct stat status;
    if (fstat(recorder->memory, &status) < 0 || (uint64_t)status.st_size <= place->offset)
        return 0;
    uint64_t bytes = (uint64_t)status.st_size - place->offset;
    return bytes < place->bytes ? bytes : place->bytes;
}

static int add_process(struct recorder *recorder, uint64_t slice)
{
    struct recorded_process process = {
        .slice = slice,
        .place = {.inode = recorder->inode,
                  .offset = LIVE_SESSION_BYTES + slice * recorder->slice_bytes,
                  .bytes = recorder->slice_bytes},
        .presence = {.pidfd = -1},
    };
    if (readable_bytes(recorder, &process.place) < sizeof(struct live_process))
        return 0;
    process.memory = huge_map(process.place.bytes, PROT_READ, MAP_SHARED, recorder->memory,
                              (off_t)process.place.offset);
    if (process.memory == MAP_FAILED)
        return -errno;
    process.reader = live_reader_new(process.memory, process.place.bytes);
    if (!process.reader || !profile_grow((void **)&recorder->processes, recorder->count,
                                         recorder->count + 1, sizeof process)) {
        live_reader_free(process.reader);
        munmap(process.memory, process.place.bytes);
        return -ENOMEM;
    }
    recorder->processes[recorder->count++] = process;
    return 0;
}

// The first slice from there on that a process has written to. UINT64_MAX: none has, as yet.
static uint64_t next_written(const struct recorder *recorder, uint64_t slice)
{
    const off_t from = (off_t)(LIVE_SESSION_BYTES + slice * recorder->slice_bytes);
    const off_t at = lseek(recorder->memory, from, SEEK_DATA);
    if (at < 0)
        return errno == ENXIO ? UINT64_MAX : slice;
    return ((uint64_t)at - LIVE_SESSION_BYTES) / recorder->slice_bytes;
}

int recorder_find_slices(struct recorder *recorder)
{
    // Every agent adds one, we read. Relaxed: the content of a slice has its own order (its state).
    uint64_t slices = atomic_load_explicit(&recorder->session->slices, memory_order_relaxed);
    struct stat status;
    if (recorder->slice_bytes == 0 || fstat(recorder->memory, &status) < 0)
        return 0;
    uint64_t possible = (uint64_t)status.st_size / recorder->slice_bytes + 1;
    if (slices > possible)
        slices = possible;
    int result = 0;
    while (result == 0 && recorder->slices_seen < slices) {
        const uint64_t written = next_written(recorder, recorder->slices_seen);
        if (written >= slices)
            break;
        // So many do not begin at once: the program has overwritten the number.
        if (written - recorder->slices_seen > MOST_STARTING)
            recorder->slices_seen = written;
        result = add_process(recorder, recorder->slices_seen);
        recorder->slices_seen += result == 0;
    }
    return result;
}

// A newer program under the same pid: exec ends the older one, unless it is another namespace's
// pid.
static void end_older(struct recorder *recorder, const struct recorded_process *newer)
{
    for (size_t i = 0; i < recorder->count; i++) {
        struct recorded_process *older = &recorder->processes[i];
        if (older->ready && older->slice < newer->slice &&
            older->presence.pid == newer->presence.pid && older->presence.proven)
            older->ends |= !liveness_holds_slice(&older->presence, &older->place);
    }
}

static void welcome(struct recorder *recorder, struct recorded_process *process, uint32_t pid)
{
    const struct live_process *live = process->memory;
    process->ready = true;
    process->index = recorder->next_process++;
    process->outside = __atomic_load_n(&live->written_by_tool, __ATOMIC_RELAXED) == 1;
    if (process->outside)
        process->presence = (struct liveness){.pid = pid, .pidfd = -1, .proven = true};
    else
        liveness_start(&process->presence, pid, &process->place, recorder->pidfds < MOST_PIDFDS);
    recorder->pidfds += process->presence.pidfd >= 0;
    recorder->unproven += !process->presence.proven;
    end_older(recorder, process);
}

// Returns the process' part of the memory that all share. The program may have overwritten it.
static void give_back(struct recorder *recorder, const struct recorded_process *process)
{
    const struct live_process *live = process->memory;
    uint64_t granted = atomic_load_explicit(&live->arena.granted, memory_order_relaxed);
    if (granted > process->place.bytes)
        granted = process->place.bytes;
    atomic_fetch_add_explicit(&recorder->session->memory_left, (int64_t)granted,
                              memory_order_relaxed);
}

static void release(struct recorder *recorder, struct recorded_process *process)
{
    give_back(recorder, process);
    live_reader_free(process->reader);
    munmap(process->memory, process->place.bytes);
    recorder->pidfds -= process->presence.pidfd >= 0;
    recorder->unproven -= !process->presence.proven;
    liveness_end(&process->presence);
    // A slice may take hundreds of megabytes, and the next processes will want theirs.
    fallocate(recorder->memory, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
              (off_t)process->place.offset, (off_t)process->place.bytes);
    recorder->ended++;
}

void recorder_reaped(void *context, uint32_t parent, uint32_t pid, uint64_t cpu_ns)
{
    struct recorder *recorder = context;
    recorder->reaped[pid % REAPED] = (struct reaped){parent, pid, cpu_ns};
}

void recorder_command_ended(struct recorder *recorder, uint32_t pid, uint64_t cpu_ns)
{
    recorder_reaped(recorder, 0, pid, cpu_ns);
}

// A process that is gone: its CPU time after its goodbye, if that is known. A parent's slice comes
// before its children's, and is read before theirs.
static bool tell_end(struct recorder *recorder, struct recorded_process *process)
{
    struct reaped *reaped = &recorder->reaped[process->presence.pid % REAPED];
    if (reaped->pid == 0 || reaped->pid != process->presence.pid ||
        (reaped->parent && reaped->parent != live_reader_parent(process->reader)))
        return false;
    // An earlier program under the same pid has said no goodbye.
    if (!live_reader_end(process->reader, process->index, reaped->cpu_ns, &recorder->sink))
        return false;
    reaped->pid = 0;
    process->waits = MOST_WAITS;
    return true;
}

// The process that waits for it may need a moment, and a few slices can be kept for that long.
static bool may_be_waited_for(const struct recorder *recorder, struct recorded_process *process)
{
    return !process->ends && recorder->count <= MOST_WAITING &&
           live_reader_awaits_end(process->reader) && process->waits++ < MOST_WAITS;
}

static bool is_gone(const struct recorded_process *process)
{
    const struct live_process *live = process->memory;
    // Acquire: pairs with the release of who has ended it, so that all is read afterwards.
    return process->ends ||
           (process->outside
                ? atomic_load_explicit(&live->state, memory_order_acquire) == LIVE_ENDED
                : !liveness_lasts(&process->presence));
}

// False: it has been read for the last time and is released.
static bool update_process(struct recorder *recorder, struct recorded_process *process, bool *news,
                           enum reading reading)
{
    uint64_t bytes = readable_bytes(recorder, &process->place);
    uint32_t pid = 0;
    if (bytes < sizeof(struct live_process))
        return true;
    if (!process->ready) {
        if (!live_reader_ready(process->reader, &pid))
            return true;
        welcome(recorder, process, pid);
    }
    // Asked before reading: then all of a process that is gone has been read.
    bool gone = is_gone(process);
    bool changed = live_reader_update(process->reader, process->index, bytes,
                                      gone ? PROCESS_IS_GONE : PROCESS_RUNS, &recorder->sink);
    if (gone && !process->ends)
        changed |= tell_end(recorder, process);
    *news |= changed;
    recorder->totals.live_processes += !gone;
    if (reading == READ_LAST || !gone)
        return true;
    bool over =
        process->presence.proven || (recorder->unproven > MOST_UNPROVEN &&
                                     (!changed || recorder->unproven > FAR_TOO_MANY_UNPROVEN));
    over = over && !may_be_waited_for(recorder, process);
    if (over)
        release(recorder, process);
    return !over;
}

bool recorder_read_processes(struct recorder *recorder, enum reading reading)
{
    bool news = false;
    size_t kept = 0;
    recorder->totals.live_processes = 0;
    for (size_t i = 0; i < recorder->count; i++) {
        if (update_process(recorder, &recorder->processes[i], &news, reading)) {
            recorder->processes[kept++] = recorder->processes[i];
        }
    }
    recorder->count = kept;
    return news;
}

void recorder_drop_processes(struct recorder *recorder)
{
    for (size_t i = 0; i < recorder->count; i++) {
        struct recorded_process *process = &recorder->processes[i];
        live_reader_free(process->reader);
        munmap(process->memory, process->place.bytes);
        liveness_end(&process->presence);
    }
    free(recorder->processes);
    recorder->processes = NULL;
    recorder->count = 0;
}
