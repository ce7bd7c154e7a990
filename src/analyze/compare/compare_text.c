// SPDX-License-Identifier: MIT

#include "analyze/compare/compare_show.h"
#include "analyze/report/name_set.h"
#include "analyze/summary/sample_warning.h"
#include "base/memory.h"
#include <math.h>
#include <stdarg.h>

#define EDGES_SHOWN 20
#define FUNCTIONS_SHOWN 5
#define PATH_NAMES 64
#define NAME_COLUMNS 34

const char *compare_name(const struct comparison *comparison, uint32_t context)
{
    const struct compare_tree *tree = comparison->alignment->tree;
    return context == 0 ? "(start)" : tree->functions[tree->contexts[context].function].name;
}

const char *compare_caller(const struct comparison *comparison, uint32_t context)
{
    return compare_name(comparison, comparison->alignment->tree->contexts[context].parent);
}

char *compare_path(const struct comparison *comparison, uint32_t context, const char *between)
{
    const struct compare_tree *tree = comparison->alignment->tree;
    uint32_t names[PATH_NAMES];
    unsigned count = 0;
    uint32_t at = context;
    for (; at != 0 && count < PATH_NAMES; at = tree->contexts[at].parent)
        names[count++] = at;
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = memory_checked(open_memstream(&text, &bytes));
    if (at != 0)
        fprintf(out, "...%s", between);
    while (count-- > 0)
        fprintf(out, "%s%s", compare_name(comparison, names[count]), count ? between : "");
    fclose(out);
    return memory_checked(text);
}

char *compare_few(const struct comparison *comparison, enum compare_side side)
{
    const struct profile *profile = comparison->analysis[side]->profile;
    uint64_t samples = 0;
    for (unsigned i = 0; i < profile->tree_count; i++)
        samples += profile->trees[i].stats.samples;
    return sample_warning(&profile->metrics[comparison->alignment->metric[side]], samples);
}

static void put(struct text_table *table, const char *what, enum text_tone tone, const char *number,
                const char *format, ...) __attribute__((format(printf, 5, 6)));

static void put(struct text_table *table, const char *what, enum text_tone tone, const char *number,
                const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    text_table_cell(table, TEXT_PLAIN, what);
    text_table_cell(table, tone, number);
    text_table_format(table, TEXT_DIM, format, arguments);
    va_end(arguments);
}

// Shares near 0 and near 1 are what one looks at: both keep their digits.
static struct text_number share(double share)
{
    struct text_number number;
    double percent = share * 100;
    if (percent < 100 && percent > 99.95)
        percent = floor(percent * 1000) / 1000;
    snprintf(number.text, sizeof number.text,
             percent < 100 && percent > 99.9 ? "%.3f %%" : "%.1f %%", percent);
    return number;
}

static struct text_number percent(double value)
{
    struct text_number number;
    snprintf(number.text, sizeof number.text, value > 1e-6 && value < 0.1 ? "%.2g %%" : "%.1f %%",
             value);
    return number;
}

static struct text_number correlation(double value)
{
    struct text_number number;
    if (isnan(value))
        snprintf(number.text, sizeof number.text, "-");
    else
        snprintf(number.text, sizeof number.text, "%.4f", value);
    return number;
}

static void print_sides(FILE *out, const struct text_style *style,
                        const struct comparison *comparison)
{
    const struct compare_result *result = comparison->result;
    for (unsigned side = 0; side < 2; side++) {
        const struct profile *profile = comparison->analysis[side]->profile;
        const struct profile_metric *metric =
            &profile->metrics[comparison->alignment->metric[side]];
        char *command = analysis_command(profile->command);
        char *cut = text_cut(command, 40, style);
        fprintf(out, "%s ", side == EXACT ? "exact: " : "approx:");
        text_put(out, style, TEXT_BOLD, comparison->path[side]);
        fprintf(out, " (%s, tracker %s): ", cut,
                profile->tracker ? text_safe(profile->tracker) : "?");
        if (profile_counts_calls(metric))
            fprintf(out, "%s %s", text_count(result->total[side]).text, text_safe(metric->name));
        else
            fprintf(out, "%s of %s", text_amount(result->total[side], metric->unit).text,
                    text_safe(metric->name));
        fprintf(out, " in %s context%s", text_count(result->contexts[side]).text,
                text_plural(result->contexts[side]));
        if (side == APPROX && fabs(result->scale - 1) > 0.0005)
            fprintf(out, ", taken times %.4g", result->scale);
        fputc('\n', out);
        free(command);
        free(cut);
    }
}

