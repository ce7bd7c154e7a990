// SPDX-License-Identifier: MIT
#include "profile/recorder.h"
#include "profile/encode.h"
#include "profile/fold.h"
#include "profile/live_reader.h"
#include "profile/loader.h"
#include "profile/output.h"
#include "profile/presence.h"
#include "profile/reader.h"
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    APPEND_LEVEL = 3,
    COMPACT_LEVEL = 9,
    MOST_NOTES = 100,
    MOST_PIDFDS = 256,
    // Processes that were never seen alive have most likely ended before the first look; but a
    // program in a pid namespace looks the same. So they are read on, until there are too many of
    // them.
    MOST_UNPROVEN = 64,
    MOST_APART = 1024,        // ended processes that keep trees of their own
    FOLD_AFTER = 4096,        // ended processes between two compactions
    COMPACT_AFTER = 16 << 20, // bytes appended, at least
    COMPACT_GROWTH = 3,       // or this many times the compact size
    IDLE_STATE_SECONDS = 10,  // how often the time is told when nothing else happens
};

// One process, from when its slice appears until it has been read for the last time.
struct recorded {
    uint64_t slice;
    struct slice_place place;
    void *memory;
    struct live_reader *reader;
    struct presence presence;
    uint32_t index; // in the profile
    bool ready;     // has come far enough to be in the profile
    bool ends;      // another program runs under its pid
};

struct recorder {
    char *path;
    int file;
    struct profile head; // what the session record tells
    struct batch batch;
    struct live_sink sink;
    struct module_table modules;
    struct recorder_totals totals;
    int memory; // the live memory's descriptor
    ino_t inode;
    struct live_session *session;
    // Copies of what the session tells: the program could overwrite the originals.
    uint64_t slice_bytes;
    bool per_thread;
    uint64_t slices_seen;
    struct recorded *processes; // that are still read
    size_t count;
    unsigned pidfds, unproven;
    uint32_t next_process;
    uint32_t told_source;
    char *notes[MOST_NOTES];
    unsigned note_count;
    uint64_t start_ns, told_ns;
    uint64_t appended, compact_size; // bytes of the file
    unsigned ended;                  // processes since the last compaction
};

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

// Opening

__attribute__((format(printf, 2, 3))) static bool complain(char **error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (vasprintf(error, format, arguments) < 0)
        *error = NULL;
    va_end(arguments);
    return false;
}

// Whether the profile may take the place of what has its name now.
static bool may_replace(const char *path, char **error)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return errno == ENOENT || complain(error, "cannot write to %s: %s", path, strerror(errno));
    struct stat status;
    uint8_t head[FILE_HEAD_BYTES];
    bool ordinary = fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
    bool profile = ordinary && (status.st_size == 0 ||
                                (read(fd, head, sizeof head) == (ssize_t)sizeof head &&
                                 chunk_check_file_head(head, sizeof head) != HEAD_FOREIGN));
    bool locked = profile && output_is_locked(fd);
    close(fd);
    if (!ordinary)
        return complain(error, "%s is not an ordinary file: name another one with -o FILE", path);
    if (!profile)
        return complain(
            error, "%s is not a cairn profile and stays as it is: name another file with -o FILE",
            path);
    if (locked)
        return complain(
            error, "%s is being recorded by another cairn: name another file with -o FILE", path);
    return true;
}

static char *copy_text(const char *text)
{
    return strdup(text ? text : "");
}

static bool describe(struct profile *head, const struct recorder_description *description)
{
    size_t words = 0;
    while (description->command && description->command[words])
        words++;
    head->command = calloc(words + 1, sizeof *head->command);
    head->metrics = calloc(1, sizeof *head->metrics);
    if (!head->command || !head->metrics)
        return false;
    bool whole = true;
    for (size_t i = 0; i < words; i++)
        whole &= (head->command[i] = copy_text(description->command[i])) != NULL;
    head->metric_count = 1;
    struct profile_metric *metric = &head->metrics[0];
    whole &= (head->tracker = copy_text(description->tracker)) != NULL;
    whole &= (head->tree_kind = copy_text(description->tree_kind)) != NULL;
    whole &= (metric->name = copy_text(description->event)) != NULL;
    whole &= (metric->unit = copy_text(description->unit)) != NULL;
    whole &= (metric->source = copy_text(live_source_name(LIVE_SOURCE_AUTO))) != NULL;
    metric->period = description->period;
    metric->rate_requested = description->rate_requested;
    head->start_realtime_ns = clock_ns(CLOCK_REALTIME);
    return whole;
}

