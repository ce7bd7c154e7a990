// SPDX-License-Identifier: MIT
// Stacks that have room for what the program does there, and for nothing else: alternate stacks of
// signal handlers, and those of coroutines. What lies below them is filled with a pattern, and must
// stay as it is.

#include "common.h"
#include <alloca.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#define BELOW 65536 // bytes with the pattern
#define PATTERN 0xa5
#define HANDLER_NEEDS 1024 // of its stack, besides the kernel's frame

static volatile uint64_t sink;
static __thread volatile sig_atomic_t handled;

NOIPA void work(void)
{
    sink += burn((uint64_t)handled, 150);
    NO_TAIL_CALL();
}

NOIPA void on_stack_handler(int number)
{
    (void)number;
    handled++;
    work();
    NO_TAIL_CALL();
}

static void install(int number, void (*handler)(int), int flags)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    CHECK(!sigaction(number, &action, NULL));
}

static char *guarded_stack(size_t bytes)
{
    char *memory =
        mmap(NULL, BELOW + bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    memset(memory, PATTERN, BELOW);
    return memory + BELOW;
}

static size_t overwritten(const char *stack)
{
    for (size_t i = 0; i < BELOW; i++)
        if ((unsigned char)stack[i - BELOW] != PATTERN)
            return BELOW - i;
    return 0;
}

static void set_stack(char *low, size_t bytes)
{
    const stack_t stack = {.ss_sp = low, .ss_size = bytes};
    CHECK(!sigaltstack(&stack, NULL));
}

static void drop_stack(void)
{
    const stack_t none = {.ss_flags = SS_DISABLE};
    CHECK(!sigaltstack(&none, NULL));
}

static volatile uintptr_t frame_end;

static void measure_frame(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)info;
    frame_end = (uintptr_t)context;
}

// How much the kernel takes for a handler: the registers that there are, and the return address.
static size_t frame_bytes(void)
{
    static _Alignas(64) char large[65536];
    struct sigaction action = {.sa_sigaction = measure_frame, .sa_flags = SA_ONSTACK | SA_SIGINFO};
    CHECK(!sigaction(SIGUSR2, &action, NULL));
    set_stack(large, sizeof large);
    raise(SIGUSR2);
    drop_stack();
    return (uintptr_t)large + sizeof large - frame_end + sizeof(uintptr_t);
}

NOIPA void use_stack(size_t bytes)
{
    char *stack = guarded_stack(bytes);
    set_stack(stack, bytes);
    handled = 0;
    for (int i = 0; i < 150; i++) {
        work();
        raise(SIGUSR1);
    }
    CHECK(handled == 150);
    drop_stack();
    const size_t damage = overwritten(stack);
    printf("below the stack %zu bytes are overwritten\n", damage);
    CHECK(!munmap(stack - BELOW, BELOW + bytes));
    NO_TAIL_CALL();
}

static int run_usual(void)
{
    install(SIGUSR1, on_stack_handler, SA_ONSTACK);
    use_stack(8192);
    return 0;
}

static int run_exact(void)
{
    install(SIGUSR1, on_stack_handler, SA_ONSTACK);
    use_stack(frame_bytes() + HANDLER_NEEDS);
    return 0;
}

static void *thread_with_stack(void *bytes)
{
    use_stack((size_t)bytes);
    return NULL;
}

// Threads that come and go take turns at what they leave, and a child has what it has forked with.
static int run_threads(void)
{
    install(SIGUSR1, on_stack_handler, SA_ONSTACK);
    const size_t bytes = frame_bytes() + HANDLER_NEEDS;
    for (int round = 0; round < 2; round++) {
        pthread_t thread[3];
        for (int i = 0; i < 3; i++)
            CHECK(!pthread_create(&thread[i], NULL, thread_with_stack, (void *)bytes));
        for (int i = 0; i < 3; i++)
            CHECK(!pthread_join(thread[i], NULL));
    }
    fflush(stdout);
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        use_stack(bytes);
        fflush(stdout);
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    return 0;
}

// The program has given up the memory, but not the stack: as long as no signal comes that wants it,
// nobody minds.
static int run_unmapped(void)
{
    char *stack = guarded_stack(16384);
    set_stack(stack, 16384);
    CHECK(!munmap(stack, 16384));
    for (int i = 0; i < 300; i++)
        work();
    return 0;
}

// What the kernel calls enough is less than it needs itself.
static int run_too_small(void)
{
    char *stack = guarded_stack(2048);
    set_stack(stack, 2048);
    for (int i = 0; i < 300; i++)
        work();
    printf("below the stack %zu bytes are overwritten\n", overwritten(stack));
    return 0;
}

#define COROUTINES 16
#define COROUTINE_BYTES 1024 // nothing that it calls takes half of it

