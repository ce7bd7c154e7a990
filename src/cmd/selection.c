// SPDX-License-Identifier: MIT

#include "cmd/selection.h"
#include "analyze/tree/creation_path.h"
#include "cmd/line/numbers.h"
#include "cmd/line/options.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

int selection_number(const struct command *command, const char *option, const char *text,
                     uint32_t *number)
{
    char *end;
    errno = 0;
    unsigned long value = strtoul(text, &end, 10);
    if (end == text || *end || errno || *text == '-' || value == 0 || value > INT32_MAX)
        return misuse(command, "%s: --%s '%s' is not a positive number", command->name, option,
                      text);
    *number = (uint32_t)value;
    return 0;
}

int selection_pattern(const struct command *command, const char *option, const char *text,
                      struct pattern **pattern)
{
    char *error = NULL;
    struct pattern *made = pattern_new(text, &error);
    if (made) {
        pattern_free(*pattern);
        *pattern = made;
        return 0;
    }
    int status = misuse(command, "%s: --%s: %s", command->name, option, error);
    free(error);
    return status;
}

static bool is_number(const char *text)
{
    return *text && text[strspn(text, "0123456789")] == '\0';
}

static int set_process(const struct command *command, const char *text, struct build_options *build)
{
    return is_number(text) ? selection_number(command, "process", text, &build->process)
                           : selection_pattern(command, "process", text, &build->process_name);
}

static int set_thread(const struct command *command, const char *text, struct build_options *build)
{
    if (is_number(text))
        return selection_number(command, "thread", text, &build->tid);
    return selection_pattern(
        command, "thread", strcmp(text, "main") == 0 ? "^main thread( |$)" : text, &build->thread);
}

static int set_per_process(const struct command *command, const char *text,
                           struct build_options *build)
{
    static const char *const words[] = {"pid", "program", NULL};
    const int chosen = text ? option_choice(command, "--per-process", text, words) : 0;
    build->processes = chosen == 0 ? PROCESSES_APART : PROCESSES_BY_PROGRAM;
    return chosen < 0 ? STATUS_MISUSE : 0;
}

static int set_per_thread(const struct command *command, const char *text,
                          struct build_options *build)
{
    static const char *const words[] = {"name", "start", "tid", NULL};
    static const enum thread_split splits[] = {THREADS_BY_NAME, THREADS_BY_START, THREADS_APART};
    const int chosen = text ? option_choice(command, "--per-thread", text, words) : 0;
    if (chosen < 0)
        return STATUS_MISUSE;
    build->threads = splits[chosen];
    return 0;
}

static int set_moment(const struct command *command, const char *option, const char *text,
                      struct moment *moment)
{
    static const struct {
        const char *name;
        double factor;
        bool is_share;
    } units[] = {{"", 1e9, false}, {"s", 1e9, false},    {"ms", 1e6, false},   {"us", 1e3, false},
                 {"ns", 1, false}, {"min", 60e9, false}, {"h", 3600e9, false}, {"%", 0.01, true}};
    double number = 0;
    const char *unit = "";
    for (size_t i = 0; parse_number(text, &number, &unit) && i < sizeof units / sizeof *units; i++)
        if (strcmp(unit, units[i].name) == 0) {
            *moment = (struct moment){true, units[i].is_share, number * units[i].factor};
            return 0;
        }
    return misuse(command,
                  "%s: --%s takes a time since the recording began, as 1.5s, 200ms or 20%%, not "
                  "'%s'",
                  command->name, option, text);
}

static int set_kernel(const struct command *command, const char *text, struct build_options *build)
{
    static const char *const words[] = {"yes", "no", NULL};
    const int chosen = option_choice(command, "--kernel", text, words);
    if (chosen < 0)
        return STATUS_MISUSE;
    build->without_kernel = chosen == 1;
    return 0;
}

int selection_option(const struct selection *selection, int option, const char *text)
{
    const struct command *command = selection->command;
    struct build_options *build = selection->build;
    switch (option) {
    case SELECTION_PROCESS:
        return set_process(command, text, build);
    case SELECTION_THREAD:
        return set_thread(command, text, build);
    case SELECTION_PER_PROCESS:
        return set_per_process(command, text, build);
    case SELECTION_PER_THREAD:
        return set_per_thread(command, text, build);
    case SELECTION_ACROSS_THREADS:
        build->across_threads = true;
        return 0;
    case SELECTION_FROM:
        return set_moment(command, "from", text, &selection->analysis->from);
    case SELECTION_TO:
        return set_moment(command, "to", text, &selection->analysis->to);
    case SELECTION_KERNEL:
        return set_kernel(command, text, build);
    case SELECTION_NATIVE:
        build->native = true;
        return 0;
    case SELECTION_NO_INLINES:
        selection->analysis->inlines = false;
        return 0;
    case SELECTION_NO_DEBUGINFOD:
        selection->analysis->debuginfod = false;
        return 0;
    default:
        return PROCEED;
    }
}

int selection_check(const struct command *command, const struct build_options *build)
{
    if (!build->across_threads || build->threads == THREADS_MERGED)
        return 0;
    return misuse(command,
                  "%s: --across-threads shows threads below the calls that created them, "
                  "--per-thread apart: choose one",
                  command->name);
}

void selection_warn(const struct command *command, const struct profile *profile,
                    const struct build_options *build)
{
    if (build->across_threads && !creation_is_known(profile))
        complain("%s: this profile does not tell which calls created its threads: they stay apart",
                 command->name);
}

void selection_free(struct build_options *build)
{
    pattern_free(build->thread);
    pattern_free(build->process_name);
}
