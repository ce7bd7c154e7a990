// SPDX-License-Identifier: MIT
// Whole commands on any file, as `cairn COMMAND FILE` runs them: each returns, with one of its own
// statuses. mutate_profile.c makes the inputs.

#include "cmd/line/command.h"
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int cairn_main(int argc, char **argv); // main() of src/cmd/main.c
int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char input[32];

#define WORDS(...) ((char *[]){"cairn", __VA_ARGS__, NULL})

static char **const commands[] = {
    WORDS("report", input),
    WORDS("report", input, "--view", "callers", "--min", "0", "--lines"),
    WORDS("report", input, "--view", "flat", "--sort", "self", "--per-process", "--per-thread"),
    WORDS("report", input, "--json", "--fold-recursion"),
    WORDS("report", input, "--across-threads", "--min", "0"),
    WORDS("info", input),
    WORDS("info", input, "--json"),
    WORDS("export", "-f", "folded", input),
    WORDS("export", "-f", "pprof", input),
    WORDS("export", "-f", "callgrind", input),
    WORDS("export", "-f", "speedscope", "--per-thread", input),
    WORDS("export", "-f", "otlp", input),
    WORDS("export", "-f", "dot", input),
    WORDS("export", "-f", "chrome", input),
    WORDS("export", "-f", "firefox", input),
    WORDS("export", "-f", "csv", input),
    WORDS("merge", "-q", "-o", "/dev/null", input, input),
    WORDS("compare", input, input),
    WORDS("compare", input, input, "--json"),
    WORDS("decode", input, "1:1", "2:4294967299"),
    WORDS("decode", input, "--json"),
};

static void run(char **words)
{
    char *copy[16]; // getopt moves the words
    int count = 0;
    for (; words[count]; count++)
        copy[count] = words[count];
    copy[count] = NULL;
    const int status = cairn_main(count, copy);
    if (status < 0 || status > STATUS_MISUSE)
        abort();
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    unsetenv("DEBUGINFOD_URLS");
    const int file = memfd_create("profile", MFD_CLOEXEC);
    if (file < 0 || !freopen("/dev/null", "r", stdin))
        abort();
    snprintf(input, sizeof input, "/proc/self/fd/%d", file);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const int file = open(input, O_RDWR | O_TRUNC | O_CLOEXEC);
    if (file < 0 || write(file, data, size) != (ssize_t)size)
        abort();
    close(file);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        run(commands[i]);
    return 0;
}
