// SPDX-License-Identifier: MIT

// `cairn view`

#include "analyze/diff/diff_show.h"
#include "analyze/diff/diff_view.h"
#include "analyze/tree/refine.h"
#include "analyze/views/hot.h"
#include "base/memory.h"
#include "base/new_file.h"
#include "base/text/json.h"
#include "base/text/text.h"
#include "cmd/diff/sides.h"
#include "cmd/line/options.h"
#include "cmd/replace_file.h"
#include "cmd/selection.h"
#include "cmd/view/view_server.h"
#include "cmd/watch/temporary_recording.h"
#include "export/page/page.h"
#include "export/page/page_code.h"
#include "profile/queries/kind.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <unistd.h>

enum { MOST_CONTEXTS = 1000000 }; // browsers show more, but take seconds to begin
#define USUAL_DURATION "10"       // seconds of -p

struct view_arguments {
    const char *path, *base, *output;
    const char *pids, *duration; // of a recording that is yet to be made
    uint32_t port;               // 0: any
    uint32_t contexts;
    bool no_browser, json, code;
    const char *folder; // of sources
    struct analysis_options analysis;
    struct build_options build;
};

enum {
    OPTION_BASE = 256,
    OPTION_DURATION,
    OPTION_PORT,
    OPTION_NO_BROWSER,
    OPTION_CONTEXTS,
    OPTION_CODE,
    OPTION_SOURCE,
    OPTION_JSON,
};

static const struct option_row rows[] = {
    OPTION_TITLE("Options"),
    {'i', "input", "FILE", "The profile; the same as FILE without an option."},
    {'o', "output", "OUT", "Write the page to OUT, to be opened in any browser; '-' is stdout."},
    {OPTION_BASE, "base", "OLD[,OLD...]",
     "Show what changed since OLD; FILE may be NEW[,NEW...], several runs of the new version."},
    {'p', "pid", "PID[,PID...]", "Record processes that run already, and show the profile."},
    {OPTION_DURATION, "duration", "SEC",
     "With -p: for SEC seconds (default " USUAL_DURATION "); Ctrl-C ends it sooner."},
    {OPTION_PORT, "port", "N", "Serve on this port (default any that is free)."},
    {OPTION_NO_BROWSER, "no-browser", NULL, "Print the address and open no browser."},
    {OPTION_CONTEXTS, "contexts", "N",
     "Keep about N contexts (default 1,000,000); the smallest are summed up under their callers."},
    {OPTION_CODE, "code", NULL,
     "Put sources and machine code into the page, with the cost of each line and instruction."},
    {OPTION_SOURCE, "source", "FOLDER",
     "The folder with sources that are not where they were compiled."},
    SELECTION_ROW_NO_INLINES,
    SELECTION_ROW_KERNEL,
    SELECTION_ROW_NATIVE,
    {OPTION_JSON, "json", NULL, "Print the page's address or file as JSON, on stdout."},
    SELECTION_ROW_NO_DEBUGINFOD,
    OPTION_TABLE_END,
};

static int set_option(int option, const char *text, void *to)
{
    struct view_arguments *arguments = to;
    switch (option) {
    case 'i':
        arguments->path = text;
        return 0;
    case 'o':
        arguments->output = text;
        return 0;
    case OPTION_BASE:
        arguments->base = text;
        return 0;
    case 'p':
        arguments->pids = text;
        return 0;
    case OPTION_DURATION:
        arguments->duration = text;
        return 0;
    case OPTION_PORT: {
        const int status = selection_number(&command_view, "port", text, &arguments->port);
        return status == 0 && arguments->port > UINT16_MAX
                   ? misuse(&command_view, "view: --port %s is above 65535", text)
                   : status;
    }
    case OPTION_CONTEXTS:
        return selection_number(&command_view, "contexts", text, &arguments->contexts);
    case OPTION_CODE:
        arguments->code = true;
        return 0;
    case OPTION_SOURCE:
        arguments->folder = text;
        return 0;
    case OPTION_NO_BROWSER:
        arguments->no_browser = true;
        return 0;
    case OPTION_JSON:
        arguments->json = true;
        return 0;
    default:
        return selection_option(
            &(struct selection){&command_view, &arguments->analysis, &arguments->build}, option,
            text);
    }
}

