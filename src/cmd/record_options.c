// SPDX-License-Identifier: MIT

// `cairn record`: its command line.

#include "cmd/record_options.h"
#include "cmd/numbers.h"
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NS_PER_S UINT64_C(1000000000)
#define RATE_MAX 10000
#define MEMORY_MIN (UINT64_C(1) << 20)
#define MEMORY_MAX (UINT64_C(16) << 30) // what references of 31 bits to units of 8 bytes reach

const char record_help[] =
    "usage: cairn record [OPTION...] [--] COMMAND [ARG...]\n"
    "\n"
    "Runs COMMAND, samples the call paths of all its threads and processes, and writes a profile.\n"
    "\n"
    "  -e, --event EVENT[:PERIOD]  what to sample by: cpu (default) or wall; PERIOD in ns, or "
    "with\n"
    "                              a unit: us, ms, s; or calls, which counts every call, and\n"
    "                              calls:N, a stack sample at every N-th call\n"
    "                              (calls-by-function:N: at every N-th of each function);\n"
    "                              or alloc, which counts every block that is allocated and freed\n"
    "                              'cairn list' shows what works here\n"
    "  -F, --frequency HZ          samples a second, 1 to 10000 (default 1000)\n"
    "  -c, --period NS             the same as a period: ns between samples (not with -F)\n"
    "  -o, --output FILE           the profile (default cairn.out)\n"
    "      --memory SIZE           memory for the call paths of each process (default 256M); when\n"
    "                              it is used up, of new contexts only hot ones are kept\n"
    "      --marker on|off         remember how far the last walk came by a marker on the stack\n"
    "                              (default on)\n"
    "      --per-thread            keep threads of the same start routine apart\n"
    "      --follow-fork yes|no    profile the processes that COMMAND starts, too (default yes)\n"
    "      --delay SEC             let SEC seconds pass before the first sample\n"
    "      --duration SEC          sample for SEC seconds; COMMAND itself is not stopped\n"
    "      --track walk|calls|encode\n"
    "                              how contexts are known: by walking the stack (default), by\n"
    "                              following every call, or as numbers that rewritten call sites\n"
    "                              keep\n"
    "      --calls-by WHOM         with --track calls: whose calls are followed if the program "
    "was\n"
    "                              not built with 'cairn cc': its own file's (program), those of\n"
    "                              its libraries but libc, too (libraries, the default), or all;\n"
    "                              entries: only those of functions built with 'cairn cc'\n"
    "      --verify                with --track encode, or -e alloc: walk each time, too, and\n"
    "                              compare\n"
    "      --burst INTERVAL/LENGTH[,adaptive[:N]]\n"
    "                              with -e calls: follow calls for LENGTH out of each INTERVAL, "
    "as\n"
    "                              20ms/2ms; adaptive: in known contexts only one time out of N "
    "(20)\n"
    "      --fold-recursion        with --track calls: a function that calls itself, directly or "
    "not,\n"
    "                              stays in one context\n"
    "      --weights last|all-new  with -e calls:N: which edges of a sample count (default last)\n"
    "      --random-periods        with -e calls:N: vary N\n"
    "      --tree KIND             what is kept: full, every context (default);\n"
    "                              hot[:PHI[,EPS]], contexts with a share of at least PHI of the\n"
    "                              total (1e-4) and their callers, to an error of EPS (PHI/5);\n"
    "                              bounded[:K], at most K frames of a sample (16) in a fixed\n"
    "                              buffer; functions, no contexts, a counter per function\n"
    "      --miner space-saving|lossy|sticky\n"
    "                              with --tree hot: how hot contexts are found\n"
    "      --tree-memory SIZE      with --tree bounded: the buffer of each thread (default 1M)\n"
    "      --purge age|all         with --tree bounded: what a full buffer forgets (default age)\n"
    "      --json                  the closing summary (on stderr) as JSON\n"
    "  -q, --quiet                 no word of ours at all\n"
    "  -h, --help                  this text\n"
    "\n"
    "The exit status is COMMAND's own, 128+N if signal N killed it, 127 or 126 if it cannot be\n"
    "found or run, and 2 if cairn cannot profile it or was misused; nothing was run then. All "
    "that\n"
    "cairn says goes to stderr. CAIRN_AGENT_PATH names another libcairn.so to load.\n";

