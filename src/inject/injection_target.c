// SPDX-License-Identifier: MIT
#include "inject/injection_target.h"
#include "base/system/program.h"
#include "inject/mapping.h"
#include "inject/process.h"
#include "inject/room.h"
#include "inject/symbols.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

__attribute__((format(printf, 2, 3))) static bool refuse(struct target *target, const char *format,
                                                         ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(target->why, sizeof target->why, format, arguments);
    va_end(arguments);
    return false;
}

static bool check_state(struct target *target)
{
    const pid_t pid = target->pid;
    struct process_status status;
    if (!process_read_status(pid, pid, &status))
        return refuse(target, "there is no process %d", (int)pid);
    const char state = *process_field(&status, "State");
    const long process = atol(process_field(&status, "Tgid")),
               tracer = atol(process_field(&status, "TracerPid"));
    if (process != pid)
        return refuse(target, "%d is a thread of process %ld: give that", (int)pid, process);
    if (state == 'Z' || state == 'X')
        return refuse(target, "process %d has ended, and waits for its parent to notice", (int)pid);
    if (state == 'T')
        return refuse(target, "process %d is stopped: 'kill -CONT %d' lets it go on", (int)pid,
                      (int)pid);
    if (tracer)
        return refuse(target,
                      "process %d is traced by process %ld (a debugger, strace), which must leave "
                      "it first",
                      (int)pid, tracer);
    if (pid == getpid() || pid == getppid())
        return refuse(target, "process %d is this cairn itself, or one of its parents", (int)pid);
    return true;
}

static bool check_rights(struct target *target)
{
    char path[40], link[PATH_MAX];
    snprintf(path, sizeof path, "/proc/%d/exe", (int)target->pid);
    const ssize_t length = readlink(path, link, sizeof link - 1);
    if (length < 0 && !process_runs(target->pid))
        return refuse(target, "process %d has ended", (int)target->pid);
    if (length < 0 && errno == ENOENT)
        return refuse(target, "process %d is a thread of the kernel", (int)target->pid);
    if (length < 0)
        return refuse(target,
                      "process %d belongs to another user, or has more rights than this cairn: run "
                      "cairn as root, or as that user",
                      (int)target->pid);
    return true;
}

// A kernel that does not count filters may have more of them there than here.
bool target_confines(pid_t pid, pid_t tid)
{
    struct process_status its, ours;
    if (!process_read_status(pid, tid, &its) || !process_read_status(getpid(), getpid(), &ours))
        return false;
    const long mode = atol(process_field(&its, "Seccomp"));
    const char *filters = process_field(&its, "Seccomp_filters");
    return mode == 1 || (mode && !*filters) ||
           atol(filters) > atol(process_field(&ours, "Seccomp_filters"));
}

static bool any_thread_is_confined(pid_t pid)
{
    char path[40];
    bool any = false;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder && !any && (entry = readdir(folder));)
        any = entry->d_name[0] != '.' && target_confines(pid, (pid_t)atol(entry->d_name));
    if (folder)
        closedir(folder);
    return any;
}

// In two namespaces, or under two names.
static bool is_same_file(const char *path, const char *other)
{
    struct stat its, ours;
    return !stat(path, &its) && !stat(other, &ours) && its.st_dev == ours.st_dev &&
           its.st_ino == ours.st_ino;
}

// The same process namespace, and the folder there that shows this process: memory is shared by it.
static bool sees_this_process(pid_t pid)
{
    char its[64];
    snprintf(its, sizeof its, "/proc/%d/ns/pid", (int)pid);
    if (!is_same_file(its, "/proc/self/ns/pid"))
        return false;
    snprintf(its, sizeof its, "/proc/%d/root/proc/%d/exe", (int)pid, (int)getpid());
    return is_same_file(its, "/proc/self/exe");
}

