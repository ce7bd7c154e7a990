// SPDX-License-Identifier: MIT

// `cairn import`

#include "import/import.h"
#include "base/new_file.h"
#include "base/text/json.h"
#include "base/text/text.h"
#include "cmd/line/options.h"
#include <getopt.h>

struct import_arguments {
    const struct import_format *format; // NULL: guess
    const char *input, *output;
    struct import_options options;
    bool quiet, json;
};

enum { OPTION_METRIC = 256, OPTION_UNIT, OPTION_JSON };

static const struct option_row rows[] = {
    OPTION_TITLE("Options"),
    {'f', "format", "FORMAT", "Which format; see above. Guessed from the content by default."},
    {'o', "output", "FILE", "Where to write (default " DEFAULT_PROFILE ")."},
    {OPTION_METRIC, "metric", "NAME", "Of folded: what its counts are (default samples)."},
    {OPTION_UNIT, "unit", "UNIT", "Of folded: their unit, as ns or bytes (default count)."},
    {OPTION_JSON, "json", NULL, "Print what was imported as JSON, on stdout."},
    {'q', "quiet", NULL, "Print nothing but errors."},
    OPTION_TABLE_END,
};

static int choose_format(const char *name, const struct import_format **format)
{
    const char *names[16] = {NULL};
    for (size_t i = 0; i < 15 && import_formats[i]; i++)
        names[i] = import_formats[i]->name;
    const int chosen = option_choice(&command_import, "-f", name, names);
    if (chosen < 0)
        return STATUS_MISUSE;
    *format = import_formats[chosen];
    return 0;
}

static int parse(int argc, char **argv, struct import_arguments *arguments)
{
    struct option_scan scan = option_scan(&command_import, argc, argv);
    for (int option; (option = option_next(&scan)) != OPTION_END;) {
        switch (option) {
        case 'f':
            if (choose_format(scan.argument, &arguments->format))
                return STATUS_MISUSE;
            break;
        case 'o':
            arguments->output = scan.argument;
            break;
        case OPTION_METRIC:
            arguments->options.metric = scan.argument;
            break;
        case OPTION_UNIT:
            arguments->options.unit = scan.argument;
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
    if (optind + 1 != argc)
        return misuse(&command_import, "import: name one file to import; '-' is stdin");
    arguments->input = argv[optind];
    return PROCEED;
}

static void print_json(const struct import_arguments *arguments, const struct profile *profile)
{
    struct json json;
    json_start(&json, stdout);
    json_object(&json);
    json_put_string(&json, "format", arguments->format->name);
    json_put_string(&json, "output", arguments->output);
    json_put_unsigned(&json, "processes", profile->process_count);
    json_put_unsigned(&json, "threads", profile->tree_count);
    json_put_unsigned(&json, "nodes", profile_nodes(profile));
    json_key(&json, "metrics");
    json_array(&json);
    for (unsigned i = 0; i < profile->metric_count; i++)
        json_string(&json, profile->metrics[i].name);
    json_end_array(&json);
    json_end_object(&json);
    json_finish(&json);
}

static int import(struct import_arguments *arguments)
{
    char *error = NULL;
    struct profile *profile =
        import_read(arguments->input, &arguments->format, &arguments->options, &error);
    if (!profile)
        return misuse_of_file(error);
    const int failed = profile_write(profile, arguments->output);
    if (failed)
        complain("import: cannot write %s: %s", arguments->output, new_file_error(failed));
    else if (arguments->json)
        print_json(arguments, profile);
    else if (!arguments->quiet)
        complain("%s, as %s: %s contexts and lines in %s", arguments->input,
                 arguments->format->name, text_count(profile_nodes(profile)).text,
                 arguments->output);
    profile_free(profile);
    return failed ? STATUS_FAILED : finish_output("import");
}

static int run_import(int argc, char **argv)
{
    struct import_arguments arguments = {.output = DEFAULT_PROFILE};
    const int status = parse(argc, argv, &arguments);
    return status == PROCEED ? import(&arguments) : status;
}

static const char help[] =
    "Makes a profile of another tool's file, which may be compressed by gzip. All\n"
    "commands read it like one that cairn has recorded.\n"
    "\n"
    "    perf script | cairn import -o perf.cairn -\n"
    "    cairn import -o app.cairn cpu.pb.gz\n"
    "    cairn report app.cairn\n"
    "\n"
    "Formats:\n"
    "  perf        The text of 'perf script'. Each event is a metric.\n"
    "  pprof       profile.proto. The labels process, pid, thread, tid and phase say\n"
    "              where a sample belongs.\n"
    "  speedscope  Its own format. Profiles of the same unit are threads.\n"
    "  callgrind   It has calls between pairs of functions and no paths: these are\n"
    "              estimated, as gprof does it. A function's own cost is exact.\n"
    "  folded      'outer;...;inner COUNT', as flame graph tools read it.\n";

const struct command command_import = {
    .name = "import",
    .summary = "make a profile of another tool's file",
    .usage = "[-f FORMAT] [-o FILE] [OPTION...] INPUT",
    .help = help,
    .options = rows,
    .run = run_import,
};
