// SPDX-License-Identifier: MIT
// I/O of which each operation is known.
//
//   io paths      two callers of one function that writes
//   io all        every function that moves bytes, opens or flushes; prints what it has done
//   io harmless   errors, interruptions, cancellation, handlers, children: says "harmless"
//   io threads    four threads, each with files of its own
//   io handlers   a handler that writes, again and again; prints how often

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static char buffer[1 << 16];
static unsigned long done_read, done_written, operations;

static void check(int right, const char *what)
{
    if (right)
        return;
    fprintf(stderr, "wrong: %s (errno %d)\n", what, errno);
    _exit(1);
}

static int temporary(void)
{
    char name[] = "/tmp/cairn-io-XXXXXX";
    const int fd = mkstemp(name);
    check(fd >= 0 && !unlink(name), "mkstemp");
    return fd;
}

static __attribute__((noinline)) void put(int fd, size_t bytes)
{
    check(write(fd, buffer, bytes) == (ssize_t)bytes, "write");
}

static __attribute__((noinline)) void by_first(int fd)
{
    for (int i = 0; i < 75; i++)
        put(fd, 1000);
}

static __attribute__((noinline)) void by_second(int fd)
{
    for (int i = 0; i < 25; i++)
        put(fd, 10);
}

static void paths(void)
{
    const int fd = open("/dev/null", O_WRONLY);
    for (int i = 0; i < 5; i++) {
        by_first(fd);
        by_second(fd);
    }
}

static void moved(ssize_t result, ssize_t expected, unsigned long *sum, const char *what)
{
    check(result == expected, what);
    *sum += (unsigned long)result;
    operations++;
}

#define READS(call, bytes) moved((call), (bytes), &done_read, #call)
#define WRITES(call, bytes) moved((call), (bytes), &done_written, #call)

static void plain_files(int fd)
{
    struct iovec parts[] = {{buffer, 10}, {buffer + 10, 20}};
    WRITES(write(fd, buffer, 5000), 5000);
    WRITES(pwrite(fd, buffer, 100, 5000), 100);
    WRITES(writev(fd, parts, 2), 30);
    WRITES(pwritev(fd, parts, 2, 0), 30);
    WRITES(pwritev2(fd, parts, 2, 0, 0), 30);
    lseek(fd, 0, SEEK_SET);
    READS(read(fd, buffer, 700), 700);
    READS(pread(fd, buffer, 60, 0), 60);
    READS(readv(fd, parts, 2), 30);
    READS(preadv(fd, parts, 2, 0), 30);
    READS(preadv2(fd, parts, 2, 0, 0), 30);
    check(fsync(fd) == 0 && fdatasync(fd) == 0, "fsync");
    operations += 2;
}

static void sockets(void)
{
    int pair[2];
    struct iovec part = {buffer, 50};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    struct mmsghdr messages[2] = {{.msg_hdr = message}, {.msg_hdr = message}};
    check(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0, "socketpair");
    WRITES(send(pair[0], buffer, 11, 0), 11);
    WRITES(sendto(pair[0], buffer, 12, 0, NULL, 0), 12);
    WRITES(sendmsg(pair[0], &message, 0), 50);
    check(sendmmsg(pair[0], messages, 2, 0) == 2, "sendmmsg");
    READS(recv(pair[1], buffer, 100, 0), 11);
    READS(recvfrom(pair[1], buffer, 100, 0, NULL, NULL), 12);
    READS(recvmsg(pair[1], &message, 0), 50);
    check(recvmmsg(pair[1], messages, 2, 0, NULL) == 2, "recvmmsg");
    done_written += 100;
    done_read += 100;
    operations += 2;
}

static void through(ssize_t result, ssize_t expected, const char *what)
{
    moved(result, expected, &done_written, what);
    done_read += (unsigned long)result;
}

static void from_file_to_file(int fd)
{
    int pipes[2];
    const int other = temporary();
    operations++; // open
    off_t at = 0;
    off64_t from = 0, to = 0;
    check(pipe(pipes) == 0, "pipe");
    through(sendfile(other, fd, &at, 300), 300, "sendfile");
    through(splice(fd, &from, pipes[1], NULL, 200, 0), 200, "splice");
    from = 0;
    through(copy_file_range(fd, &from, other, &to, 400, 0), 400, "copy_file_range");
}

// Streams write when they are full or flushed, and read as much as they hold: 4096 bytes.
static void streams(void)
{
    char name[] = "/tmp/cairn-io-XXXXXX";
    const int fd = mkstemp(name);
    FILE *file = fopen(name, "w");
    check(fd >= 0 && file, "fopen");
    for (int i = 0; i < 1000; i++)
        fputs("0123456789", file);
    check(fclose(file) == 0, "fclose");
    done_written += 10000; // 4096, 4096, 1808
    file = fopen(name, "r");
    int count = 0;
    while (fgetc(file) != EOF)
        count++;
    check(count == 10000, "fgetc");
    done_read += 10000; // 4096, 4096, 1808, 0
    fclose(file);
    unlink(name);
    operations += 1 + 2 + 3 + 4;
}