enum {
    OPTION_MEMORY = 256,
    OPTION_MARKER,
    OPTION_PER_THREAD,
    OPTION_FOLLOW_FORK,
    OPTION_DELAY,
    OPTION_DURATION,
    OPTION_TRACK,
    OPTION_TREE,
    OPTION_MINER,
    OPTION_PURGE,
    OPTION_TREE_MEMORY,
    OPTION_BURST,
    OPTION_WEIGHTS,
    OPTION_RANDOM_PERIODS,
    OPTION_FOLD_RECURSION,
    OPTION_VERIFY,
    OPTION_CALLS_BY,
    OPTION_JSON,
    OPTION_SOURCE,
    OPTION_EMPTY_HANDLER,
    OPTION_RESTLESS,
};

static const struct option long_options[] = {
    {"event", required_argument, NULL, 'e'},
    {"frequency", required_argument, NULL, 'F'},
    {"period", required_argument, NULL, 'c'},
    {"output", required_argument, NULL, 'o'},
    {"memory", required_argument, NULL, OPTION_MEMORY},
    {"marker", required_argument, NULL, OPTION_MARKER},
    {"per-thread", no_argument, NULL, OPTION_PER_THREAD},
    {"follow-fork", required_argument, NULL, OPTION_FOLLOW_FORK},
    {"delay", required_argument, NULL, OPTION_DELAY},
    {"duration", required_argument, NULL, OPTION_DURATION},
    {"track", required_argument, NULL, OPTION_TRACK},
    {"burst", required_argument, NULL, OPTION_BURST},
    {"weights", required_argument, NULL, OPTION_WEIGHTS},
    {"random-periods", no_argument, NULL, OPTION_RANDOM_PERIODS},
    {"fold-recursion", no_argument, NULL, OPTION_FOLD_RECURSION},
    {"tree", required_argument, NULL, OPTION_TREE},
    {"miner", required_argument, NULL, OPTION_MINER},
    {"purge", required_argument, NULL, OPTION_PURGE},
    {"tree-memory", required_argument, NULL, OPTION_TREE_MEMORY},
    {"verify", no_argument, NULL, OPTION_VERIFY},
    {"calls-by", required_argument, NULL, OPTION_CALLS_BY},
    {"json", no_argument, NULL, OPTION_JSON},
    {"quiet", no_argument, NULL, 'q'},
    {"help", no_argument, NULL, 'h'},
    // For tests and measurements, and so not in the help.
    {"source", required_argument, NULL, OPTION_SOURCE},
    {"empty-handler", no_argument, NULL, OPTION_EMPTY_HANDLER},
    {"restless", no_argument, NULL, OPTION_RESTLESS},
    {NULL, 0, NULL, 0},
};

#define MISUSE(...) misuse(&command_record, "record: " __VA_ARGS__)

struct parsing {
    struct record_options *options;
    bool event_given, frequency_given, period_given, tracker_given, weights_given;
};

static int set_period(struct parsing *parsing, const char *text)
{
    const double ns = parse_time(text);
    if (ns <= 0)
        return MISUSE("'%s' is no period: give ns, or a number with us, ms or s", text);
    if (ns < (double)NS_PER_S / RATE_MAX || ns > (double)NS_PER_S)
        return MISUSE("a period of %s is out of reach: from 100us (10000 samples a second) to 1s",
                      text);
    if (parsing->period_given)
        return MISUSE("the period is given twice");
    parsing->period_given = true;
    parsing->options->period_ns = (uint64_t)(ns + 0.5);
    return PROCEED;
}

static int set_frequency(struct parsing *parsing, const char *text)
{
    double rate = 0;
    const char *rest = "";
    if (!parse_number(text, &rate, &rest) || *rest)
        return MISUSE("'%s' is no rate: -F takes samples a second, 1 to %d", text, RATE_MAX);
    if (rate < 1 || rate > RATE_MAX)
        return MISUSE("%s samples a second is out of reach: -F takes 1 to %d", text, RATE_MAX);
    parsing->frequency_given = true;
    parsing->options->period_ns = (uint64_t)((double)NS_PER_S / rate + 0.5);
    return PROCEED;
}

// A stack sample at every N-th call.
static int set_trigger(struct record_options *options, enum live_trigger trigger, const char *text)
{
    double period = 0;
    if (!parse_whole_number(text, &period) || period < 2 || period > 1e9)
        return MISUSE("'%s': every how many-th call? A whole number from 2 on, as calls:59", text);
    options->trigger = trigger;
    options->call_period = (uint64_t)period;
    return PROCEED;
}

