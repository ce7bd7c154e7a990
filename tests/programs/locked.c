// SPDX-License-Identifier: MIT
// Programs that lock all of their memory, as an ordinary user who may not lock much.

#include "common.h"
#include <errno.h>
#include <linux/capability.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LITTLE ((rlim_t)64 << 10)
#define ENOUGH ((rlim_t)8 << 20) // as much as users may lock, by default
#define STACK_BYTES (128 << 10)

static volatile uint64_t sink;

NOIPA void locked_work(int value)
{
    sink += burn((uint64_t)value, 200);
    NO_TAIL_CALL();
}

static NOIPA void *locked_thread(void *argument)
{
    for (int i = 0; i < 50; i++)
        locked_work(i);
    return argument;
}

static void work(void)
{
    pthread_t thread;
    pthread_attr_t attributes;
    locked_thread(NULL);
    CHECK(pthread_attr_init(&attributes) == 0);
    CHECK(pthread_attr_setstacksize(&attributes, STACK_BYTES) == 0);
    int error = pthread_create(&thread, &attributes, locked_thread, NULL);
    if (error == 0)
        pthread_join(thread, NULL);
    pthread_attr_destroy(&attributes);
    printf("thread: %s\n", strerror(error));
}

static void may_lock(rlim_t bytes)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];
    struct rlimit limit = {bytes, bytes};
    CHECK(syscall(SYS_capget, &header, data) == 0);
    data[0].effective &= ~(1u << CAP_IPC_LOCK);
    data[0].permitted &= ~(1u << CAP_IPC_LOCK);
    CHECK(syscall(SYS_capset, &header, data) == 0);
    CHECK(setrlimit(RLIMIT_MEMLOCK, &limit) == 0);
}

// Whether the mapping at the address is locked, as the kernel tells it.
static int is_locked(const void *address)
{
    char line[512];
    int here = 0, locked = -1;
    FILE *file = fopen("/proc/self/smaps", "r");
    CHECK(file != NULL);
    while (fgets(line, sizeof line, file)) {
        uintptr_t start, end;
        if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
            here = (uintptr_t)address >= start && (uintptr_t)address < end;
        if (here && !strncmp(line, "VmFlags:", 8))
            locked = strstr(line, " lo ") != NULL;
    }
    fclose(file);
    return locked;
}

static void tell(const char *what, long result)
{
    void *heap = malloc(100), *fresh;
    int error = errno;
    fresh = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(heap != NULL);
    printf("%s: %s; code %d, stack %d, heap %d, data %d, new memory %d\n", what,
           result ? strerror(error) : "done", is_locked((const void *)(uintptr_t)tell),
           is_locked(&error), is_locked(heap), is_locked((const void *)&sink), is_locked(fresh));
    if (fresh != MAP_FAILED)
        munmap(fresh, 1 << 20);
    free(heap);
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    locked_thread(NULL);
    may_lock(!strcmp(mode, "none") ? 0 : !strcmp(mode, "little") ? LITTLE : ENOUGH);
    tell("all", mlockall(MCL_CURRENT | MCL_FUTURE));
    work();
    tell("what there is", mlockall(MCL_CURRENT));
    work();
    tell("no more", munlockall());
    tell("as it comes", syscall(SYS_mlockall, MCL_CURRENT | MCL_ONFAULT));
    work();
    tell("no such way", mlockall(64));
    tell("from now on", mlockall(MCL_FUTURE));
    work();
    return 0;
}
