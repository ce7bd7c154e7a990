// SPDX-License-Identifier: MIT
#ifndef CAIRN_CMD_SELECTION_H
#define CAIRN_CMD_SELECTION_H

// Options that several commands have: they choose threads, processes and times, keep them apart,
// and say how functions are found. A command lists the rows of those that it takes, and gives to
// selection_option() what its options are. All functions return 0, or STATUS_MISUSE after a
// complaint, unless they say more.

#include "analyze/analysis.h"
#include "cmd/line/options.h"

// Values of the rows: those of a command's own options are below.
enum {
    SELECTION_PROCESS = 1 << 12, // a number, or a pattern of names
    SELECTION_THREAD,
    SELECTION_PER_PROCESS, // how, or the default
    SELECTION_PER_THREAD,
    SELECTION_ACROSS_THREADS,
    SELECTION_FROM, // seconds, a number with a unit, or per cent of the recording
    SELECTION_TO,
    SELECTION_KERNEL,
    SELECTION_NATIVE,
    SELECTION_NO_INLINES,
    SELECTION_NO_DEBUGINFOD,
};

// clang-format off
#define SELECTION_ROW_PROCESS                                                                      \
    {SELECTION_PROCESS, "process", "RE|PID",                                                       \
     "Only these processes. RE is for the program and its arguments."}
#define SELECTION_ROW_THREAD                                                                       \
    {SELECTION_THREAD, "thread", "RE|TID",                                                         \
     "Only these threads. RE is for names and start routines; 'main' is the main thread."}
#define SELECTION_ROW_FROM                                                                         \
    {SELECTION_FROM, "from", "TIME",                                                               \
     "Only what was sampled from then on: a time since the recording began, as 1.5s or 200ms, or " \
     "a part of its length, as 20%. Takes a profile with a timeline."}
#define SELECTION_ROW_TO {SELECTION_TO, "to", "TIME", "Only what was sampled before then."}
#define SELECTION_ROW_NO_INLINES                                                                   \
    {SELECTION_NO_INLINES, "no-inlines", NULL,                                                     \
     "Count inlined functions as part of the function they were inlined into."}
#define SELECTION_ROW_KERNEL                                                                       \
    {SELECTION_KERNEL, "kernel", "yes|no",                                                         \
     "Show what the kernel does (default), or count it as part of the function that it serves."}
#define SELECTION_ROW_NATIVE                                                                       \
    {SELECTION_NATIVE, "native", NULL,                                                             \
     "Show the interpreter's own functions instead of those of Python."}
#define SELECTION_ROW_NO_DEBUGINFOD                                                                \
    {SELECTION_NO_DEBUGINFOD, "no-debuginfod", NULL,                                               \
     "Do not ask the servers in DEBUGINFOD_URLS for debug files."}
// clang-format on

// Where the options of a command go.
struct selection {
    const struct command *command;
    struct analysis_options *analysis;
    struct build_options *build; // NULL: the command takes none that go there
};

// Takes an option if it is one of those above; PROCEED if it is not.
int selection_option(const struct selection *selection, int option, const char *text);

// Threads below their creators, or apart: not both.
int selection_check(const struct command *command, const struct build_options *build);

// Says so if threads are to be shown below their creators, and these are not known.
void selection_warn(const struct command *command, const struct profile *profile,
                    const struct build_options *build);

void selection_free(struct build_options *build);

// A regular expression, in the place of what *pattern was.
int selection_pattern(const struct command *command, const char *option, const char *text,
                      struct pattern **pattern);

// A number above 0.
int selection_number(const struct command *command, const char *option, const char *text,
                     uint32_t *number);

#endif