// INTERVAL/LENGTH[,adaptive[:N]]
static int set_burst(struct record_options *options, const char *text)
{
    char interval[32] = "", length[32] = "", kind[32] = "";
    double interval_ns = 0, length_ns = 0, one_in = 20;
    if (sscanf(text, "%31[^/]/%31[^,],%31s", interval, length, kind) >= 2) {
        interval_ns = parse_time(interval);
        length_ns = parse_time(length);
    }
    const char *rest = "";
    const bool adaptive = !strncmp(kind, "adaptive", 8);
    if (*kind &&
        (!adaptive || (kind[8] && (kind[8] != ':' || !parse_number(kind + 9, &one_in, &rest) ||
                                   *rest || one_in < 2 || one_in > 1e6))))
        return MISUSE("--burst %s: after the comma goes adaptive or adaptive:N, N from 2 on", text);
    if (length_ns < 1e5 || interval_ns <= length_ns || interval_ns > 1e11)
        return MISUSE(
            "--burst %s: give INTERVAL/LENGTH as in 20ms/2ms, a length of at least 100us and an "
            "interval that is longer",
            text);
    options->burst_interval_ns = (uint64_t)interval_ns;
    options->burst_length_ns = (uint64_t)length_ns;
    options->burst_one_in = adaptive ? (uint32_t)one_in : 0;
    return PROCEED;
}

static int set_weights(struct parsing *parsing, const char *text)
{
    parsing->weights_given = true;
    parsing->options->weights_all_new = !strcmp(text, "all-new");
    if (parsing->options->weights_all_new || !strcmp(text, "last"))
        return PROCEED;
    return MISUSE("--weights takes last or all-new, not '%s'", text);
}

static int set_event(struct parsing *parsing, const char *text)
{
    // In the order of enum live_event.
    static const char *const names[] = {"cpu", "wall", "calls", "alloc", NULL};
    size_t length = strcspn(text, ":");
    if (parsing->event_given)
        return MISUSE("one event at a time: -e is given twice");
    parsing->event_given = true;
    const bool by_function = !strncmp(text, "calls-by-function:", 18);
    if (by_function || !strncmp(text, "calls:", 6)) {
        parsing->options->event = LIVE_EVENT_CALLS;
        parsing->options->event_name = "calls";
        return set_trigger(parsing->options,
                           by_function ? LIVE_TRIGGER_BY_FUNCTION : LIVE_TRIGGER_ALL,
                           text + (by_function ? 18 : 6));
    }
    for (unsigned event = 0; names[event]; event++) {
        if (strlen(names[event]) != length || strncmp(text, names[event], length))
            continue;
        parsing->options->event = event;
        parsing->options->event_name = names[event];
        return text[length] ? set_period(parsing, text + length + 1) : PROCEED;
    }
    return MISUSE("unknown event '%.*s': 'cairn list' shows what can be sampled", (int)length,
                  text);
}

static int set_memory(struct record_options *options, const char *text)
{
    double number = 0;
    if (!parse_size(text, &number))
        return MISUSE("'%s' is no size: --memory takes a number with k, M or G", text);
    if (number < (double)MEMORY_MIN || number > (double)MEMORY_MAX)
        return MISUSE("--memory %s is out of reach: from 1M to 16G", text);
    options->memory = (uint64_t)number;
    return PROCEED;
}

static int set_seconds(const char *option, const char *text, uint64_t *ns)
{
    double seconds = 0;
    const char *rest = "";
    if (!parse_number(text, &seconds, &rest) || (*rest && strcmp(rest, "s")) || seconds > 1e9)
        return MISUSE("--%s takes seconds, and '%s' is no such number", option, text);
    *ns = (uint64_t)(seconds * (double)NS_PER_S);
    return PROCEED;
}

// yes/no and on/off are the same to us.
static int set_switch(const char *option, const char *text, bool *value)
{
    if (!strcmp(text, "on") || !strcmp(text, "yes"))
        *value = true;
    else if (!strcmp(text, "off") || !strcmp(text, "no"))
        *value = false;
    else
        return MISUSE("--%s takes on or off (yes or no), not '%s'", option, text);
    return PROCEED;
}

static int set_source(struct record_options *options, const char *text)
{
    static const char *const names[] = {"auto", "sigtrap", "signal", "timer"}; // enum live_source
    for (unsigned source = 0; source < sizeof names / sizeof *names; source++) {
        if (!strcmp(text, names[source])) {
            options->source = source;
            return PROCEED;
        }
    }
    return MISUSE("--source takes auto, sigtrap, signal or timer, not '%s'", text);
}

