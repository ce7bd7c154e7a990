// SPDX-License-Identifier: MIT

#include "analyze/diff/gate.h"
#include "analyze/names/short_name.h"
#include "base/memory.h"
#include <fnmatch.h>
#include <math.h>

static char *trimmed(char *text)
{
    text += strspn(text, " \t");
    for (size_t end = strlen(text); end > 0 && strchr(" \t", text[end - 1]); end--)
        text[end - 1] = '\0';
    return text;
}

static int no_limit(const char *text, char **error)
{
    if (asprintf(error,
                 "'%s' is not a limit: give a path and a number, as 'main;parse: 0 allocs' or "
                 "'parse;*: 100 calls'",
                 text) < 0)
        memory_checked(NULL);
    return -1;
}

int gate_limit_parse(struct gate_limit *limit, const char *text, char **error)
{
    *limit = (struct gate_limit){.text = memory_text(text)};
    char *colon = strrchr(limit->text, ':'), *end = NULL;
    if (!colon) {
        gate_limit_free(limit);
        return no_limit(text, error);
    }
    *colon = '\0';
    char *number = trimmed(colon + 1);
    limit->most = strtod(number, &end);
    const char *unit = trimmed(end);
    if (end == number || !(limit->most >= 0) || !isfinite(limit->most) || !*unit) {
        gate_limit_free(limit);
        return no_limit(text, error);
    }
    limit->metric = memory_text(strcmp(unit, "bytes") == 0 ? "alloc" : unit);
    size_t most = 2;
    for (const char *at = limit->text; *at; at++)
        most += *at == ';';
    limit->names = memory_array(most, sizeof *limit->names);
    for (char *rest = limit->text, *name; (name = strsep(&rest, ";"));) {
        limit->names[limit->count] = trimmed(name);
        if (!*limit->names[limit->count++]) {
            gate_limit_free(limit);
            return no_limit(text, error);
        }
    }
    return 0;
}

void gate_limit_free(struct gate_limit *limit)
{
    free(limit->text);
    free(limit->names);
    free(limit->metric);
    *limit = (struct gate_limit){0};
}

unsigned gate_limit_metric(const struct diff *diff, const struct gate_limit *limit)
{
    for (unsigned i = 0; i < diff->compared; i++)
        if (strcmp(diff->metrics[i].name, limit->metric) == 0)
            return i;
    return DIFF_NONE;
}

// By its name, with parameters or without, or a pattern of it.
static bool is_named(const char *name, const char *pattern)
{
    if (strcmp(name, pattern) == 0 || fnmatch(pattern, name, 0) == 0)
        return true;
    char *bare = short_name(name, NAME_WITHOUT_PARAMETERS, false);
    const bool same = strcmp(bare, pattern) == 0 || fnmatch(pattern, bare, 0) == 0;
    free(bare);
    return same;
}

// Which functions a limit's names stand for: a bit for each name.
static uint64_t *find_names(const struct diff *diff, const struct gate_limit *limit)
{
    const uint32_t functions = functions_count(diff->functions);
    uint64_t *matches = memory_array(functions, sizeof *matches);
    for (uint32_t f = 0; f < functions; f++)
        for (unsigned n = 0; n < limit->count && n < 64; n++)
            if (is_named(functions_get(diff->functions, f)->name, limit->names[n]))
                matches[f] |= UINT64_C(1) << n;
    return matches;
}

double gate_limit_value(const struct diff *diff, const struct gate_limit *limit, unsigned metric)
{
    const struct calltree *tree = diff->tree;
    const bool calls = strcmp(diff->metrics[metric].unit, PROFILE_CALLS) == 0;
    uint64_t *matches = find_names(diff, limit);
    unsigned *met = memory_array(tree->count, sizeof *met); // names that were met on the path
    double sum = 0;
    for (uint32_t i = 1; i < tree->count; i++) {
        const uint64_t match = matches[tree->nodes[i].function];
        const unsigned above = met[tree->nodes[i].parent];
        const bool next = above < limit->count && above < 64 && (match >> above & 1);
        met[i] = above + next;
        // The function that completes the path, or recurs as its last one.
        const bool last =
            limit->count - 1 < 64 && (match >> (limit->count - 1) & 1) && met[i] == limit->count;
        if (calls ? last : met[i] == limit->count)
            sum += diff_self(diff, i, DIFF_NEW, metric);
    }
    free(met);
    free(matches);
    return sum;
}

const char *gate_limit_unknown(const struct diff *diff, const struct gate_limit *limit)
{
    const uint32_t functions = functions_count(diff->functions);
    uint64_t *matches = find_names(diff, limit), all = 0;
    for (uint32_t f = 0; f < functions; f++)
        all |= matches[f];
    free(matches);
    for (unsigned n = 0; n < limit->count && n < 64; n++)
        if (!(all >> n & 1))
            return limit->names[n];
    return NULL;
}

bool gate_judges(const struct diff *diff, unsigned metric)
{
    static const char *const left_out[] = {"freed", "frees",       "live",   "live-blocks",
                                           "peak",  "peak-blocks", "mapped", "unmapped"};
    for (unsigned i = 0; i < sizeof left_out / sizeof *left_out; i++)
        if (strcmp(diff->metrics[metric].name, left_out[i]) == 0)
            return false;
    return true;
}

bool gate_exceeds(const struct diff_row *row, double percent)
{
    const double change = diff_row_change(row);
    return row->significant && change > 0 && change > percent / 100 * row->cost[DIFF_OLD];
}
