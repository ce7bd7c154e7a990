// SPDX-License-Identifier: MIT
#include "cmd/continuous/continuous.h"
#include "base/memory.h"
#include "base/new_file.h"
#include "base/now.h"
#include "base/text/text.h"
#include "cmd/continuous/deliver.h"
#include "cmd/line/command.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define NS_PER_S UINT64_C(1000000000)
#define LEAST_PAUSE_NS NS_PER_S // before a destination that failed is tried again,
#define LONGEST_PAUSE_NS (60 * NS_PER_S)
#define NEVER UINT64_MAX
#define NICE 10 // sampling, and the program, come first

struct continuous {
    const struct continuous_options *options;
    bool quiet;
    char *folder;                   // for what is not delivered yet
    char *profile;                  // of the whole recording
    struct delivery_result *result; // shared with the worker
    pid_t worker;                   // 0: none is at work
    unsigned number;                // intervals that were begun to be made
    bool makes;                     // the worker makes the interval of this number
    uint64_t interval_ns;           // when the next interval ends
    uint64_t retry_ns, pause_ns;    // when to try again; NEVER: nothing waits
    bool trouble;                   // was complained about
    struct continuous_totals totals;
};

static struct continuous *refuse(struct continuous *continuous, char **error, const char *what,
                                 const char *path)
{
    if (asprintf(error, "cannot %s %s: %s", what, path, strerror(errno)) < 0)
        *error = NULL;
    free(continuous->folder);
    free(continuous->profile);
    free(continuous);
    return NULL;
}

static bool make_below(const char *folder, const char *name)
{
    char *path = NULL;
    if (asprintf(&path, "%s/%s", folder, name) < 0)
        return false;
    const bool made = mkdir(path, 0700) == 0 || errno == EEXIST;
    free(path);
    return made;
}

// A folder of our own: below the destination, or with other temporary files.
static char *make_folder(const struct interval_destination *destination)
{
    const char *temporary = getenv("TMPDIR");
    char *folder = NULL;
    if (!destination->is_server && mkdir(destination->name, 0777) && errno != EEXIST)
        return NULL;
    if (asprintf(&folder, "%s/%scairn-intervals-XXXXXX",
                 !destination->is_server   ? destination->name
                 : temporary && *temporary ? temporary
                                           : "/tmp",
                 destination->is_server ? "" : ".") < 0)
        return NULL;
    if (mkdtemp(folder) && make_below(folder, "waiting"))
        return folder;
    free(folder);
    return NULL;
}

struct continuous *continuous_open(const struct continuous_options *options, bool quiet,
                                   char **error)
{
    const struct interval_destination *destination = &options->destination;
    struct continuous *continuous = memory_array(1, sizeof *continuous);
    continuous->options = options;
    continuous->quiet = quiet;
    continuous->folder = make_folder(destination);
    if (!continuous->folder)
        return refuse(continuous, error, "make a folder for", destination->name);
    if (asprintf(&continuous->profile, "%s/cairn.out",
                 destination->is_server ? continuous->folder : destination->name) < 0)
        memory_checked(NULL);
    continuous->result = mmap(NULL, sizeof *continuous->result, PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (continuous->result == MAP_FAILED)
        return refuse(continuous, error, "share memory for", destination->name);
    continuous->interval_ns = now_ns(CLOCK_MONOTONIC) + options->every_ns;
    continuous->retry_ns = NEVER;
    continuous->pause_ns = LEAST_PAUSE_NS;
    return continuous;
}

const char *continuous_profile(const struct continuous *continuous)
{
    return continuous->profile;
}

uint64_t continuous_due(const struct continuous *continuous)
{
    if (continuous->worker) // its end wakes who waits; and else that is soon enough
        return now_ns(CLOCK_MONOTONIC) + NS_PER_S / 10;
    return continuous->interval_ns < continuous->retry_ns ? continuous->interval_ns
                                                          : continuous->retry_ns;
}

// The worker

static _Noreturn void work(struct continuous *continuous, bool may_deliver)
{
    const struct delivery_round round = {
        .destination = &continuous->options->destination,
        .folder = continuous->folder,
        .number = continuous->makes ? continuous->number : 0,
        .may_deliver = may_deliver,
    };
    // It keeps no pipe and no memory of the recording open, and says nothing itself.
    const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd <= 2 && nothing >= 0; fd++)
        dup2(nothing, fd);
    close_range(3, ~0u, 0);
    umask(077); // as profiles are
    setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + NICE);
    delivery_work(&round, continuous->result);
    _exit(0);
}

static void start_worker(struct continuous *continuous, bool may_deliver)
{
    *continuous->result = (struct delivery_result){0};
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0)
        work(continuous, may_deliver);
    continuous->worker = pid > 0 ? pid : 0;
    if (pid < 0)
        continuous->retry_ns = now_ns(CLOCK_MONOTONIC) + continuous->pause_ns;
}

// Trouble is told of once, and its end as well.
static void report_trouble(struct continuous *continuous, const struct delivery_result *result)
{
    struct continuous_totals *totals = &continuous->totals;
    const char *name = continuous->options->destination.name;
    if (result->failed) {
        snprintf(totals->problem, sizeof totals->problem, "%s", result->reason);
        if (!continuous->trouble && !continuous->quiet)
            complain("cannot write an interval to %s: %s; it is kept, and tried again", name,
                     result->reason);
        continuous->trouble = true;
    }
    if (result->refused) {
        snprintf(totals->problem, sizeof totals->problem, "%s", result->reason);
        if (!totals->refused && !continuous->quiet)
            complain("%s refuses an interval: %s; it is lost", name, result->reason);
        totals->refused += result->refused;
    }
    if (result->delivered && continuous->trouble) {
        if (!continuous->quiet)
            complain("%s takes intervals again", name);
        continuous->trouble = false;
    }
}