static void take_note(void *context, const char *text, size_t bytes);

static void recorder_free(struct recorder *recorder)
{
    if (!recorder)
        return;
    for (size_t i = 0; i < recorder->count; i++) {
        struct recorded *process = &recorder->processes[i];
        live_reader_free(process->reader);
        munmap(process->memory, process->place.bytes);
        presence_end(&process->presence);
    }
    free(recorder->processes);
    for (unsigned i = 0; i < recorder->note_count; i++)
        free(recorder->notes[i]);
    module_table_free(&recorder->modules);
    batch_free(&recorder->batch);
    struct profile *head = malloc(sizeof *head); // profile_free() frees its argument as well
    if (head) {
        *head = recorder->head;
        profile_free(head);
    }
    if (recorder->file >= 0)
        close(recorder->file);
    free(recorder->path);
    free(recorder);
}

static bool start(struct recorder *recorder, const struct recorder_description *description,
                  char **error)
{
    recorder->path = strdup(description->path);
    struct stat status;
    if (!recorder->path || !describe(&recorder->head, description) ||
        module_table_start(&recorder->modules) < 0 || fstat(recorder->memory, &status) < 0)
        return complain(error, "no memory to record with");
    recorder->inode = status.st_ino;
    recorder->start_ns = recorder->told_ns = clock_ns(CLOCK_MONOTONIC);
    chunk_put_file_head(&recorder->batch.out);
    encode_session(&recorder->batch, &recorder->head);
    batch_flush(&recorder->batch);
    recorder->file = output_replace_and_open(description->path, &recorder->batch.out);
    if (recorder->file < 0)
        return complain(error, "cannot write to %s: %s", description->path,
                        strerror(-recorder->file));
    recorder->compact_size = recorder->batch.out.size;
    recorder->batch.out.size = 0;
    return true;
}

struct recorder *recorder_open(const struct recorder_description *description, int fd,
                               struct live_session *session, char **error)
{
    if (!may_replace(description->path, error))
        return NULL;
    struct recorder *recorder = calloc(1, sizeof *recorder);
    if (!recorder) {
        complain(error, "no memory to record with");
        return NULL;
    }
    recorder->file = -1;
    recorder->memory = fd;
    recorder->session = session;
    recorder->slice_bytes = session->slice_bytes;
    recorder->per_thread = session->options.per_thread;
    recorder->batch.level = APPEND_LEVEL;
    recorder->sink = (struct live_sink){
        .batch = &recorder->batch,
        .modules = &recorder->modules,
        .totals = &recorder->totals,
        .note = take_note,
        .note_context = recorder,
        .metrics = 1,
    };
    if (start(recorder, description, error))
        return recorder;
    recorder_free(recorder);
    return NULL;
}

// Notes

// Said once, whichever process says it.
static void take_note(void *context, const char *text, size_t bytes)
{
    struct recorder *recorder = context;
    char *copy = strndup(text, bytes);
    if (!copy)
        return;
    for (char *at = copy; *at; at++)
        if ((unsigned char)*at < ' ' || *at == 0x7f)
            *at = ' ';
    bool known = copy[0] == '\0' || recorder->note_count == MOST_NOTES;
    for (unsigned i = 0; i < recorder->note_count && !known; i++)
        known = strcmp(recorder->notes[i], copy) == 0;
    if (known) {
        free(copy);
        return;
    }
    recorder->notes[recorder->note_count++] = copy;
    encode_note(&recorder->batch, copy);
}

void recorder_note(struct recorder *recorder, const char *text)
{
    take_note(recorder, text, strlen(text));
}

