// SPDX-License-Identifier: MIT
// Programs that look at their own stack: what they see must be what is there.

#include "common.h"
#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <unistd.h>
#include <unwind.h>

enum { DEPTH = 12, LIMIT = 64 };
static volatile uint64_t sink;
static uint64_t digest;
static int printing;

NOIPA void trace_work(int value)
{
    sink += burn((uint64_t)value, 30);
    NO_TAIL_CALL();
}

static void add_frame(const void *address)
{
    Dl_info info;
    const char *module = "?";
    uintptr_t offset = 0;
    if (dladdr(address, &info) && info.dli_fname) {
        module = strrchr(info.dli_fname, '/') ? strrchr(info.dli_fname, '/') + 1 : info.dli_fname;
        offset = (uintptr_t)address - (uintptr_t)info.dli_fbase;
    }
    for (const char *letter = module; *letter; letter++)
        digest = (digest ^ (unsigned char)*letter) * 0x100000001b3u;
    digest = (digest ^ offset) * 0x100000001b3u;
    if (printing)
        printf("  %s+%lx\n", module, (unsigned long)offset);
}

NOIPA void trace_glibc(void)
{
    void *frames[LIMIT];
    int count = backtrace(frames, LIMIT);
    for (int i = 0; i < count; i++)
        add_frame(frames[i]);
}

static _Unwind_Reason_Code visit(struct _Unwind_Context *context, void *count)
{
    add_frame((const void *)_Unwind_GetIP(context));
    ++*(int *)count;
    return _URC_NO_REASON;
}

NOIPA void trace_unwind(void)
{
    int count = 0;
    _Unwind_Backtrace(visit, &count);
    digest += (uint64_t)count;
}

NOIPA void trace_level(int depth, int i)
{
    trace_work(i);
    if (depth > 0)
        trace_level(depth - 1, i);
    else if (i % 2)
        trace_glibc();
    else
        trace_unwind();
    trace_work(i);
    NO_TAIL_CALL();
}

static void *trace_thread(void *unused)
{
    for (int i = 0; i < 100; i++)
        trace_level(DEPTH, i);
    return unused;
}

static int run_digest(void)
{
    for (int i = 0; i < 100; i++)
        trace_level(DEPTH, i);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, trace_thread, NULL) == 0);
    pthread_join(thread, NULL);
    printing = 1;
    printf("digest %llx\n", (unsigned long long)digest);
    for (int i = 0; i < 4; i++) {
        printf("trace %d\n", i);
        trace_level(3, i);
    }
    return 0;
}

// Computes at the bottom of known frames until somebody has looked at it, and prints its pid when
// it is there.
NOIPA void watched_bottom(void)
{
    printf("%d\n", getpid());
    fflush(stdout);
    uint64_t end = thread_cpu_ns() + UINT64_C(20000000000);
    while (thread_cpu_ns() < end && access("stop", F_OK) != 0)
        trace_work(1);
}

NOIPA void watched_middle(int depth)
{
    if (depth > 0)
        watched_middle(depth - 1);
    else
        watched_bottom();
    NO_TAIL_CALL();
}

static int run_watched(void)
{
    watched_middle(10);
    return 0;
}

int main(int argc, char **argv)
{
    static const struct mode modes[] = {{"digest", run_digest}, {"watched", run_watched}};
    return RUN_MODE(modes);
}
