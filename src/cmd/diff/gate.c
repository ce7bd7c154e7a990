// SPDX-License-Identifier: MIT

// `cairn gate`

#include "analyze/diff/gate.h"
#include "analyze/diff/diff_show.h"
#include "base/memory.h"
#include "cmd/diff/record_again.h"
#include "cmd/diff/sides.h"
#include "cmd/line/terminal.h"
#include "cmd/selection.h"
#include <errno.h>
#include <getopt.h>

enum {
    OPTION_ABOVE = 256,
    OPTION_MAX,
    OPTION_METRIC,
    OPTION_CONFIDENCE,
    OPTION_SPREAD,
    OPTION_JSON,
    MOST_LIMITS = 64,
    MOST_SHOWN = 20, // rows of a metric
};

static const struct option_row rows[] = {
    OPTION_TITLE("Options"),
    {OPTION_ABOVE, "above", "PCT",
     "Let rows pass that cost at most PCT % more than in the base (default 0)."},
    {OPTION_MAX, "max", "LIMIT",
     "A limit for the new version: PATH: N UNIT, as 'main;parse: 0 allocs'. UNIT is calls, allocs, "
     "bytes or a metric. May be repeated."},
    {OPTION_METRIC, "metric", "NAME", "Only this metric; by default time, calls and allocations."},
    {OPTION_CONFIDENCE, "confidence", "PCT",
     "Of sampled costs, only changes beyond noise fail (default 99)."},
    {OPTION_SPREAD, "spread", "PCT",
     "With one run a side: how far the cost of the same code varies from run to run (default 5)."},
    {'o', "output", "FILE", "Keep the profile of COMMAND there."},
    SELECTION_ROW_NO_INLINES,
    SELECTION_ROW_NO_DEBUGINFOD,
    {OPTION_JSON, "json", NULL, "Print what exceeds as JSON, on stdout."},
    OPTION_TABLE_END,
};

struct gate_arguments {
    const char *base, *new; // new: NULL if there is none
    char **command;         // NULL: none
    const char *metric, *output;
    struct gate_limit limits[MOST_LIMITS];
    unsigned limit_count;
    struct analysis_options analysis;
    struct diff_judgement judgement;
    double above; // per cent
    bool json;
};

static int parse_above(const char *text, double *percent)
{
    char *end;
    errno = 0;
    *percent = strtod(text, &end);
    end += end != text && *end == '%';
    if (end == text || *end || errno || !(*percent >= 0 && *percent <= 1e6))
        return misuse(&command_gate, "gate: --above '%s' is not a percentage", text);
    return 0;
}

static int parse_limit(const char *text, struct gate_arguments *arguments)
{
    char *error = NULL;
    if (arguments->limit_count == MOST_LIMITS)
        return misuse(&command_gate, "gate: --max at most %d times", MOST_LIMITS);
    if (gate_limit_parse(&arguments->limits[arguments->limit_count], text, &error) == 0) {
        arguments->limit_count++;
        return 0;
    }
    int status = misuse(&command_gate, "gate: --max %s", error);
    free(error);
    return status;
}

static int set_option(int option, const char *text, void *to)
{
    struct gate_arguments *arguments = to;
    switch (option) {
    case OPTION_ABOVE:
        return parse_above(text, &arguments->above);
    case OPTION_MAX:
        return parse_limit(text, arguments);
    case OPTION_METRIC:
        arguments->metric = text;
        return 0;
    case OPTION_CONFIDENCE:
        return sides_confidence(&command_gate, text, &arguments->judgement.confidence);
    case OPTION_SPREAD:
        return sides_spread(&command_gate, text, &arguments->judgement.spread);
    case 'o':
        arguments->output = text;
        return 0;
    case OPTION_JSON:
        arguments->json = true;
        return 0;
    default:
        return selection_option(&(struct selection){&command_gate, &arguments->analysis, NULL},
                                option, text);
    }
}

// The words behind "--" are the command: getopt() would not tell where it begins.
static int words_before_command(int argc, char **argv)
{
    int count = 1;
    while (count < argc && strcmp(argv[count], "--") != 0)
        count++;
    return count;
}

static int parse(int argc, char **argv, struct gate_arguments *arguments)
{
    const int words = words_before_command(argc, argv);
    if (words < argc) {
        arguments->command = argv + words + 1;
        argv[words] = NULL;
    }
    const int status = options_parse(&command_gate, words, argv, set_option, arguments);
    if (status != PROCEED)
        return status;
    const int named = words - optind;
    if (named < 1)
        return misuse(&command_gate, "gate: name the profile to compare with");
    if (arguments->command && !*arguments->command)
        return misuse(&command_gate, "gate: name the command to run behind --");
    if (named > (arguments->command ? 1 : 2))
        return misuse(&command_gate, "gate: '%s' is one profile too many; a command goes behind --",
                      argv[words - 1]);
    if (named == 1 && !arguments->command && arguments->limit_count == 0)
        return misuse(&command_gate,
                      "gate: nothing to compare %s with: name another profile, a "
                      "command behind --, or a limit (--max)",
                      argv[optind]);
    if (arguments->output && !arguments->command)
        return misuse(&command_gate, "gate: -o keeps the profile of a command: there is none");
    arguments->base = argv[optind];
    arguments->new = named == 2 ? argv[optind + 1] : NULL;
    return PROCEED;
}

