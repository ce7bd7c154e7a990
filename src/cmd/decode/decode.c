// SPDX-License-Identifier: MIT

// `cairn decode`

#include "analyze/decoding.h"
#include "base/memory.h"
#include "base/text/text.h"
#include "cmd/decode/decode_show.h"
#include "cmd/line/command.h"
#include "cmd/line/options.h"
#include "cmd/line/terminal.h"
#include "profile/profile.h"
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct decode_options {
    const char *path;
    uint32_t pid;
    enum decode_style style;
    bool debuginfod;
    char **values; // NULL: they come in lines
    int count;
};

static bool take_number(const char **at, uint64_t *number)
{
    char *end;
    if (**at < '0' || **at > '9')
        return false;
    errno = 0;
    *number = strtoull(*at, &end, 0);
    *at = end;
    return errno == 0;
}

// A context as the program may have printed it itself: two numbers.
static bool parse_numbers(const char *text, struct context_text *value)
{
    return take_number(&text, &value->id) && *text++ == ':' && take_number(&text, &value->handle) &&
           !*text;
}

static bool is_value(const char *text)
{
    struct context_text value;
    return strncmp(text, "c:", 2) == 0 || parse_numbers(text, &value);
}

// The process that two numbers belong to.
static uint32_t chosen_process(const struct decode_show *show, const struct decode_options *options)
{
    const uint32_t process = decoding_process_of(show->decoding, options->pid);
    if (process == DECODING_NONE && options->pid)
        complain("decode: %s has no contexts of a process %" PRIu32, options->path, options->pid);
    else if (process == DECODING_NONE)
        complain("decode: %s has contexts of several processes: say which with --pid PID",
                 options->path);
    return process;
}

static int decode_argument(struct decode_show *show, const struct decode_options *options,
                           const char *text)
{
    struct decode_item item = {.text = text, .length = strlen(text)};
    size_t length = 0;
    if (parse_numbers(text, &item.value)) {
        item.process = chosen_process(show, options);
        if (item.process == DECODING_NONE)
            return STATUS_FAILED;
        item.verdict = item.value.handle ? CONTEXT_TEXT_SOUND : CONTEXT_TEXT_UNKNOWN;
    } else {
        item.verdict = context_text_parse(text, item.length, &item.value, &length);
        if (item.verdict == CONTEXT_TEXT_NONE || length != item.length)
            item.verdict = CONTEXT_TEXT_DAMAGED;
        decode_show_find(show, &item);
    }
    if (item.verdict == CONTEXT_TEXT_DAMAGED)
        return misuse(&command_decode, "decode: '%s' is not a context, or is damaged", text);
    decode_show_argument(show, &item);
    return 0;
}

static int decode_arguments(struct decode_show *show, const struct decode_options *options)
{
    int status = 0;
    for (int i = 0; i < options->count && status == 0; i++)
        status = decode_argument(show, options, options->values[i]);
    return status;
}

static int run(const struct decode_options *options)
{
    char *error = NULL;
    struct profile *profile = profile_read(options->path, &error);
    if (!profile)
        return misuse_of_file(error);
    struct decode_show show;
    decode_show_open(&show, profile, options->style, options->debuginfod);
    int status = 0;
    if (!decoding_has_any(show.decoding)) {
        complain("decode: %s holds no contexts: its program asked for none with cairn_context()",
                 options->path);
        status = STATUS_FAILED;
    } else if (options->values) {
        // Twice: names are looked up for all of them at once.
        status = decode_arguments(&show, options);
        if (status == 0) {
            terminal_use_pager();
            decode_show_resolve(&show);
            status = decode_arguments(&show, options);
        }
    } else {
        // A pager reads keys from the terminal: so may we.
        if (!isatty(STDIN_FILENO))
            terminal_use_pager();
        decode_show_all(&show);
        decode_show_lines(&show, stdin);
        if (ferror(stdin)) {
            complain("decode: cannot read: %s", strerror(errno));
            status = STATUS_FAILED;
        }
    }
    const uint64_t failed = decode_show_close(&show);
    if (finish_output("decode"))
        status = STATUS_FAILED;
    if (failed && status == 0) {
        complain("decode: %" PRIu64 " context%s could not be decoded by %s", failed,
                 text_plural(failed), options->path);
        status = STATUS_FAILED;
    }
    profile_free(profile);
    return status;
}

static bool parse_pid(const char *text, uint32_t *pid)
{
    char *end;
    errno = 0;
    const unsigned long number = strtoul(text, &end, 10);
    *pid = (uint32_t)number;
    return *text >= '0' && *text <= '9' && !*end && !errno && number > 0 && number <= INT32_MAX;
}

enum { OPTION_JSON = 256, OPTION_FOLDED, OPTION_PID, OPTION_NO_DEBUGINFOD };

static const struct option_row rows[] = {
    OPTION_TITLE("Options"),
    {OPTION_FOLDED, "folded", NULL,
     "Print paths as main;serve;log, in brackets behind the context."},
    {OPTION_JSON, "json", NULL, "Each context with its frames, innermost first, for programs."},
    {OPTION_PID, "pid", "PID", "The process that contexts given as two numbers belong to."},
    {OPTION_NO_DEBUGINFOD, "no-debuginfod", NULL,
     "Do not ask the servers in DEBUGINFOD_URLS for debug files."},
    OPTION_TABLE_END,
};

static int run_decode(int argc, char **argv)
{
    struct decode_options wanted = {.path = DEFAULT_PROFILE, .debuginfod = true};
    struct option_scan scan = option_scan(&command_decode, argc, argv);
    for (int option; (option = option_next(&scan)) != OPTION_END;) {
        if (option == OPTION_EXIT)
            return scan.status;
        if (option == OPTION_JSON)
            wanted.style = DECODE_JSON;
        else if (option == OPTION_FOLDED)
            wanted.style = DECODE_FOLDED;
        else if (option == OPTION_NO_DEBUGINFOD)
            wanted.debuginfod = false;
        else if (!parse_pid(scan.argument, &wanted.pid))
            return misuse(&command_decode, "decode: '%s' is not a process id", scan.argument);
    }
    if (optind < argc && !is_value(argv[optind]))
        wanted.path = argv[optind++];
    if (optind < argc)
        wanted.values = argv + optind;
    wanted.count = argc - optind;
    return run(&wanted);
}

static const char help[] =
    "Prints the call paths behind contexts that a program asked for with\n"
    "cairn_context(), by the profile of that run (default cairn.out). Without\n"
    "CONTEXT, copies stdin, and prints the path of each context in it below its line.\n"
    "\n"
    "    cairn decode c:9f3a01c2.1a.3.7.5e                one context\n"
    "    cairn decode run.out <app.log                    all those in a log\n"
    "    cairn decode run.out --folded <app.log           paths beside their contexts\n"
    "    cairn decode run.out --pid 4711 26:12884901895   id and handle\n";

static const char notes[] =
    "\n"
    "A context as text (cairn_context_text()) names its process. 'c:?' stands for a\n"
    "context that was not known. A thread's path continues with the path of the\n"
    "thread that created it. The exit status is 1 if a context could not be decoded.\n";

const struct command command_decode = {
    .name = "decode",
    .summary = "print the call paths behind contexts in a log",
    .usage = "[FILE] [CONTEXT...] [OPTION...]",
    .help = help,
    .notes = notes,
    .options = rows,
    .prints = true,
    .run = run_decode,
};
