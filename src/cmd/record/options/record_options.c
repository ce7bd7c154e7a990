// SPDX-License-Identifier: MIT

// `cairn record`: its command line.

#include "cmd/record/options/record_options.h"
#include "cmd/line/numbers.h"
#include "cmd/line/options.h"
#include "cmd/record/options/event_options.h"
#include "cmd/record/options/output_name.h"
#include "event/event.h"
#include "live/choices.h"
#include "live/option_rules.h"
#include "profile/profile.h"
#include "tree/tree.h"
#include <getopt.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define NS_PER_S UINT64_C(1000000000)

const char record_usage[] = "[OPTION...] [--] COMMAND [ARG...]\n"
                            "       cairn record [OPTION...] -p PID[,PID...]";

const char record_help[] =
    "Runs COMMAND, samples the call paths of all its threads and processes, and\n"
    "writes a profile. Programs need not be rebuilt.\n"
    "\n"
    "    cairn record ./app --its options       where the CPU time goes\n"
    "    cairn record -e wall ./app             where time goes, waiting included\n"
    "    cairn record -e alloc ./app            who allocates memory\n"
    "    cairn record -e io ./app               who reads and writes\n"
    "    cairn record -e lock ./app             who waits for whom\n"
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
    OPTION_EVERY,
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
    OPTION_TIMELINE,
    OPTION_JSON,
    OPTION_SOURCE,
    OPTION_EMPTY_HANDLER,
    OPTION_REENCODE_ALWAYS,
};

const struct option_row record_rows[] = {
    OPTION_TITLE("Everyday options"),
    {'e', "event", "EVENT[:PERIOD]",
     "What to measure: cpu (default) or wall time; alloc, every block allocated and freed, and "
     "alloc:BYTES, a sample every so many bytes; io, every read and write; lock, waiting for locks "
     "and threads; offcpu, all waiting; calls, every call, and calls:N, a sample at every N-th; "
     "page-faults, cycles, cache-misses and more of perf's. Repeat it to record several: -e cpu -e "
     "alloc. PERIOD is the time between samples in ns, or with a unit: us, ms, s. 'cairn list' "
     "shows what works here."},
    {'F', "frequency", "HZ", "Samples per second, 1 to 10000 (default 1000)."},
    {'c', "period", "NS", "The time between samples in ns, instead of -F."},
    {'o', "output", "FILE",
     "Write the profile to FILE (default cairn.out). In its name, %p stands for the process id of "
     "cairn, %h for the host, %r for the rank in a parallel job, %t for the time."},
    {OPTION_TRACK, "track", "walk|calls|encode",
     "How call paths are found: walk the stack at each sample (default), follow every call, or "
     "keep a number that stands for the path (experimental; costs more than sampling)."},
    {'p', "pid", "PID[,PID...]",
     "Record running processes, and those that they start, until Ctrl-C, the end of --duration, or "
     "their own end. They run on unchanged. With -e cpu, wall, alloc, io and lock."},
    {'a', "all-processes", NULL,
     "Record the whole machine from outside, its kernel too, until COMMAND or --duration ends, or "
     "Ctrl-C. Needs rights: root, CAP_PERFMON, or kernel.perf_event_paranoid=0. With -e cpu."},
    {OPTION_PER_THREAD, "per-thread", NULL, "Keep threads with the same start routine apart."},
    {OPTION_FOLLOW_FORK, "follow-fork", "yes|no",
     "Record the processes that COMMAND starts, too (default yes)."},
    {OPTION_KERNEL, "kernel", "yes|no",
     "Name the system calls that time goes to, and the kernel's functions, if they may be seen "
     "(default yes)."},
    {OPTION_DELAY, "delay", "SEC", "Start sampling SEC seconds after COMMAND starts."},
    {OPTION_DURATION, "duration", "SEC",
     "Sample for SEC seconds. COMMAND runs on; with -p the recording ends."},
    {OPTION_EVERY, "every", "SEC",
     "Write a profile of each SEC seconds: into a folder, -o FOLDER, or to a server that collects "
     "profiles, -o http://HOST:PORT/PATH. See docs/continuous.md."},
    {'f', "format", "pprof|otlp|cairn",
     "With --every: the format of these profiles (default pprof)."},
    {OPTION_TIMELINE, "timeline", NULL,
     "Keep the time of each sample, too: reports can then show threads by time, and parts of the "
     "recording."},
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
    {OPTION_REENCODE_ALWAYS, "reencode-always", NULL, NULL},
    OPTION_TABLE_END,
};

