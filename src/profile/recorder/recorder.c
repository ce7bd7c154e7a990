// SPDX-License-Identifier: MIT
#include "profile/recorder/recorder.h"
#include "base/new_file.h"
#include "base/now.h"
#include "event/birth.h"
#include "event/byte_sampler.h"
#include "profile/chunks/output.h"
#include "profile/merge/fold.h"
#include "profile/reader.h"
#include "profile/recorder/kernel_symbols.h"
#include "profile/recorder/metrics.h"
#include "profile/recorder/recorder_state.h"
#include "profile/timeline_records.h"
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    APPEND_LEVEL = 1,
    MOST_APART = 1024,        // ended processes that keep trees of their own
    FOLD_AFTER = 4096,        // ended processes between two compactions
    COMPACT_AFTER = 16 << 20, // bytes appended, at least
    COMPACT_GROWTH = 3,       // or this many times the compact size
    MANY_NODES = 50000,       // of a tree that is not written again for a few,
    FEW_OF_THEM = 3,          // up to one of so many
    IDLE_STATE_SECONDS = 10,  // how often the time is written when nothing else happens
    MOST_PENDING = 64 << 20,  // bytes that are kept for a disk that has no room for them
};

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
        return errno == ENOENT ||
               complain(error, "cannot write to %s: %s; name another file with -o FILE", path,
                        strerror(errno));
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

static void take_note(void *context, const char *text, size_t bytes);
static bool want_errors(void *context);