// Judgement

struct gating {
    const struct gate_arguments *arguments;
    struct diff diff;
    struct json *json; // NULL: text
    FILE *out;
    struct text_style style;
    unsigned exceeding;
};

static struct text_number amount(const struct diff *diff, unsigned metric, double value)
{
    return text_amount((uint64_t)(value + 0.5), diff->metrics[metric].unit);
}

static void put_row(struct gating *gating, const struct diff_rows *changes,
                    const struct diff_row *row)
{
    const struct diff *diff = &gating->diff;
    const char *name = diff->metrics[diff->metric].name;
    if (gating->json) {
        const struct diff_shown shown = {.diff = diff, .rows = changes};
        json_object(gating->json);
        json_put_string(gating->json, "metric", name);
        json_put_string(gating->json, "unit", diff->metrics[diff->metric].unit);
        diff_row_json(gating->json, &shown, row);
        json_end_object(gating->json);
        return;
    }
    char *path = diff_path_text(diff, row->node, 0, &gating->style), *line = NULL;
    if (asprintf(&line, "%s: %s, %s in the base: %s", name,
                 amount(diff, diff->metric, row->cost[DIFF_NEW]).text,
                 amount(diff, diff->metric, row->cost[DIFF_OLD]).text, *path ? path : "in all") < 0)
        memory_checked(NULL);
    text_put(gating->out, &gating->style, TEXT_HOT, line);
    putc('\n', gating->out);
    free(line);
    free(path);
}

static void judge_metric(struct gating *gating, unsigned metric)
{
    struct diff *diff = &gating->diff;
    diff->metric = metric;
    struct diff_rows changes = diff_rows(diff, &gating->arguments->judgement);
    unsigned shown = 0;
    for (size_t i = 0; i < changes.count; i++) {
        if (!gate_exceeds(&changes.rows[i], gating->arguments->above))
            continue;
        gating->exceeding++;
        if (gating->json || shown++ < MOST_SHOWN)
            put_row(gating, &changes, &changes.rows[i]);
    }
    if (shown > MOST_SHOWN)
        fprintf(gating->out, "%s: %u more paths (--json has all)\n", diff->metrics[metric].name,
                shown - MOST_SHOWN);
    diff_rows_free(&changes);
}

static void judge_limit(struct gating *gating, const struct gate_limit *limit, unsigned metric)
{
    const struct diff *diff = &gating->diff;
    const double value = gate_limit_value(diff, limit, metric);
    char *path = NULL;
    size_t bytes = 0;
    FILE *text = memory_checked(open_memstream(&path, &bytes));
    for (unsigned i = 0; i < limit->count; i++)
        fprintf(text, "%s%s", i ? ";" : "", limit->names[i]);
    fclose(text);
    memory_checked(path);
    const char *unknown = gate_limit_unknown(diff, limit);
    gating->exceeding += value > limit->most;
    if (gating->json) {
        json_object(gating->json);
        json_put_string(gating->json, "path", path);
        json_put_string(gating->json, "metric", limit->metric);
        json_put_real(gating->json, "most", limit->most);
        json_put_real(gating->json, "value", value);
        json_put_string(gating->json, "unknown", unknown);
        json_put_bool(gating->json, "ok", value <= limit->most);
        json_end_object(gating->json);
    } else if (value > limit->most) {
        char *line = NULL;
        if (asprintf(&line, "%s: %s, at most %s allowed: %s", limit->metric,
                     amount(diff, metric, value).text, amount(diff, metric, limit->most).text,
                     path) < 0)
            memory_checked(NULL);
        text_put(gating->out, &gating->style, TEXT_HOT, line);
        putc('\n', gating->out);
        free(line);
    } else if (unknown) {
        // Of allocations, a function that makes none has no row: this is no error.
        fprintf(gating->out, "%s: 0, for no function that was recorded is named %s\n",
                text_safe(path), text_safe(unknown));
    }
    free(path);
}

static int check_limits(const struct gating *gating)
{
    for (unsigned i = 0; i < gating->arguments->limit_count; i++) {
        const struct gate_limit *limit = &gating->arguments->limits[i];
        if (gate_limit_metric(&gating->diff, limit) != DIFF_NONE)
            continue;
        char *metrics = analysis_list_metrics(gating->diff.runs[0].analysis);
        complain("gate: --max: %s has no %s: it has %s; record calls with --track calls, "
                 "allocations with -e alloc",
                 gating->diff.runs[0].path, limit->metric, metrics);
        free(metrics);
        return STATUS_MISUSE;
    }
    return 0;
}

