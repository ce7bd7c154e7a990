// SPDX-License-Identifier: MIT
// A program that looks at its own stack all the time, by the unwinder that the first argument
// names, and knows what it has seen before from there. Prints how many traces were others.

#include "common.h"
#include <execinfo.h>
#include <pthread.h>
#include <unwind.h>
#ifdef WITH_LIBUNWIND
#define UNW_LOCAL_ONLY
#include <libunwind.h>
#endif

enum { LEVELS = 24, LIMIT = 96, ROUNDS = 12000 };

struct trace {
    void *frames[LIMIT];
    int count;
};

static void (*look)(struct trace *trace); // by which unwinder
static __thread volatile uint64_t sink;

static _Unwind_Reason_Code visit(struct _Unwind_Context *context, void *argument)
{
    struct trace *trace = argument;
    if (trace->count < LIMIT)
        trace->frames[trace->count++] = (void *)_Unwind_GetIP(context);
    return _URC_NO_REASON;
}

static NOIPA void look_by_libgcc(struct trace *trace)
{
    _Unwind_Backtrace(visit, trace);
    NO_TAIL_CALL();
}

static NOIPA void look_by_libc(struct trace *trace)
{
    trace->count = backtrace(trace->frames, LIMIT);
    NO_TAIL_CALL();
}

// Not by a handler's first instruction: a sample has the time to see this function.
static NOIPA void look_at_caller(struct trace *trace)
{
    for (int i = 0; i < 2000; i++)
        sink += (uint64_t)i * 7;
    trace->frames[trace->count++] = __builtin_return_address(0);
}

#ifdef WITH_LIBUNWIND
static NOIPA void look_by_steps(struct trace *trace)
{
    unw_context_t context;
    unw_cursor_t cursor;
    unw_word_t address;
    CHECK(!unw_getcontext(&context) && !unw_init_local(&cursor, &context));
    do {
        unw_get_reg(&cursor, UNW_REG_IP, &address);
        trace->frames[trace->count++] = (void *)address;
    } while (trace->count < LIMIT && unw_step(&cursor) > 0);
}

static NOIPA void look_by_libunwind(struct trace *trace)
{
    trace->count = unw_backtrace(trace->frames, LIMIT);
    NO_TAIL_CALL();
}
#endif

static NOIPA void work(void)
{
    for (int i = 0; i < 20; i++)
        sink += (uint64_t)i * 7;
}

struct traces {
    struct trace first[LEVELS];
    unsigned seen, different;
};

static NOIPA void compare(struct traces *traces, int levels)
{
    struct trace now = {.count = 0}, *first = &traces->first[levels];
    look(&now);
    traces->seen++;
    if (!first->count)
        *first = now;
    else if (memcmp(first, &now, sizeof now))
        traces->different++;
}

static NOIPA void go_down(struct traces *traces, int left, int levels)
{
    work();
    if (left)
        go_down(traces, left - 1, levels);
    else
        compare(traces, levels);
    work();
    NO_TAIL_CALL();
}

static void *look_around(void *traces)
{
    for (int i = 0; i < ROUNDS; i++)
        go_down(traces, i % LEVELS, i % LEVELS);
    return NULL;
}

static int run(void)
{
    static struct traces traces[2];
    struct trace before = {.count = 0};
    pthread_t thread;
    // An unwinder that remembers tables shows itself once: not while the others are at work.
    look(&before);
    CHECK(!pthread_create(&thread, NULL, look_around, &traces[1]));
    look_around(&traces[0]);
    CHECK(!pthread_join(thread, NULL));
    for (int i = 0; i < 2; i++) {
        unsigned frames = 0;
        for (int level = 0; level < LEVELS; level++)
            frames += (unsigned)traces[i].first[level].count;
        printf("%u traces, %u frames from all levels, %u times others\n", traces[i].seen, frames,
               traces[i].different);
    }
    return 0;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*look)(struct trace *trace);
    } ways[] = {
        {"libgcc", look_by_libgcc}, {"libc", look_by_libc},           {"caller", look_at_caller},
#ifdef WITH_LIBUNWIND
        {"steps", look_by_steps},   {"libunwind", look_by_libunwind},
#endif
    };
    for (size_t i = 0; argc > 1 && i < sizeof ways / sizeof *ways; i++)
        if (!strcmp(ways[i].name, argv[1]))
            look = ways[i].look;
    return look ? run() : 2;
}