#define MISUSE(...) misuse(&command_record, "record: " __VA_ARGS__)

static int set_memory(struct record_options *options, const char *text)
{
    double number = 0;
    if (!parse_size(text, &number))
        return MISUSE("'%s' is not a size: --memory takes a number with k, M or G", text);
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
    const int chosen = option_choice(&command_record, "--source", text, live_words(LIVE_SOURCES));
    if (chosen < 0)
        return STATUS_MISUSE;
    options->source = (enum live_source)chosen;
    return PROCEED;
}

static int set_tracker(struct parsing *parsing, const char *text)
{
    const int chosen = option_choice(&command_record, "--track", text, live_words(LIVE_TRACKERS));
    if (chosen < 0)
        return STATUS_MISUSE;
    parsing->options->tracker = (enum live_tracker)chosen;
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

static int check_timeline(const struct record_options *options)
{
    if (!options->timeline)
        return PROCEED;
    for (unsigned i = 0; i < options->event_count; i++)
        if (options->events[i] != LIVE_EVENT_CPU && options->events[i] != LIVE_EVENT_WALL)
            return MISUSE("--timeline keeps the time of samples: it goes with -e cpu and -e wall");
    if (options->tracker == LIVE_TRACKER_CALLS)
        return MISUSE("--timeline goes with --track walk or encode: calls are counted, not timed");
    return tree_traits_of(options->trees.kind)->keeps_all
               ? PROCEED
               : MISUSE("--timeline goes with --tree full: the paths of other trees come and go");
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
        !record_has(options, LIVE_EVENT_ALLOC) && !record_has(options, LIVE_EVENT_IO) &&
        !record_has(options, LIVE_EVENT_LOCK))
        return MISUSE("--verify goes with --track encode, -e alloc, -e io or -e lock: it compares "
                      "what they know with walks");
    if (options->tracker == LIVE_TRACKER_ENCODE && !tree_traits_of(options->trees.kind)->has_paths)
        return MISUSE("--tree functions keeps no contexts, so it takes no --track encode");
    if (check_timeline(options) != PROCEED)
        return STATUS_MISUSE;
#ifndef __x86_64__
    if (options->tracker == LIVE_TRACKER_ENCODE)
        return MISUSE("--track encode is for x86-64 alone: use --track walk");
#endif
    return combine_tree(options);
}

static int set_pids(struct record_options *options, const char *text)
{
    const char *at = text;
    do {
        char *end;
        const long pid = strtol(at, &end, 10);
        pid_t *more = realloc(options->pids, (options->pid_count + 1) * sizeof *more);
        if (end == at || (*end && *end != ',') || pid <= 0 || pid > INT_MAX || !more)
            return MISUSE("'%s' is not a process: -p takes numbers, as in -p 4711,4712", text);
        options->pids = more;
        options->pids[options->pid_count++] = (pid_t)pid;
        at = end + (*end == ',');
    } while (*at);
    return PROCEED;
}

// NULL: all of them can be.
static const char *event_not_attached(const struct record_options *options)
{
    for (unsigned i = 0; i < options->event_count; i++)
        if (!option_attaches(options->events[i]))
            return record_event_name(options, i);
    return NULL;
}

// The rest takes an agent that was there from the start.
static int check_attached(const struct record_options *options)
{
    if (options->tracker != LIVE_TRACKER_WALK || options->trigger)
        return MISUSE("-p records by walking stacks: to follow calls, start the program with cairn "
                      "record");
    const char *event = event_not_attached(options);
    return event ? MISUSE("-p cannot record -e %s: start the program with cairn record", event)
                 : PROCEED;
}