static int parse(int argc, char **argv, struct view_arguments *arguments)
{
    const int status = options_parse(&command_view, argc, argv, set_option, arguments);
    if (status != PROCEED)
        return status;
    if (arguments->base && arguments->build.without_kernel)
        return misuse(&command_view, "view: --base shows what the kernel does: leave out --kernel");
    if (arguments->base && arguments->code)
        return misuse(&command_view, "view: --code is of one version: leave out --base");
    if (arguments->folder && !arguments->code)
        return misuse(&command_view, "view: --source takes --code");
    if (arguments->output && arguments->port)
        return misuse(&command_view, "view: --port is for a page that is served: leave out -o");
    if (arguments->json && arguments->output && strcmp(arguments->output, "-") == 0)
        return misuse(&command_view, "view: --json describes the page: name a file with -o");
    if (arguments->duration && !arguments->pids)
        return misuse(&command_view, "view: --duration takes -p");
    if (arguments->pids && (arguments->path || arguments->base || optind < argc))
        return misuse(&command_view, "view: -p records, and FILE was recorded: not both");
    return arguments->pids ? PROCEED : take_profile(&command_view, argc, argv, &arguments->path);
}

static void print_json(const char *key, const char *value, const struct page_input *input)
{
    struct json json;
    json_start(&json, stdout);
    json_object(&json);
    json_put_string(&json, key, value);
    json_put_unsigned(&json, "contexts", input->tree->count);
    json_put_unsigned(&json, "left_out", input->left_out);
    json_end_object(&json);
    json_finish(&json);
}

static int write_page(FILE *out, const void *content)
{
    return page_write(out, content);
}

static int write_to(const struct view_arguments *arguments, const struct page_input *input)
{
    if (strcmp(arguments->output, "-") == 0) {
        page_write(stdout, input);
        return finish_output("view");
    }
    if (replace_file_is_same(arguments->output, arguments->path))
        return misuse(&command_view, "view: %s is the profile itself: choose another -o",
                      arguments->output);
    const int error = replace_file(arguments->output, write_page, input);
    if (error == 0 && arguments->json) {
        print_json("output", arguments->output, input);
        return finish_output("view");
    }
    if (error == 0)
        return 0;
    complain("view: cannot write %s: %s", arguments->output, new_file_error(error));
    return STATUS_FAILED;
}

static bool has_display(void)
{
    const char *x11 = getenv("DISPLAY"), *wayland = getenv("WAYLAND_DISPLAY");
    return (x11 && *x11) || (wayland && *wayland);
}

// Nobody waits for the browser, and it ends on its own.
static bool open_browser(const char *address, const sigset_t *signals)
{
    char *words[] = {"xdg-open", (char *)address, NULL};
    pid_t pid;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    signal(SIGCHLD, SIG_IGN);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawnattr_init(&attributes);
    // Ctrl-C is not for the browser; other ends are.
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK);
    posix_spawnattr_setsigmask(&attributes, signals);
    const int error = posix_spawnp(&pid, words[0], &actions, &attributes, words, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return error == 0;
}

