// SPDX-License-Identifier: MIT
// Every way to make a process. `processes child N` is what those that exec run: it exits with N.

#include "common.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static char self[4096];
static volatile uint64_t sink;

NOIPA void process_work(int value)
{
    sink += burn((uint64_t)value, 2500);
    NO_TAIL_CALL();
}

NOIPA int child_work(int value)
{
    process_work(value);
    NO_TAIL_CALL();
    return value;
}

static int wait_for(pid_t pid)
{
    int status;
    pid_t got;
    do
        got = waitpid(pid, &status, 0);
    while (got < 0 && errno == EINTR);
    CHECK(got == pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

NOIPA pid_t fork_child(int i, int nested)
{
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid > 0)
        return pid;
    int value = child_work(i % 100);
    if (nested) {
        pid_t grandchild = fork_child(i + 1, 0);
        value = wait_for(grandchild) - 1;
    }
    _exit(value);
}

static int run_fork(void)
{
    long sum = 0;
    for (int i = 0; i < 100; i += 4) {
        pid_t children[4];
        for (int j = 0; j < 4; j++)
            children[j] = fork_child(i + j, j == 3 && i % 8 == 0);
        process_work(i);
        for (int j = 0; j < 4; j++)
            sum += wait_for(children[j]);
    }
    printf("fork %ld\n", sum);
    return 0;
}

// Several threads fork at once, while others work.
static void *forking_thread(void *argument)
{
    long sum = 0;
    for (int i = 0; i < 15; i++) {
        process_work(i);
        sum += wait_for(fork_child(i, 0));
    }
    *(long *)argument = sum;
    return NULL;
}

static int run_threaded_fork(void)
{
    pthread_t threads[4];
    long sums[4];
    for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&threads[i], NULL, forking_thread, &sums[i]) == 0);
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        CHECK(sums[i] == 105);
    }
    printf("threaded fork\n");
    return 0;
}

static char **child_arguments(int i)
{
    static char number[16];
    static char *arguments[] = {self, "child", number, NULL};
    snprintf(number, sizeof number, "%d", i);
    return arguments;
}

NOIPA pid_t vfork_and_exec(char **arguments)
{
    pid_t pid = vfork();
    if (pid == 0) {
        execv(self, arguments);
        _exit(98);
    }
    return pid;
}

// A child that shares our memory and does not exec.
NOIPA pid_t vfork_and_exit(int status)
{
    pid_t pid = vfork();
    if (pid == 0)
        _exit(status);
    return pid;
}

static int run_vfork(void)
{
    long sum = 0;
    for (int i = 0; i < 30; i++) {
        process_work(i);
        sum += wait_for(vfork_and_exec(child_arguments(i)));
    }
    for (int i = 0; i < 200; i++)
        sum += wait_for(vfork_and_exit(i % 50));
    printf("vfork %ld\n", sum);
    return 0;
}

// A child that libc knows nothing of (sandboxes make theirs so) takes the room that its parent's
// memory has left, and its own child, which libc does know of, finds it there.
static int run_untold(void)
{
    enum { PAGES = 64, PAGE = 4096 };
    process_work(1);
    const pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    if (pid == 0) {
        static unsigned char *pages[PAGES];
        for (int i = 0; i < PAGES; i++) {
            pages[i] = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            CHECK(pages[i] != MAP_FAILED);
            pages[i][0] = (unsigned char)(i | 128);
        }
        const pid_t next = fork();
        if (next == 0) {
            child_work(2);
            for (int i = 0; i < PAGES; i++)
                CHECK(pages[i][0] == (unsigned char)(i | 128));
            _exit(6);
        }
        _exit(wait_for(next));
    }
    printf("untold %d\n", wait_for(pid));
    process_work(3);
    return 0;
}

// Each child forks the next one, as programs do that become daemons again and again.
static int chain(int left)
{
    if (left == 0)
        return 0;
    const pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        child_work(left);
        _exit(1 + chain(left - 1));
    }
    return wait_for(pid);
}