static void take_result(struct continuous *continuous, int status)
{
    struct delivery_result result = *continuous->result;
    struct continuous_totals *totals = &continuous->totals;
    const uint64_t now = now_ns(CLOCK_MONOTONIC);
    if (status != 0) {
        result.failed = true;
        snprintf(result.reason, sizeof result.reason,
                 "the process that writes it was ended by signal %d",
                 WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    }
    totals->delivered += result.delivered;
    totals->empty += result.is_empty;
    totals->prolonged += continuous->makes && !result.made && !result.is_empty;
    waiting_count(continuous->folder, &totals->waiting, &totals->waiting_bytes);
    report_trouble(continuous, &result);
    continuous->retry_ns = NEVER;
    if (!result.failed)
        continuous->pause_ns = LEAST_PAUSE_NS;
    if (totals->waiting) {
        continuous->retry_ns = now + continuous->pause_ns;
        continuous->pause_ns *= 2;
        if (continuous->pause_ns > LONGEST_PAUSE_NS)
            continuous->pause_ns = LONGEST_PAUSE_NS;
    }
}

static void reap_worker(struct continuous *continuous, int how)
{
    int status = 0;
    if (!continuous->worker || waitpid(continuous->worker, &status, how) != continuous->worker)
        return;
    continuous->worker = 0;
    take_result(continuous, status);
}

// Intervals

static int copy_bytes(int from, int to)
{
    char buffer[1 << 16];
    for (ssize_t bytes; (bytes = read(from, buffer, sizeof buffer)) != 0;) {
        if (bytes < 0)
            return -errno;
        for (ssize_t done = 0, written; done < bytes; done += written)
            if ((written = write(to, buffer + done, (size_t)(bytes - done))) < 0)
                return -errno;
    }
    return 0;
}

// Copies all that is seen until now. The file does not grow meanwhile: we write it.
static int copy_profile(const struct continuous *continuous)
{
    char *path = NULL;
    struct new_file copy;
    const int from = open(continuous->profile, O_RDONLY | O_CLOEXEC);
    if (from < 0)
        return -errno;
    int error = asprintf(&path, "%s/latest.out", continuous->folder) < 0 ? -ENOMEM : 0;
    if (!error && !(error = new_file_open(&copy, path, 0600))) {
        error = new_file_end(&copy, copy_bytes(from, copy.fd), NEW_FILE_IN_CACHE);
        close(copy.fd);
    }
    free(path);
    close(from);
    return error;
}

bool continuous_wants_profile(struct continuous *continuous, uint64_t now)
{
    reap_worker(continuous, WNOHANG);
    return !continuous->worker && now >= continuous->interval_ns;
}

// False: it is left to the next interval.
static bool end_interval(struct continuous *continuous, bool fresh)
{
    const int error = fresh ? copy_profile(continuous) : -EIO;
    if (!error) {
        continuous->number++;
        return true;
    }
    continuous->totals.prolonged++;
    struct delivery_result result = {.failed = true};
    snprintf(result.reason, sizeof result.reason, "%s",
             fresh ? new_file_error(error) : "the profile of the recording cannot be written");
    report_trouble(continuous, &result);
    return false;
}

void continuous_turn(struct continuous *continuous, uint64_t now, bool fresh)
{
    const uint64_t every = continuous->options->every_ns;
    if (continuous->worker)
        return;
    const bool ends = now >= continuous->interval_ns, tries = now >= continuous->retry_ns;
    if (ends)
        continuous->interval_ns += ((now - continuous->interval_ns) / every + 1) * every;
    continuous->makes = ends && end_interval(continuous, fresh);
    if (continuous->makes || tries)
        start_worker(continuous, tries || continuous->retry_ns == NEVER);
}

// The folder stays if something waits in it.
static void remove_files(const char *folder)
{
    DIR *entries = opendir(folder);
    for (struct dirent *entry; entries && (entry = readdir(entries));)
        unlinkat(dirfd(entries), entry->d_name, 0);
    if (entries)
        closedir(entries);
    char *waiting = NULL;
    if (asprintf(&waiting, "%s/waiting", folder) >= 0) {
        rmdir(waiting);
        free(waiting);
    }
    rmdir(folder);
}

static void free_continuous(struct continuous *continuous)
{
    munmap(continuous->result, sizeof *continuous->result);
    free(continuous->folder);
    free(continuous); // the name of the profile is in use
}

void continuous_discard(struct continuous *continuous)
{
    if (!continuous)
        return;
    remove_files(continuous->folder);
    free_continuous(continuous);
}

void continuous_close(struct continuous *continuous, struct continuous_totals *totals)
{
    struct continuous_totals *ours = &continuous->totals;
    reap_worker(continuous, 0);
    const uint64_t prolonged = ours->prolonged, begun = continuous->number;
    continuous->makes = end_interval(continuous, true);
    start_worker(continuous, true);
    if (!continuous->worker)
        ours->prolonged = prolonged + 1; // no process could be started
    reap_worker(continuous, 0);
    ours->is_unmade = ours->prolonged > prolonged || continuous->number == begun;
    ours->prolonged = prolonged;
    ours->profile_is_gone = continuous->options->destination.is_server && !ours->is_unmade;
    snprintf(ours->folder, sizeof ours->folder, "%s", continuous->folder);
    *totals = *ours;
    if (!ours->is_unmade)
        remove_files(continuous->folder);
    free_continuous(continuous);
}