static int serve(const struct view_arguments *arguments, const struct page_input *input)
{
    struct view_server server;
    char *page = NULL;
    size_t bytes = 0;
    int error = view_server_open(&server, (uint16_t)arguments->port);
    if (error == -EADDRINUSE) {
        complain("view: port %u is in use: choose another, or leave out --port", arguments->port);
        return STATUS_FAILED;
    }
    if (error) {
        complain("view: cannot serve on 127.0.0.1: %s (-o OUT.html writes a file)",
                 strerror(-error));
        return STATUS_FAILED;
    }
    FILE *out = memory_checked(open_memstream(&page, &bytes));
    page_write(out, input);
    fclose(out);
    server.page = memory_checked(page);
    server.bytes = bytes;
    const bool opened =
        !arguments->no_browser && has_display() && open_browser(server.address, &server.signals);
    if (arguments->json)
        print_json("address", server.address, input);
    else
        printf("%s\n", server.address);
    fprintf(stderr, "%s; Ctrl-C ends it\n",
            opened ? "opened in the browser" : "open this address in a browser");
    const int status = finish_output("view");
    if (status == 0)
        error = view_server_run(&server);
    free(page);
    if (error)
        complain("view: %s", strerror(-error));
    return error ? STATUS_FAILED : status;
}

static int show(const struct view_arguments *arguments, const struct page_input *input)
{
    return arguments->output ? write_to(arguments, input) : serve(arguments, input);
}

// Leaves what a report shows too: contexts that were hot enough to be kept with certainty.
static void prune(struct profile *profile, struct page_input *input)
{
    const struct hot_choice shown = hot_shown(profile, 0);
    input->whole = hot_whole(profile, 0);
    hot_prune(profile, 0, &shown);
}

static struct calltree *keep_costliest(struct calltree *tree, size_t most, uint64_t *left_out,
                                       const struct profile *profile, struct build_image *images)
{
    size_t small;
    uint32_t *went;
    struct calltree *kept = refine_costliest(tree, most, &went, &small);
    calltree_free(tree);
    for (unsigned t = 0; images && t < profile->tree_count; t++)
        for (uint32_t i = 0; images[t].nodes && i < profile->trees[t].count; i++)
            images[t].nodes[i] = went[images[t].nodes[i]];
    free(went);
    *left_out = small;
    return kept;
}

// Where costs are in the tree, for those that have a time, an instruction or the holder of a lock.
static struct build_image *new_images(const struct profile *profile, bool code)
{
    return profile->timeline.recorded || profile->blame_count > 0 || code
               ? memory_array(profile->tree_count, sizeof(struct build_image))
               : NULL;
}

static int view_profile(struct view_arguments *arguments)
{
    char *error = NULL;
    struct analysis analysis;
    if (analysis_open(&analysis, arguments->path, &arguments->analysis, &error) < 0)
        return misuse_of_file(error);
    if (analysis_metric(&analysis, NULL, &error) < 0) {
        complain("view: %s", error);
        free(error);
        analysis_close(&analysis);
        return STATUS_MISUSE;
    }
    struct page_input input = {.analysis = &analysis};
    prune(analysis.profile, &input);
    page_options(&arguments->build);
    arguments->build.sites = arguments->code; // lines have the calls on them
    analysis_resolve(&analysis, &arguments->build);
    struct build_image *images = new_images(analysis.profile, arguments->code);
    struct calltree *tree =
        build_calltree_images(analysis.functions, analysis.profile, &arguments->build, images);
    if (tree->count > arguments->contexts)
        tree = keep_costliest(tree, arguments->contexts, &input.left_out, analysis.profile, images);
    calltree_order(tree, 0, ORDER_TOTAL);
    input.tree = tree;
    input.images = images;
    struct page_code code = {0};
    if (arguments->code) {
        code = page_code_collect(&analysis, images);
        input.code = &code;
        input.folder = arguments->folder;
    }
    const int status = show(arguments, &input);
    page_code_free(&code);
    calltree_free(tree);
    build_images_free(images, analysis.profile->tree_count);
    analysis_close(&analysis);
    return status;
}

