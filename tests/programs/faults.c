// SPDX-License-Identifier: MIT
// Programs that handle their own faults.

#include "common.h"
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>

static sigjmp_buf recover;
static volatile uint64_t sink;
static volatile sig_atomic_t faults;
static char *region;
enum { PAGE = 4096, PAGES = 2000 };

NOIPA void fault_work(int value)
{
    sink += burn((uint64_t)value, 20);
    NO_TAIL_CALL();
}

NOIPA void fault_jump(int number, siginfo_t *info, void *context)
{
    (void)context;
    CHECK(number == SIGSEGV ? info->si_addr == (void *)16 : number == SIGFPE);
    faults++;
    fault_work(faults);
    siglongjmp(recover, 1);
}

NOIPA int fault_now(int depth, int kind)
{
    int *volatile nowhere = (int *)16;
    volatile int zero = 0;
    fault_work(depth);
    if (depth > 0) {
        int result = fault_now(depth - 1, kind);
        NO_TAIL_CALL();
        return result;
    }
    return kind ? *nowhere : 7 / zero;
}

NOIPA void fault_and_recover(int i)
{
    if (sigsetjmp(recover, 1) == 0) {
        fault_now(i % 8, i % 2);
        CHECK(!"no fault");
    }
}

static void install(int number, void (*handler)(int, siginfo_t *, void *), int flags)
{
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = flags | SA_SIGINFO};
    CHECK(sigaction(number, &action, NULL) == 0);
}

static void use_alternate_stack(void)
{
    static char memory[64 * 1024];
    stack_t stack = {.ss_sp = memory, .ss_size = sizeof memory};
    CHECK(sigaltstack(&stack, NULL) == 0);
}

static NOIPA int jump_out(int flags)
{
    install(SIGSEGV, fault_jump, flags);
    install(SIGFPE, fault_jump, flags);
    for (int i = 0; i < 600; i++)
        fault_and_recover(i);
    printf("recovered from %d\n", faults);
    return 0;
}

static int run_jump(void)
{
    int status = jump_out(0);
    NO_TAIL_CALL();
    return status;
}

static int run_jump_alternate(void)
{
    use_alternate_stack();
    int status = jump_out(SA_ONSTACK);
    NO_TAIL_CALL();
    return status;
}

NOIPA void fault_repair(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)context;
    char *page = (char *)((uintptr_t)info->si_addr & ~(uintptr_t)(PAGE - 1));
    CHECK(page >= region && page < region + (size_t)PAGES * PAGE);
    CHECK(mprotect(page, PAGE, PROT_READ | PROT_WRITE) == 0);
    fault_work(faults);
    faults++;
}

NOIPA void touch_pages(void)
{
    for (int i = 0; i < PAGES; i++) {
        region[(size_t)i * PAGE + 100] = (char)i;
        fault_work(i);
    }
    NO_TAIL_CALL();
}

static int run_repair(void)
{
    install(SIGSEGV, fault_repair, 0);
    region = mmap(NULL, (size_t)PAGES * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(region != MAP_FAILED);
    touch_pages();
    for (int i = 0; i < PAGES; i++)
        CHECK(region[(size_t)i * PAGE + 100] == (char)i);
    printf("repaired %d\n", faults);
    return 0;
}

// The stack itself overflows, and the handler gets away on another one.
NOIPA int overflow(int depth)
{
    volatile char frame[1024];
    frame[0] = (char)depth;
    int result = depth < 1 << 30 ? overflow(depth + 1) : 0;
    NO_TAIL_CALL();
    return result + frame[0];
}

NOIPA void overflow_jump(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)info;
    (void)context;
    faults++;
    fault_work(faults);
    siglongjmp(recover, 1);
}

static int run_overflow(void)
{
    use_alternate_stack();
    install(SIGSEGV, overflow_jump, SA_ONSTACK);
    for (int i = 0; i < 20; i++) {
        if (sigsetjmp(recover, 1) == 0)
            overflow(0);
        for (int j = 0; j < 20; j++)
            fault_work(i);
    }
    printf("overflowed %d\n", faults);
    return 0;
}

int main(int argc, char **argv)
{
    static const struct mode modes[] = {{"jump", run_jump},
                                        {"jump-alternate", run_jump_alternate},
                                        {"repair", run_repair},
                                        {"overflow", run_overflow}};
    return RUN_MODE(modes);
}
