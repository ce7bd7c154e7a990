// SPDX-License-Identifier: MIT
// Signal handlers of the program that run for long, on alternate stacks, and inside each other.

#include "common.h"
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

static volatile uint64_t sink;
static volatile sig_atomic_t outer_runs, inner_runs, ticks, nesting;

NOIPA void handler_work(int value)
{
    sink += burn((uint64_t)value, 100);
    NO_TAIL_CALL();
}

NOIPA void handler_recursion(int depth)
{
    if (depth > 0)
        handler_recursion(depth - 1);
    else
        handler_work(depth);
    NO_TAIL_CALL();
}

NOIPA void outer_handler(int number)
{
    outer_runs++;
    handler_recursion(5);
    if (number == SIGUSR1)
        raise(SIGUSR2);
    NO_TAIL_CALL();
}

NOIPA void inner_handler(int number, siginfo_t *info, void *context)
{
    (void)context;
    CHECK(number == SIGUSR2 && info->si_signo == SIGUSR2);
    inner_runs++;
    handler_recursion(3);
    NO_TAIL_CALL();
}

// Interrupts itself, with the same signal, until it is five deep.
NOIPA void reentrant_handler(int number)
{
    if (++nesting % 5 != 0)
        raise(number);
    handler_work(nesting);
    NO_TAIL_CALL();
}

NOIPA void tick_handler(int number)
{
    (void)number;
    ticks++;
    handler_recursion(2);
    NO_TAIL_CALL();
}

NOIPA void program_work(int i)
{
    sink += burn((uint64_t)i, 100);
    raise(i % 2 ? SIGUSR1 : SIGHUP);
    sink += burn((uint64_t)i, 100);
    NO_TAIL_CALL();
}

static void install(int number, void (*handler)(int), int flags)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    CHECK(sigaction(number, &action, NULL) == 0);
}

static NOIPA int run_all(int flags)
{
    install(SIGUSR1, outer_handler, flags);
    install(SIGHUP, reentrant_handler, flags | SA_NODEFER);
    install(SIGALRM, tick_handler, flags | SA_RESTART);
    struct sigaction inner = {.sa_sigaction = inner_handler, .sa_flags = flags | SA_SIGINFO};
    CHECK(sigaction(SIGUSR2, &inner, NULL) == 0);
    struct itimerval interval = {.it_interval = {.tv_usec = 3000}, .it_value = {.tv_usec = 3000}};
    setitimer(ITIMER_REAL, &interval, NULL);
    for (int i = 0; i < 300; i++)
        program_work(i);
    CHECK(ticks > 0);
    printf("handlers %d %d %d\n", outer_runs, inner_runs, nesting);
    return 0;
}

static int run_plain(void)
{
    int status = run_all(0);
    NO_TAIL_CALL();
    return status;
}

static int run_alternate(void)
{
    static char memory[128 * 1024];
    stack_t stack = {.ss_sp = memory, .ss_size = sizeof memory};
    CHECK(sigaltstack(&stack, NULL) == 0);
    int status = run_all(SA_ONSTACK);
    NO_TAIL_CALL();
    return status;
}

// An alternate stack with just the room that the system asks for, whose end is an unmapped page.
static int run_small(void)
{
    size_t size = (size_t)sysconf(_SC_SIGSTKSZ);
    size_t pages = (size + 4095) / 4096 + 1;
    char *memory = mmap(NULL, pages * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    CHECK(mprotect(memory + 4096, (pages - 1) * 4096, PROT_READ | PROT_WRITE) == 0);
    stack_t stack = {.ss_sp = memory + 4096, .ss_size = (pages - 1) * 4096};
    CHECK(sigaltstack(&stack, NULL) == 0);
    install(SIGHUP, tick_handler, SA_ONSTACK);
    for (int i = 0; i < 300; i += 2)
        program_work(i);
    CHECK(ticks == 150);
    printf("small alternate stack %d\n", ticks);
    return 0;
}

int main(int argc, char **argv)
{
    static const struct mode modes[] = {
        {"plain", run_plain}, {"alternate", run_alternate}, {"small", run_small}};
    return RUN_MODE(modes);
}
