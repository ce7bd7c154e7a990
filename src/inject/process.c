// SPDX-License-Identifier: MIT
#include "inject/process.h"
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

bool process_read(pid_t pid, uint64_t address, void *to, size_t bytes)
{
    struct iovec here = {to, bytes}, there = {(void *)address, bytes};
    return process_vm_readv(pid, &here, 1, &there, 1, 0) == (ssize_t)bytes;
}

// Into code, too.
bool process_write(pid_t pid, uint64_t address, const void *from, size_t bytes)
{
    char path[40];
    snprintf(path, sizeof path, "/proc/%d/mem", (int)pid);
    const int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0)
        return false;
    const bool written = pwrite(file, from, bytes, (off_t)address) == (ssize_t)bytes;
    close(file);
    return written;
}

bool process_read_status(pid_t pid, pid_t tid, struct process_status *status)
{
    char path[64];
    size_t length = 0;
    snprintf(path, sizeof path, "/proc/%d/task/%d/status", (int)pid, (int)tid);
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    for (ssize_t got = 1;
         file >= 0 && got > 0 && length<sizeof status->text - 1; length += got> 0 ? (size_t)got : 0)
        got = read(file, status->text + length, sizeof status->text - 1 - length);
    if (file >= 0)
        close(file);
    status->text[length] = 0;
    return length != 0;
}

const char *process_field(const struct process_status *status, const char *field)
{
    const size_t length = strlen(field);
    for (const char *line = status->text; *line; line += *line == '\n') {
        if (!strncmp(line, field, length) && line[length] == ':')
            return line + length + 1 + strspn(line + length + 1, "\t ");
        line += strcspn(line, "\n");
    }
    return "";
}

bool process_runs(pid_t pid)
{
    struct process_status status;
    if (!process_read_status(pid, pid, &status))
        return false;
    const char state = *process_field(&status, "State");
    return state && state != 'Z' && state != 'X';
}