// A service with some folders of its own may see all that it needs: the agent, and this process.
static bool check_files(struct target *target)
{
    char path[PATH_MAX + 32];
    target->fits_outside = false; // its files have other names here
    if (!sees_this_process(target->pid))
        return refuse(
            target,
            "process %d has processes and a /proc of its own (a container): run cairn where "
            "it runs, as with 'docker exec' or 'nsenter -a -t %d'",
            (int)target->pid, (int)target->pid);
    snprintf(path, sizeof path, "/proc/%d/root%s", (int)target->pid, target->agent_path);
    if (!is_same_file(path, target->agent_path))
        return refuse(target,
                      "process %d sees other files (a container, chroot), and not %s: run cairn "
                      "where it runs, as with 'docker exec' or 'nsenter -a -t %d'",
                      (int)target->pid, target->agent_path, (int)target->pid);
    return true;
}

// Threads may be ended for a system call that they were not to make, and their process with them.
static bool check_confinement(struct target *target)
{
    target->fits_outside = true;
    if (any_thread_is_confined(target->pid))
        return refuse(target,
                      "process %d, or a thread of it, is confined (seccomp): what the agent asks "
                      "of the kernel might end it; record it from its start, with cairn record "
                      "COMMAND",
                      (int)target->pid);
    return true;
}

static bool check_file(struct target *target)
{
    char path[40];
    struct program program;
    snprintf(path, sizeof path, "/proc/%d/exe", (int)target->pid);
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return refuse(target, "the program of process %d cannot be read", (int)target->pid);
    program_read(file, &program);
    close(file);
    target->fits_outside = !program.is_foreign || program.is_narrow;
    if (program.is_foreign)
        return refuse(target, "process %d runs a program for %s, and this cairn is for %s",
                      (int)target->pid, program.is_narrow ? "32 bits" : "another machine",
                      PROGRAM_MACHINE_NAME);
    return true;
}

// Functions of a library: those that are found there.
static bool find_functions(struct target *target, const struct mapping *library)
{
    static const char *const names[] = {"dlopen",
                                        "__libc_dlopen_mode",
                                        "pthread_create",
                                        "pthread_attr_init",
                                        "pthread_attr_setdetachstate",
                                        "pthread_attr_setstacksize"};
    uint64_t found[6] = {0};
    char path[PATH_MAX + 32];
    snprintf(path, sizeof path, "/proc/%d/root%s", (int)target->pid, library->path);
    if (!symbols_find(path, names, found, 6))
        return false;
    const uint64_t function = found[0] ? found[0] : found[1];
    if (function && !target->dlopen)
        target->dlopen = library->start + function;
    if (found[2] && found[3] && found[4] && found[5]) {
        target->create = library->start + found[2];
        target->prepare = library->start + found[3];
        target->set_detached = library->start + found[4];
        target->set_stack = library->start + found[5];
    }
    return true;
}

// A file beside an agent. False: the path is too long.
static bool set_beside(char *path, size_t bytes, const char *agent_path, const char *name)
{
    const char *slash = strrchr(agent_path, '/');
    const int folder = slash ? (int)(slash + 1 - agent_path) : 0;
    return snprintf(path, bytes, "%.*s%s", folder, agent_path, name) < (int)bytes;
}

static bool find_entry(struct target *target)
{
    const char *const names[] = {LIVE_ATTACH_ENTRY, LIVE_ATTACH_STATE};
    uint64_t found[2] = {0};
    if (!symbols_find(target->agent_path, names, found, 2) || !found[0] || !found[1])
        return refuse(target, "%s cannot be loaded into a running process", target->agent_path);
    target->entry = found[0];
    target->state = found[1];
    return true;
}

// An agent of this cairn: the mapped file is one of those that lie here. Any may be there, if the
// program was started with it, or loads it by itself.
static bool find_mapped_agent(struct target *target, const struct mapping *mapped)
{
    static const char *const names[] = {AGENT_NAME, ALLOC_AGENT_NAME, IO_AGENT_NAME,
                                        ALLOC_IO_AGENT_NAME};
    char path[sizeof target->agent_path], asked[sizeof target->agent_path];
    struct stat status;
    strcpy(asked, target->agent_path);
    if (!stat(asked, &status) && status.st_ino == mapped->inode)
        return true;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (set_beside(path, sizeof path, asked, names[i]) && !stat(path, &status) &&
            status.st_ino == mapped->inode) {
            strcpy(target->agent_path, path);
            return find_entry(target);
        }
    return false;
}

