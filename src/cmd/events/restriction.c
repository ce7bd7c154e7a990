// SPDX-License-Identifier: MIT

#include "cmd/events/restriction.h"
#include "cmd/events/sources.h"
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#define PARANOID_FILE "/proc/sys/kernel/perf_event_paranoid"

long read_setting(const char *path, long missing)
{
    FILE *file = fopen(path, "re");
    long value;
    const bool read = file && fscanf(file, "%ld", &value) == 1;
    if (file)
        fclose(file);
    return read ? value : missing;
}

// The kernel itself checks the flags first: any other answer to invalid ones comes from a filter in
// front of it.
static bool reaches_kernel(void)
{
    return syscall(SYS_perf_event_open, NULL, 0, -1, -1, ~0UL) < 0 && errno == EINVAL;
}

static bool has_old_kernel(char *release, size_t size)
{
    struct utsname system;
    unsigned major = 0, minor = 0;
    if (uname(&system) || sscanf(system.release, "%u.%u", &major, &minor) != 2)
        return false;
    snprintf(release, size, "%.64s", system.release);
    return major < 5 || (major == 5 && minor < 13);
}

bool restriction_of(enum live_event event, struct restriction *restriction)
{
    const int error = try_source(event, LIVE_SOURCE_SIGTRAP);
    *restriction->reason = *restriction->remedy = 0;
    if (!error || error == -ENOTSUP)
        return false;
    restriction_of_error(error, event == LIVE_EVENT_WALL || event == LIVE_EVENT_OFFCPU ? 1 : 2,
                         restriction);
    return true;
}

void restriction_of_error(int error, long needed, struct restriction *restriction)
{
    const long paranoid = read_setting(PARANOID_FILE, LONG_MIN);
    char *const reason = restriction->reason, *const remedy = restriction->remedy;
    char release[72];
    *reason = *remedy = 0;
    if (paranoid == LONG_MIN && error == -ENOSYS) {
        snprintf(reason, sizeof restriction->reason, "this kernel was built without perf events");
    } else if (!reaches_kernel()) {
        snprintf(reason, sizeof restriction->reason,
                 "a seccomp filter forbids perf_event_open, as containers do");
        snprintf(remedy, sizeof restriction->remedy,
                 "start the container with --security-opt seccomp=unconfined (docker, podman), or "
                 "with a profile that allows perf_event_open");
    } else if ((error == -EACCES || error == -EPERM) && paranoid > needed) {
        snprintf(reason, sizeof restriction->reason,
                 "kernel.perf_event_paranoid is %ld, and without CAP_PERFMON this event needs %ld "
                 "or less",
                 paranoid, needed);
        snprintf(remedy, sizeof restriction->remedy, "sudo sysctl kernel.perf_event_paranoid=%ld",
                 needed);
    } else if (error == -EACCES || error == -EPERM) {
        snprintf(reason, sizeof restriction->reason,
                 "a security module (SELinux, AppArmor, lockdown) forbids perf events");
        snprintf(remedy, sizeof restriction->remedy,
                 "give the process CAP_PERFMON, or look at the log: sudo dmesg");
    } else if (error == -EINVAL && has_old_kernel(release, sizeof release)) {
        snprintf(reason, sizeof restriction->reason,
                 "Linux %s is too old for perf events that interrupt at once (5.13 has them)",
                 release);
    } else if (error == -EMFILE || error == -ENFILE) {
        snprintf(reason, sizeof restriction->reason, "there are too many open files");
        snprintf(remedy, sizeof restriction->remedy, "ulimit -n 1024");
    } else {
        snprintf(reason, sizeof restriction->reason, "perf_event_open fails: %s", strerror(-error));
    }
}
