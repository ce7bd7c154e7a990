// SPDX-License-Identifier: MIT
// Blocking calls that the program's own signals interrupt. What each of them returns, and how
// often, is the same on every run.
//
//   eintr SENDER FLAGS CALL ROUNDS
//     SENDER  thread (pthread_kill), process (kill), timer (setitimer)
//     FLAGS   end (a handler without SA_RESTART), restart (one with it), raw (end, by a plain
//             system call)
//     CALL    one of those below
//
// Prints how many calls were interrupted, how many were restarted, and how many came back before
// the handler had run.

#include "common.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static int files[2];
static sem_t semaphore;
static sigset_t inside; // the mask that some calls wait with
static const char path[] = "eintr.fifo";

static void make_pipe(void)
{
    CHECK(pipe(files) == 0);
}

static int read_byte(void)
{
    char byte;
    return (int)read(files[0], &byte, 1);
}

static void write_byte(void)
{
    CHECK(write(files[1], "", 1) == 1);
}

static void make_sockets(void)
{
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, files) == 0);
}

static int receive_byte(void)
{
    char byte;
    return (int)recv(files[0], &byte, 1, 0);
}

static void make_semaphore(void)
{
    CHECK(sem_init(&semaphore, 0, 0) == 0);
}

static int wait_semaphore(void)
{
    return sem_wait(&semaphore);
}

static void post_semaphore(void)
{
    CHECK(sem_post(&semaphore) == 0);
}

static void make_fifo(void)
{
    CHECK(mkfifo(path, 0600) == 0 || errno == EEXIST);
}

static int open_fifo(void)
{
    int file = open(path, O_RDONLY);
    return file < 0 ? -1 : close(file);
}

static void open_other_end(void)
{
    int file = open(path, O_WRONLY);
    CHECK(file >= 0 && close(file) == 0);
}

static int poll_byte(void)
{
    struct pollfd wait = {.fd = files[0], .events = POLLIN};
    char byte;
    return poll(&wait, 1, -1) < 0 ? -1 : (int)read(files[0], &byte, 1);
}

static int pause_once(void)
{
    return pause();
}

// Waiting with another mask: the signal comes in while they wait, and at no other time.
static int suspend(void)
{
    return sigsuspend(&inside);
}

static int select_with_mask(void)
{
    fd_set set;
    FD_ZERO(&set);
    FD_SET(files[0], &set);
    return pselect(files[0] + 1, &set, NULL, NULL, NULL, &inside);
}

static int poll_with_mask(void)
{
    struct pollfd wait = {.fd = files[0], .events = POLLIN};
    return ppoll(&wait, 1, NULL, &inside);
}

static int epoll_with_mask(void)
{
    static int set = -1;
    struct epoll_event event = {.events = EPOLLIN};
    if (set < 0)
        CHECK((set = epoll_create1(0)) >= 0 &&
              epoll_ctl(set, EPOLL_CTL_ADD, files[0], &event) == 0);
    return epoll_pwait(set, &event, 1, -1, &inside);
}

static const struct call {
    const char *name;
    void (*prepare)(void);
    int (*block)(void);
    void (*end)(void); // from another thread, where no signal has done it
    bool masked;
} calls[] = {
    {"read", make_pipe, read_byte, write_byte, false},
    {"receive", make_sockets, receive_byte, write_byte, false},
    {"semaphore", make_semaphore, wait_semaphore, post_semaphore, false},
    {"open", make_fifo, open_fifo, open_other_end, false},
    {"poll", make_pipe, poll_byte, write_byte, false},
    {"pause", make_pipe, pause_once, NULL, false},
    {"sigsuspend", make_pipe, suspend, NULL, true},
    {"pselect", make_pipe, select_with_mask, NULL, true},
    {"ppoll", make_pipe, poll_with_mask, NULL, true},
    {"epoll_pwait", make_pipe, epoll_with_mask, NULL, true},
};

static _Atomic long begun, handled, returned; // rounds
static pthread_t waiter;
static pid_t waiter_id;
static const char *sender;
static int number; // of the signal

static void on_signal(int signal)
{
    (void)signal;
    atomic_fetch_add(&handled, 1);
}

