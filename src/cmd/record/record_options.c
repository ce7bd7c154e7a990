// SPDX-License-Identifier: MIT

// `cairn record`: its command line.

#include "cmd/record/record_options.h"
#include "cmd/numbers.h"
#include "cmd/options.h"
#include "cmd/record/event_options.h"
#include "live/option_rules.h"
#include "profile/profile.h"
#include <getopt.h>
#include <string.h>

#define NS_PER_S UINT64_C(1000000000)

const char record_usage[] = "[OPTION...] [--] COMMAND [ARG...]";

const char record_help[] =
    "Runs COMMAND, samples the call paths of all its threads and processes, and\n"
    "writes a profile. Programs need not be rebuilt.\n"
    "\n"
    "    cairn record ./app --its options       where the CPU time goes\n"
    "    cairn record -e wall ./app             where time goes, waiting included\n"
    "    cairn record -e alloc ./app            who allocates memory\n"
    "    cairn record -F 100 -o night.out ./app at a lower rate, into another file\n"
    "    cairn record --track calls ./app       every call, counted\n";

const char record_notes[] =
    "\n"
    "The exit status is COMMAND's own, 128+N if signal N killed it, 127 or 126 if it\n"
    "cannot be found or run, and 2 if cairn cannot profile it or was misused; nothing\n"
    "was run then. cairn prints to stderr, when COMMAND has ended. The previous\n"
    "profile is kept as FILE.old. CAIRN_AGENT_PATH names another libcairn.so to load.\n";

enum {
    OPTION_MEMORY = 256,
    OPTION_MARKER,
    OPTION_PER_THREAD,
    OPTION_FOLLOW_FORK,
    OPTION_KERNEL,
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
    OPTION_ENCODE_BY,
    OPTION_STRICT,
    OPTION_JSON,
    OPTION_SOURCE,
    OPTION_EMPTY_HANDLER,
    OPTION_RESTLESS,
};

