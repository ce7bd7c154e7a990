// SPDX-License-Identifier: MIT
// attach_states STATE: stays in a state that a library is not easily loaded in, until SIGTERM.
// Says "ready", checks what it does all the time, and prints how much of it went wrong.

#include <atomic>
#include <cerrno>
#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <link.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdexcept>
#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/prctl.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

namespace
{

volatile sig_atomic_t ended;
std::atomic<unsigned> wrong;

void end(int)
{
    ended = 1;
}

void check(bool right, const char *what)
{
    if (right || ended)
        return;
    if (wrong++ < 10)
        fprintf(stderr, "%s: %s\n", what, strerror(errno));
}

uint64_t now_ms()
{
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return uint64_t(now.tv_sec) * 1000 + uint64_t(now.tv_nsec) / 1000000;
}

void nap(long ms)
{
    const timespec time = {0, ms * 1000000};
    check(!nanosleep(&time, nullptr), "nanosleep");
}

void be_sleeper()
{
    while (!ended) {
        const uint64_t start = now_ms();
        nap(30);
        check(now_ms() - start >= 29, "nanosleep, too short");
    }
}

void be_epoll()
{
    const int file = epoll_create1(0);
    epoll_event event;
    while (!ended) {
        const uint64_t start = now_ms();
        const bool over = epoll_wait(file, &event, 1, 40) == 0;
        check(over, "epoll_wait");
        check(!over || now_ms() - start >= 39, "epoll_wait, too short");
    }
    close(file);
}

// Vector registers hold the sums all the time.
__attribute__((noinline)) double add_up(unsigned rounds)
{
    double sums[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    for (unsigned i = 0; i < rounds; i++)
        for (unsigned k = 0; k < 8; k++)
            sums[k] = sums[k] * 0.999 + double(i % 17) * (k + 1);
    double all = 0;
    for (const double sum : sums)
        all += sum;
    return all;
}

void be_vectors()
{
    const double expected = add_up(100000);
    while (!ended)
        check(add_up(100000) == expected, "sums");
}

void be_fork()
{
    for (unsigned i = 0; !ended; i++) {
        const pid_t child = fork();
        if (child == 0) {
            add_up(10000);
            _exit(int(i % 100));
        }
        int status = 0;
        check(child > 0 && waitpid(child, &status, 0) == child, "waitpid");
        check(WIFEXITED(status) && WEXITSTATUS(status) == int(i % 100), "status of a child");
    }
}

__attribute__((noinline)) unsigned throw_deep(unsigned depth)
{
    if (depth == 0)
        throw std::runtime_error("deep");
    return throw_deep(depth - 1) + 1;
}

void be_exceptions()
{
    unsigned caught = 0, thrown = 0;
    while (!ended) {
        thrown++;
        try {
            throw_deep(20);
        } catch (const std::runtime_error &) {
            caught++;
        }
        check(caught == thrown, "exceptions");
    }
}

// A stack of 4 kB in the middle of memory that nobody else may write. Nearly no time is spent there,
// so no sample is taken there.
constexpr size_t ROOM = 65536, STACK = 4096;
unsigned char *room;
ucontext_t home, small;

void sleep_on_small_stack()
{
    const timespec moment = {0, 50000000};
    while (!ended)
        syscall(SYS_nanosleep, &moment, nullptr);
}

bool is_untouched(size_t start, size_t finish)
{
    for (size_t i = start; i < finish; i++)
        if (room[i] != 0xa5)
            return false;
    return true;
}

void run_on_small_stack()
{
    getcontext(&small);
    small.uc_stack.ss_sp = room + ROOM / 2;
    small.uc_stack.ss_size = STACK;
    small.uc_link = &home;
    makecontext(&small, sleep_on_small_stack, 0);
    swapcontext(&home, &small);
}

void *run_coroutine(void *)
{
    run_on_small_stack();
    return nullptr;
}

void check_room()
{
    size_t last = 0;
    for (size_t i = 0; i < ROOM / 2; i++)
        if (room[i] != 0xa5 && !last++)
            fprintf(stderr, "%zu bytes below a small stack are overwritten\n", ROOM / 2 - i);
    wrong += last != 0;
    wrong += !is_untouched(ROOM / 2 + STACK, ROOM);
}

void fill_room()
{
    room = static_cast<unsigned char *>(malloc(ROOM));
    memset(room, 0xa5, ROOM);
}

void be_coroutine()
{
    fill_room();
    run_on_small_stack();
    check_room();
}

void be_coroutine_beside_sleeper()
{
    pthread_t thread;
    fill_room();
    pthread_create(&thread, nullptr, run_coroutine, nullptr);
    be_sleeper();
    pthread_join(thread, nullptr);
    check_room();
}

// Calls that fail where a stop interrupts them.
void *receive(void *)
{
    int ends[2];
    char byte;
    check(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends), "socketpair");
    const timeval limit = {0, 40000};
    setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    while (!ended)
        check(recv(ends[0], &byte, 1, 0) < 0 && errno == EAGAIN, "recv");
    return nullptr;
}

void *wait_for_semaphore(void *)
{
    const int id = semget(IPC_PRIVATE, 1, 0600);
    sembuf take = {0, -1, 0};
    const timespec limit = {0, 40000000};
    while (!ended)
        check(semtimedop(id, &take, 1, &limit) < 0 && errno == EAGAIN, "semtimedop");
    semctl(id, 0, IPC_RMID);
    return nullptr;
}

void *wait_for_events(void *)
{
    const int file = epoll_create1(0);
    epoll_event event;
    const timespec limit = {0, 40000000};
    while (!ended)
        check(syscall(SYS_epoll_pwait2, file, &event, 1, &limit, nullptr, 0) == 0, "epoll_pwait2");
    close(file);
    return nullptr;
}

void *wait_for_signal(void *)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    const timespec limit = {0, 40000000};
    while (!ended)
        check(sigtimedwait(&set, nullptr, &limit) < 0 && errno == EAGAIN, "sigtimedwait");
    return nullptr;
}

