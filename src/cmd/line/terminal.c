// SPDX-License-Identifier: MIT

#include "cmd/line/terminal.h"
#include "cmd/line/command.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEFAULT_PAGER "less -FRX"
#define SHELL_CHARACTERS "|&;<>()$`\\\"'*?[#~=%{}"

extern char **environ;

static struct {
    enum terminal_color color;
    bool width_given, no_pager;
    unsigned width;
} wanted;

static bool tried;  // to start a pager
static pid_t pager; // 0: none runs. Signal handlers read it; it is set while signals are blocked.

void terminal_set_color(enum terminal_color color)
{
    wanted.color = color;
}

int terminal_set_width(const char *columns)
{
    if (!text_parse_width(columns, &wanted.width))
        return -1;
    wanted.width_given = true;
    return 0;
}

void terminal_set_no_pager(void)
{
    wanted.no_pager = true;
}

struct text_style terminal_style(void)
{
    static struct text_style style;
    static bool known;
    if (!known) {
        style = text_style(stdout);
        known = true;
    }
    struct text_style result = style;
    if (wanted.color != COLOR_AUTO)
        result.colour = wanted.color == COLOR_ALWAYS;
    if (wanted.width_given)
        result.width = wanted.width;
    return result;
}

// The command that pages, NULL: none.
static const char *choose_pager(void)
{
    const char *command = getenv("CAIRN_PAGER");
    if (!command)
        command = getenv("PAGER");
    if (!command)
        command = DEFAULT_PAGER;
    command += strspn(command, " \t");
    return *command && strcmp(command, "cat") ? command : NULL;
}

// Plain words are run without a shell: so it is known at once whether there is such a program.
// Returns 0 or errno.
static int spawn_pager(const char *command, const posix_spawn_file_actions_t *actions,
                       const posix_spawnattr_t *attributes)
{
    enum { MOST_WORDS = 32 };
    char *words[MOST_WORDS + 1] = {"sh", "-c", (char *)command, NULL};
    char *copy = strdup(command), *rest = NULL;
    if (!copy)
        return ENOMEM;
    if (!strpbrk(command, SHELL_CHARACTERS)) {
        unsigned count = 0;
        for (char *word = strtok_r(copy, " \t", &rest); word && count < MOST_WORDS;
             word = strtok_r(NULL, " \t", &rest))
            words[count++] = word;
        words[count] = NULL;
    }
    const int error = posix_spawnp(&pager, words[0], actions, attributes, words, environ);
    if (error)
        pager = 0;
    free(copy);
    return error;
}

// 0, or -1 if the shell could not run it.
static int wait_for_pager(void)
{
    int status = 0;
    while (waitpid(pager, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) && WEXITSTATUS(status) >= STATUS_NOT_EXECUTABLE ? -1 : 0;
}

static void complain_of_pager(void)
{
    static const char text[] =
        "cairn: the pager cannot be run: set CAIRN_PAGER to another, or use --no-pager\n";
    const ssize_t written = write(STDERR_FILENO, text, sizeof text - 1);
    (void)written;
}

// A user who leaves the pager early has seen enough: that is no failure. A key that ends us must
// not leave a pager behind that has the terminal to itself. Runs in a signal handler.
static void handle_signal(int number)
{
    struct pollfd output = {.fd = STDOUT_FILENO};
    const int kept = errno;
    if (number == SIGPIPE && !(poll(&output, 1, 0) == 1 && output.revents & POLLERR)) {
        errno = kept; // another pipe or socket: its writer sees the error
        return;
    }
    close(STDOUT_FILENO);
    const bool failed = wait_for_pager() < 0;
    if (number == SIGPIPE && failed)
        complain_of_pager();
    if (number == SIGPIPE)
        _exit(failed ? STATUS_FAILED : 0);
    signal(number, SIG_DFL);
    raise(number);
}

static const int handled[] = {SIGPIPE, SIGINT, SIGTERM, SIGHUP, SIGQUIT};

static void handle_signals(void)
{
    for (unsigned i = 0; i < sizeof handled / sizeof *handled; i++) {
        struct sigaction action = {.sa_handler = handle_signal, .sa_flags = SA_RESTART}, old;
        // A signal that our parent ignores stays ignored; SIGPIPE is needed.
        if (handled[i] != SIGPIPE && !sigaction(handled[i], NULL, &old) &&
            old.sa_handler == SIG_IGN)
            continue;
        sigaction(handled[i], &action, NULL);
    }
}

// Between the start of the pager and the moment when its pipe is stdout, no signal may come.
static void start(const char *command)
{
    int ends[2];
    sigset_t all, before;
    if (pipe2(ends, O_CLOEXEC))
        return;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[0], STDIN_FILENO);
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &before);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    setenv("LESS", "FRX", 0);
    setenv("LV", "-c", 0);
    const int error = spawn_pager(command, &actions, &attributes);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    if (!error) {
        dup2(ends[1], STDOUT_FILENO);
        handle_signals();
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    close(ends[0]);
    close(ends[1]);
}

// Where stdout goes that waits for a pager: the pager starts with the first output, when nothing
// more is to be said on stderr.
static ssize_t write_paged(void *command, const char *bytes, size_t count)
{
    size_t done = 0;
    if (!tried) {
        tried = true;
        start(command);
    }
    while (done < count) {
        const ssize_t written = write(STDOUT_FILENO, bytes + done, count - done);
        if (written < 0 && errno != EINTR)
            return 0;
        done += written < 0 ? 0 : (size_t)written;
    }
    return (ssize_t)done;
}

void terminal_use_pager(void)
{
    terminal_style(); // as stdout is now
    const char *command = choose_pager();
    if (wanted.no_pager || !command || !text_can_rewrite(stdout))
        return;
    FILE *out = fopencookie((void *)command, "w", (cookie_io_functions_t){.write = write_paged});
    if (!out)
        return;
    fflush(stdout);
    stdout = out;
}

int terminal_end_pager(void)
{
    if (!pager)
        return 0;
    // The pager waits for the end of its input. Descriptor 1 stays taken.
    const int nothing = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (nothing >= 0) {
        dup2(nothing, STDOUT_FILENO);
        close(nothing);
    }
    const int result = wait_for_pager();
    pager = 0;
    if (result < 0)
        complain_of_pager();
    return result;
}