const struct option_row record_rows[] = {
    OPTION_TITLE("Everyday options"),
    {'e', "event", "EVENT[:PERIOD]",
     "What to measure: cpu (default) or wall time; alloc, every block allocated and freed; calls, "
     "every call, and calls:N, a sample at every N-th. Repeat it to record several: -e cpu -e "
     "alloc. PERIOD is the time between samples "
     "in ns, or with a unit: us, ms, s. 'cairn list' shows what works here."},
    {'F', "frequency", "HZ", "Samples per second, 1 to 10000 (default 1000)."},
    {'c', "period", "NS", "The time between samples in ns, instead of -F."},
    {'o', "output", "FILE", "Write the profile to FILE (default cairn.out)."},
    {OPTION_TRACK, "track", "walk|calls|encode",
     "How call paths are found: walk the stack at each sample (default), follow every call, or "
     "keep a number that stands for the path (experimental; costs more than sampling)."},
    {OPTION_PER_THREAD, "per-thread", NULL, "Keep threads with the same start routine apart."},
    {OPTION_FOLLOW_FORK, "follow-fork", "yes|no",
     "Record the processes that COMMAND starts, too (default yes)."},
    {OPTION_KERNEL, "kernel", "yes|no",
     "Name the system calls that time goes to, and the kernel's functions, if they may be seen "
     "(default yes)."},
    {OPTION_DELAY, "delay", "SEC", "Start sampling SEC seconds after COMMAND starts."},
    {OPTION_DURATION, "duration", "SEC", "Sample for SEC seconds. COMMAND runs on."},
    {OPTION_JSON, "json", NULL, "Print the closing summary (on stderr) as JSON."},
    {'q', "quiet", NULL, "Print nothing but errors."},
    OPTION_ADVANCED("Advanced options"),
    {OPTION_MEMORY, "memory", "SIZE",
     "Memory for the call paths of each process (default 256M). When it is used up, new paths are "
     "kept only if they are hot."},
    {OPTION_STRICT, "strict", NULL,
     "Exit with status 2 if the profile could not be written completely, as on a full disk."},
    {OPTION_MARKER, "marker", "on|off",
     "Mark on the stack how far the last sample walked, so that no frame is walked twice (default "
     "on). Turn it off if the program inspects its return addresses."},
    {OPTION_CALLS_BY, "calls-by", "WHOM",
     "With --track calls: which calls are followed in a program that was not built with 'cairn "
     "cc'. program: those in its own file; libraries (default): also those in its libraries "
     "except libc; all: also those in libc; entries: only functions built with 'cairn cc'."},
    {OPTION_ENCODE_BY, "encode-by", "WHOM",
     "With --track encode: which functions take part. program: those in its own file; libraries "
     "(default): also those in its libraries except libc; all: also those in libc. Samples in "
     "other functions unwind to a caller that takes part."},
    {OPTION_BURST, "burst", "INTERVAL/LENGTH[,adaptive[:N]]",
     "With -e calls: follow calls only for LENGTH out of each INTERVAL, as 20ms/2ms, which costs "
     "less. adaptive: in contexts already seen, only in one burst out of N (20)."},
    {OPTION_FOLD_RECURSION, "fold-recursion", NULL,
     "With --track calls: a function that calls itself, directly or not, stays in one context, "
     "which keeps the trees of deep recursion small."},
    {OPTION_WEIGHTS, "weights", "last|all-new",
     "With -e calls:N, a stack sample at every N-th call (calls-by-function:N: of each function): "
     "count its innermost call only (default), or all its calls that the previous sample did not "
     "have."},
    {OPTION_RANDOM_PERIODS, "random-periods", NULL,
     "With -e calls:N: vary N, so that a loop of N calls does not always hit the same one."},
    {OPTION_TREE, "tree", "KIND",
     "How much is kept. full (default): every call path. hot[:PHI[,EPS]]: in little memory, paths "
     "with at least the share PHI of the total (1e-4) and their callers, with an error of at most "
     "EPS (PHI/5). bounded[:K]: at most K frames of a sample (16), in a buffer of fixed size. "
     "functions: one counter per function, no paths."},
    {OPTION_MINER, "miner", "space-saving|lossy|sticky",
     "With --tree hot: the algorithm that finds hot paths. The default, space-saving, is good "
     "unless "
     "you compare algorithms."},
    {OPTION_TREE_MEMORY, "tree-memory", "SIZE",
     "With --tree bounded: the buffer of each thread (default 1M)."},
    {OPTION_PURGE, "purge", "age|all",
     "With --tree bounded: a full buffer drops what was not seen for long (age, default) or "
     "everything (all)."},
    {OPTION_VERIFY, "verify", NULL,
     "With --track encode or -e alloc: walk the stack each time as well and count differences."},
    // -g is habit from perf. The rest is for tests and measurements.
    {'g', "g", NULL, NULL},
    {OPTION_SOURCE, "source", "SOURCE", NULL},
    {OPTION_EMPTY_HANDLER, "empty-handler", NULL, NULL},
    {OPTION_RESTLESS, "restless", NULL, NULL},
    OPTION_TABLE_END,
};

#define MISUSE(...) misuse(&command_record, "record: " __VA_ARGS__)

static int set_memory(struct record_options *options, const char *text)
{
    double number = 0;
    if (!parse_size(text, &number))
        return MISUSE("'%s' is no size: --memory takes a number with k, M or G", text);
    if (number < (double)RULE_LEAST_MEMORY || number > (double)RULE_MOST_MEMORY)
        return MISUSE("--memory %s is not possible: give 1M to 16G", text);
    options->memory = (uint64_t)number;
    return PROCEED;
}

static int set_seconds(const char *option, const char *text, uint64_t *ns)
{
    double seconds = 0;
    const char *rest = "";
    if (!parse_number(text, &seconds, &rest) || (*rest && strcmp(rest, "s")) || seconds > 1e9)
        return MISUSE("--%s takes a number of seconds, not '%s'", option, text);
    *ns = (uint64_t)(seconds * (double)NS_PER_S);
    return PROCEED;
}

// yes/no and on/off are the same to us.
static int set_switch(const char *option, const char *text, bool *value)
{
    static const char *const names[] = {"on", "off", "yes", "no", NULL};
    const int chosen = option_choice(&command_record, option, text, names);
    if (chosen < 0)
        return STATUS_MISUSE;
    *value = chosen % 2 == 0;
    return PROCEED;
}

static int set_source(struct record_options *options, const char *text)
{
    static const char *const names[] = {"auto", "sigtrap", "signal", "timer", NULL};
    const int chosen = option_choice(&command_record, "--source", text, names);
    if (chosen < 0)
        return STATUS_MISUSE;
    options->source = (enum live_source)chosen;
    return PROCEED;
}

