// SPDX-License-Identifier: MIT

// `cairn merge`

#include "profile/merge/merge.h"
#include "base/memory.h"
#include "base/new_file.h"
#include "base/text/json.h"
#include "base/text/text.h"
#include "cmd/line/command.h"
#include "cmd/line/options.h"
#include <errno.h>
#include <getopt.h>

struct merge_arguments {
    const char *output;
    char **paths;
    size_t count;
    enum merge_processes processes;
    bool sums, quiet, json;
};

enum { OPTION_APART = 256, OPTION_NO_SPREAD, OPTION_JSON };

static const struct option_row rows[] = {
    OPTION_TITLE("Options"),
    {'o', "output", "FILE", "Where to write; may be one of the profiles."},
    {OPTION_APART, "apart", NULL, "Keep the trees of every process and thread apart."},
    {OPTION_NO_SPREAD, "no-spread", NULL,
     "Keep sums alone, without what each profile has of them ('report --spread')."},
    {OPTION_JSON, "json", NULL, "Print what was merged as JSON, on stdout."},
    {'q', "quiet", NULL, "Print nothing but errors."},
    OPTION_TABLE_END,
};

static int parse(int argc, char **argv, struct merge_arguments *arguments)
{
    struct option_scan scan = option_scan(&command_merge, argc, argv);
    for (int option; (option = option_next(&scan)) != OPTION_END;) {
        switch (option) {
        case 'o':
            arguments->output = scan.argument;
            break;
        case OPTION_APART:
            arguments->processes = MERGE_APART;
            break;
        case OPTION_NO_SPREAD:
            arguments->sums = true;
            break;
        case OPTION_JSON:
            arguments->json = true;
            break;
        case 'q':
            arguments->quiet = true;
            break;
        default:
            return scan.status;
        }
    }
    if (!arguments->output || !*arguments->output)
        return misuse(&command_merge, "merge: name the file to write with -o FILE");
    if (optind == argc)
        return misuse(&command_merge, "merge: name the profiles to merge");
    arguments->paths = argv + optind;
    arguments->count = (size_t)(argc - optind);
    return PROCEED;
}

static void print_json(const struct merge_arguments *arguments, const struct profile *merged)
{
    struct json json;
    json_start(&json, stdout);
    json_object(&json);
    json_put_string(&json, "output", arguments->output);
    json_put_unsigned(&json, "profiles", arguments->count);
    json_put_unsigned(&json, "processes", merged->process_count);
    json_put_unsigned(&json, "nodes", profile_nodes(merged));
    json_key(&json, "metrics");
    json_array(&json);
    for (unsigned i = 0; i < merged->metric_count; i++)
        json_string(&json, merged->metrics[i].name);
    json_end_array(&json);
    json_end_object(&json);
    json_finish(&json);
}

static void print_summary(const struct merge_arguments *arguments, const struct profile *merged)
{
    char *metrics = NULL;
    size_t bytes = 0;
    FILE *out = memory_checked(open_memstream(&metrics, &bytes));
    for (unsigned i = 0; i < merged->metric_count; i++)
        fprintf(out, "%s %s", i ? "," : "", merged->metrics[i].name);
    fclose(out);
    memory_checked(metrics);
    complain("%zu profile%s in %s: %s process%s, %s contexts and lines;%s", arguments->count,
             text_plural(arguments->count), arguments->output,
             text_count(merged->process_count).text, merged->process_count == 1 ? "" : "es",
             text_count(profile_nodes(merged)).text, metrics);
    free(metrics);
}

// The one file that is in memory.
struct merge_reading {
    char **paths;
    struct profile *profile;
    size_t number;
    bool failed;
};

static const struct profile *read_profile(void *context, size_t number, char **error)
{
    struct merge_reading *reading = context;
    if (reading->profile && reading->number == number)
        return reading->profile;
    profile_free(reading->profile);
    reading->profile = profile_read(reading->paths[number], error);
    reading->number = number;
    reading->failed = !reading->profile;
    return reading->profile;
}

static int write_merged(const struct merge_arguments *arguments, const struct profile *merged)
{
    const int failed = profile_write(merged, arguments->output);
    if (failed)
        complain("merge: cannot write %s: %s", arguments->output, new_file_error(failed));
    else if (arguments->json)
        print_json(arguments, merged);
    else if (!arguments->quiet)
        print_summary(arguments, merged);
    return failed ? STATUS_FAILED : finish_output("merge");
}

static int merge(const struct merge_arguments *arguments)
{
    struct merge_reading reading = {.paths = arguments->paths};
    const struct merge_source source = {.count = arguments->count,
                                        .get = read_profile,
                                        .context = &reading,
                                        .names = arguments->sums ? NULL : arguments->paths};
    char *error = NULL;
    struct profile *merged = profile_merge(&source, arguments->processes, &error);
    profile_free(reading.profile);
    if (!merged && reading.failed)
        return misuse_of_file(error);
    if (!merged) {
        complain("merge: %s", error ? error : "out of memory");
        free(error);
        return STATUS_MISUSE;
    }
    const int status = write_merged(arguments, merged);
    profile_free(merged);
    return status;
}

static int run_merge(int argc, char **argv)
{
    struct merge_arguments arguments = {.processes = MERGE_BY_PROGRAM};
    int status = parse(argc, argv, &arguments);
    return status == PROCEED ? merge(&arguments) : status;
}

static const char help[] =
    "Makes one profile of several: of runs, ranks or machines, or of the same program\n"
    "measured in different ways.\n"
    "\n"
    "    cairn merge -o all.out rank-*.out            all ranks of a parallel run\n"
    "    cairn merge -o both.out time.out calls.out   cost per call, on every path\n"
    "    cairn report both.out\n"
    "    cairn report all.out --spread                how even the ranks are\n";

static const char notes[] =
    "\n"
    "Metrics of the same name and unit are added; others stand side by side ('cairn\n"
    "report --metric'). All processes stay in the list; the trees of the same program\n"
    "and start routine are added. Modules are the same if their paths and build ids\n"
    "are. Call counts ('cairn record --track calls') are matched with walked trees\n"
    "of the same build; frames without counts stay in between.\n";

const struct command command_merge = {
    .name = "merge",
    .summary = "make one profile of several",
    .usage = "-o FILE [OPTION...] PROFILE...",
    .help = help,
    .notes = notes,
    .options = rows,
    .run = run_merge,
};
