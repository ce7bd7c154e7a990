// SPDX-License-Identifier: MIT
// Programs with opinions of their own on signals. What they see must be what they did.

#include "common.h"
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

static volatile uint64_t sink;
static volatile sig_atomic_t ticks, traps, breakpoints;

NOIPA void signal_work(int value)
{
    sink += burn((uint64_t)value, 200);
    NO_TAIL_CALL();
}

static void print_set(const char *name, const sigset_t *set)
{
    printf("%s:", name);
    for (int number = 1; number < NSIG; number++)
        if (sigismember(set, number) == 1)
            printf(" %d", number);
    printf("\n");
}

static void print_mask(const char *name)
{
    sigset_t set;
    CHECK(pthread_sigmask(SIG_BLOCK, NULL, &set) == 0);
    print_set(name, &set);
}

static void print_pending(void)
{
    sigset_t set;
    CHECK(sigpending(&set) == 0);
    print_set("pending", &set);
}

static void print_dispositions(void)
{
    for (int number = 1; number < NSIG; number++) {
        struct sigaction action;
        if (sigaction(number, NULL, &action) != 0) {
            printf("signal %d: %s\n", number, strerror(errno));
            continue;
        }
        const char *name = action.sa_handler == SIG_DFL   ? "default"
                           : action.sa_handler == SIG_IGN ? "ignore"
                                                          : "handler";
        printf("signal %d: %s flags %x", number, name, (unsigned)action.sa_flags);
        print_set("", &action.sa_mask);
    }
}

static void some_handler(int number)
{
    (void)number;
}

static int run_show(void)
{
    print_mask("mask");
    print_dispositions();
    for (int i = 0; i < 20; i++)
        signal_work(i);
    // Install handlers with masks of all kinds, and read them back.
    struct sigaction action = {.sa_handler = some_handler, .sa_flags = SA_RESTART | SA_NODEFER},
                     old;
    sigfillset(&action.sa_mask);
    int numbers[] = {SIGTRAP, SIGPROF, SIGSEGV, SIGALRM, SIGIO, SIGRTMIN + 3};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        CHECK(sigaction(numbers[i], &action, &old) == 0);
        printf("old of %d: %d %x\n", numbers[i], old.sa_handler == SIG_DFL, (unsigned)old.sa_flags);
        CHECK(sigaction(numbers[i], NULL, &old) == 0);
        CHECK(old.sa_handler == some_handler);
    }
    signal(SIGTRAP, SIG_IGN);
    CHECK(signal(SIGPROF, SIG_IGN) == some_handler);
    print_dispositions();
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTRAP);
    sigaddset(&set, SIGPROF);
    sigaddset(&set, SIGUSR1);
    CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    print_mask("three blocked");
    sigdelset(&set, SIGUSR1);
    sigset_t before;
    CHECK(sigprocmask(SIG_UNBLOCK, &set, &before) == 0);
    print_set("before", &before);
    print_mask("one left");
    sigset_t wide;
    sigfillset(&wide);
    CHECK(sigprocmask(SIG_SETMASK, &wide, NULL) == 0);
    print_mask("all");
    CHECK(sighold(SIGTRAP) == 0 && sigrelse(SIGTRAP) == 0);
    print_mask("all but one");
    print_pending();
    return 0;
}

static sigjmp_buf out;

static void show_mask(int number, siginfo_t *info, void *context)
{
    (void)info;
    printf("in the handler of %d\n", number);
    print_mask("mask");
    print_set("interrupted", &((ucontext_t *)context)->uc_sigmask);
    if (number == SIGUSR2)
        siglongjmp(out, 1);
}

NOIPA void raise_and_return(int number)
{
    if (sigsetjmp(out, 1) == 0)
        raise(number);
    print_mask("after");
}

NOIPA void block_and_jump(const sigset_t *set)
{
    if (sigsetjmp(out, 1) == 0) {
        sigprocmask(SIG_SETMASK, set, NULL);
        siglongjmp(out, 1);
    }
    print_mask("after a jump");
}

NOIPA void poll_with(const sigset_t *set)
{
    struct timespec soon = {.tv_nsec = 1000000};
    int result = ppoll(NULL, 0, &soon, set);
    printf("ppoll: %d\n", result);
    print_mask("after ppoll");
    print_pending();
}

