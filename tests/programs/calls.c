// SPDX-License-Identifier: MIT
// Calls of every kind. The program counts them itself, at the call site, and tells at its end who
// called whom how often: "caller callee count". Built by the test, with `cairn cc`.

#include "calls.h"
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

static volatile int sink;

NOIPA static void leaf(void)
{
    sink++;
}

NOIPA static void other_leaf(void)
{
    sink--;
}

// ACCT, Figure 6.

NOIPA static void c(void)
{
    sink++;
}

NOIPA static void b(void)
{
    for (int i = 0; i < 100; i++)
        CALL(b, c);
}

NOIPA static void a(void)
{
    for (int i = 0; i < 10; i++)
        CALL(a, b);
}

static int figure6(void)
{
    CALL(main, a);
    return 0;
}

// Slots of functions that have returned, where the next call does not reach.

NOIPA static void nine(int p, int q, int r, int s, int t, int u, int v, int w, int x)
{
    sink = p + q + r + s + t + u + v + w + x;
}

NOIPA static int compare(const void *left, const void *right)
{
    const int x = *(const int *)left, y = *(const int *)right;
    TRUTH(anybody, compare); // called by qsort
    CALL(compare, leaf);
    return x - y;
}

NOIPA static void sorts(int values)
{
    int numbers[64];
    for (int i = 0; i < values; i++)
        numbers[i] = i * 37 % values;
    CALL(sorts, leaf);
    qsort(numbers, (size_t)values, sizeof *numbers, compare);
    CALL(sorts, other_leaf);
}

// Sorts by itself, so that its caller's sort is told from its own by the stack alone.
NOIPA static void sorts_twice(void)
{
    CALL(sorts_twice, sorts, 16);
    int numbers[4] = {4, 3, 2, 1};
    qsort(numbers, 4, sizeof *numbers, compare);
    CALL(sorts_twice, sorts, 4);
}

NOIPA static void grows(int bytes)
{
    CALL(grows, leaf);
    volatile char *room = __builtin_alloca((size_t)bytes);
    room[0] = 1;
    CALL(grows, other_leaf);
    CALL(grows, nine, 1, 2, 3, 4, 5, 6, 7, 8, room[0]);
}

NOIPA static void returns_deep(int depth)
{
    if (depth)
        CALL(returns_deep, returns_deep, depth - 1);
    CALL(returns_deep, nine, 1, 2, 3, 4, 5, 6, 7, 8, 9);
    CALL(returns_deep, leaf);
}

static int stale(void)
{
    for (int i = 0; i < 200; i++) {
        CALL(main, sorts, 5 + i % 40);
        CALL(main, sorts_twice);
        CALL(main, grows, 16 + i * 40);
        CALL(main, returns_deep, i % 7);
    }
    return 0;
}

// A counter for every context, of functions chosen by a small generator.

NOIPA static void wander(uint32_t *state, int depth);

NOIPA static void left_turn(uint32_t *state, int depth)
{
    CALL(left_turn, wander, state, depth);
    if (next_random(state) % 2)
        CALL(left_turn, leaf);
}

NOIPA static void right_turn(uint32_t *state, int depth)
{
    if (next_random(state) % 3)
        CALL(right_turn, other_leaf);
    CALL(right_turn, wander, state, depth);
}

NOIPA static void wander(uint32_t *state, int depth)
{
    while (depth > 0 && next_random(state) % 4) {
        depth--;
        if (next_random(state) % 2)
            CALL(wander, left_turn, state, depth);
        else
            CALL(wander, right_turn, state, depth);
    }
}

static int wandering(void)
{
    uint32_t state = 42;
    for (int i = 0; i < 3000; i++)
        CALL(main, wander, &state, 12);
    return 0;
}

// Deep recursion.

NOIPA static int recurse(int depth)
{
    int below = depth > 1 ? CALL(recurse, recurse, depth - 1) : 0;
    NO_TAIL_CALL();
    return below + 1;
}

static int recursion(void)
{
    CHECK(CALL(main, recurse, 100000) == 100000);
    CHECK(CALL(main, recurse, 50000) == 50000);
    return 0;
}

// longjmp out of functions, from wherever.

static jmp_buf home;

NOIPA static void leaps(int depth)
{
    if (depth == 0)
        longjmp(home, 1);
    CALL(leaps, leaf);
    CALL(leaps, leaps, depth - 1);
    sink++;
}