static void all(void)
{
    const int fd = temporary();
    operations++;
    plain_files(fd);
    sockets();
    from_file_to_file(fd);
    streams();
    char text[100];
    const int length =
        snprintf(text, sizeof text, "%lu %lu %lu\n", done_read, done_written, operations);
    check(write(1, text, (size_t)length) == length, "write");
}

static void nothing(int signal)
{
    (void)signal;
}

static void interrupt_in(long microseconds)
{
    const struct itimerval timer = {.it_value = {.tv_usec = microseconds}};
    setitimer(ITIMER_REAL, &timer, NULL);
}

static void errors(void)
{
    errno = 0;
    check(read(-1, buffer, 1) == -1 && errno == EBADF, "read of none");
    check(open("/nowhere/at/all", O_RDONLY) == -1 && errno == ENOENT, "open");
    check(!fopen("/nowhere/at/all", "r") && errno == ENOENT, "fopen");
    errno = 77;
    check(write(1, buffer, 0) == 0 && errno == 77, "errno after success");
}

static void interruptions(void)
{
    int pipes[2];
    const struct sigaction action = {.sa_handler = nothing};
    sigaction(SIGALRM, &action, NULL);
    check(pipe(pipes) == 0, "pipe");
    interrupt_in(20000);
    check(read(pipes[0], buffer, 1) == -1 && errno == EINTR, "read is interrupted");
}

static int cancelled[2];

static void *read_for_ever(void *unused)
{
    (void)unused;
    check(read(cancelled[0], buffer, 1) == 1, "first read");
    read(cancelled[0], buffer, 1);
    return NULL;
}

static void cancellation(void)
{
    pthread_t thread;
    void *result;
    check(pipe(cancelled) == 0 && !pthread_create(&thread, NULL, read_for_ever, NULL), "thread");
    check(write(cancelled[1], "x", 1) == 1, "write");
    pthread_cancel(thread);
    pthread_join(thread, &result);
    check(result == PTHREAD_CANCELED, "read is a cancellation point");
}

static void children(void)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        check(write(1, buffer, 0) == 0, "write in child");
        _exit(3);
    }
    check(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 3, "fork");
    child = vfork();
    if (child == 0) {
        write(1, buffer, 0);
        _exit(4);
    }
    check(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 4, "vfork");
    FILE *command = popen("echo hello", "r");
    check(command && fgets(buffer, sizeof buffer, command) && !strcmp(buffer, "hello\n") &&
              pclose(command) == 0,
          "popen");
}

static int sink;
static volatile unsigned long handled;
static sigjmp_buf jump;

static void write_there(int signal)
{
    (void)signal;
    const int saved = errno;
    put(sink, 7);
    handled++;
    errno = saved;
}

static void jump_away(int signal)
{
    put(sink, 1);
    siglongjmp(jump, signal);
}

static void jumps(void)
{
    sink = open("/dev/null", O_WRONLY);
    signal(SIGALRM, jump_away);
    for (volatile int i = 0; i < 200; i++)
        if (!sigsetjmp(jump, 1)) {
            interrupt_in(100 + i);
            for (;;)
                put(sink, 3);
        }
}

static void harmless(void)
{
    errors();
    interruptions();
    cancellation();
    children();
    jumps();
    puts("harmless");
}

static void handlers(void)
{
    const struct sigaction action = {.sa_handler = write_there, .sa_flags = SA_RESTART};
    const struct itimerval timer = {{.tv_usec = 200}, {.tv_usec = 200}}, none = {{0}, {0}};
    sink = open("/dev/null", O_WRONLY);
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &timer, NULL);
    for (int i = 0; i < 300000; i++)
        put(sink, 10);
    setitimer(ITIMER_REAL, &none, NULL);
    char text[40];
    const int length = snprintf(text, sizeof text, "%lu\n", handled);
    check(write(1, text, (size_t)length) == length, "write");
}

static void *of_its_own(void *unused)
{
    const int fd = open("/dev/null", O_WRONLY);
    for (int i = 0; i < 5000; i++)
        put(fd, 100);
    return unused;
}

static void threads(void)
{
    pthread_t thread[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&thread[i], NULL, of_its_own, NULL);
    for (int i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } modes[] = {{"paths", paths},
                 {"all", all},
                 {"harmless", harmless},
                 {"threads", threads},
                 {"handlers", handlers}};
    for (unsigned i = 0; argc > 1 && i < sizeof modes / sizeof *modes; i++)
        if (!strcmp(argv[1], modes[i].name)) {
            modes[i].run();
            return 0;
        }
    return 2;
}