// The profile has no name any more when it is shown, so nothing is left behind by any end.
static int view_processes(const struct view_arguments *arguments)
{
    struct temporary_recording recording;
    const char *duration = arguments->duration ? arguments->duration : USUAL_DURATION;
    char *const words[] = {"--timeline",     "-p", (char *)arguments->pids, "--duration",
                           (char *)duration, NULL};
    int status = temporary_recording_begin(&recording, "view", words);
    if (status)
        return status;
    status = temporary_recording_wait_for_begin(&recording, (pid_t)atol(arguments->pids));
    if (!status) {
        fprintf(stderr, "recording %s; Ctrl-C ends it\n", arguments->pids);
        status = temporary_recording_wait_for_end(&recording);
    }
    const int file = status ? -1 : open(recording.path, O_RDONLY | O_CLOEXEC);
    temporary_recording_end(&recording);
    if (status)
        return status;
    char path[40];
    struct view_arguments recorded = *arguments;
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    recorded.path = path;
    status = view_profile(&recorded);
    close(file);
    return status;
}

static int show_diff(const struct view_arguments *arguments, const struct sides *sides)
{
    struct diff diff;
    char *error = NULL;
    if (diff_open(&diff, sides->inputs, sides->count, &(struct diff_options){0}, &error) < 0) {
        complain("view: %s", error);
        free(error);
        return STATUS_MISUSE;
    }
    const struct diff_judgement judgement = {.confidence = SIDES_CONFIDENCE,
                                             .spread = SIDES_SPREAD};
    struct diff_rows changes = diff_rows(&diff, &judgement);
    struct diff_view view = diff_view(&diff, &judgement);
    const struct diff_shown shown = {
        .diff = &diff, .rows = &changes, .confidence = judgement.confidence};
    const struct text_style style = {.unicode = true};
    char *sentence = diff_sentence(&shown, &style);
    const struct page_input input = {.analysis = &view.analysis,
                                     .tree = view.tree,
                                     .whole = calltree_total(view.tree, 0, VIEW_NEW),
                                     .old = view.sides[DIFF_OLD],
                                     .new = view.sides[DIFF_NEW],
                                     .changes = &changes,
                                     .sentence = sentence};
    const int status = show(arguments, &input);
    free(sentence);
    diff_view_free(&view);
    diff_rows_free(&changes);
    diff_close(&diff);
    return status;
}

static int view_diff(const struct view_arguments *arguments)
{
    struct sides sides = {0};
    int status = sides_add(&sides, arguments->base, DIFF_OLD, &arguments->analysis);
    if (status == 0)
        status = sides_add(&sides, arguments->path, DIFF_NEW, &arguments->analysis);
    if (status == 0)
        status = show_diff(arguments, &sides);
    sides_free(&sides);
    return status;
}

static int run_view(int argc, char **argv)
{
    struct view_arguments arguments = {.contexts = MOST_CONTEXTS,
                                       .analysis = {.inlines = true, .debuginfod = true}};
    const int status = parse(argc, argv, &arguments);
    if (status != PROCEED)
        return status;
    return arguments.base   ? view_diff(&arguments)
           : arguments.pids ? view_processes(&arguments)
                            : view_profile(&arguments);
}

static const char help[] =
    "Shows a profile (default cairn.out) in a browser: flame graph, call tree,\n"
    "callers, functions and hot paths, which can be searched and narrowed down. After\n"
    "'cairn record --timeline', threads over time as well.\n"
    "\n"
    "    cairn view                      opens a browser; Ctrl-C ends it\n"
    "    cairn view -o app.html          one file that needs nothing else\n"
    "    cairn view --code               with sources and machine code\n"
    "    cairn view -p 4711 --duration 5 records a process that runs, and shows it\n"
    "    cairn view --base old.out new.out        red is costlier, blue cheaper\n"
    "    cairn view --no-browser --port 8000      over 'ssh -L 8000:127.0.0.1:8000'\n"
    "\n"
    "The page is served on 127.0.0.1 alone, below a random token. It holds the whole\n"
    "profile and loads nothing from elsewhere. Press '?' in it for its keys.\n";

const struct command command_view = {
    .name = "view",
    .summary = "show a profile in a browser, as a flame graph and tables",
    .usage = "[FILE | -p PID[,PID...]] [-o OUT.html] [OPTION...]",
    .help = help,
    .options = rows,
    .run = run_view,
};