static int set_format(struct record_options *options, const char *text)
{
    static const char *const names[] = {
        [INTERVAL_PPROF] = "pprof", [INTERVAL_OTLP] = "otlp", [INTERVAL_CAIRN] = "cairn", NULL};
    const int chosen = option_choice(&command_record, "--format", text, names);
    if (chosen < 0)
        return STATUS_MISUSE;
    options->continuous.destination.format = (enum interval_format)chosen;
    options->format_given = true;
    return PROCEED;
}

static int set_every(struct record_options *options, const char *text)
{
    uint64_t *every_ns = &options->continuous.every_ns;
    if (set_seconds("every", text, every_ns) != PROCEED)
        return STATUS_MISUSE;
    return *every_ns >= NS_PER_S ? PROCEED : MISUSE("--every takes a second or more");
}

// -o names a folder or a server then.
static int check_continuous(struct record_options *options)
{
    struct interval_destination *destination = &options->continuous.destination;
    if (!options->continuous.every_ns)
        return options->format_given ? MISUSE("-f is for --every; 'cairn export -f' converts a "
                                              "profile")
               : strstr(options->output, "://")
                   ? MISUSE("-o takes a URL with --every alone, as in --every 60s")
                   : PROCEED;
    if (!strcmp(options->output, DEFAULT_PROFILE))
        return MISUSE("--every needs -o FOLDER or -o http://HOST:PORT/PATH");
    if (options->timeline)
        return MISUSE("--every keeps no times within an interval: leave --timeline out");
    if (tree_traits_of(options->trees.kind)->weighs_edges)
        return MISUSE("--every needs counts that only grow, and --tree bounded drops some: use "
                      "--tree full or hot");
    const char *why = destination_parse(options->output, destination);
    if (why)
        return MISUSE("-o %s: %s", options->output, why);
    return destination->is_server && destination->format == INTERVAL_CAIRN
               ? MISUSE("servers take -f pprof or otlp")
               : PROCEED;
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
    case OPTION_EVERY:
        return set_every(options, value);
    case 'f':
        return set_format(options, value);
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
    case OPTION_TIMELINE:
        options->timeline = true;
        return PROCEED;
    case OPTION_JSON:
        options->json = true;
        return PROCEED;
    case OPTION_SOURCE:
        return set_source(options, value);
    case OPTION_EMPTY_HANDLER:
        options->empty_handler = true;
        return PROCEED;
    case OPTION_REENCODE_ALWAYS:
        options->reencode_always = true;
        return PROCEED;
    case 'g': // call graphs are always recorded
        return PROCEED;
    case 'q':
        options->quiet = true;
        return PROCEED;
    case 'a':
        options->everything = true;
        return PROCEED;
    case 'p':
        return set_pids(options, value);
    }
    return STATUS_MISUSE;
}

static int name_output(struct record_options *options)
{
    if (!strchr(options->output, '%'))
        return PROCEED;
    char *error = NULL;
    options->output = output_name(options->output, &error);
    if (options->output)
        return PROCEED;
    complain("record: %s", error ? error : "out of memory");
    free(error);
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
        if (scan.is_default)
            parsing.frequency_given = false; // a period on the command line takes its place
    }
    int outcome = combine(&parsing);
    if (outcome == PROCEED && options->pids)
        outcome = check_attached(options);
    if (outcome != PROCEED)
        return outcome;
    if ((outcome = name_output(options)) != PROCEED ||
        (outcome = check_continuous(options)) != PROCEED)
        return outcome;
    if (options->everything && options->pids)
        return MISUSE("-a is all processes: give -a or -p PID, not both");
    if (options->everything && optind >= argc)
        return PROCEED;
    if (options->pids)
        return optind < argc ? MISUSE("give -p PID or a command, not both") : PROCEED;
    if (optind >= argc)
        return MISUSE("name the command to run: cairn record [OPTION...] -- COMMAND [ARG...]");
    options->command = argv + optind;
    return PROCEED;
}