static int run_chain(void)
{
    printf("chain %d\n", chain(6));
    return 0;
}

// Functions that are first called in a child.
#define FRESH(number)                                                                              \
    NOIPA static int fresh_##number(int value)                                                     \
    {                                                                                              \
        sink += (uint64_t)value;                                                                   \
        NO_TAIL_CALL();                                                                            \
        return value + 1;                                                                          \
    }
FRESH(0) FRESH(1) FRESH(2) FRESH(3) NOIPA static int call_fresh(int value)
{
    value = fresh_0(value);
    value = fresh_1(value);
    value = fresh_2(value);
    return fresh_3(value) - 4;
}

static _Atomic bool ways_over;

// Takes as many locks as a program can make the agent take, as often as it can.
static void *end_at_once(void *argument)
{
    process_work(1);
    return argument;
}

static void *start_threads(void *argument)
{
    while (!ways_over) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, end_at_once, NULL) == 0);
        pthread_join(thread, NULL);
    }
    return argument;
}

static volatile pid_t made_by_handler;

static void fork_in_handler(int signal)
{
    (void)signal;
    made_by_handler = fork();
}

extern pid_t _Fork(void) __attribute__((weak));

static pid_t make_child(int way)
{
    switch (way) {
    case 0:
        return fork();
    case 1:
        return _Fork ? _Fork() : fork();
    case 2:
        return (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    }
    raise(SIGUSR1);
    return made_by_handler;
}

// Children that are made in every way, while other threads hold what they hold.
static int run_ways(void)
{
    pthread_t threads[3];
    long sum = 0;
    signal(SIGUSR1, fork_in_handler);
    for (int i = 0; i < 3; i++)
        CHECK(pthread_create(&threads[i], NULL, start_threads, NULL) == 0);
    for (int i = 0; i < 200; i++) {
        const pid_t pid = make_child(i % 4);
        CHECK(pid >= 0);
        if (pid == 0)
            _exit(call_fresh(i % 50));
        sum += wait_for(pid);
    }
    ways_over = true;
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    printf("ways %ld\n", sum);
    return 0;
}

static int run_spawn(void)
{
    long sum = 0;
    for (int i = 0; i < 30; i++) {
        pid_t pid;
        process_work(i);
        CHECK(posix_spawn(&pid, self, NULL, NULL, child_arguments(i), environ) == 0);
        sum += wait_for(pid);
    }
    pid_t pid;
    CHECK(posix_spawn(&pid, "/no/such/program", NULL, NULL, child_arguments(1), environ) == ENOENT);
    printf("spawn %ld\n", sum);
    return 0;
}

static int run_system(void)
{
    long sum = 0;
    for (int i = 0; i < 10; i++) {
        char command[5000];
        snprintf(command, sizeof command, "'%s' child %d; exit $?", self, i);
        process_work(i);
        int status = system(command);
        CHECK(WIFEXITED(status));
        sum += WEXITSTATUS(status);
    }
    printf("system %ld\n", sum);
    return 0;
}

static int run_popen(void)
{
    long sum = 0;
    for (int i = 0; i < 10; i++) {
        char command[5000];
        int value = 0;
        snprintf(command, sizeof command, "'%s' child %d; echo $?", self, i);
        FILE *pipe = popen(command, "r");
        CHECK(pipe && fscanf(pipe, "%d", &value) == 1);
        CHECK(pclose(pipe) == 0);
        sum += value;
    }
    printf("popen %ld\n", sum);
    return 0;
}

// One exec with nothing in the environment, one with a variable of its own.
static int run_empty_environment(void)
{
    char *nothing[] = {NULL};
    char *something[] = {"COLOUR=blue", NULL};
    char **environments[] = {nothing, something};
    for (int i = 0; i < 2; i++) {
        char *arguments[] = {self, "environment", NULL};
        fflush(stdout);
        pid_t pid = fork();
        if (pid == 0) {
            execve(self, arguments, environments[i]);
            _exit(98);
        }
        CHECK(wait_for(pid) == 0);
    }
    // clearenv and then exec with what is left.
    clearenv();
    fflush(stdout);
    execl(self, self, "environment", (char *)NULL);
    return 98;
}

static int run_environment(void)
{
    for (char **variable = environ; variable && *variable; variable++)
        printf("%s\n", *variable);
    printf("LD_PRELOAD=%s\n", getenv("LD_PRELOAD") ? getenv("LD_PRELOAD") : "(unset)");
    child_work(1);
    printf("end of environment\n");
    return 0;
}

NOIPA void daemon_work(void)
{
    for (int i = 0; i < 100; i++)
        process_work(i);
}

static void become_daemon(const char *path)
{
    CHECK(setsid() > 0);
    if (fork() != 0)
        _exit(0);
    for (int descriptor = 0; descriptor < 1024; descriptor++)
        close(descriptor);
    CHECK(chdir("/") == 0);
    umask(0);
    int first = open("/dev/null", O_RDWR);
    daemon_work();
    char temporary[4200];
    snprintf(temporary, sizeof temporary, "%s.new", path);
    int file = open(temporary, O_WRONLY | O_CREAT, 0600);
    dprintf(file, "daemon %d %d\n", first, file);
    close(file);
    rename(temporary, path);
    _exit(0);
}

// Double fork, new session, all descriptors closed. The parent waits until the daemon has left a
// file.
static int run_daemon(void)
{
    char path[] = "/tmp/cairn-daemon-XXXXXX";
    int reserved = mkstemp(path);
    CHECK(reserved >= 0);
    close(reserved);
    unlink(path);
    pid_t pid = fork();
    if (pid == 0)
        become_daemon(path);
    CHECK(wait_for(pid) == 0);
    FILE *file = NULL;
    for (int i = 0; i < 6000 && !(file = fopen(path, "r")); i++)
        usleep(10000);
    char line[100] = "";
    CHECK(file && fgets(line, sizeof line, file));
    unlink(path);
    usleep(100000);
    fputs(line, stdout);
    return 0;
}

static int run_exec(void)
{
    process_work(1);
    execv(self, child_arguments(7));
    return 98;
}

// How many pages short programs touch, each.
static int run_short(void)
{
    enum { PROGRAMS = 40 };
    struct rusage before, after;
    getrusage(RUSAGE_CHILDREN, &before);
    for (int i = 0; i < PROGRAMS; i++) {
        pid_t pid;
        char *argv[] = {"true", NULL};
        CHECK(posix_spawn(&pid, "/bin/true", NULL, NULL, argv, environ) == 0);
        CHECK(waitpid(pid, NULL, 0) == pid);
    }
    getrusage(RUSAGE_CHILDREN, &after);
    printf("faults %ld\n", (after.ru_minflt - before.ru_minflt) / PROGRAMS);
    return 0;
}

int main(int argc, char **argv)
{
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    CHECK(length > 0);
    if (argc > 2 && strcmp(argv[1], "child") == 0) {
        int status = child_work(atoi(argv[2]));
        NO_TAIL_CALL();
        return status;
    }
    static const struct mode modes[] = {{"fork", run_fork},
                                        {"threaded-fork", run_threaded_fork},
                                        {"vfork", run_vfork},
                                        {"untold", run_untold},
                                        {"chain", run_chain},
                                        {"ways", run_ways},
                                        {"spawn", run_spawn},
                                        {"system", run_system},
                                        {"popen", run_popen},
                                        {"daemon", run_daemon},
                                        {"exec", run_exec},
                                        {"empty-environment", run_empty_environment},
                                        {"environment", run_environment},
                                        {"short", run_short}};
    return RUN_MODE(modes);
}