static void print_ground(FILE *out, const struct comparison *comparison)
{
    const struct alignment *alignment = comparison->alignment;
    static const char *const sides[] = {"the exact tree", "the approximation"};
    if (alignment->modules.by_names > 0)
        fprintf(out,
                "%u module%s of different builds: there, contexts are lined up by function and "
                "line.\n",
                alignment->modules.by_names, alignment->modules.by_names == 1 ? " is" : "s are");
    for (unsigned side = 0; side < 2; side++) {
        uint64_t outside = comparison->result->outside[side];
        const struct profile_metric *metric =
            &comparison->analysis[side]->profile->metrics[alignment->metric[side]];
        if (alignment->left_out[side] > 0)
            fprintf(out,
                    "%s frame%s of functions whose calls were not followed, as those of "
                    "libraries, left out of %s.\n",
                    text_count(alignment->left_out[side]).text,
                    text_plural(alignment->left_out[side]), sides[side]);
        if (outside > 0)
            fprintf(out, "%s of %s lies outside of all functions compared, and does not count.\n",
                    text_amount(outside, metric->unit).text, sides[side]);
        char *few = compare_few(comparison, side);
        if (few)
            fprintf(out, "Of %s there are %s.\n", sides[side], few);
        free(few);
    }
}

static void print_pruned(FILE *out, const struct comparison *comparison)
{
    if (comparison->pruned > 0)
        fprintf(out,
                "%s context%s that a report does not show left out of the approximation "
                "(--monitored compares all).\n",
                text_count(comparison->pruned).text, text_plural(comparison->pruned));
}

static void print_measures(FILE *out, const struct text_style *style,
                           const struct comparison *comparison)
{
    static const enum text_align align[] = {TEXT_LEFT, TEXT_RIGHT, TEXT_FLEX};
    const struct compare_result *result = comparison->result;
    const struct compare_options *options = comparison->options;
    struct text_table *table = text_table_new(3, align, NULL);
    put(table, "degree of overlap", TEXT_BOLD, share(result->overlap).text,
        "of the exact weight is in contexts that the approximation has (%s of %s)",
        text_count(result->common).text, text_count(result->contexts[EXACT]).text);
    put(table, "  by weight", TEXT_PLAIN, share(result->weighted_overlap).text,
        "of the weight is in the same contexts in both");
    for (unsigned t = 0; t < options->threshold_count; t++)
        put(table, t ? "" : "hot edge coverage", TEXT_PLAIN, share(result->coverage[t]).text,
            "of edges at least %s times as hot as the hottest: %s of %s", comparison->thresholds[t],
            text_count(result->covered[t]).text, text_count(result->hot_edges[t]).text);
    put(table, "uncovered", TEXT_PLAIN, percent(result->uncovered_max).text,
        "of the hottest edge: the weight of the hottest of %s missing ones",
        text_count(result->uncovered).text);
    put(table, "", TEXT_PLAIN, percent(result->uncovered_avg).text, "on average");
    put(table, "false positives", TEXT_PLAIN, text_count(result->false_positives).text,
        "contexts that are hot (%.3g of all weight) in the approximation only (%s are)",
        options->phi, text_count(result->hot[EXACT]).text);
    put(table, "false negatives", TEXT_PLAIN, text_count(result->false_negatives).text,
        "hot contexts that are not hot in the approximation");
    put(table, "counter error", TEXT_PLAIN, percent(result->error.avg).text,
        "on average, in the weight of %s hot context%s", text_count(result->error.contexts).text,
        text_plural(result->error.contexts));
    put(table, "", TEXT_PLAIN, percent(result->error.max).text, "at most");
    if (result->false_error.contexts)
        put(table, "", TEXT_PLAIN, percent(result->false_error.avg).text,
            "on average, in that of %s that %s hot in the approximation only",
            text_count(result->false_error.contexts).text,
            result->false_error.contexts == 1 ? "is" : "are");
    put(table, "correlation", TEXT_BOLD, correlation(result->pearson).text,
        "of the weights of the %u hottest edges (Pearson), 1 is best", result->top_count);
    put(table, "", TEXT_PLAIN, correlation(result->spearman).text, "of their ranks (Spearman)");
    put(table, "distortion", TEXT_PLAIN, percent(result->distortion).text,
        "differences of all functions' shares added up, 0 to 200 %%");
    text_table_print(table, out, style);
    text_table_free(table);
}

