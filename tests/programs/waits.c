// SPDX-License-Identifier: MIT
// Every call that a signal can cut short, once a thread, while other threads compute.
// None may come back early: the program sends no signal but the two that it waits for.

#include "common.h"
#include <arpa/inet.h>
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WAIT_MS = 600 };
static const struct timespec wait_time = {.tv_nsec = WAIT_MS * 1000000L};

static NOIPA int sleep_nano(void)
{
    int result = nanosleep(&wait_time, NULL);
    NO_TAIL_CALL();
    return result;
}

static NOIPA int sleep_clock(void)
{
    errno = clock_nanosleep(CLOCK_MONOTONIC, 0, &wait_time, NULL);
    return errno ? -1 : 0;
}

static NOIPA int sleep_micro(void)
{
    int result = usleep(WAIT_MS * 1000);
    NO_TAIL_CALL();
    return result;
}

static NOIPA int wait_poll(void)
{
    int result = poll(NULL, 0, WAIT_MS);
    NO_TAIL_CALL();
    return result;
}

static NOIPA int wait_select(void)
{
    struct timeval time = {.tv_usec = WAIT_MS * 1000};
    int result = select(0, NULL, NULL, NULL, &time);
    NO_TAIL_CALL();
    return result;
}

static NOIPA int wait_epoll(void)
{
    int descriptor = epoll_create1(0);
    struct epoll_event event;
    int result = epoll_wait(descriptor, &event, 1, WAIT_MS), error = errno;
    close(descriptor);
    errno = error;
    return result;
}

static int pipes[2];

static NOIPA int read_pipe(void)
{
    char byte;
    return read(pipes[0], &byte, 1) == 1 ? 0 : -1;
}

static struct sockaddr_in address = {.sin_family = AF_INET};
static int listener;

static NOIPA int accept_socket(void)
{
    int connection = accept(listener, NULL, NULL);
    if (connection < 0)
        return -1;
    return close(connection);
}

// A receive time-out makes the kernel return EINTR whatever SA_RESTART says.
static NOIPA int receive_with_timeout(void)
{
    int sockets[2];
    struct timeval time = {.tv_usec = WAIT_MS * 1000};
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
    CHECK(setsockopt(sockets[0], SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time) == 0);
    char byte;
    ssize_t got = recv(sockets[0], &byte, 1, 0);
    int error = errno;
    close(sockets[0]);
    close(sockets[1]);
    errno = error;
    return got < 0 && errno == EAGAIN ? 0 : -1;
}

static NOIPA int wait_semaphore(void)
{
    sem_t semaphore;
    struct timespec until;
    sem_init(&semaphore, 0, 0);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += WAIT_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    int result = sem_timedwait(&semaphore, &until);
    return result < 0 && errno == ETIMEDOUT ? 0 : -1;
}

static NOIPA int wait_futex(void)
{
    static int word;
    long result = syscall(SYS_futex, &word, FUTEX_WAIT, 0, &wait_time, NULL, 0);
    return result < 0 && errno == ETIMEDOUT ? 0 : -1;
}

static NOIPA int wait_system_v(void)
{
    int set = semget(IPC_PRIVATE, 1, 0600);
    struct sembuf operation = {.sem_op = -1};
    int result = semtimedop(set, &operation, 1, &wait_time), error = errno;
    semctl(set, 0, IPC_RMID);
    errno = error;
    return result < 0 && errno == EAGAIN ? 0 : -1;
}

static NOIPA int wait_child(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        usleep(WAIT_MS * 1000);
        _exit(0);
    }
    int status;
    return waitpid(pid, &status, 0) == pid ? 0 : -1;
}

static volatile sig_atomic_t wakes;
static _Atomic unsigned started;
static __thread uint64_t started_at;

static void wake(int number)
{
    (void)number;
    wakes++;
}

// These two do return EINTR, but only for the signal that the program sent.
static NOIPA int wait_pause(void)
{
    int result = pause();
    CHECK(result == -1 && errno == EINTR);
    return clock_ns(CLOCK_MONOTONIC) - started_at > WAIT_MS * 900000u ? 0 : -1;
}

static NOIPA int wait_suspended(void)
{
    sigset_t none;
    sigemptyset(&none);
    int result = sigsuspend(&none);
    CHECK(result == -1 && errno == EINTR);
    return clock_ns(CLOCK_MONOTONIC) - started_at > WAIT_MS * 900000u ? 0 : -1;
}

struct wait {
    const char *name;
    int (*function)(void);
    int result, error;
    pthread_t thread;
};

static void *run_wait(void *argument)
{
    struct wait *wait = argument;
    started_at = clock_ns(CLOCK_MONOTONIC);
    started++;
    errno = 0;
    wait->result = wait->function();
    wait->error = errno;
    return NULL;
}

static volatile int stop;

NOIPA void busy_loop(void)
{
    while (!stop)
        burn(1, 100);
}

static void *compute(void *unused)
{
    (void)unused;
    busy_loop();
    return NULL;
}

static void prepare(void)
{
    CHECK(pipe(pipes) == 0);
    listener = socket(AF_INET, SOCK_STREAM, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    CHECK(bind(listener, (struct sockaddr *)&address, sizeof address) == 0);
    CHECK(getsockname(listener, (struct sockaddr *)&address, &length) == 0);
    CHECK(listen(listener, 1) == 0);
    struct sigaction action = {.sa_handler = wake};
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
}

int main(void)
{
    static struct wait waits[] = {
        {.name = "nanosleep", .function = sleep_nano},
        {.name = "clock_nanosleep", .function = sleep_clock},
        {.name = "usleep", .function = sleep_micro},
        {.name = "poll", .function = wait_poll},
        {.name = "select", .function = wait_select},
        {.name = "epoll_wait", .function = wait_epoll},
        {.name = "read", .function = read_pipe},
        {.name = "accept", .function = accept_socket},
        {.name = "recv", .function = receive_with_timeout},
        {.name = "sem_timedwait", .function = wait_semaphore},
        {.name = "futex", .function = wait_futex},
        {.name = "semtimedop", .function = wait_system_v},
        {.name = "waitpid", .function = wait_child},
        {.name = "pause", .function = wait_pause},
        {.name = "sigsuspend", .function = wait_suspended},
    };
    size_t count = sizeof waits / sizeof *waits;
    prepare();
    pthread_t computing;
    CHECK(pthread_create(&computing, NULL, compute, NULL) == 0);
    for (size_t i = 0; i < count; i++)
        CHECK(pthread_create(&waits[i].thread, NULL, run_wait, &waits[i]) == 0);
    while (started < count) // however long they wait for a processor
        burn(1, 100);
    uint64_t end = clock_ns(CLOCK_MONOTONIC) + WAIT_MS * UINT64_C(1000000);
    while (clock_ns(CLOCK_MONOTONIC) < end)
        burn(1, 100);
    CHECK(write(pipes[1], "x", 1) == 1);
    int connection = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(connect(connection, (struct sockaddr *)&address, sizeof address) == 0);
    pthread_kill(waits[count - 1].thread, SIGUSR1);
    pthread_kill(waits[count - 2].thread, SIGUSR1);
    for (size_t i = 0; i < count; i++) {
        pthread_join(waits[i].thread, NULL);
        printf("%s: %s\n", waits[i].name, waits[i].result == 0 ? "ok" : strerror(waits[i].error));
    }
    stop = 1;
    pthread_join(computing, NULL);
    printf("wakes %d\n", wakes);
    return 0;
}
