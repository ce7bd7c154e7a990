// SPDX-License-Identifier: MIT

#include "analyze/diff/diff_show.h"
#include "base/memory.h"
#include <math.h>

// Whole numbers stay whole, however large.
static void put_number(struct json *json, const char *key, double value)
{
    char text[32];
    json_key(json, key);
    if (!isfinite(value))
        json_null(json);
    else
        json_put_members(
            json, text,
            (size_t)snprintf(text, sizeof text,
                             value == rint(value) && fabs(value) < 0x1p63 ? "%.0f" : "%.10g",
                             value));
}

static void put_unless(struct json *json, const char *key, double value, bool unknown)
{
    put_number(json, key, unknown ? NAN : value);
}

// Normalised, a cost is a share of the whole.
static double share(const struct diff_shown *shown, double value)
{
    const double whole = shown->rows->total[DIFF_OLD];
    return shown->diff->normalized && whole > 0 ? value / whole : value;
}

static void put_path(struct json *json, const struct diff *diff, uint32_t node)
{
    const struct calltree *tree = diff->tree;
    size_t count = 0;
    for (uint32_t at = node; at != 0; at = tree->nodes[at].parent)
        count++;
    uint32_t *path = memory_array(count, sizeof *path);
    for (uint32_t at = node, i = (uint32_t)count; at != 0; at = tree->nodes[at].parent)
        path[--i] = at;
    json_key(json, "path");
    json_array(json);
    for (size_t i = 0; i < count; i++)
        json_string(json, calltree_function(tree, path[i])->name);
    json_end_array(json);
    free(path);
}

void diff_row_json(struct json *json, const struct diff_shown *shown, const struct diff_row *row)
{
    static const char *const presences[] = {"both", "new", "gone"};
    const struct diff *diff = shown->diff;
    const struct function *function = calltree_function(diff->tree, row->node);
    if (shown->rows->by == DIFF_BY_CONTEXT)
        put_path(json, diff, row->node);
    json_put_string(json, "function", function->name);
    json_put_string(json, "module", functions_module_name(diff->functions, function->module));
    put_number(json, "old", share(shown, row->cost[DIFF_OLD]));
    put_number(json, "new", share(shown, row->cost[DIFF_NEW]));
    put_number(json, "delta", share(shown, diff_row_change(row)));
    const bool split = shown->rows->has_calls;
    put_unless(json, "delta_calls", share(shown, row->by_calls), !split);
    put_unless(json, "delta_per_call", share(shown, row->by_price), !split);
    put_unless(json, "old_calls", row->calls[DIFF_OLD], diff->calls == DIFF_NONE);
    put_unless(json, "new_calls", row->calls[DIFF_NEW], diff->calls == DIFF_NONE);
    json_put_bool(json, "significant", row->significant);
    json_put_string(json, "presence", presences[row->presence]);
    json_put_unsigned(json, "contexts", row->contexts);
}

static bool is_about_names(const struct analysis *analysis, const char *note)
{
    const struct profile *profile = analysis->profile;
    for (unsigned i = MODULE_FIRST_FILE; i < profile->module_count; i++) {
        const char *path = profile->modules[i].path;
        if (path && *path && symbols_quality(analysis->symbols, i) == SYMBOLS_NONE &&
            strstr(note, path))
            return true;
    }
    return false;
}

const char *diff_problem(const struct diff *diff, unsigned run, unsigned *at)
{
    const struct analysis *analysis = diff->runs[run].analysis;
    const char *note;
    while ((note = analysis_note(analysis, analysis->profile->note_count + (*at)++)))
        if (is_about_names(analysis, note))
            return note;
    return NULL;
}

void diff_problems_json(struct json *json, const struct diff *diff)
{
    const char *problem;
    json_key(json, "notes");
    json_array(json);
    for (unsigned r = 0; r < diff->run_count; r++)
        for (unsigned at = 0; (problem = diff_problem(diff, r, &at));)
            json_string(json, problem);
    json_end_array(json);
}

static void put_sides(struct json *json, const struct diff *diff)
{
    static const char *const keys[] = {"old", "new"};
    for (enum diff_side side = DIFF_OLD; side < DIFF_SIDES; side++) {
        json_key(json, keys[side]);
        json_array(json);
        for (unsigned r = 0; r < diff->run_count; r++)
            if (diff->runs[r].side == side)
                json_string(json, diff->runs[r].path);
        json_end_array(json);
    }
}

void diff_print_json(FILE *out, const struct diff_shown *shown)
{
    const struct diff *diff = shown->diff;
    const struct diff_rows *rows = shown->rows;
    struct json json;
    json_start(&json, out);
    json_object(&json);
    put_sides(&json, diff);
    json_put_string(&json, "metric", diff->metrics[diff->metric].name);
    json_put_string(&json, "unit", diff->metrics[diff->metric].unit);
    json_put_bool(&json, "exact", diff->metrics[diff->metric].exact);
    json_put_bool(&json, "normalized", diff->normalized);
    json_put_string(&json, "by", rows->by == DIFF_BY_CONTEXT ? "context" : "function");
    put_number(&json, "old_total", share(shown, rows->total[DIFF_OLD]));
    put_number(&json, "new_total", share(shown, rows->total[DIFF_NEW]));
    json_put_bool(&json, "total_significant", rows->total_significant);
    json_put_real(&json, "confidence", shown->confidence);
    json_put_unsigned(&json, "rows_judged", rows->tests);
    json_put_real(&json, "spread", rows->spread);
    diff_problems_json(&json, diff);
    json_key(&json, "rows");
    json_spread_array(&json);
    for (size_t i = 0; i < rows->count; i++) {
        json_object(&json);
        diff_row_json(&json, shown, &rows->rows[i]);
        json_end_object(&json);
    }
    json_end_array(&json);
    json_end_object(&json);
    json_finish(&json);
}