static struct text_number of_hottest(const struct comparison *comparison, uint32_t number,
                                     enum compare_side side)
{
    const struct compare_context *context = &comparison->alignment->tree->contexts[number];
    if (!context->has[side])
        return (struct text_number){"missing"};
    return text_percent((double)context->weight[side], (double)comparison->result->hottest[side]);
}

static void print_edges(FILE *out, const struct text_style *style,
                        const struct comparison *comparison)
{
    static const enum text_align align[] = {TEXT_RIGHT, TEXT_RIGHT, TEXT_RIGHT,
                                            TEXT_RIGHT, TEXT_FLEX,  TEXT_LEFT};
    static const char *const head[] = {"exact", "", "approx", "", "edge", "called at"};
    const struct compare_result *result = comparison->result;
    const struct alignment *alignment = comparison->alignment;
    struct text_table *table = text_table_new(6, align, head);
    for (unsigned i = 0; i < result->top_count && i < EDGES_SHOWN; i++) {
        const struct compare_context *context = &alignment->tree->contexts[result->top[i]];
        for (unsigned side = 0; side < 2; side++) {
            const struct profile *profile = comparison->analysis[side]->profile;
            const char *unit = profile->metrics[alignment->metric[side]].unit;
            bool has = context->has[side];
            text_table_cell(table, has ? TEXT_PLAIN : TEXT_HOT,
                            of_hottest(comparison, result->top[i], (enum compare_side)side).text);
            text_table_cell(table, TEXT_DIM,
                            has ? text_amount(context->weight[side], unit).text : "");
        }
        char *caller =
            name_in_columns(compare_caller(comparison, result->top[i]), NAME_COLUMNS, style);
        char *name = name_in_columns(compare_name(comparison, result->top[i]), NAME_COLUMNS, style);
        char *edge = NULL;
        if (asprintf(&edge, "%s %s %s", caller, style->unicode ? "→" : ">", name) < 0)
            memory_checked(NULL);
        const char *where = alignment->sites[context->site].where;
        text_table_cell(table, TEXT_PLAIN, edge);
        text_table_cell(table, TEXT_DIM, where ? where : "");
        free(caller);
        free(name);
        free(edge);
    }
    fputs("\nThe hottest edges of the exact tree, as per cent of the hottest one in each:\n\n",
          out);
    text_table_print(table, out, style);
    text_table_free(table);
    if (result->top_count > EDGES_SHOWN)
        fprintf(out, "The next %u are in --json and --svg.\n", result->top_count - EDGES_SHOWN);
}

static void print_functions(FILE *out, const struct text_style *style,
                            const struct comparison *comparison)
{
    static const enum text_align align[] = {TEXT_RIGHT, TEXT_RIGHT, TEXT_FLEX};
    static const char *const head[] = {"exact", "approx", "function"};
    const struct compare_result *result = comparison->result;
    if (result->distortion < 0.05)
        return;
    struct text_table *table = text_table_new(3, align, head);
    for (size_t i = 0; i < result->function_count && i < FUNCTIONS_SHOWN; i++) {
        const struct compare_share *shares = &result->functions[i];
        text_table_cell(table, TEXT_PLAIN, percent(shares->percent[EXACT]).text);
        text_table_cell(table, TEXT_PLAIN, percent(shares->percent[APPROX]).text);
        text_table_cell(table, TEXT_PLAIN,
                        comparison->alignment->tree->functions[shares->function].name);
    }
    fputs("\nThe most distorted functions, by their share of all weight:\n\n", out);
    text_table_print(table, out, style);
    text_table_free(table);
}

void compare_print(FILE *out, const struct text_style *style, const struct comparison *comparison)
{
    print_sides(out, style, comparison);
    print_ground(out, comparison);
    print_pruned(out, comparison);
    fputc('\n', out);
    print_measures(out, style, comparison);
    print_edges(out, style, comparison);
    print_functions(out, style, comparison);
}
