// SPDX-License-Identifier: MIT
// A handler after every instruction, of the program and of whoever lives in it: the processor steps
// (the trap flag), and the handler of SIGTRAP makes a call. The program knows at each step which
// function it is in, and tells at its end how often the handler was called in which context.
//
// steps ROUNDS threads|alone: in each round, calls of every kind. In the program's own code the
// handler makes a call at each step; elsewhere, which is mostly the way from a call to its
// function, at some steps, in each round at others. Each round has a thread of its own, to which
// all calls are new; or all are in the first thread.
//
// steps ROUNDS threads|alone WARM: after so many rounds without steps.
//
// steps ROUNDS threads|alone jumps STRIDE: the handler makes no call, but jumps out of what it has
// interrupted, in each round STRIDE steps later. Then after() makes calls of every kind.

#include "calls.h"
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <ucontext.h>

#define FUNCTIONS(apply)                                                                           \
    apply(left) apply(right) apply(alpha) apply(beta) apply(delta) apply(recurses) apply(hops)     \
        apply(lands) apply(sorts) apply(compare)

#define NUMBER(name) AT_##name,
enum { NOBODY, FUNCTIONS(NUMBER) };

#define NAME(name) #name,
static const char *const names[] = {"", FUNCTIONS(NAME)};

// A context is a number: that of the caller's times 16, and the function.
static __thread volatile struct {
    uint64_t here;   // of the function that runs, as it says when it begins
    uint64_t called; // of the one that it calls, or has called
    uint64_t other;  // if not 0, it may as well be this: between functions nobody can tell
    uintptr_t level; // the stack pointer at the call: lower as long as the function called runs
} at;

#define STACK_POINTER()                                                                            \
    ({                                                                                             \
        uintptr_t pointer;                                                                         \
        __asm__ volatile("mov %%rsp, %0" : "=r"(pointer));                                         \
        pointer;                                                                                   \
    })

// The order matters: there is a step between any two stores, and what they say then must be true.
#define EXPECT(function, perhaps)                                                                  \
    at.level = STACK_POINTER();                                                                    \
    at.other = perhaps;                                                                            \
    at.called = at.here * 16 + AT_##function

#define STEP_CALL(from, to, ...)                                                                   \
    ({                                                                                             \
        EXPECT(to, 0);                                                                             \
        CALL(from, to, __VA_ARGS__);                                                               \
    })

// Through a pointer: somebody may look where it leads, on the way.
#define STEP_CALL_BY(pointer, from, to, ...)                                                       \
    ({                                                                                             \
        EXPECT(to, at.here);                                                                       \
        TRUTH(from, to);                                                                           \
        pointer(__VA_ARGS__);                                                                      \
    })

#define BEGIN()                                                                                    \
    const uint64_t outer = at.here;                                                                \
    const uintptr_t outer_level = at.level;                                                        \
    at.here = at.called;                                                                           \
    at.other = 0

#define END()                                                                                      \
    at.called = at.here;                                                                           \
    at.level = outer_level;                                                                        \
    at.here = outer;                                                                               \
    NO_TAIL_CALL()

static volatile int sink;

NOIPA static int beta(int value)
{
    BEGIN();
    sink = value;
    END();
    return value + 1;
}

NOIPA static int delta(int value)
{
    BEGIN();
    int result = STEP_CALL(delta, beta, value) * 2;
    END();
    return result;
}

NOIPA static int recurses(int depth)
{
    BEGIN();
    int result = depth ? STEP_CALL(recurses, recurses, depth - 1) + 1 : 0;
    END();
    return result;
}

NOIPA static int lands(int value)
{
    BEGIN();
    sink = value;
    END();
    return value;
}

// Ends in a jump, and is gone then.
__attribute__((noipa, optimize("O2", "optimize-sibling-calls"))) static int hops(int value)
{
    const uint64_t own = at.called, caller = at.here;
    at.other = own;
    TRUTH(alpha, lands);
    at.called = caller * 16 + AT_lands;
    return lands(value + 1);
}

NOIPA static int compare(const void *one, const void *two)
{
    BEGIN();
    TRUTH(sorts, compare);
    int result = STEP_CALL(compare, beta, *(const int *)one) - *(const int *)two;
    at.other = outer; // the C library is in between
    END();
    return result;
}

NOIPA static void sorts(void)
{
    int numbers[2] = {2, 1};
    BEGIN();
    EXPECT(compare, at.here);
    qsort(numbers, 2, sizeof *numbers, compare);
    END();
}

static int (*volatile pointer)(int) = delta;             // called from a register, in two bytes
static int (*volatile pointers[2])(int) = {beta, delta}; // and from memory

NOIPA static int alpha(int value)
{
    BEGIN();
    int result = STEP_CALL(alpha, beta, value);
    int (*function)(int) = pointer;
    result += STEP_CALL_BY(function, alpha, delta, result);
    result += STEP_CALL_BY(pointers[0], alpha, beta, result);
    result += STEP_CALL(alpha, recurses, 2);
    result += STEP_CALL(alpha, hops, result);
    END();
    return result;
}

// The same frames: what one leaves on the stack, the other finds.

NOIPA static int left(int value)
{
    BEGIN();
    int result = STEP_CALL(left, alpha, value);
    END();
    return result;
}

NOIPA static int right(int value)
{
    BEGIN();
    int result = STEP_CALL(right, alpha, value) + 1;
    END();
    return result;
}