void *compute(void *)
{
    be_vectors();
    return nullptr;
}

void *sleep_long(void *)
{
    be_sleeper();
    return nullptr;
}

template <size_t N> void run(void *(*const (&all)[N])(void *))
{
    pthread_t threads[N];
    for (size_t i = 0; i < N; i++)
        pthread_create(&threads[i], nullptr, all[i], nullptr);
    for (pthread_t thread : threads)
        pthread_join(thread, nullptr);
}

void be_interrupted()
{
    void *(*const all[])(void *) = {receive, wait_for_semaphore, wait_for_events, wait_for_signal,
                                    compute};
    run(all);
}

// Sleeps with a lock that is waited for where the loader's own lock is held.
pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

int take_lock(dl_phdr_info *, size_t, void *)
{
    pthread_mutex_lock(&lock);
    pthread_mutex_unlock(&lock);
    return 1;
}

void *hold_loader(void *)
{
    while (!ended) {
        dl_iterate_phdr(take_lock, nullptr);
        nap(1);
    }
    return nullptr;
}

void be_locked()
{
    pthread_t thread;
    pthread_create(&thread, nullptr, hold_loader, nullptr);
    while (!ended) {
        pthread_mutex_lock(&lock);
        nap(50);
        pthread_mutex_unlock(&lock);
        sched_yield();
    }
    pthread_join(thread, nullptr);
}

// Waits as long as a child of vfork lives.
void *stay_in_vfork(void *)
{
    const pid_t child = vfork();
    if (child == 0) {
        const timespec moment = {0, 1000000};
        while (!ended)
            syscall(SYS_nanosleep, &moment, nullptr);
        _exit(0);
    }
    return nullptr;
}

void be_vfork()
{
    void *(*const all[])(void *) = {stay_in_vfork, sleep_long};
    run(all);
}

void *be_confined(void *)
{
    sock_filter allow[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    const sock_fprog program = {1, allow};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    check(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), "seccomp");
    be_sleeper();
    return nullptr;
}

void have_confined_thread()
{
    void *(*const all[])(void *) = {be_confined, sleep_long};
    run(all);
}

void *sleep_many(void *)
{
    while (!ended)
        nap(200);
    return nullptr;
}

void be_many()
{
    pthread_t threads[100];
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 65536);
    for (pthread_t &thread : threads)
        pthread_create(&thread, &attributes, sleep_many, nullptr);
    be_vectors();
    for (pthread_t thread : threads)
        pthread_join(thread, nullptr);
}

jmp_buf way_out;

__attribute__((noinline)) unsigned jump_from(unsigned depth, unsigned bottom)
{
    if (depth == bottom)
        longjmp(way_out, int(depth) + 1);
    return jump_from(depth + 1, bottom) + 1;
}

void be_jumping()
{
    for (volatile unsigned bottom = 0; !ended; bottom = (bottom + 7) % 100) {
        const int depth = setjmp(way_out);
        if (depth == 0)
            jump_from(0, bottom);
        check(unsigned(depth) == bottom + 1, "longjmp");
    }
}

void *work_and_sleep(void *)
{
    const double expected = add_up(1000);
    while (!ended) {
        check(add_up(1000) == expected, "sums");
        nap(100);
    }
    return nullptr;
}

void be_crowd()
{
    pthread_t threads[500];
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 65536);
    for (pthread_t &thread : threads)
        pthread_create(&thread, &attributes, work_and_sleep, nullptr);
    for (pthread_t thread : threads)
        pthread_join(thread, nullptr);
}

const struct state {
    const char *name;
    void (*be)();
} states[] = {{"sleeper", be_sleeper},
              {"epoll", be_epoll},
              {"vectors", be_vectors},
              {"fork", be_fork},
              {"exceptions", be_exceptions},
              {"coroutine", be_coroutine},
              {"coroutines", be_coroutine_beside_sleeper},
              {"interrupted", be_interrupted},
              {"locked", be_locked},
              {"vfork", be_vfork},
              {"confined", have_confined_thread},
              {"many", be_many},
              {"jumping", be_jumping},
              {"crowd", be_crowd}};

} // namespace

int main(int argc, char **argv)
{
    static char stack[65536];
    const stack_t alternate = {stack, 0, sizeof stack};
    sigaltstack(&alternate, nullptr);
    struct sigaction action = {};
    action.sa_handler = end;
    action.sa_flags = SA_ONSTACK | SA_RESTART;
    sigaction(SIGTERM, &action, nullptr);
    puts("ready");
    fflush(stdout);
    const char *name = argc > 1 ? argv[1] : "";
    argv[0] = argv[1] = nullptr; // as programs leave it that give themselves a title
    for (const state &state : states)
        if (!strcmp(name, state.name))
            state.be();
    printf("%u wrong\n", wrong.load());
    return wrong != 0;
}