static bool note_agent(struct target *target, const struct mapping *mapped)
{
    target->fits_outside = false;
    if (!find_mapped_agent(target, mapped))
        return refuse(target,
                      "process %d is profiled by another version of cairn, or was before: restart "
                      "it",
                      (int)target->pid);
    target->agent_base = mapped->start - mapped->offset;
    target->fits_outside = true;
    return true;
}

// Looks at the first mapping of each file. libc and the loader are known by the names that the ABI
// gives to them: the loader's list would tell too, but is in the memory of a process that runs.
static bool look_at_library(struct target *target, const struct mapping *mapped)
{
    const bool is_libc =
        mapping_is_named(mapped, "libc.so.6") || mapping_is_named(mapped, "libc-2.");
    if (mapping_is_named(mapped, "ld-musl-"))
        return refuse(target, "process %d runs on the musl C library, and the agent on glibc",
                      (int)target->pid);
    if (mapping_is_named(mapped, "libcairn"))
        return note_agent(target, mapped);
    if (is_libc && strstr(mapped->path, " (deleted)"))
        return refuse(target, "the C library of process %d was replaced since it began: restart it",
                      (int)target->pid);
    if ((is_libc || mapping_is_named(mapped, "libpthread")) && !find_functions(target, mapped))
        return refuse(target, "the C library of process %d cannot be read", (int)target->pid);
    return true;
}

static void note_loader(struct target *target, const struct mapping *mapped)
{
    if (!mapping_is_named(mapped, "ld-linux") && !mapping_is_named(mapped, "ld-2."))
        return;
    if (!target->loader)
        target->loader = mapped->start;
    target->loader_end = mapped->end;
}

static bool find_libraries(struct target *target)
{
    static struct mapping mapped;
    char path[40], *line = NULL;
    size_t capacity = 0;
    bool fits = true;
    snprintf(path, sizeof path, "/proc/%d/maps", (int)target->pid);
    FILE *maps = fopen(path, "re");
    while (maps && fits && getline(&line, &capacity, maps) > 0)
        if (mapping_read(line, &mapped)) {
            note_loader(target, &mapped);
            fits = mapped.offset || look_at_library(target, &mapped);
        }
    free(line);
    if (maps)
        fclose(maps);
    return fits && (target->dlopen ||
                    refuse(target,
                           "process %d is statically linked, or does without the C library: "
                           "nothing can be loaded into it",
                           (int)target->pid));
}

static bool find_room(struct target *target)
{
    target->room = room_find(target->pid);
    return target->room ||
           refuse(target,
                  "process %d has no room behind the code of its libraries, where it would be led: "
                  "record it from its start, with cairn record COMMAND",
                  (int)target->pid);
}

bool target_state(const struct target *target, struct live_attached *state)
{
    return target->agent_base &&
           process_read(target->pid, target->agent_base + target->state, state, sizeof *state) &&
           state->magic == LIVE_ATTACH_MAGIC && state->version == LIVE_ATTACH_VERSION;
}

bool target_examine(struct target *target, pid_t pid, const char *agent_path)
{
    *target = (struct target){.pid = pid};
    if (!set_beside(target->agent_path, sizeof target->agent_path, agent_path,
                    ALLOC_IO_AGENT_NAME) ||
        access(target->agent_path, R_OK))
        snprintf(target->agent_path, sizeof target->agent_path, "%s", agent_path);
    return find_entry(target) && check_state(target) && check_rights(target) &&
           check_confinement(target) && check_files(target) && check_file(target) &&
           find_libraries(target) && find_room(target);
}