// Masks that change without a call to sigprocmask: in handlers, by jumps, for one call only.
static int run_masks(void)
{
    struct sigaction action = {.sa_sigaction = show_mask, .sa_flags = SA_SIGINFO};
    static const int numbers[] = {SIGUSR1, SIGTRAP, SIGUSR2};
    sigset_t sets[3];
    sigemptyset(&sets[0]);
    sigemptyset(&sets[1]);
    sigaddset(&sets[1], SIGTRAP);
    sigaddset(&sets[1], SIGPROF);
    sigfillset(&sets[2]);
    for (int i = 0; i < 9; i++) {
        action.sa_mask = sets[i / 3];
        CHECK(sigaction(numbers[i % 3], &action, NULL) == 0);
        raise_and_return(numbers[i % 3]);
    }
    block_and_jump(&sets[2]);
    sigprocmask(SIG_BLOCK, &sets[1], NULL);
    poll_with(&sets[2]);
    raise(SIGTRAP);
    print_pending();
    poll_with(&sets[0]);
    return 0;
}

// What a new program inherits. Runs itself again in three ways.
static int run_inherit(void)
{
    sigset_t set;
    sigfillset(&set);
    signal(SIGTRAP, SIG_IGN);
    sigprocmask(SIG_SETMASK, &set, NULL);
    for (int i = 0; i < 20; i++)
        signal_work(i);
    char self[4096] = "";
    CHECK(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    char *arguments[] = {self, "show", NULL};
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    sigemptyset(&set);
    sigaddset(&set, SIGTRAP);
    posix_spawnattr_setsigmask(&attributes, &set);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    fflush(stdout);
    pid_t pid;
    int status;
    CHECK(posix_spawn(&pid, self, NULL, NULL, arguments, environ) == 0);
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    CHECK(posix_spawn(&pid, self, NULL, &attributes, arguments, environ) == 0);
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    execv(self, arguments);
    return 98;
}

// By a function that is deprecated, and that dash uses.
static void mask_by_bits(int mask)
{
    int (*set_mask)(int) = (int (*)(int))dlsym(RTLD_DEFAULT, "sigsetmask");
    CHECK(set_mask && set_mask(mask) != -1);
}

// As shells start programs: everything is blocked over the vfork, and the child puts the mask back.
static int run_vfork(void)
{
    sigset_t set, before;
    char self[4096] = "";
    CHECK(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    sigfillset(&set);
    fflush(stdout);
    for (int way = 0; way < 4; way++) {
        int status;
        CHECK(sigprocmask(SIG_BLOCK, &set, &before) == 0);
        const pid_t child = vfork();
        if (!child) {
            if (way == 0)
                sigprocmask(SIG_SETMASK, &before, NULL);
            if (way == 1)
                mask_by_bits(0);
            if (way == 2)
                sigrelse(SIGTRAP);
            execl(self, "signals", "show", NULL);
            _exit(99);
        }
        CHECK(waitpid(child, &status, 0) == child && status == 0);
        if (way % 2)
            CHECK(sigprocmask(SIG_SETMASK, &before, NULL) == 0);
        else
            mask_by_bits(0);
        print_mask("parent");
        fflush(stdout);
    }
    return 0;
}

static void *blocked_thread(void *unused)
{
    (void)unused;
    print_mask("inherited");
    for (int i = 0; i < 300; i++)
        signal_work(i);
    print_pending();
    return NULL;
}

static int run_blocked(void)
{
    sigset_t set;
    sigfillset(&set);
    CHECK(sigprocmask(SIG_SETMASK, &set, NULL) == 0);
    for (int i = 0; i < 300; i++)
        signal_work(i);
    print_mask("mask");
    print_pending();
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, blocked_thread, NULL) == 0);
    pthread_join(thread, NULL);
    return 0;
}

static void print_change(const char *name, long how, const void *set, void *before, size_t bytes)
{
    errno = 0;
    const long result = syscall(SYS_rt_sigprocmask, how, set, before, bytes);
    printf("%s: %ld, %s\n", name, result, strerror(errno));
}

static int run_masked_by_number(void)
{
    const uint64_t all = UINT64_MAX, some = 1 << (SIGTRAP - 1) | 1 << (SIGPROF - 1);
    uint64_t before = 1, now;
    void *nowhere = (void *)sizeof(uint64_t);
    print_change("all", SIG_SETMASK, &all, &before, sizeof all);
    for (int i = 0; i < 300; i++)
        signal_work(i);
    print_mask("mask");
    print_change("some", SIG_UNBLOCK, &some, &now, sizeof some);
    printf("before %lx, then %lx\n", before, now);
    print_mask("mask");
    print_change("no such change", 7, &all, NULL, sizeof all);
    print_change("of another size", SIG_BLOCK, &all, NULL, sizeof all / 2);
    print_change("from nowhere", SIG_BLOCK, nowhere, NULL, sizeof all);
    print_change("to nowhere", SIG_BLOCK, NULL, nowhere, sizeof all);
    print_change("is it readable?", ~0, nowhere, NULL, sizeof all);
    print_change("as before", SIG_SETMASK, &before, NULL, sizeof before);
    print_mask("mask");
    return 0;
}

