// SPDX-License-Identifier: MIT
#include "agent/session/tracer.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

bool tracer_is_present(uint32_t but)
{
    char text[1024] = "";
    // The shorter way, where it leads to the same: each folder is made when it is first asked for.
    const bool main = syscall(SYS_gettid) == syscall(SYS_getpid);
    const char *path = main ? "/proc/self/status" : "/proc/thread-self/status";
    // Not by functions of libc, where a thread may be cancelled.
    const int file = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return false;
    const long bytes = syscall(SYS_read, file, text, sizeof text - 1);
    syscall(SYS_close, file);
    const char *tracer = bytes > 0 ? strstr(text, "TracerPid:\t") : NULL;
    const unsigned long number = tracer ? strtoul(tracer + sizeof "TracerPid:\t" - 1, NULL, 10) : 0;
    return number != 0 && number != but;
}