static ucontext_t scheduler, coroutine[COROUTINES];

NOIPA void coroutine_body(int index)
{
    for (int i = 0; i < 20; i++) {
        work();
        swapcontext(&coroutine[index], &scheduler);
    }
}

static int run_coroutines(void)
{
    char *stack[COROUTINES];
    for (int i = 0; i < COROUTINES; i++) {
        stack[i] = guarded_stack(COROUTINE_BYTES);
        CHECK(!getcontext(&coroutine[i]));
        coroutine[i].uc_stack.ss_sp = stack[i];
        coroutine[i].uc_stack.ss_size = COROUTINE_BYTES;
        coroutine[i].uc_link = &scheduler;
        makecontext(&coroutine[i], (void (*)(void))coroutine_body, 1, i);
    }
    for (int round = 0; round <= 20; round++)
        for (int i = 0; i < COROUTINES; i++)
            CHECK(!swapcontext(&scheduler, &coroutine[i]));
    size_t damage = 0;
    for (int i = 0; i < COROUTINES; i++)
        if (overwritten(stack[i]) > damage)
            damage = overwritten(stack[i]);
    printf("below the stacks %zu bytes are overwritten\n", damage);
    return 0;
}

#define DEEP_BYTES (512 << 10)
#define DEEP_NEEDS 1024

NOIPA void call_at_the_end(const char *stack)
{
    char here;
    volatile char *room = alloca((size_t)(&here - stack) - DEEP_NEEDS);
    static void (*volatile called)(void) = work; // nobody knows before it is called
    room[0] = 0;
    for (int i = 0; i < 100; i++)
        called();
    NO_TAIL_CALL();
}

static void *thread_to_the_end(void *stack)
{
    call_at_the_end(stack);
    return NULL;
}

// A thread that has used up all of its stack but for what it needs.
static int run_deep(void)
{
    char *stack = guarded_stack(DEEP_BYTES);
    pthread_attr_t attributes;
    pthread_t thread;
    CHECK(!pthread_attr_init(&attributes) &&
          !pthread_attr_setstack(&attributes, stack, DEEP_BYTES) &&
          !pthread_create(&thread, &attributes, thread_to_the_end, stack) &&
          !pthread_join(thread, NULL));
    printf("below the stack %zu bytes are overwritten\n", overwritten(stack));
    return 0;
}

// All that a program can find out of its stacks and handlers, and the registers of its handlers.

static _Alignas(64) char own_stack[32768];

static bool is_on_own(const volatile void *address)
{
    const char *byte = (const char *)address;
    return byte >= own_stack && byte < own_stack + sizeof own_stack;
}

static const char *name_of(const volatile void *address)
{
    return is_on_own(address) ? "its own" : "another";
}

static void print_stack(const char *when)
{
    stack_t by_library, by_number;
    CHECK(!sigaltstack(NULL, &by_library));
    CHECK(!syscall(SYS_sigaltstack, NULL, &by_number));
    CHECK(by_library.ss_sp == by_number.ss_sp && by_library.ss_size == by_number.ss_size &&
          by_library.ss_flags == by_number.ss_flags);
    printf("%s: %s, %zu bytes, flags %d\n", when,
           by_library.ss_sp ? name_of(by_library.ss_sp) : "none", by_library.ss_size,
           by_library.ss_flags);
}

static void print_change(const char *what, stack_t stack)
{
    errno = 0;
    const int result = sigaltstack(&stack, NULL);
    printf("%s: %d, %s\n", what, result, strerror(errno));
}

static void print_mask(void)
{
    sigset_t now;
    CHECK(!sigprocmask(SIG_SETMASK, NULL, &now));
    printf("  blocked:");
    for (int number = 1; number < NSIG; number++)
        if (number != SIGTRAP && number != SIGSTKFLT && sigismember(&now, number) == 1)
            printf(" %d", number);
    printf("\n");
}

static void print_action(int number)
{
    struct sigaction action;
    CHECK(!sigaction(number, NULL, &action));
    printf("  action of %d: default %d, flags %x, blocks SIGTERM %d and SIGHUP %d\n", number,
           action.sa_handler == SIG_DFL, (unsigned)action.sa_flags,
           sigismember(&action.sa_mask, SIGTERM), sigismember(&action.sa_mask, SIGHUP));
}

