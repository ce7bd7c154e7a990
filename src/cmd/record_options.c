// SPDX-License-Identifier: MIT

// `cairn record`: its command line.

#include "cmd/record_options.h"
#include "cmd/event_options.h"
#include "cmd/numbers.h"
#include "cmd/options.h"
#include <getopt.h>
#include <string.h>

#define NS_PER_S UINT64_C(1000000000)
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
    "                              or alloc, which counts every block that is allocated and "
    "freed;\n"
    "                              several: -e cpu -e alloc (report --metric NAME chooses);\n"
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
    "      --kernel yes|no         name the system calls that time goes to (default yes)\n"
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
    "      --strict                exit with status 2 if the profile could not be written to its\n"
    "                              end, as on a full disk, whatever COMMAND's own status is\n"
    "      --json                  the closing summary (on stderr) as JSON\n"
    "  -q, --quiet                 print nothing but errors\n"
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
    OPTION_STRICT,
    OPTION_JSON,
    OPTION_SOURCE,
    OPTION_EMPTY_HANDLER,
    OPTION_RESTLESS,
};

const struct option_row record_rows[] = {
    {'e', "event", "EVENT[:PERIOD]"},
    {'F', "frequency", "HZ"},
    {'c', "period", "NS"},
    {'o', "output", "FILE"},
    {OPTION_MEMORY, "memory", "SIZE"},
    {OPTION_MARKER, "marker", "on|off"},
    {OPTION_PER_THREAD, "per-thread", NULL},
    {OPTION_FOLLOW_FORK, "follow-fork", "yes|no"},
    {OPTION_KERNEL, "kernel", "yes|no"},
    {OPTION_DELAY, "delay", "SEC"},
    {OPTION_DURATION, "duration", "SEC"},
    {OPTION_TRACK, "track", "walk|calls|encode"},
    {OPTION_BURST, "burst", "INTERVAL/LENGTH[,adaptive[:N]]"},
    {OPTION_WEIGHTS, "weights", "last|all-new"},
    {OPTION_RANDOM_PERIODS, "random-periods", NULL},
    {OPTION_FOLD_RECURSION, "fold-recursion", NULL},
    {OPTION_TREE, "tree", "KIND"},
    {OPTION_MINER, "miner", "space-saving|lossy|sticky"},
    {OPTION_PURGE, "purge", "age|all"},
    {OPTION_TREE_MEMORY, "tree-memory", "SIZE"},
    {OPTION_VERIFY, "verify", NULL},
    {OPTION_CALLS_BY, "calls-by", "WHOM"},
    {OPTION_STRICT, "strict", NULL},
    {OPTION_JSON, "json", NULL},
    {'q', "quiet", NULL},
    // For tests and measurements, and so not in the help.
    {OPTION_SOURCE, "source", "SOURCE"},
    {OPTION_EMPTY_HANDLER, "empty-handler", NULL},
    {OPTION_RESTLESS, "restless", NULL},
    {0, NULL, NULL},
};

#define MISUSE(...) misuse(&command_record, "record: " __VA_ARGS__)

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

// What goes with what.
static int combine(struct parsing *parsing)
{
    const struct record_options *options = parsing->options;
    if (combine_events(parsing) != PROCEED)
        return STATUS_MISUSE;
    if (options->calls_by_given && options->tracker != LIVE_TRACKER_CALLS)
        return MISUSE("--calls-by goes with --track calls: it says whose calls are followed");
    if (options->calls_by != LIVE_CALLS_BY_ENTRIES && options->burst_interval_ns)
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
        return set_switch("marker", value, &options->marker);
    case OPTION_PER_THREAD:
        options->per_thread = true;
        return PROCEED;
    case OPTION_FOLLOW_FORK:
        return set_switch("follow-fork", value, &options->follow_fork);
    case OPTION_KERNEL:
        return set_switch("kernel", value, &options->kernel);
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
        .period_ns = NS_PER_S / 1000,
        .output = DEFAULT_PROFILE,
        .memory = UINT64_C(256) << 20,
        .marker = true,
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
        return MISUSE("which command? cairn record [OPTION...] -- COMMAND [ARG...]");
    options->command = argv + optind;
    return PROCEED;
}