NOIPA static void lands(int depth)
{
    if (setjmp(home) == 0)
        CALL(lands, leaps, depth);
    CALL(lands, nine, 1, 2, 3, 4, 5, 6, 7, 8, 9);
}

static int jumps(void)
{
    for (int i = 0; i < 100000; i++)
        CALL(main, lands, i % 5);
    return 0;
}

// Threads.

NOIPA static void *thread_main(void *argument)
{
    uint32_t state = (uint32_t)(uintptr_t)argument;
    for (int i = 0; i < 2000; i++)
        CALL(thread_main, wander, &state, 8);
    return NULL;
}

static int threads(void)
{
    for (int round = 0; round < 3; round++) {
        pthread_t threads[6];
        for (uintptr_t i = 0; i < 6; i++) {
            // The start routine is the root of its tree: its call is the C library's.
            TRUTH(thread_main_caller, thread_main);
            CHECK(pthread_create(&threads[i], NULL, thread_main, (void *)(i + 1)) == 0);
        }
        for (int i = 0; i < 6; i++)
            pthread_join(threads[i], NULL);
    }
    return 0;
}

static int small_stacks(void)
{
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    CHECK(pthread_attr_setstacksize(&attributes, 16384) == 0);
    for (uintptr_t i = 0; i < 50; i++) {
        pthread_t thread;
        TRUTH(thread_main_caller, thread_main);
        CHECK(pthread_create(&thread, &attributes, thread_main, (void *)i) == 0);
        pthread_join(thread, NULL);
    }
    return 0;
}

// Coroutines, more of them than stacks are remembered, on stacks side by side.

#define COROUTINES 20

static ucontext_t scheduler, coroutines[COROUTINES];
static int running;

NOIPA static void yields(int depth)
{
    if (depth > 0) {
        CALL(yields, yields, depth - 1);
        CALL(yields, leaf);
        return;
    }
    CHECK(swapcontext(&coroutines[running], &scheduler) == 0);
    CALL(yields, other_leaf);
}

NOIPA static void coroutine(int number)
{
    for (int i = 0; i < 50; i++) {
        CALL(coroutine, yields, (number + i) % 6);
        CALL(coroutine, leaf);
    }
}

static int coroutine_mode(size_t stack_bytes)
{
    char *stacks = malloc(COROUTINES * stack_bytes);
    for (int i = 0; i < COROUTINES; i++) {
        getcontext(&coroutines[i]);
        coroutines[i].uc_stack.ss_sp = stacks + (size_t)i * stack_bytes;
        coroutines[i].uc_stack.ss_size = stack_bytes;
        coroutines[i].uc_link = &scheduler;
        TRUTH(coroutine_caller, coroutine);
        makecontext(&coroutines[i], (void (*)(void))coroutine, 1, i);
    }
    for (int round = 0; round < 51; round++)
        for (running = 0; running < COROUTINES; running++) {
            CHECK(swapcontext(&scheduler, &coroutines[running]) == 0);
            CALL(main, leaf);
        }
    free(stacks);
    return 0;
}

static int coroutines_large(void)
{
    return coroutine_mode(256 << 10);
}

static int coroutines_small(void)
{
    return coroutine_mode(16 << 10);
}

// Handlers of signals.

NOIPA static void handles(int signal)
{
    CALL(handles, leaf);
    (void)signal;
}

NOIPA static void raises(int depth)
{
    CALL(raises, leaf);
    if (depth) {
        CALL(raises, raises, depth - 1);
        return;
    }
    TRUTH(raises, handles);
    raise(SIGUSR1);
    CALL(raises, other_leaf);
}

static void install(int signal, int flags)
{
    struct sigaction action = {.sa_handler = handles, .sa_flags = flags};
    CHECK(sigaction(signal, &action, NULL) == 0);
}

static int handlers(void)
{
    install(SIGUSR1, SA_RESTART);
    for (int i = 0; i < 2000; i++)
        CALL(main, raises, i % 5);
    return 0;
}

static int handlers_elsewhere(void)
{
    stack_t stack = {.ss_size = 65536, .ss_sp = malloc(65536)};
    CHECK(sigaltstack(&stack, NULL) == 0);
    install(SIGUSR1, SA_RESTART | SA_ONSTACK);
    for (int i = 0; i < 2000; i++)
        CALL(main, raises, i % 5);
    return 0;
}