static bool is_asleep(void)
{
    char name[64], text[128] = "";
    snprintf(name, sizeof name, "/proc/self/task/%d/stat", (int)waiter_id);
    int file = open(name, O_RDONLY);
    CHECK(file >= 0 && read(file, text, sizeof text - 1) > 0 && close(file) == 0);
    const char *state = strrchr(text, ')');
    return state && state[2] == 'S';
}

static void send_signal(void)
{
    const struct itimerval soon = {.it_value = {.tv_usec = 50}};
    if (!strcmp(sender, "thread"))
        CHECK(pthread_kill(waiter, number) == 0);
    else if (!strcmp(sender, "process"))
        CHECK(kill(getpid(), number) == 0);
    else
        CHECK(setitimer(ITIMER_REAL, &soon, NULL) == 0);
}

// Sends a signal to a thread that sleeps in the call; if it sleeps again, having handled that, the
// call has been restarted.
static void interrupt(const struct call *call, long round)
{
    while (atomic_load(&begun) != round || !is_asleep())
        ;
    send_signal();
    while (atomic_load(&returned) != round) {
        if (atomic_load(&handled) == round && call->end && is_asleep() &&
            atomic_load(&returned) != round) {
            call->end();
            while (atomic_load(&returned) != round)
                ;
        }
    }
}

struct interrupter {
    const struct call *call;
    long rounds;
};

static void *run_interrupter(void *argument)
{
    const struct interrupter *self = argument;
    sigset_t set;
    sigfillset(&set);
    CHECK(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
    for (long round = 1; round <= self->rounds; round++)
        interrupt(self->call, round);
    return NULL;
}

static void install(const char *flags)
{
    struct sigaction action = {.sa_handler = on_signal,
                               .sa_flags = strcmp(flags, "restart") ? 0 : SA_RESTART};
    CHECK(sigaction(number, &action, NULL) == 0);
    if (strcmp(flags, "raw"))
        return;
    struct {
        void (*handler)(int);
        unsigned long flags;
        void (*restorer)(void);
        uint64_t mask;
    } raw;
    CHECK(syscall(SYS_rt_sigaction, number, NULL, &raw, sizeof raw.mask) == 0);
    CHECK(signal(number, SIG_IGN) != SIG_ERR);
    CHECK(syscall(SYS_rt_sigaction, number, &raw, NULL, sizeof raw.mask) == 0);
}

// fork() is never interrupted, whatever comes meanwhile.
static int run_fork(long rounds)
{
    const struct itimerval often = {.it_interval = {.tv_usec = 100}, .it_value = {.tv_usec = 100}};
    CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
    for (long round = 0; round < rounds; round++) {
        const pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0)
            _exit(0);
        while (waitpid(child, NULL, 0) < 0)
            CHECK(errno == EINTR);
    }
    return 0;
}

int main(int argc, char **argv)
{
    CHECK(argc == 5);
    sender = argv[1];
    number = strcmp(sender, "timer") ? SIGRTMIN : SIGALRM;
    install(argv[2]);
    const long rounds = atol(argv[4]);
    if (!strcmp(argv[3], "fork"))
        return run_fork(rounds);
    const struct call *call = NULL;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (!strcmp(calls[i].name, argv[3]))
            call = &calls[i];
    CHECK(call);
    call->prepare();
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, number);
    CHECK(pthread_sigmask(call->masked ? SIG_BLOCK : SIG_UNBLOCK, &set, &inside) == 0);
    waiter = pthread_self();
    waiter_id = (pid_t)syscall(SYS_gettid);
    struct interrupter other = {.call = call, .rounds = rounds};
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, run_interrupter, &other) == 0);
    long interrupted = 0, restarted = 0, early = 0;
    for (long round = 1; round <= rounds; round++) {
        atomic_store(&begun, round);
        const int result = call->block();
        if (result >= 0)
            restarted++;
        else if (errno == EINTR)
            interrupted++;
        early += atomic_load(&handled) != round;
        while (atomic_load(&handled) != round) // what is late is let in now
            sigsuspend(&inside);
        atomic_store(&returned, round);
    }
    CHECK(pthread_join(thread, NULL) == 0);
    printf("%ld interrupted, %ld restarted, %ld early\n", interrupted, restarted, early);
    return 0;
}
