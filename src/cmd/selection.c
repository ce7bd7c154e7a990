// SPDX-License-Identifier: MIT

#include "cmd/selection.h"
#include "analyze/creation_path.h"
#include "cmd/options.h"
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

int selection_process(const struct command *command, const char *text, struct build_options *build)
{
    return is_number(text) ? selection_number(command, "process", text, &build->process)
                           : selection_pattern(command, "process", text, &build->process_name);
}

int selection_thread(const struct command *command, const char *text, struct build_options *build)
{
    if (is_number(text))
        return selection_number(command, "thread", text, &build->tid);
    return selection_pattern(
        command, "thread", strcmp(text, "main") == 0 ? "^main thread( |$)" : text, &build->thread);
}

int selection_per_process(const struct command *command, const char *text,
                          struct build_options *build)
{
    static const char *const words[] = {"pid", "program", NULL};
    const int chosen = text ? option_choice(command, "--per-process", text, words) : 0;
    build->processes = chosen == 0 ? PROCESSES_APART : PROCESSES_BY_PROGRAM;
    return chosen < 0 ? STATUS_MISUSE : 0;
}

int selection_per_thread(const struct command *command, const char *text,
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

int selection_kernel(const struct command *command, const char *text, struct build_options *build)
{
    static const char *const words[] = {"yes", "no", NULL};
    const int chosen = option_choice(command, "--kernel", text, words);
    if (chosen < 0)
        return STATUS_MISUSE;
    build->without_kernel = chosen == 1;
    return 0;
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
    if (build->across_threads && !creation_is_told(profile))
        complain("%s: this profile does not tell which calls created its threads: they stay apart",
                 command->name);
}

void selection_free(struct build_options *build)
{
    pattern_free(build->thread);
    pattern_free(build->process_name);
}