static void judge(struct gating *gating)
{
    const struct gate_arguments *arguments = gating->arguments;
    struct diff *diff = &gating->diff;
    const unsigned chosen = diff->metric;
    if (gating->json) {
        json_object(gating->json);
        json_put_string(gating->json, "base", arguments->base);
        json_key(gating->json, "rows");
        json_spread_array(gating->json);
    } else {
        diff_print_problems(gating->out, &gating->style, diff);
    }
    for (unsigned m = 0; m < diff->compared; m++)
        if (arguments->metric ? m == chosen : gate_judges(diff, m))
            judge_metric(gating, m);
    if (gating->json) {
        json_end_array(gating->json);
        json_key(gating->json, "limits");
        json_spread_array(gating->json);
    }
    for (unsigned i = 0; i < arguments->limit_count; i++)
        judge_limit(gating, &arguments->limits[i], gate_limit_metric(diff, &arguments->limits[i]));
    if (gating->json) {
        json_end_array(gating->json);
        diff_problems_json(gating->json, diff);
        json_put_bool(gating->json, "ok", gating->exceeding == 0);
        json_end_object(gating->json);
    } else if (gating->exceeding == 0) {
        fprintf(gating->out, "no path exceeds %s\n",
                text_safe(arguments->limit_count && !arguments->new && !arguments->command
                              ? "its limit"
                              : arguments->base));
    } else {
        fprintf(gating->out, "%u path%s too much\n", gating->exceeding,
                gating->exceeding == 1 ? " costs" : "s cost");
    }
}

static int judge_sides(const struct gate_arguments *arguments, const struct sides *sides)
{
    struct json json = {.out = stdout};
    // The command's output is its own.
    struct gating gating = {.arguments = arguments,
                            .json = arguments->json ? &json : NULL,
                            .out = arguments->command && !arguments->json ? stderr : stdout,
                            .style = arguments->command ? text_style(stderr) : terminal_style()};
    char *error = NULL;
    if (diff_open(&gating.diff, sides->inputs, sides->count,
                  &(struct diff_options){.metric = arguments->metric}, &error) < 0) {
        complain("gate: %s", error);
        free(error);
        return STATUS_MISUSE;
    }
    int status = check_limits(&gating);
    if (status == 0) {
        if (gating.json)
            json_start(&json, stdout);
        judge(&gating);
        if (gating.json)
            json_finish(&json);
        status = finish_output("gate");
    }
    diff_close(&gating.diff);
    return status ? status : gating.exceeding > 0 ? STATUS_FAILED : 0;
}

// With a limit alone, the base is compared with itself.
static int open_new(const struct gate_arguments *arguments, struct sides *sides, const char *path)
{
    return sides_add(sides, path ? path : arguments->base, DIFF_NEW, &arguments->analysis);
}

static int gate(const struct gate_arguments *arguments)
{
    struct sides sides = {0};
    struct new_recording recording = {0};
    int status = sides_add(&sides, arguments->base, DIFF_OLD, &arguments->analysis);
    if (status == 0 && arguments->command)
        status = record_again(&recording, sides.inputs[0].analysis->profile, arguments->command,
                              arguments->output);
    if (status == 0)
        status = open_new(arguments, &sides, arguments->command ? recording.path : arguments->new);
    if (status == 0)
        status = judge_sides(arguments, &sides);
    sides_free(&sides);
    new_recording_free(&recording);
    return status;
}

static int run_gate(int argc, char **argv)
{
    struct gate_arguments arguments = {
        .analysis = {.inlines = true, .debuginfod = true},
        .judgement = {.confidence = SIDES_CONFIDENCE, .spread = SIDES_SPREAD},
    };
    int status = parse(argc, argv, &arguments);
    if (status == PROCEED)
        status = gate(&arguments);
    for (unsigned i = 0; i < arguments.limit_count; i++)
        gate_limit_free(&arguments.limits[i]);
    return status;
}

static const char help[] =
    "Fails if a path costs more than in a base profile: for continuous integration.\n"
    "\n"
    "    cairn record --track calls -o base.out ./app     once, and kept\n"
    "    cairn gate base.out -- ./app                     records ./app likewise\n"
    "    cairn gate base.out new.out --above 2%           two profiles\n"
    "    cairn gate base.out --max 'main;parse: 0 allocs' -- ./app\n"
    "    cairn gate new.out --max 'parse;*: 100 calls'    limits alone\n";

static const char notes[] =
    "\n"
    "COMMAND is recorded with the events, the tracker and the tree of BASE. Its\n"
    "output stays its own; cairn prints to stderr. Calls and allocations are exact:\n"
    "one call more than in the base fails. Of sampled costs, only changes beyond\n"
    "noise fail, as in 'cairn diff'.\n"
    "\n"
    "A PATH lists functions in the order of their calls; other functions may lie\n"
    "between them, and * and ? match parts of names. Its cost is that of the last\n"
    "function with all that it calls; its calls are those of the last function.\n"
    "\n"
    "The exit status is 0 if nothing exceeds, 1 if a path does or COMMAND fails, and\n"
    "2 if cairn was misused.\n";

const struct command command_gate = {
    .name = "gate",
    .summary = "fail if a path costs more than in a base profile",
    .usage = "BASE [NEW] [OPTION...] [-- COMMAND [ARG...]]",
    .help = help,
    .notes = notes,
    .options = rows,
    .prints = true,
    .run = run_gate,
};
