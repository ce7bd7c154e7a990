// SPDX-License-Identifier: MIT

// `cairn top`

#include "cmd/line/command.h"
#include "cmd/line/numbers.h"
#include "cmd/line/options.h"
#include "cmd/line/terminal.h"
#include "cmd/top/screen.h"
#include "cmd/watch/find_recording.h"
#include "cmd/watch/temporary_recording.h"
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { OPTION_ONCE = 256, OPTION_JSON, OPTION_INTERVAL, OPTION_METRIC, OPTION_VIEW };

static const struct option_row rows[] = {
    OPTION_TITLE("Options"),
    {'i', "input", "FILE", "The profile; the same as FILE without an option."},
    {'p', "pid", "PID[,PID...]",
     "Record processes that run already, as long as they are watched; 's' keeps a profile."},
    {OPTION_VIEW, "view", "functions|tree|callers", "The view to begin with (default functions)."},
    {OPTION_METRIC, "metric", "NAME", "The metric to begin with (default the first)."},
    {OPTION_INTERVAL, "interval", "SEC", "The time between two readings (default 1)."},
    {OPTION_ONCE, "once", NULL, "Print one frame, and exit."},
    {OPTION_JSON, "json", NULL, "Print one frame as JSON, and exit."},
    OPTION_TABLE_END,
};

struct top_arguments {
    const char *path, *metric, *pids;
    enum top_view_kind view;
    double interval;
    bool once, json;
};

static int set_interval(struct top_arguments *arguments, const char *text)
{
    const char *rest = "";
    if (parse_number(text, &arguments->interval, &rest) && (!*rest || !strcmp(rest, "s")) &&
        arguments->interval >= 0.1 && arguments->interval <= 3600)
        return 0;
    return misuse(&command_top, "top: --interval takes seconds, from 0.1 to 3600, not '%s'", text);
}

static int parse(int argc, char **argv, struct top_arguments *arguments)
{
    static const char *const views[] = {"functions", "tree", "callers", NULL};
    struct option_scan scan = option_scan(&command_top, argc, argv);
    for (int option, chosen; (option = option_next(&scan)) != OPTION_END;) {
        switch (option) {
        case 'i':
            arguments->path = scan.argument;
            break;
        case 'p':
            arguments->pids = scan.argument;
            break;
        case OPTION_VIEW:
            chosen = option_choice(&command_top, "--view", scan.argument, views);
            if (chosen < 0)
                return STATUS_MISUSE;
            arguments->view = (enum top_view_kind)chosen;
            break;
        case OPTION_METRIC:
            arguments->metric = scan.argument;
            break;
        case OPTION_INTERVAL:
            if (set_interval(arguments, scan.argument))
                return STATUS_MISUSE;
            break;
        case OPTION_ONCE:
            arguments->once = true;
            break;
        case OPTION_JSON:
            arguments->json = true;
            break;
        default:
            return scan.status;
        }
    }
    if (arguments->pids && (arguments->path || optind < argc))
        return misuse(&command_top, "top: -p records, and FILE was recorded: not both");
    return arguments->pids ? PROCEED : take_profile(&command_top, argc, argv, &arguments->path);
}

// A number that is no file is that of a process: *found is the profile that it is recorded into.
static int find_profile(struct top_arguments *arguments, char **found)
{
    const char *text = arguments->path;
    char *end;
    const long pid = strtol(text, &end, 10);
    if (*end || end == text || pid <= 0 || pid > INT_MAX || access(text, F_OK) == 0)
        return 0;
    *found = find_recording((pid_t)pid);
    if (!*found) {
        complain("top: no recording of a process %s can be seen here: 'cairn top -p %s' begins one",
                 text, text);
        return STATUS_MISUSE;
    }
    arguments->path = *found;
    return 0;
}

static void rest(double seconds)
{
    struct timespec pause = {.tv_sec = (time_t)seconds};
    pause.tv_nsec = (long)((seconds - (double)pause.tv_sec) * 1e9);
    while (nanosleep(&pause, &pause) && errno == EINTR)
        ;
}

// A recording is written once a second, or once in ten seconds if it is large or idle.
#define MOST_WAIT 11.0
#define RETRY 0.2

// Reads a recording that runs once more, when there is something new after the interval. 0, or -1
// and *error.
static int read_again(struct top_model *model, double interval, char **error)
{
    const uint64_t before = model->sums.duration_ns;
    double waited = interval;
    rest(interval);
    for (;;) {
        if (top_read(model, error) < 0)
            return -1;
        if (model->state != TOP_RUNS || model->sums.duration_ns != before ||
            waited > interval + MOST_WAIT)
            return 0;
        rest(RETRY);
        waited += RETRY;
    }
}