static int set_tracker(struct parsing *parsing, const char *text)
{
    static const char *const names[] = {"walk", "calls", "encode", NULL};
    static const enum live_tracker trackers[] = {LIVE_TRACKER_WALK, LIVE_TRACKER_CALLS,
                                                 LIVE_TRACKER_ENCODE};
    const int chosen = option_choice(&command_record, "--track", text, names);
    if (chosen < 0)
        return STATUS_MISUSE;
    parsing->options->tracker = trackers[chosen];
    parsing->tracker_given = true;
    return PROCEED;
}

static int set_calls_by(struct parsing *parsing, const char *text)
{
    static const char *const names[] = {"entries", "program", "libraries", "all", NULL};
    const int chosen = option_choice(&command_record, "--calls-by", text, names);
    if (chosen < 0)
        return STATUS_MISUSE;
    parsing->options->calls_by = (enum live_by)chosen;
    parsing->options->calls_by_given = true;
    return PROCEED;
}

static int set_encode_by(struct parsing *parsing, const char *text)
{
    static const char *const names[] = {"program", "libraries", "all", NULL};
    const int chosen = option_choice(&command_record, "--encode-by", text, names);
    if (chosen < 0)
        return STATUS_MISUSE;
    parsing->options->encode_by = (enum live_by)(LIVE_BY_PROGRAM + chosen);
    parsing->options->encode_by_given = true;
    return PROCEED;
}

// Refuses combinations that make no sense.
static int combine(struct parsing *parsing)
{
    const struct record_options *options = parsing->options;
    if (combine_events(parsing) != PROCEED)
        return STATUS_MISUSE;
    if (options->calls_by_given && options->tracker != LIVE_TRACKER_CALLS)
        return MISUSE("--calls-by goes with --track calls: it chooses which calls are followed");
    if (options->encode_by_given && options->tracker != LIVE_TRACKER_ENCODE)
        return MISUSE("--encode-by goes with --track encode: it chooses which functions take part");
    if (options->calls_by != LIVE_BY_ENTRIES && options->burst_interval_ns)
        return MISUSE("--burst goes with programs built with 'cairn cc', not with --calls-by");
    if (options->verify && options->tracker != LIVE_TRACKER_ENCODE &&
        !record_has(options, LIVE_EVENT_ALLOC))
        return MISUSE(
            "--verify goes with --track encode or -e alloc: it compares what they know with walks");
    if (options->tracker == LIVE_TRACKER_ENCODE && options->trees.kind == LIVE_TREE_FUNCTIONS)
        return MISUSE("--tree functions keeps no contexts, so it takes no --track encode");
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
        return set_switch("--marker", value, &options->marker);
    case OPTION_PER_THREAD:
        options->per_thread = true;
        return PROCEED;
    case OPTION_FOLLOW_FORK:
        return set_switch("--follow-fork", value, &options->follow_fork);
    case OPTION_KERNEL:
        return set_switch("--kernel", value, &options->kernel);
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
    case OPTION_ENCODE_BY:
        return set_encode_by(parsing, value);
    case OPTION_STRICT:
        options->strict = true;
        return PROCEED;
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
    case 'g': // call graphs are always recorded
        return PROCEED;
    case 'q':
        options->quiet = true;
        return PROCEED;
    }
    return STATUS_MISUSE;
}

int parse_record_options(int argc, char **argv, struct record_options *options)
{
    struct parsing parsing = {.options = options};
    *options = (struct record_options){
        .period_ns = NS_PER_S / RULE_RATE,
        .output = DEFAULT_PROFILE,
        .memory = RULE_MEMORY,
        .marker = true,
        .encode_by = LIVE_BY_LIBRARIES,
        .kernel = true,
        .follow_fork = true,
    };
    default_tree(&options->trees);
    struct option_scan scan = option_scan(&command_record, argc, argv);
    for (int option; (option = option_next(&scan)) != OPTION_END;) {
        int outcome =
            option == OPTION_EXIT ? scan.status : set_option(&parsing, option, scan.argument);
        if (outcome != PROCEED)
            return outcome;
    }
    int outcome = combine(&parsing);
    if (outcome != PROCEED)
        return outcome;
    if (optind >= argc)
        return MISUSE("name the command to run: cairn record [OPTION...] -- COMMAND [ARG...]");
    options->command = argv + optind;
    return PROCEED;
}
