// SPDX-License-Identifier: MIT
// Preloaded into `cairn record -p`: kills its two processes before the call of number $KILL_AT with
// which they look at another process or change it. The calls of both are counted together.

#include <dlfcn.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

// Both processes write it.
static struct shared {
    _Atomic long left;
    _Atomic pid_t recorder;
} * shared;
static pid_t front;

__attribute__((constructor)) static void begin(void)
{
    const char *number = getenv("KILL_AT");
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    shared->left = number ? atol(number) : -1;
    front = getpid();
}

static void count(void)
{
    if (getpid() != front)
        shared->recorder = getpid();
    if (--shared->left)
        return;
    if (getpid() == front && shared->recorder)
        kill(shared->recorder, SIGKILL);
    else
        kill(front, SIGKILL);
    kill(getpid(), SIGKILL);
}

long ptrace(enum __ptrace_request request, ...)
{
    va_list arguments;
    va_start(arguments, request);
    const pid_t pid = va_arg(arguments, pid_t);
    void *const address = va_arg(arguments, void *);
    void *const data = va_arg(arguments, void *);
    va_end(arguments);
    static long (*real)(enum __ptrace_request, ...);
    if (!real)
        real = dlsym(RTLD_NEXT, "ptrace");
    count();
    return real(request, pid, address, data);
}

ssize_t pwrite64(int file, const void *data, size_t bytes, off64_t at)
{
    static ssize_t (*real)(int, const void *, size_t, off64_t);
    if (!real)
        real = dlsym(RTLD_NEXT, "pwrite64");
    count();
    return real(file, data, bytes, at);
}

ssize_t process_vm_readv(pid_t pid, const struct iovec *here, unsigned long heres,
                         const struct iovec *there, unsigned long theres, unsigned long flags)
{
    static ssize_t (*real)(pid_t, const struct iovec *, unsigned long, const struct iovec *,
                           unsigned long, unsigned long);
    if (!real)
        real = dlsym(RTLD_NEXT, "process_vm_readv");
    count();
    return real(pid, here, heres, there, theres, flags);
}
