// SPDX-License-Identifier: MIT
#include "profile/recorder/snapshot.h"
#include "event/event.h"
#include "live/choices.h"
#include "profile/recorder/recorder.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define NS_PER_S 1e9

bool snapshot_is_one(const uint8_t *data, size_t size)
{
    uint64_t magic;
    if (size < sizeof magic)
        return false;
    memcpy(&magic, data, sizeof magic);
    return magic == LIVE_MAGIC;
}

static struct profile *fail(char **error, const char *name, const char *why)
{
    if (asprintf(error, "%s %s", name, why) < 0)
        *error = NULL;
    return NULL;
}

// Nothing in it is believed: numbers that name something must name something that there is.
static bool is_sound(const struct live_session *session, size_t size)
{
    return session->slice_bytes >= sizeof(struct live_process) &&
           session->slice_bytes % LIVE_SESSION_BYTES == 0 &&
           session->slice_bytes < (UINT64_C(1) << 40) && session->options.event < LIVE_EVENTS &&
           session->options.tracker <= LIVE_TRACKER_ENCODE &&
           session->options.tree <= LIVE_TREE_FUNCTIONS && session->options.period_ns > 0 &&
           size >= LIVE_SESSION_BYTES + sizeof(struct live_process) &&
           memchr(session->tree_name, 0, sizeof session->tree_name);
}

// The bytes as a memory file: no other process can shorten it meanwhile.
static int memory_of(const uint8_t *data, size_t size)
{
    int fd = memfd_create("cairn-snapshot", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -1;
    size_t written = 0;
    while (written < size) {
        ssize_t count = pwrite(fd, data + written, size - written, (off_t)written);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            break;
        written += (size_t)count;
    }
    if (written == size)
        return fd;
    close(fd);
    return -1;
}

static struct recorder_description metrics_describe(const struct live_session *session,
                                                    const char *path, char *const *command)
{
    const struct live_options *options = &session->options;
    const bool counts = !event_of(options->event)->by_clock;
    return (struct recorder_description){
        .path = path,
        .command = command,
        .events = {{.name = event_of(options->event)->name,
                    .unit = event_of(options->event)->unit,
                    .period = options->trigger ? options->call_period
                              : counts         ? 1
                                               : options->period_ns,
                    .rate_requested = counts ? 0 : NS_PER_S / (double)options->period_ns}},
        .event_count = 1,
        .tracker = live_word(LIVE_TRACKERS, options->tracker),
        .tree_kind = session->tree_name,
    };
}

// Through the recorder, into a file of ours, and back.
static struct profile *convert(struct live_session *session, int fd, const char *path,
                               const char *name, char **error)
{
    char *const command[] = {(char *)(uintptr_t)name, NULL};
    const struct recorder_description description = metrics_describe(session, path, command);
    struct recorder *recorder = recorder_open(&description, fd, session, error);
    if (!recorder)
        return NULL;
    int result = recorder_close(recorder);
    if (result < 0)
        return fail(error, name, strerror(-result));
    return profile_read(path, error);
}

// Corrects what the recorder could not know: all of it happened some time ago.
static void correct(struct profile *profile, const struct live_session *session, size_t size)
{
    profile->start_realtime_ns = session->start_realtime_ns;
    profile->file_bytes = size;
    if (!profile->process_count)
        return;
    const struct profile_process *process = &profile->processes[0];
    profile->duration_ns =
        process->end_ns > process->start_ns ? process->end_ns - process->start_ns : 0;
    char **command = process->command, **old = profile->command;
    size_t words = 0;
    while (command && command[words])
        words++;
    char **copy = words ? calloc(words + 1, sizeof *copy) : NULL;
    for (size_t i = 0; copy && i < words; i++)
        if (!(copy[i] = strdup(command[i])))
            words = i;
    if (!copy)
        return;
    for (char **word = old; word && *word; word++)
        free(*word);
    free(old);
    profile->command = copy;
}

static struct profile *convert_beside(struct live_session *session, int fd, const char *name,
                                      char **error)
{
    const char *folder = getenv("TMPDIR");
    char *place = NULL, *path = NULL;
    struct profile *profile = NULL;
    if (asprintf(&place, "%s/cairn-snapshot-XXXXXX", folder && *folder ? folder : "/tmp") < 0)
        return fail(error, name, "cannot be read: no memory");
    if (!mkdtemp(place) || asprintf(&path, "%s/profile", place) < 0) {
        fail(error, name, "cannot be read: no room for a temporary file (TMPDIR)");
    } else {
        profile = convert(session, fd, path, name, error);
        unlink(path);
        rmdir(place);
    }
    free(path);
    free(place);
    return profile;
}

struct profile *snapshot_parse(const uint8_t *data, size_t size, const char *name, char **error)
{
    // A page of its own, that the recorder may look at like at the shared one.
    union {
        struct live_session session;
        uint8_t bytes[LIVE_SESSION_BYTES];
    } page;
    memset(&page, 0, sizeof page);
    memcpy(&page, data, size < sizeof page ? size : sizeof page);
    struct live_session *session = &page.session;
    if (size >= sizeof page && session->version != LIVE_VERSION)
        return fail(error, name, "is a snapshot by another version of cairn");
    if (!is_sound(session, size))
        return fail(error, name, "is a damaged snapshot: there is nothing to be read in it");
    atomic_store_explicit(&session->slices, 1, memory_order_relaxed);
    int fd = memory_of(data, size);
    if (fd < 0)
        return fail(error, name, "cannot be read: no memory");
    struct profile *profile = convert_beside(session, fd, name, error);
    close(fd);
    if (profile)
        correct(profile, session, size);
    return profile;
}
