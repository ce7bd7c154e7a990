// SPDX-License-Identifier: MIT
// longjmp and its relatives out of frames that have been sampled.

#include "common.h"
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/time.h>

static jmp_buf target;
static sigjmp_buf signal_target;
static void *builtin_target[5];
static volatile uint64_t sink;
static volatile sig_atomic_t interrupts, never;

NOIPA void jump_leaf(int value)
{
    sink += burn((uint64_t)value, 20);
    NO_TAIL_CALL();
}

NOIPA int jump_descend(int depth, int value, int how)
{
    jump_leaf(value);
    if (depth == 0) {
        if (how == 0)
            longjmp(target, value + 1);
        if (how == 1)
            siglongjmp(signal_target, value + 1);
        if (how == 2)
            __builtin_longjmp(builtin_target, 1);
        return value + 1;
    }
    int result = jump_descend(depth - 1, value, how);
    NO_TAIL_CALL();
    return result;
}

NOIPA int jump_plain(int value)
{
    int result = setjmp(target);
    if (result == 0)
        result = jump_descend(value % 12, value, 0);
    return result;
}

NOIPA int jump_signal_mask(int value)
{
    int result = sigsetjmp(signal_target, 1);
    if (result == 0)
        result = jump_descend(value % 12, value, 1);
    return result;
}

NOIPA int jump_builtin(int value)
{
    volatile int kept = value;
    if (__builtin_setjmp(builtin_target) == 0)
        jump_descend(value % 12, value, 2);
    return kept + 1;
}

NOIPA int jump_none(int value)
{
    int result = jump_descend(value % 12, value, 3);
    NO_TAIL_CALL();
    return result;
}

static int run_plain(void)
{
    long sum = 0;
    for (int i = 0; i < 400; i++) {
        switch (i % 4) {
        case 0:
            sum += jump_plain(i);
            break;
        case 1:
            sum += jump_signal_mask(i);
            break;
        case 2:
            sum += jump_builtin(i);
            break;
        default:
            sum += jump_none(i);
        }
    }
    printf("plain %ld\n", sum);
    return 0;
}

// Coroutines of an interpreter yield so: a short way down, and back by a jump, all the time.
NOIPA void often_yield(int value)
{
    longjmp(target, value + 1);
}

NOIPA void often_step(int value, unsigned rounds)
{
    uint64_t state = (uint64_t)value | 1;
    for (unsigned i = 0; i < rounds; i++)
        state = state * 6364136223846793005u + 1442695040888963407u;
    sink += state;
    often_yield(value);
    NO_TAIL_CALL();
}

NOIPA int often_resume(int value, unsigned rounds)
{
    int result = setjmp(target);
    if (result == 0)
        often_step(value, rounds);
    return result;
}

NOIPA int often_short(int value)
{
    int result = often_resume(value, 100);
    NO_TAIL_CALL();
    return result;
}

NOIPA int often_long(int value)
{
    int result = often_resume(value, 300);
    NO_TAIL_CALL();
    return result;
}

static int run_often(void)
{
    long sum = 0;
    for (int i = 0; i < 1000000; i++)
        sum += i % 2 ? often_short(i) : often_long(i);
    printf("often %ld\n", sum);
    return 0;
}

NOIPA void escape(int number)
{
    (void)number;
    interrupts++;
    jump_leaf(interrupts);
    siglongjmp(signal_target, 1);
}

NOIPA void interrupted(int depth)
{
    jump_leaf(depth);
    if (depth > 0)
        interrupted(depth - 1);
    else
        raise(SIGUSR1);
    NO_TAIL_CALL();
}

NOIPA void escape_once(int depth)
{
    if (sigsetjmp(signal_target, 1) == 0) {
        interrupted(depth);
        CHECK(!"came back");
    }
}

static void check_mask_is_empty(void)
{
    sigset_t now;
    sigprocmask(SIG_BLOCK, NULL, &now);
    for (int number = 1; number < NSIG; number++)
        CHECK(sigismember(&now, number) != 1);
}

static NOIPA int escape_many(int flags)
{
    struct sigaction action = {.sa_handler = escape, .sa_flags = flags};
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    for (int i = 0; i < 400; i++)
        escape_once(i % 10);
    check_mask_is_empty();
    CHECK(interrupts == 400);
    printf("escaped %d\n", interrupts);
    return 0;
}

static int run_handler(void)
{
    int status = escape_many(0);
    NO_TAIL_CALL();
    return status;
}

static int run_alternate(void)
{
    static char memory[64 * 1024];
    stack_t stack = {.ss_sp = memory, .ss_size = sizeof memory};
    CHECK(sigaltstack(&stack, NULL) == 0);
    escape_many(SA_ONSTACK);
    CHECK(sigaltstack(NULL, &stack) == 0);
    CHECK(stack.ss_flags == 0 && stack.ss_sp == memory && stack.ss_size == sizeof memory);
    return 0;
}

// A timer interrupts computation at points that nobody chose, and the handler jumps out of it.
NOIPA void compute_forever(int depth)
{
    if (depth > 0)
        compute_forever(depth - 1);
    else
        while (!never)
            jump_leaf(depth);
    NO_TAIL_CALL();
}

// The alarm is set where it can be escaped to: it may ring before the next line is reached.
NOIPA void escape_by_timer(int depth, int microseconds)
{
    const struct itimerval soon = {.it_value = {.tv_usec = microseconds}};
    if (sigsetjmp(signal_target, 1) == 0) {
        setitimer(ITIMER_REAL, &soon, NULL);
        compute_forever(depth);
    }
}

static int run_timer(void)
{
    struct sigaction action = {.sa_handler = escape};
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    for (int i = 0; i < 100; i++)
        escape_by_timer(i % 20, 1000 + i * 37);
    check_mask_is_empty();
    CHECK(interrupts == 100);
    printf("timer %d\n", interrupts);
    return 0;
}

int main(int argc, char **argv)
{
    static const struct mode modes[] = {{"plain", run_plain},
                                        {"handler", run_handler},
                                        {"alternate", run_alternate},
                                        {"timer", run_timer},
                                        {"often", run_often}};
    return RUN_MODE(modes);
}