// One frame: of a recording that runs, with what comes within the interval.
static int print_once(struct top_model *model, struct top_view *view,
                      const struct top_arguments *arguments)
{
    char *error = NULL;
    if (model->state == TOP_RUNS && read_again(model, arguments->interval, &error) < 0)
        return misuse_of_file(error);
    if (arguments->json) {
        top_print_json(stdout, model);
        return finish_output("top");
    }
    const struct text_style style = terminal_style();
    struct top_rows all = top_rows_make(model, view, &error);
    const struct top_shown shown = {
        .model = model, .view = view, .rows = &all, .count = all.count, .chosen = SIZE_MAX};
    struct top_frame frame = top_frame_make(&shown, &style);
    for (size_t i = 0; i < frame.count; i++)
        puts(frame.lines[i].text);
    top_frame_free(&frame);
    top_rows_free(&all);
    free(error);
    return finish_output("top");
}

static int show(struct top_model *model, const struct top_arguments *arguments)
{
    struct top_view view = {.kind = arguments->view,
                            .order = model->state == TOP_RUNS ? TOP_NOW : TOP_ALL};
    char *error = NULL;
    int status;
    const int metric = analysis_metric(&model->analysis, arguments->metric, &error);
    if (metric < 0) {
        complain("top: %s", error);
        free(error);
        return STATUS_MISUSE;
    }
    top_choose(model, (unsigned)metric);
    if (arguments->once || arguments->json) {
        status = print_once(model, &view, arguments);
    } else {
        const struct text_style style = terminal_style();
        const struct top_settings settings = {.interval_ns = (uint64_t)(arguments->interval * 1e9),
                                              .unicode = style.unicode,
                                              .saved = arguments->pids ? "cairn.out" : NULL};
        status = top_screen(model, &view, &settings) < 0 ? STATUS_FAILED : 0;
        if (status)
            complain("top: this terminal (TERM=%s) is not known: use --once", getenv("TERM"));
    }
    top_view_free(&view);
    return status;
}

static int show_profile(const struct top_arguments *arguments)
{
    struct top_model model = {.path = arguments->path};
    char *error = NULL;
    if (top_read(&model, &error) < 0)
        return misuse_of_file(error);
    const int status = show(&model, arguments);
    top_free(&model);
    return status;
}

static int show_processes(struct top_arguments *arguments)
{
    struct temporary_recording recording;
    char *const words[] = {"-p", (char *)arguments->pids, NULL};
    int status = temporary_recording_begin(&recording, "top", words);
    if (status)
        return status;
    status = temporary_recording_wait_for_begin(&recording, (pid_t)atol(arguments->pids));
    if (!status) {
        arguments->path = recording.path;
        status = show_profile(arguments);
    }
    temporary_recording_end(&recording);
    return status;
}

static int run_top(int argc, char **argv)
{
    struct top_arguments arguments = {.interval = 1};
    char *found = NULL;
    int status = parse(argc, argv, &arguments);
    if (status != PROCEED)
        return status;
    if (!arguments.once && !arguments.json && (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)))
        return misuse(&command_top, "top: takes a terminal: --once and --json print one frame");
    if (arguments.pids)
        return show_processes(&arguments);
    status = find_profile(&arguments, &found);
    if (!status)
        status = show_profile(&arguments);
    free(found);
    return status;
}

static const char help[] =
    "Shows a recording while it runs (default cairn.out): the functions and call\n"
    "paths that cost most now and in all, its rate, and what the profiler costs.\n"
    "\n"
    "    cairn record ./server &            in one terminal\n"
    "    cairn top                          in another one\n"
    "    cairn top 4711                     the recording of process 4711\n"
    "    cairn top -p 4711                  records process 4711 while you watch\n"
    "    cairn top --once                   one frame, for scripts\n"
    "\n"
    "Keys: arrows or jk move, enter opens a row, / filters, v changes the view, m the\n"
    "metric, t sorts by now or all, s saves the profile, space pauses, ? explains.\n";

const struct command command_top = {
    .name = "top",
    .summary = "watch a recording while it runs: hottest functions and paths",
    .usage = "[FILE | PID | -p PID[,PID...]] [OPTION...]",
    .help = help,
    .options = rows,
    .prints = true,
    .run = run_top,
};
