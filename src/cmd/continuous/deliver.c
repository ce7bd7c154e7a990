// SPDX-License-Identifier: MIT
#include "cmd/continuous/deliver.h"
#include "analyze/tree/build.h"
#include "base/memory.h"
#include "base/new_file.h"
#include "cmd/replace_file.h"
#include "export/export.h"
#include "profile/merge/interval.h"
#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

#define NS_PER_S UINT64_C(1000000000)

__attribute__((format(printf, 1, 2))) static char *path_of(const char *format, ...)
{
    char *path = NULL;
    va_list arguments;
    va_start(arguments, format);
    if (vasprintf(&path, format, arguments) < 0)
        path = NULL;
    va_end(arguments);
    return memory_checked(path);
}

// Names are in the order of time.
static int is_waiting(const struct dirent *entry)
{
    return entry->d_name[0] >= '0' && entry->d_name[0] <= '9';
}

void waiting_count(const char *folder, uint64_t *files, uint64_t *bytes)
{
    struct dirent **entries = NULL;
    char *waiting = path_of("%s/waiting", folder);
    const int count = scandir(waiting, &entries, is_waiting, alphasort);
    *files = count > 0 ? (uint64_t)count : 0;
    *bytes = 0;
    for (int i = 0; i < count; i++) {
        struct stat status;
        char *path = path_of("%s/%s", waiting, entries[i]->d_name);
        if (!stat(path, &status))
            *bytes += (uint64_t)status.st_size;
        free(path);
        free(entries[i]);
    }
    free(entries);
    free(waiting);
}

// The interval

static bool has_cost(const struct profile *interval)
{
    for (unsigned i = 0; i < interval->tree_count; i++)
        if (interval->trees[i].count)
            return true;
    return false;
}

struct writing {
    const struct export_format *format;
    const struct export_input *input;
};

static int write_exported(FILE *out, const void *content)
{
    const struct writing *writing = content;
    return writing->format->write(out, writing->input);
}

static int export_interval(const char *from, const char *to, enum interval_format format,
                           char *reason)
{
    char *error = NULL;
    struct analysis analysis;
    const struct analysis_options options = {.inlines = true};
    const struct build_options build = {0};
    unsigned metrics[PROFILE_MOST_METRICS], count = 0;
    if (analysis_open(&analysis, from, &options, &error) < 0) {
        snprintf(reason, HTTP_REASON_BYTES, "%s", error ? error : "out of memory");
        free(error);
        return -EINVAL;
    }
    analysis_resolve(&analysis, &build);
    for (unsigned i = 0; i < analysis.profile->metric_count; i++)
        if (!profile_is_error(&analysis.profile->metrics[i]))
            metrics[count++] = i;
    const struct writing writing = {
        .format = format == INTERVAL_OTLP ? &export_otlp : &export_pprof,
        .input =
            &(struct export_input){
                .analysis = &analysis, .metrics = metrics, .metric_count = count, .build = &build},
    };
    const int result = replace_file(to, write_exported, &writing);
    analysis_close(&analysis);
    return result;
}

// The name says from when to when, for those that deliver it.
static char *name_interval(const struct delivery_round *round, const struct profile *interval)
{
    const uint64_t from = interval->start_realtime_ns,
                   until = from + interval->duration_ns + NS_PER_S - 1;
    return path_of("%s/waiting/%06u-%lu-%lu.%s", round->folder, round->number,
                   (unsigned long)(from / NS_PER_S), (unsigned long)(until / NS_PER_S),
                   interval_ending(round->destination->format));
}

static int write_interval(const struct delivery_round *round, const struct profile *interval,
                          char *reason)
{
    char *raw = path_of("%s/interval.out", round->folder),
         *ready = path_of("%s/ready", round->folder), *name = name_interval(round, interval);
    const bool exported = round->destination->format != INTERVAL_CAIRN;
    int error = profile_write(interval, raw);
    if (!error && exported)
        error = export_interval(raw, ready, round->destination->format, reason);
    if (!error && rename(exported ? ready : raw, name))
        error = -errno;
    if (error) {
        unlink(raw);
        unlink(ready);
    }
    free(raw);
    free(ready);
    free(name);
    return error;
}

// latest.out becomes what the next interval begins with.
static void make_interval(const struct delivery_round *round, struct delivery_result *result)
{
    char *latest = path_of("%s/latest.out", round->folder),
         *delivered = path_of("%s/delivered.out", round->folder), *error = NULL;
    struct profile *now = profile_read(latest, &error), *before = NULL, *interval = NULL;
    if (now && access(delivered, F_OK) == 0)
        before = profile_read(delivered, &error);
    if (now && !error)
        interval = profile_interval(before, now, &error);
    int failed = interval ? 0 : -EINVAL;
    result->is_empty = interval && !has_cost(interval);
    if (interval && !result->is_empty)
        failed = write_interval(round, interval, result->reason);
    if (!failed && rename(latest, delivered))
        failed = -errno;
    result->made = !failed && !result->is_empty;
    result->failed = failed;
    if (failed && !*result->reason)
        snprintf(result->reason, sizeof result->reason, "%s",
                 error      ? error
                 : interval ? new_file_error(failed)
                            : "out of memory");
    free(error);
    profile_free(now);
    profile_free(before);
    profile_free(interval);
    free(latest);
    free(delivered);
}

// Delivery

// Those that wait, the oldest first. A destination that cannot take one is left alone.
static void deliver_waiting(const struct delivery_round *round, struct delivery_result *result)
{
    struct dirent **entries = NULL;
    char *waiting = path_of("%s/waiting", round->folder);
    const int count = scandir(waiting, &entries, is_waiting, alphasort);
    for (int i = 0; i < count; i++) {
        struct interval_file file;
        unsigned long from, until;
        char *path = path_of("%s/%s", waiting, entries[i]->d_name);
        if (!result->failed &&
            sscanf(entries[i]->d_name, "%u-%lu-%lu", &file.number, &from, &until) == 3) {
            file.from = from;
            file.until = until;
            const enum delivery delivery =
                destination_deliver(round->destination, path, &file, result->reason);
            result->delivered += delivery == DELIVERED;
            result->refused += delivery == DELIVERY_REFUSED;
            result->failed = delivery == DELIVERY_LATER;
            if (delivery == DELIVERY_REFUSED)
                unlink(path);
        }
        free(path);
        free(entries[i]);
    }
    free(entries);
    free(waiting);
}

void delivery_work(const struct delivery_round *round, struct delivery_result *result)
{
    uint64_t files = 0, bytes = 0;
    waiting_count(round->folder, &files, &bytes);
    result->is_full = round->number && (files >= MOST_WAITING || bytes >= MOST_WAITING_BYTES);
    if (round->number && !result->is_full)
        make_interval(round, result);
    if (round->may_deliver && !result->failed)
        deliver_waiting(round, result);
}