// What the handler has found.

static struct finding {
    uint64_t context, other, count;
} findings[1024];

static void note(uint64_t context, uint64_t other)
{
    uint64_t place = context * 31 + other;
    struct finding *finding;
    do
        finding = &findings[place++ % (sizeof findings / sizeof *findings)];
    while (finding->count && (finding->context != context || finding->other != other));
    finding->context = context;
    finding->other = other;
    finding->count++;
}

static void print_context(uint64_t context)
{
    if (context >= 16)
        print_context(context / 16);
    printf("/%s", names[context % 16]);
}

static void tell_findings(void)
{
    for (size_t i = 0; i < sizeof findings / sizeof *findings; i++) {
        if (!findings[i].count)
            continue;
        print_context(findings[i].context);
        printf(" ");
        print_context(findings[i].other ? findings[i].other : findings[i].context);
        printf(" %llu\n", (unsigned long long)findings[i].count);
    }
}

// The function called runs if its return address lies where the stack pointer was. Before a call
// through a pointer, somebody may have put the function itself there.
static uint64_t judge(uintptr_t sp)
{
    if (sp >= at.level)
        return at.here;
    const uintptr_t word = ((const uintptr_t *)at.level)[-1];
    return word == (uintptr_t)beta || word == (uintptr_t)delta ? at.here : at.called;
}

extern const char __executable_start[], etext[];

#define TOUCHES                                                                                    \
    24 // so many at most, as calls that have to wait until we are gone make the way longer
#define DISTANCE 2048 // and some more, so far from each other
#define TRAP_FLAG 0x100
static unsigned rounds, offset, away, touches;
static volatile bool done;
static unsigned long jump_in; // so many steps; 0: never
static sigjmp_buf home;

static bool wants_touch(uintptr_t pc)
{
    if (pc >= (uintptr_t)__executable_start && pc < (uintptr_t)etext) {
        away = touches = 0;
        return true;
    }
    away++;
    if (away % DISTANCE == offset * TOUCHES % DISTANCE)
        return true;
    // Two in a row: what the first leaves, the second finds.
    return away >= offset * TOUCHES % DISTANCE && (away + offset) % 4 < 2 && touches++ < TOUCHES;
}

NOIPA static void touch(void)
{
    sink++;
}

NOIPA static void acts(void)
{
    CALL(acts, touch);
    NO_TAIL_CALL();
}

// It has no entry that could be followed: it is called after every instruction.
__attribute__((noipa, patchable_function_entry(0))) static void on_step(int signal, siginfo_t *info,
                                                                        void *context)
{
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    if (done || info->si_code <= 0)
        registers[REG_EFL] &= ~TRAP_FLAG;
    if (jump_in && --jump_in == 0)
        siglongjmp(home, 1);
    if (jump_in || !wants_touch((uintptr_t)registers[REG_RIP]))
        return;
    const uint64_t judged = judge((uintptr_t)registers[REG_RSP]);
    note(judged, at.other == judged && away ? at.called : at.other);
    CALL(anybody, acts);
    (void)signal;
}

NOIPA static void calls_of_every_kind(void)
{
    for (int i = 0; i < 3; i++) {
        STEP_CALL(calls_of_every_kind, left, i);
        STEP_CALL(calls_of_every_kind, right, i);
        if (i == 1)
            STEP_CALL(calls_of_every_kind, sorts);
    }
    at.level = 0; // whoever comes here next is called by none of them
}

NOIPA static void *go_round(void *argument)
{
    // The first step is that of the last instruction here: the stack is as tables of frames say.
    __asm__ volatile(
        "sub $128, %%rsp; pushf; orl %0, (%%rsp); popf; add $128, %%rsp" ::"i"(TRAP_FLAG)
        : "memory", "cc");
    CALL(go_round, calls_of_every_kind);
    done = true;
    done = false; // by now it is
    return argument;
}

NOIPA static void after(void)
{
    CALL(after, calls_of_every_kind);
    NO_TAIL_CALL();
}

NOIPA static void *jump_out(void *stride)
{
    if (sigsetjmp(home, 1) == 0) {
        jump_in = 1 + offset * (unsigned long)(uintptr_t)stride;
        go_round(NULL);
        CHECK(!"there are fewer steps");
    }
    at.here = at.level = 0;
    CALL(jump_out, after);
    return NULL;
}

static void warm_up(int times)
{
    for (int i = 0; i < times; i++) {
        CALL(main, calls_of_every_kind);
        if (i % 1000 == 0)
            raise(SIGTRAP);
    }
}

int main(int argc, char **argv)
{
    CHECK(argc >= 3);
    struct sigaction action = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO};
    CHECK(sigaction(SIGTRAP, &action, NULL) == 0);
    rounds = (unsigned)atoi(argv[1]);
    if (argc == 4)
        warm_up(atoi(argv[3]));
    void *(*round)(void *) = argc == 5 ? jump_out : go_round;
    void *stride = argc == 5 ? (void *)(uintptr_t)atoi(argv[4]) : NULL;
    for (offset = 0; offset < rounds; offset++) {
        pthread_t thread;
        TRUTH(start, go_round);
        if (!strcmp(argv[2], "alone")) {
            round(stride);
            continue;
        }
        CHECK(pthread_create(&thread, NULL, round, stride) == 0);
        pthread_join(thread, NULL);
    }
    tell_truth();
    tell_findings();
    return 0;
}