static void tick(int number)
{
    CHECK(number == SIGPROF);
    ticks++;
}

// Its own profiler: counts ticks of its own. Standard error gets the numbers, they vary.
static int run_sigprof(void)
{
    struct sigaction action = {.sa_handler = tick, .sa_flags = SA_RESTART};
    CHECK(sigaction(SIGPROF, &action, NULL) == 0);
    struct itimerval interval = {.it_interval = {.tv_usec = 10000}, .it_value = {.tv_usec = 10000}};
    CHECK(setitimer(ITIMER_PROF, &interval, NULL) == 0);
    while (clock_ns(CLOCK_PROCESS_CPUTIME_ID) < 1000000000u)
        signal_work(1);
    CHECK(getitimer(ITIMER_PROF, &interval) == 0 && interval.it_interval.tv_usec == 10000);
    memset(&interval, 0, sizeof interval);
    CHECK(setitimer(ITIMER_PROF, &interval, NULL) == 0);
    uint64_t used = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    printf("%d %llu\n", ticks, (unsigned long long)used);
    return 0;
}

static void trap(int number, siginfo_t *info, void *context)
{
    (void)context;
    CHECK(number == SIGTRAP);
    if (info->si_code == SI_TKILL || info->si_code == SI_USER || info->si_code == SI_QUEUE)
        traps++;
    else if (info->si_code == SI_KERNEL || info->si_code == TRAP_BRKPT)
        breakpoints++;
    else
        CHECK(!"a trap that is not the program's own");
}

static int run_sigtrap(void)
{
    struct sigaction action = {.sa_sigaction = trap, .sa_flags = SA_SIGINFO};
    CHECK(sigaction(SIGTRAP, &action, NULL) == 0);
    for (int i = 0; i < 300; i++) {
        signal_work(i);
        __asm__ volatile("int3");
        raise(SIGTRAP);
        kill(getpid(), SIGTRAP);
        sigqueue(getpid(), SIGTRAP, (union sigval){.sival_int = i});
    }
    printf("traps %d, breakpoints %d\n", traps, breakpoints);
    // Blocked, it waits; unblocked, it comes.
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTRAP);
    sigprocmask(SIG_BLOCK, &set, NULL);
    for (int i = 0; i < 50; i++)
        signal_work(i);
    raise(SIGTRAP);
    print_pending();
    printf("while blocked %d\n", traps);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    printf("unblocked %d\n", traps);
    // Ignored, it is gone.
    signal(SIGTRAP, SIG_IGN);
    for (int i = 0; i < 50; i++) {
        raise(SIGTRAP);
        signal_work(i);
    }
    printf("ignored %d\n", traps);
    signal(SIGTRAP, SIG_DFL);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        signal_work(1);
        raise(SIGTRAP);
        _exit(0);
    }
    int status;
    CHECK(waitpid(pid, &status, 0) == pid);
    printf("default: killed by %d\n", WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    return 0;
}

static void *sender(void *argument)
{
    pthread_t *target = argument;
    for (int i = 0; i < 100; i++) {
        signal_work(i);
        pthread_kill(*target, SIGUSR1 + (i % 2) * (SIGUSR2 - SIGUSR1));
        usleep(1000);
    }
    pthread_kill(*target, SIGTERM);
    return NULL;
}

static int run_sigwait(void)
{
    sigset_t set;
    sigfillset(&set);
    CHECK(pthread_sigmask(SIG_SETMASK, &set, NULL) == 0);
    pthread_t self = pthread_self(), thread;
    CHECK(pthread_create(&thread, NULL, sender, &self) == 0);
    int seen[NSIG] = {0}, got = 0;
    for (int i = 0; got != SIGTERM; i++) {
        siginfo_t info;
        struct timespec long_time = {.tv_sec = 30};
        if (i % 3 == 0)
            CHECK(sigwait(&set, &got) == 0);
        else if (i % 3 == 1)
            CHECK((got = sigwaitinfo(&set, &info)) > 0);
        else
            CHECK((got = sigtimedwait(&set, &info, &long_time)) > 0);
        seen[got]++;
        signal_work(i);
    }
    pthread_join(thread, NULL);
    for (int number = 1; number < NSIG; number++)
        if (seen[number])
            printf("signal %d seen: %s\n", number, seen[number] >= 1 ? "yes" : "no");
    return 0;
}