// A handler that comes at any instruction: in the hooks, too. Who is interrupted is anybody.
NOIPA static void interrupts(int signal)
{
    TRUTH(anybody, interrupts);
    CALL(interrupts, leaf);
    (void)signal;
}

static int storm(void)
{
    interrupt_each(200, interrupts);
    uint32_t state = 7;
    for (int i = 0; i < 60000; i++)
        CALL(main, wander, &state, 12);
    // Most of these contexts are new: handlers come while a hook is changing the tree, too.
    for (int i = 0; i < 4; i++)
        CALL(main, wander, &state, 23);
    interrupt_each(0, interrupts);
    return 0;
}

// Forks: the child is deep in the same functions, and says of itself what it called since.

NOIPA static void forks(int depth, pid_t (*make_child)(void))
{
    if (depth) {
        CALL(forks, forks, depth - 1, make_child);
        return;
    }
    pid_t child = make_child();
    CHECK(child >= 0);
    if (child == 0) {
        for (int i = 0; i < 1000; i++)
            leaf();
        _exit(0);
    }
    waitpid(child, NULL, 0);
    CALL(forks, other_leaf);
}

static int forking(void)
{
    CALL(main, forks, 3, fork);
    return 0;
}

static pid_t fork_unseen(void)
{
    return (pid_t)syscall(SYS_fork);
}

static int forking_unseen(void)
{
    TRUTH(forks, fork_unseen);
    CALL(main, forks, 3, fork_unseen);
    return 0;
}

// A child that runs in our memory, and never returns from what it calls.

NOIPA static void goes_deeper(int depth)
{
    if (depth > 0)
        CALL(goes_deeper, goes_deeper, depth - 1);
    _exit(0);
}

NOIPA static void vforks(int depth)
{
    if (depth > 0) {
        CALL(vforks, vforks, depth - 1);
    } else {
        pid_t child = vfork();
        if (child == 0)
            CALL(vforks, goes_deeper, 3);
        CHECK(child > 0 && waitpid(child, NULL, 0) == child);
    }
    CALL(vforks, leaf);
}

static int vforking(void)
{
    for (int i = 0; i < 60; i++) {
        CALL(main, vforks, i % 5);
        CALL(main, other_leaf);
    }
    return 0;
}

// Tail calls: the function that jumps is replaced.

NOIPA static void last(int number)
{
    sink = number;
}

__attribute__((noipa, optimize("O2", "optimize-sibling-calls"))) static void jumps_away(int number)
{
    sink = number;
    last(number + 1);
}

static int tail_calls(void)
{
    for (int i = 0; i < 1000; i++)
        CALL(main, jumps_away, i);
    return 0;
}

// Libraries that come and go.

static int libraries(void)
{
    for (int i = 0; i < 20; i++) {
        void *library = dlopen("./libcalls_plugin.so", RTLD_NOW);
        CHECK(library);
        int (*plugin)(int (*)(int), int) =
            (int (*)(int (*)(int), int))dlsym(library, "plugin_main");
        CHECK(plugin);
        TRUTH(main, plugin_main);
        CHECK(plugin(recurse, i + 1) == i + 1);
        dlclose(library);
    }
    return 0;
}

static const struct mode modes[] = {
    {"figure6", figure6},
    {"stale", stale},
    {"wander", wandering},
    {"recursion", recursion},
    {"jumps", jumps},
    {"threads", threads},
    {"small-stacks", small_stacks},
    {"coroutines", coroutines_large},
    {"coroutines-small", coroutines_small},
    {"handlers", handlers},
    {"handlers-elsewhere", handlers_elsewhere},
    {"storm", storm},
    {"fork", forking},
    {"fork-unseen", forking_unseen},
    {"vfork", vforking},
    {"tail-calls", tail_calls},
    {"libraries", libraries},
};

// Inlined, so that who is called by a mode is called by main.
int main(int argc, char **argv)
{
    int status = 2;
    for (size_t i = 0; argc > 1 && i < sizeof modes / sizeof *modes; i++)
        if (!strcmp(modes[i].name, argv[1]))
            status = modes[i].run();
    tell_truth();
    return status;
}