static void recorder_free(struct recorder *recorder)
{
    if (!recorder)
        return;
    recorder_drop_processes(recorder);
    for (unsigned i = 0; i < recorder->note_count; i++)
        free(recorder->notes[i]);
    module_table_free(&recorder->modules);
    kernel_symbols_free(recorder->sink.kernel);
    creation_table_free(&recorder->sink.creations);
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
    struct live_sink *sink = &recorder->sink;
    if (!recorder->path || !metrics_describe(&recorder->head, description, sink) ||
        module_table_start(&recorder->modules) < 0 || fstat(recorder->memory, &status) < 0)
        return complain(error, "no memory to record with");
    if (sink->tree->has_errors || sink->tree->weighs_edges) {
        const bool errors = sink->tree->has_errors;
        sink->bound_metric = recorder->head.metric_count;
        if (!metrics_describe_bound(&recorder->head, errors ? "error" : "edges",
                                    errors ? PROFILE_ERROR : PROFILE_EDGE))
            return complain(error, "no memory to record with");
    }
    sink->metrics = recorder->head.metric_count;
    recorder->inode = status.st_ino;
    // If the program cut the file, our next look would be answered by SIGBUS. Best effort: not
    // every memory file can be sealed.
    fcntl(recorder->memory, F_ADD_SEALS, F_SEAL_SHRINK);
    recorder->head.start_realtime_ns = now_ns(CLOCK_REALTIME);
    recorder->start_ns = recorder->told_ns = now_ns(CLOCK_MONOTONIC);
    chunk_put_file_head(&recorder->batch.out);
    write_session(&recorder->batch, &recorder->head);
    sink->start_ns = recorder->start_ns;
    if (sink->has_timeline)
        timeline_put_start(&recorder->batch,
                           &(struct profile_timeline){
                               .recorded = true,
                               .start_ns = recorder->start_ns,
                               .metrics = {sink->time_metrics[0], sink->time_metrics[1]},
                               .metric_count = sink->times,
                           });
    batch_flush(&recorder->batch);
    recorder->file = output_replace_and_open(description->path, &recorder->batch.out);
    if (recorder->file < 0)
        return complain(error, "cannot write to %s: %s; name another file with -o FILE",
                        description->path, new_file_error(recorder->file));
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
    // Charges of the timeline, and pairs of waiters and holders, name trees.
    recorder->keeps_trees = session->options.per_thread || session->options.timeline ||
                            live_has(&session->options, LIVE_EVENT_LOCK);
    recorder->batch.level = APPEND_LEVEL;
    recorder->sink = (struct live_sink){
        .batch = &recorder->batch,
        .modules = &recorder->modules,
        .totals = &recorder->totals,
        .note = take_note,
        .note_context = recorder,
        .reaped = recorder_reaped,
        .follows_calls = description_follows_calls(description),
        .allocates = description_allocates(description),
        .alloc_shift = session->options.alloc_period ? BYTE_SAMPLER_SHIFT : 0,
        .time_value = live_time_value(&session->options),
        .counter_value = live_counter_value(&session->options),
        .caused = {{.value = live_io_value(&session->options)},
                   {.value = live_lock_value(&session->options)},
                   {.value = live_offcpu_value(&session->options)}},
        .tree = tree_traits_of(session->options.tree),
        .has_timeline = session->options.timeline,
        .want_errors = want_errors,
        .errors_context = recorder,
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
    write_note(&recorder->batch, copy);
}

void recorder_note(struct recorder *recorder, const char *text)
{
    take_note(recorder, text, strlen(text));
}

const char *recorder_noted(const struct recorder *recorder, unsigned index)
{
    return index < recorder->note_count ? recorder->notes[index] : NULL;
}

void recorder_kernel(struct recorder *recorder, const char *kernel)
{
    write_kernel(&recorder->batch, kernel);
}

void recorder_startup(struct recorder *recorder,
                      bool (*startup)(void *context, uint32_t pid, struct startup_samples *samples),
                      void *context)
{
    recorder->sink.startup = startup;
    recorder->sink.startup_context = context;
}

void recorder_overhead(struct recorder *recorder, const struct profile_overhead *overhead)
{
    write_overhead(&recorder->batch, overhead);
}

// A full tree has begun to forget: from now on the profile has errors, too.
static bool want_errors(void *context)
{
    struct recorder *recorder = context;
    if (recorder->sink.bound_metric)
        return true;
    if (!metrics_describe_bound(&recorder->head, "error", PROFILE_ERROR))
        return false;
    recorder->sink.bound_metric = recorder->sink.metrics;
    recorder->sink.metrics = recorder->head.metric_count;
    write_session(&recorder->batch, &recorder->head);
    return true;
}

// Compacting

// The file may have been moved, or removed with its folder.
enum name_owner { NAME_IS_OURS, NAME_IS_GONE, NAME_IS_OF_ANOTHER };

static enum name_owner check_name(const struct recorder *recorder)
{
    struct stat named, open_file;
    if (stat(recorder->path, &named) < 0)
        return NAME_IS_GONE;
    if (fstat(recorder->file, &open_file) < 0 || named.st_ino != open_file.st_ino ||
        named.st_dev != open_file.st_dev)
        return NAME_IS_OF_ANOTHER;
    return NAME_IS_OURS;
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

// Puts the content, rewritten, in the file's place.
static int rewrite(struct recorder *recorder, struct profile *profile)
{
    uint32_t *tree_map = calloc((size_t)profile->tree_count + 1, sizeof *tree_map);
    uint32_t trees = profile->tree_count;
    struct batch batch = {0};
    const bool keeps_trees = recorder->keeps_trees;
    int result = tree_map ? 0 : -ENOMEM;
    if (result == 0 && !keeps_trees)
        result = fold(recorder, profile, tree_map);
    if (result == 0) {
        write_profile(&batch, profile);
        result = batch.out.failed ? -ENOMEM : output_replace_and_open(recorder->path, &batch.out);
    }
    if (result >= 0) {
        close(recorder->file);
        recorder->file = result;
        recorder->compact_size = batch.out.size;
        recorder->appended = 0;
        recorder->batch.out.size = 0;
        recorder->ended = 0;
        // All of the trees were written: numbers beyond those in the file cannot occur.
        for (size_t i = 0; i < recorder->count && !keeps_trees && trees; i++)
            live_reader_renumber(recorder->processes[i].reader, tree_map);
        recorder->sink.next_tree = profile->tree_count;
        result = 0;
    }
    batch_free(&batch);
    free(tree_map);
    return result;
}

enum completion { GOES_ON, IS_COMPLETE };

// All that the file has, and what there was no room for.
static uint8_t *load_all(const struct recorder *recorder, size_t *size)
{
    const struct bytes *pending = &recorder->batch.out;
    uint8_t *data = profile_load_file(recorder->file, size);
    uint8_t *all = data ? realloc(data, *size + pending->size + 1) : NULL;
    if (!all) {
        free(data);
        return NULL;
    }
    if (pending->size)
        memcpy(all + *size, pending->data, pending->size);
    *size += pending->size;
    return all;
}

static int compact(struct recorder *recorder, enum completion completion)
{
    if (check_name(recorder) == NAME_IS_OF_ANOTHER)
        return -ESTALE;
    size_t size;
    uint8_t *data = load_all(recorder, &size);
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

// Keeps bytes that cannot be written: the next update tries again. If it becomes too much, the file
// stays as it is for good: later records would refer to missing ones.
static int flush(struct recorder *recorder)
{
    struct bytes *out = &recorder->batch.out;
    if (out->failed)
        return -ENOMEM;
    const int result = recorder->given_up || out->size == 0 ? recorder->given_up
                                                            : output_append(recorder->file, out);
    if (result < 0 && out->size > MOST_PENDING)
        recorder->given_up = result;
    if (result == 0)
        recorder->appended += out->size;
    if (result == 0 || recorder->given_up)
        out->size = 0;
    return result;
}

static void tell_modules(struct recorder *recorder)
{
    struct module_table *modules = &recorder->modules;
    for (; modules->written < modules->count; modules->written++)
        write_module(&recorder->batch, modules->written, &modules->modules[modules->written]);
}

static void tell_source(struct recorder *recorder)
{
    if (recorder->told_source == recorder->sink.source)
        return;
    for (unsigned i = 0; i < recorder->sink.times; i++) {
        struct profile_metric *metric = &recorder->head.metrics[recorder->sink.time_metrics[i]];
        if (profile_is_caused(metric) || profile_is_counter(metric))
            continue;
        char *source = strdup(live_source_name(recorder->sink.source));
        if (!source)
            return;
        free(metric->source);
        metric->source = source;
    }
    recorder->told_source = recorder->sink.source;
    write_session(&recorder->batch, &recorder->head);
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
    int result = recorder_find_slices(recorder);
    bool news = recorder_read_processes(recorder, reading);
    recorder->tellings += news;
    tell_modules(recorder);
    tell_source(recorder);
    const uint64_t now = now_ns(CLOCK_MONOTONIC);
    // Relaxed: a number by itself.
    atomic_store_explicit(&recorder->session->birth,
                          birth_of(birth_clock(now - recorder->start_ns)), memory_order_relaxed);
    if (news || has_records(recorder) || reading == READ_LAST ||
        now - recorder->told_ns > IDLE_STATE_SECONDS * UINT64_C(1000000000)) {
        write_state(&recorder->batch, now - recorder->start_ns, false);
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

// A tree that was written once cannot become shorter, and a large one hardly if most of it was:
// writing it again would take as long as reading it has.
static bool is_compact(const struct recorder *recorder)
{
    const uint64_t nodes = recorder->totals.nodes;
    return (recorder->tellings <= 1 ||
            (nodes >= MANY_NODES && recorder->sink.retold <= nodes / FEW_OF_THEM)) &&
           recorder->next_process <= 1 && recorder->sink.next_tree <= 1;
}

static int end_in_place(struct recorder *recorder)
{
    write_state(&recorder->batch, now_ns(CLOCK_MONOTONIC) - recorder->start_ns, true);
    batch_flush(&recorder->batch);
    return flush(recorder);
}

int recorder_close(struct recorder *recorder)
{
    int result = update(recorder, READ_LAST);
    const enum name_owner name = check_name(recorder);
    if (result == 0 && is_compact(recorder) && name == NAME_IS_OURS)
        result = end_in_place(recorder);
    else if (result == 0 || (recorder->batch.out.size > 0 && !recorder->batch.out.failed))
        result = compact(recorder, IS_COMPLETE); // which may find room where a longer file does not
    if (result < 0 && recorder->batch.out.size == 0 && !recorder->given_up) {
        // No room for a second copy, perhaps: all of it is in the file, wherever that is by now,
        // and only the end is missing.
        const int ended = end_in_place(recorder);
        if (name == NAME_IS_OURS)
            result = ended;
    }
    recorder_free(recorder);
    return result;
}