static int run_signalfd(void)
{
    sigset_t set;
    sigfillset(&set);
    CHECK(pthread_sigmask(SIG_SETMASK, &set, NULL) == 0);
    int descriptor = signalfd(-1, &set, SFD_CLOEXEC);
    CHECK(descriptor >= 0);
    pthread_t self = pthread_self(), thread;
    CHECK(pthread_create(&thread, NULL, sender, &self) == 0);
    int seen[NSIG] = {0};
    for (unsigned got = 0; got != SIGTERM;) {
        struct signalfd_siginfo info;
        CHECK(read(descriptor, &info, sizeof info) == sizeof info);
        got = info.ssi_signo;
        seen[got]++;
        signal_work((int)got);
    }
    pthread_join(thread, NULL);
    for (int number = 1; number < NSIG; number++)
        if (seen[number])
            printf("signal %d seen\n", number);
    return 0;
}

static void trap_by_number(int number)
{
    traps += number == SIGTRAP;
}

// By system calls, as Chromium has it: all handlers are taken away, in a child too.

struct kernel_action {
    void *handler;
    unsigned long flags;
    void *restorer;
    uint64_t mask;
};

static void reset_handlers(void)
{
    for (int number = 1; number < NSIG; number++) {
        struct kernel_action none = {.handler = SIG_DFL}, before = {.flags = 1};
        if (syscall(SYS_rt_sigaction, number, NULL, &before, sizeof before.mask))
            continue;
        printf("by system call %d: %d %lx %llx\n", number,
               before.handler == SIG_DFL   ? 0
               : before.handler == SIG_IGN ? 1
                                           : 2,
               before.flags, (unsigned long long)before.mask);
        CHECK(syscall(SYS_rt_sigaction, number, &none, NULL, sizeof none.mask) == 0 ||
              number == SIGKILL || number == SIGSTOP);
    }
    fflush(stdout);
}

static int run_by_number(void)
{
    struct sigaction library = {.sa_handler = some_handler, .sa_flags = SA_RESTART};
    CHECK(sigaction(SIGTRAP, &library, NULL) == 0);
    const pid_t child = fork();
    if (child == 0) {
        reset_handlers();
        signal_work(5);
        _exit(7);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    printf("child %x\n", (unsigned)status);
    reset_handlers();
    for (int i = 0; i < 20; i++)
        signal_work(i);
    // Errors are those of the kernel, and a handler is one, however it came to be.
    CHECK(syscall(SYS_rt_sigaction, SIGTRAP, NULL, NULL, 4) == -1 && errno == EINVAL);
    CHECK(syscall(SYS_rt_sigaction, 4711, NULL, NULL, 8) == -1 && errno == EINVAL);
    struct kernel_action action;
    CHECK(sigaction(SIGUSR1, &library, NULL) == 0); // for the restorer, which libc knows
    CHECK(syscall(SYS_rt_sigaction, SIGUSR1, NULL, &action, sizeof action.mask) == 0);
    action.handler = (void *)trap_by_number;
    CHECK(syscall(SYS_rt_sigaction, SIGTRAP, &action, NULL, sizeof action.mask) == 0);
    raise(SIGTRAP);
    __asm__ volatile("int3");
    printf("by number: %d traps\n", (int)traps);
    return 0;
}

// Each handler raises all signals, and is never entered twice: the deepest nesting is their number.
static const int nested_signals[] = {SIGHUP, SIGQUIT, SIGTERM,   SIGXCPU, SIGSTKFLT,
                                     SIGPWR, SIGUSR1, SIGVTALRM, SIGUSR2, SIGWINCH};
enum { NESTED_SIGNALS = sizeof nested_signals / sizeof *nested_signals, NESTED_ENTRIES = 20000 };
static volatile unsigned nested_entries, nested_depth, nested_deepest;

static void raise_all(void)
{
    for (unsigned i = 0; i < NESTED_SIGNALS && nested_entries < NESTED_ENTRIES; i++)
        raise(nested_signals[i]);
}

static void nest(int number)
{
    (void)number;
    nested_entries++;
    if (++nested_depth > nested_deepest)
        nested_deepest = nested_depth;
    raise_all();
    nested_depth--;
}

static int run_nested(void)
{
    static char stack[1 << 20];
    sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = sizeof stack}, NULL);
    for (unsigned i = 0; i < NESTED_SIGNALS; i++)
        sigaction(nested_signals[i],
                  &(struct sigaction){.sa_handler = nest, .sa_flags = i % 2 ? SA_ONSTACK : 0},
                  NULL);
    raise_all();
    printf("%u entries, %u deep\n", nested_entries, nested_deepest);
    return 0;
}

int main(int argc, char **argv)
{
    static const struct mode modes[] = {
        {"show", run_show},           {"blocked", run_blocked},
        {"sigprof", run_sigprof},     {"sigtrap", run_sigtrap},
        {"sigwait", run_sigwait},     {"signalfd", run_signalfd},
        {"masks", run_masks},         {"inherit", run_inherit},
        {"by-number", run_by_number}, {"nested", run_nested},
        {"vfork", run_vfork},         {"masked-by-number", run_masked_by_number}};
    return RUN_MODE(modes);
}