static int set_tracker(struct parsing *parsing, const char *text)
{
    parsing->tracker_given = true;
    if (!strcmp(text, "encode"))
        parsing->options->tracker = LIVE_TRACKER_ENCODE;
    else if (!strcmp(text, "calls"))
        parsing->options->tracker = LIVE_TRACKER_CALLS;
    else if (!strcmp(text, "walk"))
        parsing->options->tracker = LIVE_TRACKER_WALK;
    else
        return MISUSE("--track takes walk, calls or encode, not '%s'", text);
    return PROCEED;
}

static int set_calls_by(struct parsing *parsing, const char *text)
{
    static const char *const names[] = {"entries", "program", "libraries", "all"};
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(text, names[i])) {
            parsing->options->calls_by = (enum live_calls_by)i;
            parsing->options->calls_by_given = true;
            return PROCEED;
        }
    return MISUSE("--calls-by takes entries, program, libraries or all, not '%s'", text);
}

// What goes with the events that count calls.
static int combine_calls(struct parsing *parsing)
{
    struct record_options *options = parsing->options;
    if (parsing->frequency_given || parsing->period_given)
        return MISUSE("%s goes with events that are sampled by time; -e calls counts calls",
                      parsing->frequency_given ? "-F" : "a period");
    if (options->trigger) {
        if (parsing->tracker_given && options->tracker != LIVE_TRACKER_WALK)
            return MISUSE("-e calls:N takes stack samples: it goes with --track walk");
        return options->burst_interval_ns ? MISUSE("--burst goes with -e calls, not with calls:N")
                                          : PROCEED;
    }
    if (parsing->tracker_given && options->tracker != LIVE_TRACKER_CALLS)
        return MISUSE("-e calls counts calls as they are followed: it goes with --track calls");
    options->tracker = LIVE_TRACKER_CALLS;
    if (options->burst_interval_ns)
        options->period_ns = options->burst_interval_ns; // of the clock that begins bursts
    return PROCEED;
}

// What goes with allocations, which are all counted.
static int combine_alloc(const struct parsing *parsing)
{
    if (parsing->frequency_given || parsing->period_given)
        return MISUSE("%s goes with events that are sampled by time; -e alloc counts every block",
                      parsing->frequency_given ? "-F" : "a period");
    return PROCEED;
}

// A delay and a duration, which hooks are switched by, if calls are followed.
static int combine_window(struct record_options *options)
{
    const char *name = options->delay_ns ? "delay" : "duration";
    if (options->trigger)
        return MISUSE("--%s goes with -e calls, not with calls:N", name);
    if (options->tracker != LIVE_TRACKER_CALLS)
        return PROCEED;
    if (options->burst_interval_ns)
        return MISUSE("--%s and --burst exclude each other", name);
    if (options->calls_by != LIVE_CALLS_BY_ENTRIES)
        return MISUSE("--%s goes with programs built with 'cairn cc', not with --calls-by", name);
    options->calls_window = true;
    return PROCEED;
}

// What goes with what.
static int combine(struct parsing *parsing)
{
    struct record_options *options = parsing->options;
    if (parsing->frequency_given && parsing->period_given)
        return MISUSE("-F and a period exclude each other: give one of them");
    if (options->tracker == LIVE_TRACKER_CALLS && !parsing->event_given) {
        options->event = LIVE_EVENT_CALLS;
        options->event_name = "calls";
    }
    if ((parsing->weights_given || options->randomised) && !options->trigger)
        return MISUSE("--%s goes with samples at calls: -e calls:N",
                      parsing->weights_given ? "weights" : "random-periods");
    if (options->fold_recursion && options->tracker != LIVE_TRACKER_CALLS &&
        (options->event != LIVE_EVENT_CALLS || options->trigger))
        return MISUSE("--fold-recursion goes with --track calls");
    if (options->burst_interval_ns && options->event != LIVE_EVENT_CALLS)
        return MISUSE("--burst goes with -e calls: it says when calls are followed");
    if (options->event == LIVE_EVENT_CALLS && combine_calls(parsing) != PROCEED)
        return STATUS_MISUSE;
    if (options->event == LIVE_EVENT_ALLOC && combine_alloc(parsing) != PROCEED)
        return STATUS_MISUSE;
    if ((options->delay_ns || options->duration_ns) && combine_window(options) != PROCEED)
        return STATUS_MISUSE;
    if (options->calls_by_given && options->tracker != LIVE_TRACKER_CALLS)
        return MISUSE("--calls-by goes with --track calls: it says whose calls are followed");
    if (options->calls_by != LIVE_CALLS_BY_ENTRIES && options->burst_interval_ns)
        return MISUSE("--burst goes with programs built with 'cairn cc', not with --calls-by");
    if (options->verify && options->tracker != LIVE_TRACKER_ENCODE &&
        options->event != LIVE_EVENT_ALLOC)
        return MISUSE("--verify goes with --track encode: it compares numbers with walks");
    if (options->tracker == LIVE_TRACKER_ENCODE && options->trees.kind != LIVE_TREE_FULL &&
        options->trees.kind != LIVE_TREE_HOT)
        return MISUSE(
            "--track encode tells whole paths, for --tree full and hot: parts of them are "
            "for --track walk");
#ifndef __x86_64__
    if (options->tracker == LIVE_TRACKER_ENCODE)
        return MISUSE("--track encode is for x86-64 alone: use --track walk");
#endif
    return combine_tree(options);
}

