// SPDX-License-Identifier: MIT
// Preloaded into `cairn record -p`: appends how long threads of the other process were stopped, in
// ns, each in a line, to the file $STOP_TIMES.

#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void append(uint64_t ns)
{
    const char *path = getenv("STOP_TIMES");
    char line[32];
    const int length = snprintf(line, sizeof line, "%llu\n", (unsigned long long)ns);
    const int file = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
    if (file < 0 || write(file, line, (size_t)length) != length)
        abort();
    close(file);
}

long ptrace(enum __ptrace_request request, ...)
{
    static long (*real)(enum __ptrace_request, ...);
    static uint64_t interrupted; // one at a time
    va_list arguments;
    va_start(arguments, request);
    const pid_t pid = va_arg(arguments, pid_t);
    void *const address = va_arg(arguments, void *);
    void *const data = va_arg(arguments, void *);
    va_end(arguments);
    if (!real)
        real = dlsym(RTLD_NEXT, "ptrace");
    if (request == PTRACE_INTERRUPT)
        interrupted = now_ns();
    const long result = real(request, pid, address, data);
    if (request == PTRACE_DETACH && interrupted) {
        append(now_ns() - interrupted);
        interrupted = 0;
    }
    return result;
}
