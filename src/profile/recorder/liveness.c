// SPDX-License-Identifier: MIT
#include "profile/recorder/liveness.h"
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum mapped { NOT_MAPPED, MAPPED, CANNOT_TELL };

static bool line_shows_slice(const char *line, const struct slice_place *place)
{
    uint64_t start, end, offset, inode;
    if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %" SCNx64 " %*s %" SCNu64, &start, &end, &offset,
               &inode) != 4)
        return false;
    return inode == place->inode && offset < place->offset + place->bytes &&
           offset + (end - start) > place->offset;
}

static enum mapped find_mapping(uint32_t pid, const struct slice_place *place)
{
    char path[40];
    snprintf(path, sizeof path, "/proc/%u/maps", pid);
    FILE *maps = fopen(path, "re");
    if (!maps)
        return errno == ENOENT || errno == ESRCH ? NOT_MAPPED : CANNOT_TELL;
    char *line = NULL;
    size_t capacity = 0;
    enum mapped mapped = NOT_MAPPED;
    while (mapped == NOT_MAPPED && getline(&line, &capacity, maps) > 0)
        if (line_shows_slice(line, place))
            mapped = MAPPED;
    free(line);
    fclose(maps);
    return mapped;
}

static int open_pidfd(uint32_t pid)
{
    return pid ? (int)syscall(SYS_pidfd_open, (pid_t)pid, 0) : -1;
}

static bool has_exited(int pidfd)
{
    struct pollfd wait = {.fd = pidfd, .events = POLLIN};
    return poll(&wait, 1, 0) > 0;
}

void liveness_start(struct liveness *presence, uint32_t pid, const struct slice_place *place,
                    bool keep)
{
    *presence = (struct liveness){.pid = pid, .pidfd = open_pidfd(pid)};
    if (presence->pidfd < 0)
        return;
    // Maps that we may not read prove nothing: in a pid namespace, pid 1 is not our init. In this
    // order: if the process that the descriptor stands for still runs after its maps were read,
    // they were its maps.
    presence->proven = find_mapping(pid, place) == MAPPED && !has_exited(presence->pidfd);
    if (!presence->proven || !keep)
        liveness_end(presence);
}

void liveness_end(struct liveness *presence)
{
    if (presence->pidfd >= 0)
        close(presence->pidfd);
    presence->pidfd = -1;
}

bool liveness_lasts(const struct liveness *presence)
{
    if (!presence->proven)
        return false;
    if (presence->pidfd >= 0)
        return !has_exited(presence->pidfd);
    int pidfd = open_pidfd(presence->pid);
    if (pidfd < 0)
        return false;
    bool lasts = !has_exited(pidfd);
    close(pidfd);
    return lasts;
}

bool liveness_holds_slice(const struct liveness *presence, const struct slice_place *place)
{
    return presence->proven && find_mapping(presence->pid, place) != NOT_MAPPED;
}