static int set_option(struct parsing *parsing, int option, char *value)
{
    struct record_options *options = parsing->options;
    switch (option) {
    case 'e':
        return set_event(parsing, value);
    case 'F':
        return set_frequency(parsing, value);
    case 'c':
        return set_period(parsing, value);
    case 'o':
        options->output = value;
        return *value ? PROCEED : MISUSE("-o needs the name of a file");
    case OPTION_MEMORY:
        return set_memory(options, value);
    case OPTION_MARKER:
        return set_switch("marker", value, &options->marker);
    case OPTION_PER_THREAD:
        options->per_thread = true;
        return PROCEED;
    case OPTION_FOLLOW_FORK:
        return set_switch("follow-fork", value, &options->follow_fork);
    case OPTION_DELAY:
        return set_seconds("delay", value, &options->delay_ns);
    case OPTION_DURATION:
        if (set_seconds("duration", value, &options->duration_ns) != PROCEED)
            return STATUS_MISUSE;
        return options->duration_ns ? PROCEED : MISUSE("--duration 0 would record nothing");
    case OPTION_TRACK:
        return set_tracker(parsing, value);
    case OPTION_BURST:
        return set_burst(options, value);
    case OPTION_WEIGHTS:
        return set_weights(parsing, value);
    case OPTION_RANDOM_PERIODS:
        options->randomised = true;
        return PROCEED;
    case OPTION_FOLD_RECURSION:
        options->fold_recursion = true;
        return PROCEED;
    case OPTION_TREE:
        return set_tree(&options->trees, value);
    case OPTION_MINER:
        return set_miner(&options->trees, value);
    case OPTION_PURGE:
        return set_purge(&options->trees, value);
    case OPTION_TREE_MEMORY:
        return set_tree_memory(&options->trees, value);
    case OPTION_VERIFY:
        options->verify = true;
        return PROCEED;
    case OPTION_CALLS_BY:
        return set_calls_by(parsing, value);
    case OPTION_JSON:
        options->json = true;
        return PROCEED;
    case OPTION_SOURCE:
        return set_source(options, value);
    case OPTION_EMPTY_HANDLER:
        options->empty_handler = true;
        return PROCEED;
    case OPTION_RESTLESS:
        options->restless = true;
        return PROCEED;
    case 'q':
        options->quiet = true;
        return PROCEED;
    case 'h':
        return print_command_help(&command_record);
    }
    return STATUS_MISUSE;
}

int parse_record_options(int argc, char **argv, struct record_options *options)
{
    struct parsing parsing = {.options = options};
    *options = (struct record_options){
        .event = LIVE_EVENT_CPU,
        .event_name = "cpu",
        .period_ns = NS_PER_S / 1000,
        .output = DEFAULT_PROFILE,
        .memory = UINT64_C(256) << 20,
        .marker = true,
        .follow_fork = true,
    };
    default_tree(&options->trees);
    opterr = 0;
    optind = 0; // begin anew, whatever an earlier scan left
    int option;
    // "+": the first word that is no option is COMMAND, and what follows is its own.
    while ((option = getopt_long(argc, argv, "+:e:F:c:o:qh", long_options, NULL)) != -1) {
        if (option == '?' || option == ':')
            return misuse_of_option(&command_record, option, argv);
        int outcome = set_option(&parsing, option, optarg);
        if (outcome != PROCEED)
            return outcome;
    }
    int outcome = combine(&parsing);
    if (outcome != PROCEED)
        return outcome;
    if (optind >= argc)
        return MISUSE("which command? cairn record [OPTION...] -- COMMAND [ARG...]");
    options->command = argv + optind;
    return PROCEED;
}
