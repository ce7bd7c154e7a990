// SPDX-License-Identifier: MIT

#include "analyze/report/report_frame.h"
#include "analyze/tree/name_sums.h"

#define NAMES_SHOWN 4
#define LEAST_SHOWN 0.001 // of the whole

// A line: "threads: worker-* (8) 93.1 %, main thread 6.9 %".
static void put_line(const struct report *report, const char *what, const struct name_sums *sums)
{
    FILE *out = report->out;
    size_t shown = 0;
    if (sums->count < 2)
        return;
    while (shown < sums->count && shown < NAMES_SHOWN &&
           (double)sums->sums[shown].cost >= LEAST_SHOWN * (double)report->whole)
        shown++;
    fprintf(out, "%s: ", what);
    for (size_t i = 0; i < shown; i++) {
        const struct name_sum *sum = &sums->sums[i];
        fprintf(out, "%s%s", i ? ", " : "", text_safe(sum->name));
        if (sum->members > 1)
            fprintf(out, " (%s)", text_count(sum->members).text);
        fprintf(out, " %s", text_percent((double)sum->cost, (double)report->whole).text);
    }
    if (shown < sums->count)
        fprintf(out, ", %zu more", sums->count - shown);
    fputc('\n', out);
}

static bool is_by(const struct report *report, enum flat_by by)
{
    return report->options->view == VIEW_FLAT && report->options->by == by;
}

void report_text_names(const struct report *report)
{
    const struct report_options *options = report->options;
    struct functions *functions = report->analysis->functions;
    const struct profile *profile = report->analysis->profile;
    // Not what the rows say anyway.
    if (!is_by(report, FLAT_PROGRAM) && !is_by(report, FLAT_PROCESS) &&
        options->view != VIEW_PROCESSES) {
        struct name_sums sums =
            name_sums_programs(functions, profile, &options->build, report->tree_wholes);
        put_line(report, "programs", &sums);
        name_sums_free(&sums);
    }
    if (!is_by(report, FLAT_THREAD) && options->build.threads == THREADS_MERGED) {
        struct name_sums sums =
            name_sums_threads(functions, profile, &options->build, report->tree_wholes);
        put_line(report, "threads", &sums);
        name_sums_free(&sums);
    }
}

static void put_sums(struct json *json, const char *key, const char *members,
                     struct name_sums *sums)
{
    json_key(json, key);
    json_spread_array(json);
    for (size_t i = 0; i < sums->count; i++) {
        json_object(json);
        json_put_string(json, "name", sums->sums[i].name);
        json_put_unsigned(json, members, sums->sums[i].members);
        json_put_unsigned(json, "cost", sums->sums[i].cost);
        json_end_object(json);
    }
    json_end_array(json);
    name_sums_free(sums);
}

void report_json_names(const struct report *report, struct json *json)
{
    const struct build_options *build = &report->options->build;
    struct functions *functions = report->analysis->functions;
    const struct profile *profile = report->analysis->profile;
    struct name_sums programs = name_sums_programs(functions, profile, build, report->tree_wholes);
    struct name_sums threads = name_sums_threads(functions, profile, build, report->tree_wholes);
    put_sums(json, "programs", "processes", &programs);
    put_sums(json, "thread_names", "threads", &threads);
}