// Processes

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
    struct recorded process = {
        .slice = slice,
        .place = {.inode = recorder->inode,
                  .offset = LIVE_SESSION_BYTES + slice * recorder->slice_bytes,
                  .bytes = recorder->slice_bytes},
        .presence = {.pidfd = -1},
    };
    if (readable_bytes(recorder, &process.place) < sizeof(struct live_process))
        return 0;
    process.memory = mmap(NULL, process.place.bytes, PROT_READ, MAP_SHARED, recorder->memory,
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

static int find_new_slices(struct recorder *recorder)
{
    // Every agent adds one, we read. Relaxed: what is in a slice has its own order (its state).
    uint64_t slices = atomic_load_explicit(&recorder->session->slices, memory_order_relaxed);
    struct stat status;
    if (recorder->slice_bytes == 0 || fstat(recorder->memory, &status) < 0)
        return 0;
    uint64_t possible = (uint64_t)status.st_size / recorder->slice_bytes + 1;
    if (slices > possible)
        slices = possible;
    int result = 0;
    while (result == 0 && recorder->slices_seen < slices) {
        result = add_process(recorder, recorder->slices_seen);
        recorder->slices_seen += result == 0;
    }
    return result;
}

// A newer program under the same pid: exec ends the older one, unless it is another namespace's
// pid.
static void end_older(struct recorder *recorder, const struct recorded *newer)
{
    for (size_t i = 0; i < recorder->count; i++) {
        struct recorded *older = &recorder->processes[i];
        if (older->ready && older->slice < newer->slice &&
            older->presence.pid == newer->presence.pid && older->presence.proven)
            older->ends |= !presence_holds_slice(&older->presence, &older->place);
    }
}

static void welcome(struct recorder *recorder, struct recorded *process, uint32_t pid)
{
    process->ready = true;
    process->index = recorder->next_process++;
    presence_start(&process->presence, pid, &process->place, recorder->pidfds < MOST_PIDFDS);
    recorder->pidfds += process->presence.pidfd >= 0;
    recorder->unproven += !process->presence.proven;
    end_older(recorder, process);
}

static void release(struct recorder *recorder, struct recorded *process)
{
    live_reader_free(process->reader);
    munmap(process->memory, process->place.bytes);
    recorder->pidfds -= process->presence.pidfd >= 0;
    recorder->unproven -= !process->presence.proven;
    presence_end(&process->presence);
    // A slice may take hundreds of megabytes, and the next processes will want theirs.
    fallocate(recorder->memory, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
              (off_t)process->place.offset, (off_t)process->place.bytes);
    recorder->ended++;
}

enum reading { READ_ON, READ_LAST };

// False: it has been read for the last time and is released.
static bool update_process(struct recorder *recorder, struct recorded *process, bool *news,
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
    // Asked before reading: what is read of a process that was gone by then is all there is.
    bool gone = process->ends || !presence_lasts(&process->presence);
    bool changed = live_reader_update(process->reader, process->index, bytes,
                                      gone ? PROCESS_IS_GONE : PROCESS_RUNS, &recorder->sink);
    *news |= changed;
    recorder->totals.live_processes += !gone;
    if (reading == READ_LAST || !gone)
        return true;
    bool over = process->presence.proven ||
                (recorder->unproven > MOST_UNPROVEN && (!changed || recorder->unproven > 1024));
    if (over)
        release(recorder, process);
    return !over;
}

static bool update_processes(struct recorder *recorder, enum reading reading)
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

// Compacting

static bool replaced_by_others(const struct recorder *recorder)
{
    struct stat named, open_file;
    if (stat(recorder->path, &named) < 0)
        return false;
    return fstat(recorder->file, &open_file) < 0 || named.st_ino != open_file.st_ino ||
           named.st_dev != open_file.st_dev;
}

static int fold(struct recorder *recorder, struct profile *profile, uint32_t *tree_map)
{
    bool *apart = calloc((size_t)profile->process_count + 1, sizeof *apart);
    if (!apart)
        return -ENOMEM;
    for (size_t i = 0; i < recorder->count; i++)
        if (recorder->processes[i].ready && recorder->processes[i].index < profile->process_count)
            apart[recorder->processes[i].index] = !profile->complete;
    int result = profile_fold(profile, MOST_APART, apart, tree_map);
    free(apart);
    return result;
}

// Puts the file's content, rewritten, in its place. What was appended so far is all in the file.
static int rewrite(struct recorder *recorder, struct profile *profile)
{
    uint32_t *tree_map = calloc((size_t)profile->tree_count + 1, sizeof *tree_map);
    uint32_t trees = profile->tree_count;
    struct batch batch = {.level = COMPACT_LEVEL};
    bool per_thread = recorder->per_thread;
    int result = tree_map ? 0 : -ENOMEM;
    if (result == 0 && !per_thread)
        result = fold(recorder, profile, tree_map);
    if (result == 0) {
        encode_profile(&batch, profile);
        result = batch.out.failed ? -ENOMEM : output_replace_and_open(recorder->path, &batch.out);
    }
    if (result >= 0) {
        close(recorder->file);
        recorder->file = result;
        recorder->compact_size = batch.out.size;
        recorder->appended = 0;
        recorder->ended = 0;
        // Trees were told in full: numbers beyond those in the file cannot occur.
        for (size_t i = 0; i < recorder->count && !per_thread && trees; i++)
            live_reader_renumber(recorder->processes[i].reader, tree_map);
        recorder->sink.next_tree = profile->tree_count;
        result = 0;
    }
    batch_free(&batch);
    free(tree_map);
    return result;
}

enum completion { GOES_ON, IS_COMPLETE };

static int compact(struct recorder *recorder, enum completion completion)
{
    if (replaced_by_others(recorder))
        return -ESTALE;
    size_t size;
    uint8_t *data = profile_load_file(recorder->file, &size);
    if (!data)
        return -errno;
    char *error = NULL;
    struct profile *profile = profile_parse(data, size, WRITER_MYSELF, recorder->path, &error);
    free(data);
    free(error);
    if (!profile)
        return -ENOMEM;
    profile->complete = completion == IS_COMPLETE;
    // Every tree that was numbered must be there, or the numbers of those to come would clash.
    int result =
        profile->tree_count == recorder->sink.next_tree ? rewrite(recorder, profile) : -EBADMSG;
    profile_free(profile);
    return result;
}

static bool worth_compacting(const struct recorder *recorder)
{
    uint64_t most = recorder->compact_size * COMPACT_GROWTH;
    return recorder->ended >= FOLD_AFTER ||
           recorder->appended > (most > COMPACT_AFTER ? most : COMPACT_AFTER);
}

// Updating

static int flush(struct recorder *recorder)
{
    if (recorder->batch.out.failed)
        return -ENOMEM;
    if (recorder->batch.out.size == 0)
        return 0;
    int result = output_append(recorder->file, &recorder->batch.out);
    if (result < 0)
        return result; // kept: the next update tries again before it reads more
    recorder->appended += recorder->batch.out.size;
    recorder->batch.out.size = 0;
    return 0;
}

static void tell_modules(struct recorder *recorder)
{
    struct module_table *modules = &recorder->modules;
    for (; modules->written < modules->count; modules->written++)
        encode_module(&recorder->batch, modules->written, &modules->modules[modules->written]);
}

static void tell_source(struct recorder *recorder)
{
    if (recorder->told_source == recorder->sink.source)
        return;
    char *source = strdup(live_source_name(recorder->sink.source));
    if (!source)
        return;
    free(recorder->head.metrics[0].source);
    recorder->head.metrics[0].source = source;
    recorder->told_source = recorder->sink.source;
    encode_session(&recorder->batch, &recorder->head);
}

static bool has_records(const struct recorder *recorder)
{
    for (unsigned type = 0; type < CHUNK_TYPES; type++)
        if (recorder->batch.payload[type].size)
            return true;
    return recorder->batch.out.size > 0;
}

static int update(struct recorder *recorder, enum reading reading)
{
    int result = flush(recorder);
    if (result < 0)
        return result;
    result = find_new_slices(recorder);
    bool news = update_processes(recorder, reading);
    tell_modules(recorder);
    tell_source(recorder);
    uint64_t now = clock_ns(CLOCK_MONOTONIC);
    if (news || has_records(recorder) || reading == READ_LAST ||
        now - recorder->told_ns > IDLE_STATE_SECONDS * UINT64_C(1000000000)) {
        encode_state(&recorder->batch, now - recorder->start_ns, false);
        recorder->told_ns = now;
    }
    batch_flush(&recorder->batch);
    int flushed = flush(recorder);
    return flushed < 0 ? flushed : result;
}

int recorder_update(struct recorder *recorder)
{
    int result = update(recorder, READ_ON);
    if (result == 0 && worth_compacting(recorder)) {
        // A failure here costs nothing but space: the file is whole as it is. Try again later.
        if (compact(recorder, GOES_ON) < 0) {
            recorder->appended = 0;
            recorder->ended = 0;
        }
    }
    return result;
}

void recorder_totals(const struct recorder *recorder, struct recorder_totals *totals)
{
    *totals = recorder->totals;
}

int recorder_close(struct recorder *recorder)
{
    int result = update(recorder, READ_LAST);
    if (result == 0)
        result = compact(recorder, IS_COMPLETE);
    if (result < 0 && recorder->batch.out.size == 0) {
        // No room for a second copy, perhaps: all of it is in the file, and only the end is
        // missing.
        encode_state(&recorder->batch, clock_ns(CLOCK_MONOTONIC) - recorder->start_ns, true);
        batch_flush(&recorder->batch);
        int ended = flush(recorder);
        if (result != -ESTALE)
            result = ended;
    }
    recorder_free(recorder);
    return result;
}
