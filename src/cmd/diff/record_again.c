// SPDX-License-Identifier: MIT

#include "cmd/diff/record_again.h"
#include "base/memory.h"
#include "cmd/line/command.h"
#include "event/event.h"
#include <errno.h>
#include <stdarg.h>
#include <unistd.h>

// The words of a command line of `cairn record`.
struct command_line {
    char **words;
    size_t count, capacity;
};

static void add_word(struct command_line *line, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void add_word(struct command_line *line, const char *format, ...)
{
    va_list arguments;
    char *word = NULL;
    va_start(arguments, format);
    if (vasprintf(&word, format, arguments) < 0)
        memory_checked(NULL);
    va_end(arguments);
    // One more: the list ends with NULL.
    line->words = memory_grown(line->words, &line->capacity, line->count + 2, sizeof *line->words);
    line->words[line->count++] = word;
    line->words[line->count] = NULL;
}

static void free_words(struct command_line *line)
{
    for (size_t i = 0; i < line->count; i++)
        free(line->words[i]);
    free(line->words);
}

// A metric is an event's if it has its name.
static bool is_event(const struct profile_metric *metric)
{
    if (profile_is_counter(metric))
        return true;
    for (unsigned i = 0; i < LIVE_EVENTS; i++)
        if (strcmp(event_of(i)->name, metric->name) == 0)
            return true;
    return false;
}

static void add_events(struct command_line *line, const struct profile *base)
{
    for (unsigned i = 0; i < base->metric_count; i++) {
        const struct profile_metric *metric = &base->metrics[i];
        if (!is_event(metric))
            continue;
        add_word(line, "-e");
        if (metric->period > 1)
            add_word(line, "%s:%llu", metric->name, (unsigned long long)metric->period);
        else
            add_word(line, "%s", metric->name);
    }
}

// "hot:0.001,0.0002,lossy": the miner has an option of its own.
static void add_tree(struct command_line *line, const char *tree)
{
    const char *comma = strchr(tree, ','), *miner = comma ? strchr(comma + 1, ',') : NULL;
    add_word(line, "--tree");
    add_word(line, "%.*s", (int)(miner ? (size_t)(miner - tree) : strlen(tree)), tree);
    if (miner) {
        add_word(line, "--miner");
        add_word(line, "%s", miner + 1);
    }
}

static int choose_file(struct new_recording *recording, const char *output)
{
    if (output) {
        recording->path = memory_text(output);
        return 0;
    }
    const char *parent = getenv("TMPDIR");
    if (asprintf(&recording->folder, "%s/cairn-gate-XXXXXX", parent && *parent ? parent : "/tmp") <
        0)
        memory_checked(NULL);
    if (!mkdtemp(recording->folder)) {
        complain("gate: cannot make a folder %s: %s; -o FILE names another place",
                 recording->folder, strerror(errno));
        free(recording->folder);
        recording->folder = NULL;
        return STATUS_FAILED;
    }
    if (asprintf(&recording->path, "%s/new.out", recording->folder) < 0)
        memory_checked(NULL);
    return 0;
}

static bool is_merged(const struct profile *base)
{
    return !base->tracker || strchr(base->tracker, '+') || !base->tree_kind ||
           strchr(base->tree_kind, '+');
}

int record_again(struct new_recording *recording, const struct profile *base, char **command,
                 const char *output)
{
    if (is_merged(base)) {
        complain("gate: the base is a merge of different recordings: record %s like these, merge "
                 "them, and name the profile instead",
                 command[0]);
        return STATUS_MISUSE;
    }
    int status = choose_file(recording, output);
    if (status)
        return status;
    struct command_line line = {0};
    add_word(&line, "record");
    add_word(&line, "--no-config"); // as the base was recorded
    add_word(&line, "-q");
    add_word(&line, "--track");
    add_word(&line, "%s", base->tracker);
    add_events(&line, base);
    add_tree(&line, base->tree_kind);
    add_word(&line, "-o");
    add_word(&line, "%s", recording->path);
    add_word(&line, "--");
    for (char **word = command; *word; word++)
        add_word(&line, "%s", *word);
    status = command_record.run((int)line.count, line.words);
    free_words(&line);
    if (status == 0)
        return 0;
    complain("gate: %s ended with status %d: there is nothing to compare", command[0], status);
    return STATUS_FAILED;
}

void new_recording_free(struct new_recording *recording)
{
    if (recording->folder) {
        unlink(recording->path);
        rmdir(recording->folder);
    }
    free(recording->folder);
    free(recording->path);
    *recording = (struct new_recording){0};
}
