// SPDX-License-Identifier: MIT

#include "analyze/lanes/lanes.h"
#include "analyze/names/names.h"
#include <stdlib.h>
#include <string.h>

enum { LABEL = 20, UNLIMITED = 120, LEAST_PARTS = 20, MOST_LANES = 40, LETTERS = 26 };

unsigned lanes_columns(const struct text_style *style)
{
    const unsigned width = style->width ? style->width : UNLIMITED;
    return width > LABEL + LEAST_PARTS ? width - LABEL : LEAST_PARTS;
}

static double share_of(uint64_t cost, uint64_t whole)
{
    return whole ? (double)cost / (double)whole : 0;
}

// How much of the time of a part it was.
static const char *level(const struct text_style *style, double share)
{
    static const char *const blocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    static const char *const plain[] = {" ", ".", ":", "-", "=", "+", "*", "%", "#"};
    const unsigned step = share <= 0 ? 0 : share >= 1 ? 8 : 1 + (unsigned)(share * 7.999);
    return style->unicode ? blocks[step] : plain[step];
}

static char letter_of(const struct lanes *lanes, uint32_t function)
{
    for (unsigned i = 0; function && i < lanes->function_count && i < LETTERS; i++)
        if (lanes->functions[i].function == function)
            return (char)('a' + i);
    return function ? '*' : ' ';
}

static void put_label(FILE *out, const struct text_style *style, const char *text)
{
    char *cut = text_cut(text, LABEL - 2, style);
    fprintf(out, "%s%*s", cut, (int)(LABEL - text_width(cut)), "");
    free(cut);
}

static void put_end(FILE *out, char *line)
{
    size_t length = strlen(line);
    while (length && line[length - 1] == ' ')
        line[--length] = '\0';
    fprintf(out, "%s\n", line);
}

static void put_lane(FILE *out, const struct text_style *style, const struct lanes *lanes,
                     const struct lane *lane)
{
    char *label = NULL, letters[4096];
    const unsigned parts = lanes->parts < sizeof letters ? lanes->parts : sizeof letters - 1;
    if (asprintf(&label, "%s [%u]", lane->name, lane->tid) < 0)
        return;
    put_label(out, style, label);
    free(label);
    for (unsigned i = 0; i < parts; i++)
        fputs(level(style, share_of(lane->costs[i], lanes->part_ns)), out);
    fputc('\n', out);
    char used[40];
    snprintf(used, sizeof used, "  %s", text_duration(lane->total).text);
    put_label(out, style, used);
    for (unsigned i = 0; i < parts; i++)
        letters[i] = letter_of(lanes, lane->functions[i]);
    letters[parts] = '\0';
    put_end(out, letters);
}

static void put_axis(FILE *out, const struct text_style *style, const struct lanes *lanes)
{
    const struct text_number from = text_duration(lanes->range.from_ns),
                             to = text_duration(lanes->range.to_ns);
    put_label(out, style, "");
    fprintf(out, "%s%*s\n", from.text, (int)(lanes->parts - strlen(from.text)), to.text);
}

static void put_functions(FILE *out, const struct text_style *style, struct analysis *analysis,
                          const struct lanes *lanes)
{
    uint64_t whole = 0;
    for (size_t i = 0; i < lanes->function_count; i++)
        whole += lanes->functions[i].cost;
    for (unsigned i = 0; i < lanes->function_count && i < LETTERS; i++) {
        const struct lane_function *of = &lanes->functions[i];
        const double share = share_of(of->cost, whole);
        if (i > 0 && share < 0.005)
            break;
        char *name = text_cut(functions_get(analysis->functions, of->function)->name,
                              style->width > 16 ? style->width - 14 : 0, style);
        fprintf(out, "  %c  %7s  %s\n", 'a' + i, text_percent(share, 1).text, name);
        free(name);
    }
}

static uint64_t least_shown(const struct lanes *lanes)
{
    uint64_t most[MOST_LANES] = {0};
    for (size_t i = 0; i < lanes->count; i++) {
        uint64_t total = lanes->lanes[i].total;
        for (unsigned at = 0; at < MOST_LANES; at++) // keeps the highest ones, in order
            if (total > most[at]) {
                const uint64_t other = most[at];
                most[at] = total;
                total = other;
            }
    }
    return most[MOST_LANES - 1] ? most[MOST_LANES - 1] : 1;
}

void lanes_print(FILE *out, const struct text_style *style, struct analysis *analysis,
                 const struct lanes *lanes)
{
    const struct profile *profile = analysis->profile;
    const uint64_t least = least_shown(lanes);
    size_t hidden = 0;
    uint32_t process = UINT32_MAX;
    fprintf(out, "threads by %s: a column is %s; below each, the function that cost most\n\n",
            text_safe(profile->metrics[lanes->metric].name), text_duration(lanes->part_ns).text);
    if (lanes->function_count == 0) {
        fputs("nothing was sampled in that time\n", out);
        return;
    }
    put_axis(out, style, lanes);
    for (size_t i = 0; i < lanes->count; i++) {
        const struct lane *lane = &lanes->lanes[i];
        if (lane->total < least) {
            hidden++;
            continue;
        }
        if (profile->process_count > 1 && lane->process != process) {
            char *name =
                text_cut(names_process(functions_names(analysis->functions), lane->process),
                         style->width, style);
            fprintf(out, "%s [%u]\n", name, profile->processes[lane->process].pid);
            free(name);
        }
        process = lane->process;
        put_lane(out, style, lanes, lane);
    }
    if (hidden)
        fprintf(out, "and %zu thread%s with less\n", hidden, text_plural(hidden));
    fputc('\n', out);
    put_functions(out, style, analysis, lanes);
}