static void full_handler(int number, siginfo_t *info, void *context)
{
    char here;
    const ucontext_t *interrupted = context;
    printf(" handler of %d on %s; the rest of it on %s and %s; registers on %s; value %d\n", number,
           name_of(&here), name_of(info), name_of(context),
           name_of(interrupted->uc_mcontext.fpregs),
           info->si_code == SI_QUEUE ? info->si_value.sival_int : 0);
    print_mask();
    print_stack("  here");
    if (is_on_own(&here))
        print_change("  changed here", (stack_t){.ss_flags = SS_DISABLE});
    if (number == SIGUSR1)
        raise(SIGUSR2);
    double all[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, product = 1;
    for (int i = 0; i < 16; i++)
        product *= all[i] + sink % 2;
    sink += (uint64_t)product;
    work();
}

static sigjmp_buf back;

static void jumping_handler(int number)
{
    char here;
    printf(" jumps out of the handler of %d on %s\n", number, name_of(&here));
    siglongjmp(back, 1);
}

static void set_full(int number, int flags)
{
    struct sigaction action = {.sa_sigaction = full_handler, .sa_flags = SA_SIGINFO | flags};
    sigaddset(&action.sa_mask, SIGTERM);
    CHECK(!sigaction(number, &action, NULL));
    print_action(number);
}

// Registers are the interrupted code's again when a handler returns, whatever it does to them.
static void interrupt_registers(void)
{
    const double before[4] = {1.5, 2.5, 3.5, 4.5};
    double after[4];
    long result = SYS_tgkill;
    __asm__ volatile("movups (%4), %%xmm14\n"
                     "movups 16(%4), %%xmm15\n"
                     "syscall\n"
                     "movups %%xmm14, (%5)\n"
                     "movups %%xmm15, 16(%5)\n"
                     : "+a"(result)
                     : "D"((long)getpid()), "S"(syscall(SYS_gettid)), "d"((long)SIGUSR1),
                       "r"(before), "r"(after)
                     : "rcx", "r11", "xmm14", "xmm15", "memory");
    CHECK(result == 0 && memcmp(before, after, sizeof before) == 0);
}

static void handle_all(void)
{
    set_full(SIGUSR1, SA_ONSTACK);
    set_full(SIGUSR2, 0);
    CHECK(!pthread_sigqueue(pthread_self(), SIGUSR1, (union sigval){.sival_int = 42}));
    interrupt_registers();
    set_full(SIGUSR1, SA_NODEFER);
    set_full(SIGUSR2, SA_ONSTACK | SA_NODEFER);
    raise(SIGUSR1);
    set_full(SIGUSR1, SA_ONSTACK | (int)SA_RESETHAND);
    raise(SIGUSR1);
    print_action(SIGUSR1);
    print_stack("afterwards");
    print_mask();
}

static void jump_out(int number)
{
    install(number, jumping_handler, SA_ONSTACK);
    for (volatile int i = 0; i < 3; i++)
        if (!sigsetjmp(back, 1))
            raise(number);
    print_stack("after jumps");
}

NOIPA int endless(volatile int depth)
{
    volatile char room[256];
    room[0] = (char)depth;
    return depth < 0 ? 0 : endless(depth + 1) + room[0];
}

// Runs out of its stack, as interpreters do, and goes on.
static void overflow(void)
{
    const struct rlimit small = {.rlim_cur = 1 << 20, .rlim_max = RLIM_INFINITY};
    setrlimit(RLIMIT_STACK, &small);
    install(SIGSEGV, jumping_handler, SA_ONSTACK);
    for (volatile int i = 0; i < 5; i++)
        if (!sigsetjmp(back, 1))
            sink += (uint64_t)endless(0);
}

static void *show_in_thread(void *unused)
{
    (void)unused;
    print_stack("in a thread");
    print_change("of its own", (stack_t){.ss_sp = own_stack, .ss_size = sizeof own_stack});
    handle_all();
    jump_out(SIGUSR1);
    return NULL;
}

static int run_shown(void)
{
    print_stack("at first");
    handle_all();
    print_change("odd flags", (stack_t){.ss_sp = own_stack, .ss_size = 8192, .ss_flags = 77});
    print_change("too small", (stack_t){.ss_sp = own_stack, .ss_size = 100});
    print_change("of its own", (stack_t){.ss_sp = own_stack, .ss_size = sizeof own_stack});
    print_stack("set");
    handle_all();
    jump_out(SIGUSR1);
    overflow();
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, show_in_thread, NULL) && !pthread_join(thread, NULL));
    print_stack("as before");
    fflush(stdout);
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        print_stack("in the child");
        handle_all();
        fflush(stdout);
        _exit(0);
    }
    CHECK(waitpid(child, NULL, 0) == child);
    drop_stack();
    print_stack("at last");
    CHECK((void *)signal(SIGUSR2, SIG_IGN) == (void *)full_handler);
    return 0;
}

int main(int argc, char **argv)
{
    static const struct mode modes[] = {
        {"usual", run_usual},           {"exact", run_exact},         {"threads", run_threads},
        {"unmapped", run_unmapped},     {"too-small", run_too_small}, {"shown", run_shown},
        {"coroutines", run_coroutines}, {"deep", run_deep},
    };
    return RUN_MODE(modes);
}
