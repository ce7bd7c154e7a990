// SPDX-License-Identifier: MIT

#include "analyze/annotate/annotate.h"
#include "analyze/names/short_name.h"
#include "analyze/tree/pattern.h"
#include "analyze/views/flat.h"
#include "base/memory.h"

enum { OTHERS_NAMED = 3 };

// Choosing the function

enum likeness { LIKE_NOTHING, LIKE_PATTERN, LIKE_BARE_NAME, LIKE_NAME };

static enum likeness likeness_of(const struct functions *functions, uint32_t function,
                                 const char *name, struct pattern *pattern)
{
    const char *full = functions_get(functions, function)->name;
    if (strcmp(full, name) == 0)
        return LIKE_NAME;
    char *bare = short_name(full, NAME_WITHOUT_PARAMETERS, false);
    const bool same = strcmp(bare, name) == 0;
    free(bare);
    return same                                                       ? LIKE_BARE_NAME
           : pattern && pattern_matches(pattern, functions, function) ? LIKE_PATTERN
                                                                      : LIKE_NOTHING;
}

// Those that match best, the most costly of which is meant; the others are told.
static int choose_function(struct annotated *annotated, const struct flat *flat,
                           const struct functions *functions, const char *name, char **error)
{
    char *unused = NULL;
    struct pattern *pattern = pattern_new(name, &unused);
    free(unused);
    enum likeness *likeness = memory_array(flat->count, sizeof *likeness), best = LIKE_NOTHING;
    for (size_t i = 0; i < flat->count; i++) {
        likeness[i] = likeness_of(functions, flat->rows[i].function, name, pattern);
        best = likeness[i] > best ? likeness[i] : best;
    }
    char *others = NULL;
    size_t bytes = 0, met = 0;
    FILE *out = memory_checked(open_memstream(&others, &bytes));
    for (size_t i = 0; i < flat->count && best != LIKE_NOTHING; i++) {
        const uint32_t number = flat->order[i];
        const struct function *function = functions_get(functions, flat->rows[number].function);
        if (likeness[number] != best)
            continue;
        const char *module = functions_module_name(functions, function->module);
        if (met == 0)
            annotated->function = flat->rows[number].function;
        else if (met <= OTHERS_NAMED)
            fprintf(out, "%s%s%s%s%s", met > 1 ? ", " : "", function->name, module ? " (" : "",
                    module ? module : "", module ? ")" : "");
        met++;
    }
    if (met > OTHERS_NAMED + 1)
        fprintf(out, " and %zu more", met - OTHERS_NAMED - 1);
    fclose(out);
    memory_checked(others);
    annotated->others = *others ? others : NULL;
    free(*others ? NULL : others);
    free(likeness);
    pattern_free(pattern);
    if (met > 0)
        return 0;
    if (asprintf(error,
                 "no function that was recorded matches '%s': 'cairn report --view flat --min 0' "
                 "lists all",
                 name) < 0)
        memory_checked(NULL);
    return -1;
}

// Lines

static int compare_lines(const void *left, const void *right)
{
    const struct annotated_line *a = left, *b = right;
    if (a->file != b->file)
        return a->file < b->file ? -1 : 1;
    return a->line < b->line ? -1 : a->line > b->line;
}

static void collect_lines(struct annotated *annotated, const struct calltree *tree)
{
    struct flat *flat = flat_new(tree, FLAT_LINE);
    size_t capacity = 0;
    for (size_t i = 0; i < flat->count; i++) {
        const struct flat_row *row = &flat->rows[i];
        const size_t value = i * flat->metrics + annotated->metric;
        if (row->function != annotated->function || flat->total[value] == 0)
            continue;
        annotated->lines = memory_grown(annotated->lines, &capacity, annotated->line_count + 1,
                                        sizeof *annotated->lines);
        annotated->lines[annotated->line_count++] =
            (struct annotated_line){.file = row->file,
                                    .line = row->line == LINE_SEVERAL ? 0 : row->line,
                                    .self = flat->self[value],
                                    .total = flat->total[value]};
    }
    flat_free(flat);
    if (annotated->line_count > 0)
        qsort(annotated->lines, annotated->line_count, sizeof *annotated->lines, compare_lines);
}

// Machine code

static struct annotated_code *code_at(struct annotated *annotated, uint32_t process, place_t begin)
{
    for (size_t i = 0; i < annotated->code_count; i++) {
        struct annotated_code *code = &annotated->code[i];
        if (code->module == place_module(begin) && code->begin == place_offset(begin))
            return code;
    }
    annotated->code = memory_grown(annotated->code, &annotated->code_capacity,
                                   annotated->code_count + 1, sizeof *annotated->code);
    annotated->code[annotated->code_count] = (struct annotated_code){
        .module = place_module(begin), .process = process, .begin = place_offset(begin)};
    return &annotated->code[annotated->code_count++];
}

// The code of the function that holds a place; NULL: another function does.
static struct annotated_code *code_of(struct annotated *annotated,
                                      const struct functions *functions, uint32_t process,
                                      place_t place)
{
    const struct spot *spot = functions_look_up(functions, process, place);
    if (!spot || spot->begin == 0)
        return NULL;
    const struct located *real = functions_located(functions, spot) + spot->count - 1;
    return real->function == annotated->function ? code_at(annotated, process, spot->begin) : NULL;
}

