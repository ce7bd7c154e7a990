// SPDX-License-Identifier: MIT
// Waits in calls that go on when the process was stopped and continues, as a shell does it (Ctrl-Z,
// fg). None fails: the program has no handlers, so it sees nothing of it.

#include "common.h"
#include <errno.h>
#include <poll.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WAIT_MS = 150, STOPPED_AFTER_MS = 40, STOPPED_MS = 40 };
static const struct timespec wait_time = {.tv_nsec = WAIT_MS * 1000000L};

static int wait_poll(void)
{
    return poll(NULL, 0, WAIT_MS);
}

static int wait_ppoll(void)
{
    return ppoll(NULL, 0, &wait_time, NULL);
}

static int wait_select(void)
{
    struct timeval time = {.tv_usec = WAIT_MS * 1000};
    return select(0, NULL, NULL, NULL, &time);
}

static int wait_pselect(void)
{
    return pselect(0, NULL, NULL, NULL, &wait_time, NULL);
}

static int sleep_whole(void)
{
    return nanosleep(&wait_time, NULL);
}

static int sleep_rest(void)
{
    struct timespec time = wait_time;
    return nanosleep(&time, &time);
}

static int wait_semaphore(void)
{
    sem_t semaphore;
    struct timespec until;
    CHECK(sem_init(&semaphore, 0, 0) == 0 && clock_gettime(CLOCK_REALTIME, &until) == 0);
    until.tv_nsec += WAIT_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    return sem_timedwait(&semaphore, &until);
}

static int queue;

static int receive_message(void)
{
    struct {
        long type;
        char text[8];
    } message;
    return (int)msgrcv(queue, &message, sizeof message.text, 0, 0);
}

// Stops the other process while it waits, and sends it what it waits for, if anything.
static void stop(pid_t other)
{
    const long message[2] = {1, 0};
    usleep(STOPPED_AFTER_MS * 1000);
    kill(other, SIGSTOP);
    usleep(STOPPED_MS * 1000);
    kill(other, SIGCONT);
    usleep(STOPPED_MS * 1000);
    CHECK(msgsnd(queue, message, sizeof message[1], 0) == 0);
    _exit(0);
}

int main(void)
{
    static const struct {
        const char *name;
        int (*wait)(void);
    } calls[] = {
        {"poll", wait_poll},           {"ppoll", wait_ppoll},
        {"select", wait_select},       {"pselect", wait_pselect},
        {"nanosleep", sleep_whole},    {"nanosleep, the rest", sleep_rest},
        {"semaphore", wait_semaphore}, {"message", receive_message},
    };
    const pid_t process = getpid();
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        CHECK((queue = msgget(IPC_PRIVATE, 0600)) >= 0);
        const pid_t other = fork();
        CHECK(other >= 0);
        if (other == 0)
            stop(process);
        errno = 0;
        const int result = calls[i].wait();
        printf("%s: %d, %s\n", calls[i].name, result, strerror(errno));
        CHECK(waitpid(other, NULL, 0) == other);
        CHECK(msgctl(queue, IPC_RMID, NULL) == 0);
    }
    return 0;
}