static void add_place(struct annotated_code *code, uint64_t offset, uint64_t self, uint64_t total)
{
    code->places =
        memory_grown(code->places, &code->capacity, code->count + 1, sizeof *code->places);
    code->places[code->count++] = (struct annotated_place){offset, self, total};
}

// Whether the same call is made further up on the path already: its total has this one's.
static bool recurs(const struct profile_tree *tree, uint32_t node)
{
    const place_t site = tree->nodes[node].site;
    for (uint32_t at = tree->nodes[node].parent; tree->nodes[at].parent < at;
         at = tree->nodes[at].parent)
        if (tree->nodes[at].site == site)
            return true;
    return false;
}

static void collect_tree(struct annotated *annotated, const struct analysis *analysis,
                         const struct profile_tree *tree)
{
    const unsigned metrics = analysis->profile->metric_count;
    uint64_t *totals = memory_array(tree->count, sizeof *totals);
    const bool cost = profile_is_cost(&analysis->profile->metrics[annotated->metric]);
    for (uint32_t i = tree->count; i-- > 0;) {
        const struct profile_node *node = &tree->nodes[i];
        const uint64_t value = tree->values[(size_t)i * metrics + annotated->metric];
        // A frame has returns in the place of a cost.
        const bool counts = cost ? node->function == 0 : true;
        totals[i] += counts && node->parent < i ? value : 0;
        if (node->parent >= i || totals[i] == 0)
            continue;
        totals[node->parent] += totals[i];
        const bool call = node->function != 0;
        if (!place_is_known(node->site) || (call && place_offset(node->site) == 0))
            continue;
        const place_t place = call ? node->site - 1 : node->site;
        struct annotated_code *code = code_of(annotated, analysis->functions, tree->process, place);
        if (code && (!call || !recurs(tree, i)))
            add_place(code, place_offset(place), call ? 0 : totals[i], totals[i]);
    }
    free(totals);
}

static int compare_places(const void *left, const void *right)
{
    const struct annotated_place *a = left, *b = right;
    return a->offset < b->offset ? -1 : a->offset > b->offset;
}

static int compare_code(const void *left, const void *right)
{
    const struct annotated_code *a = left, *b = right;
    return a->total < b->total ? 1 : a->total > b->total ? -1 : 0;
}

static void collect_code(struct annotated *annotated, const struct analysis *analysis)
{
    const struct profile *profile = analysis->profile;
    for (unsigned t = 0; t < profile->tree_count; t++)
        collect_tree(annotated, analysis, &profile->trees[t]);
    for (size_t i = 0; i < annotated->code_count; i++) {
        struct annotated_code *code = &annotated->code[i];
        if (code->count > 0)
            qsort(code->places, code->count, sizeof *code->places, compare_places);
        for (size_t p = 0; p < code->count; p++) {
            code->self += code->places[p].self;
            code->total += code->places[p].total;
        }
    }
    if (annotated->code_count > 0)
        qsort(annotated->code, annotated->code_count, sizeof *annotated->code, compare_code);
}

static void sum_function(struct annotated *annotated, const struct flat *flat,
                         const struct profile *profile)
{
    for (size_t i = 0; i < flat->count; i++) {
        if (flat->rows[i].function != annotated->function)
            continue;
        const uint64_t *self = flat->self + i * flat->metrics;
        annotated->self += self[annotated->metric];
        annotated->total += flat->total[i * flat->metrics + annotated->metric];
        for (unsigned m = 0; m < profile->metric_count; m++)
            if (profile_counts_calls(&profile->metrics[m]) && !annotated->has_calls) {
                annotated->has_calls = true;
                annotated->calls = self[m];
            }
    }
}

static bool has_no_lines(const struct annotated *annotated)
{
    for (size_t i = 0; i < annotated->line_count; i++)
        if (annotated->lines[i].file)
            return false;
    return annotated->line_count > 0;
}

int annotate(struct annotated *annotated, struct analysis *analysis,
             const struct annotate_options *options, char **error)
{
    *annotated = (struct annotated){0};
    const int metric = analysis_metric(analysis, options->metric, error);
    if (metric < 0)
        return -1;
    annotated->metric = (unsigned)metric;
    const struct build_options build = {.sites = true, .lines = true};
    analysis_resolve(analysis, &build);
    struct calltree *tree = build_calltree(analysis->functions, analysis->profile, &build);
    calltree_order(tree, annotated->metric, ORDER_TOTAL);
    annotated->whole = calltree_total(tree, 0, annotated->metric);
    struct flat *flat = flat_new(tree, FLAT_FUNCTION);
    flat_order(flat, analysis->functions, annotated->metric, ORDER_TOTAL);
    const int status =
        choose_function(annotated, flat, analysis->functions, options->function, error);
    if (status == 0) {
        sum_function(annotated, flat, analysis->profile);
        collect_lines(annotated, tree);
        annotated->without_lines = has_no_lines(annotated);
        if (options->code || annotated->without_lines)
            collect_code(annotated, analysis);
    }
    flat_free(flat);
    calltree_free(tree);
    if (status < 0)
        annotated_free(annotated);
    return status;
}

void annotated_free(struct annotated *annotated)
{
    for (size_t i = 0; i < annotated->code_count; i++)
        free(annotated->code[i].places);
    free(annotated->code);
    free(annotated->lines);
    free(annotated->others);
    *annotated = (struct annotated){0};
}
