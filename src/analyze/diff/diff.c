// SPDX-License-Identifier: MIT

#include "analyze/diff/diff.h"
#include "analyze/compare/module_match.h"
#include "analyze/names/short_name.h"
#include "analyze/tree/refine.h"
#include "base/memory.h"
#include "base/text/text.h"
#include "profile/queries/kind.h"
#include "profile/queries/sampling_error.h"
#include "profile/queries/totals.h"

#define MOST_LATE 1.25 // mean cost of a sample, in periods: beyond that, it is the true period

// One run on its way into the common tree.
struct entering {
    struct diff *diff;
    struct diff_run *run;
    unsigned number;         // of the run
    const unsigned *modules; // by module of its profile: the common one
    const bool *rebuilt;     // by common module: builds differ
    uint32_t *functions;     // by its functions: the common one, + 1
};

static bool has_metric(const struct profile *profile, const struct profile_metric *metric,
                       unsigned *found)
{
    for (unsigned i = 0; i < profile->metric_count; i++) {
        const struct profile_metric *other = &profile->metrics[i];
        if (strcmp(other->name, metric->name) == 0 && strcmp(other->unit, metric->unit) == 0) {
            *found = i;
            return true;
        }
    }
    return false;
}

static bool all_have(const struct diff *diff, const struct profile_metric *metric)
{
    unsigned found;
    for (unsigned r = 0; r < diff->run_count; r++)
        if (!has_metric(diff->runs[r].analysis->profile, metric, &found))
            return false;
    return true;
}

// Without a period, it was sampled in a way that is not told: by another tool, or by several
// recordings with periods of their own. Of the formats that are imported, one has exact counts.
static bool is_exact(const struct profile_metric *metric)
{
    return profile_is_counted(metric) &&
           (metric->period == 1 || (metric->source && strcmp(metric->source, "callgrind") == 0));
}

static bool is_comparable(const struct diff *diff, const struct profile_metric *metric)
{
    return !profile_is_error(metric) && !profile_is_edge(metric) && all_have(diff, metric);
}

// Metrics that all have, then the errors that any has of these.
static void choose_metrics(struct diff *diff)
{
    const struct profile *first = diff->runs[0].analysis->profile;
    const size_t most = 2 * first->metric_count;
    diff->metrics = memory_array(most, sizeof *diff->metrics);
    for (unsigned r = 0; r < diff->run_count; r++) {
        struct diff_run *run = &diff->runs[r];
        run->from = memory_array(most, sizeof *run->from);
        run->scale = memory_array(most, sizeof *run->scale);
        run->sample = memory_array(most, sizeof *run->sample);
        run->late = memory_array(most, sizeof *run->late);
    }
    for (unsigned i = 0; i < first->metric_count; i++) {
        const struct profile_metric *metric = &first->metrics[i];
        if (!is_comparable(diff, metric))
            continue;
        const unsigned number = diff->compared++;
        diff->metrics[number] = (struct diff_metric){
            .name = metric->name, .unit = metric->unit, .exact = true, .error = DIFF_NONE};
        for (unsigned r = 0; r < diff->run_count; r++) {
            const struct profile *profile = diff->runs[r].analysis->profile;
            has_metric(profile, metric, &diff->runs[r].from[number]);
            diff->metrics[number].exact &= is_exact(&profile->metrics[diff->runs[r].from[number]]);
        }
    }
    diff->metric_count = diff->compared;
    for (unsigned i = 0; i < diff->compared; i++) {
        bool any = false;
        for (unsigned r = 0; r < diff->run_count; r++) {
            const struct profile *profile = diff->runs[r].analysis->profile;
            const unsigned error = profile_error_of(profile, diff->runs[r].from[i]);
            diff->runs[r].from[diff->metric_count] =
                error < profile->metric_count ? error : DIFF_NONE;
            any |= error < profile->metric_count;
        }
        if (any) {
            diff->metrics[i].error = diff->metric_count;
            diff->metrics[diff->metric_count++] =
                (struct diff_metric){.name = "error", .unit = PROFILE_ERROR, .error = DIFF_NONE};
        }
    }
}

static int no_common_metric(const struct diff *diff, char **error)
{
    char *one = analysis_list_metrics(diff->runs[0].analysis), *other = NULL;
    const char *path = NULL;
    for (unsigned r = diff->run_count; r-- > 1;) {
        free(other);
        other = analysis_list_metrics(diff->runs[r].analysis);
        path = diff->runs[r].path;
    }
    if (asprintf(error, "these profiles have no metric in common: %s has %s, and %s has %s",
                 diff->runs[0].path, one, path, other) < 0)
        memory_checked(NULL);
    free(one);
    free(other);
    return -1;
}

static int find_metric(struct diff *diff, const char *name, char **error)
{
    if (diff->compared == 0)
        return no_common_metric(diff, error);
    // Beside calls, what these cost comes first.
    for (unsigned i = 0; i < diff->compared; i++)
        if (name ? strcmp(diff->metrics[i].name, name) == 0
                 : strcmp(diff->metrics[i].unit, PROFILE_CALLS) != 0) {
            diff->metric = i;
            return 0;
        }
    if (!name)
        return 0;
    for (unsigned r = 0; r < diff->run_count; r++)
        if (analysis_metric(diff->runs[r].analysis, name, error) < 0)
            return -1;
    if (asprintf(error, "the metric '%s' is not the same in all of these profiles", name) < 0)
        memory_checked(NULL);
    return -1;
}

static void find_calls(struct diff *diff)
{
    diff->calls = DIFF_NONE;
    for (unsigned i = diff->compared; i-- > 0;)
        if (strcmp(diff->metrics[i].unit, PROFILE_CALLS) == 0 && diff->metrics[i].exact &&
            diff->metrics[i].error == DIFF_NONE)
            diff->calls = i;
}

// Modules

static unsigned add_module(struct diff *diff, struct module_index *index,
                           const struct profile_module *module)
{
    const unsigned number = diff->modules->module_count++;
    struct profile_module *copy = &diff->modules->modules[number];
    *copy = *module;
    copy->path = module->path ? memory_text(module->path) : NULL;
    module_index_add(index, number);
    return number;
}

// The common numbers of a profile's modules.
static unsigned *map_modules(struct diff *diff, struct module_index *index,
                             const struct profile *profile, bool *rebuilt)
{
    unsigned *map = memory_array(profile->module_count + 1u, sizeof *map);
    for (unsigned i = 0; i < profile->module_count; i++) {
        const struct profile_module *module = &profile->modules[i];
        map[i] = i < MODULE_FIRST_FILE ? i : module_index_find(index, module);
        if (map[i] == 0 && i >= MODULE_FIRST_FILE)
            map[i] = add_module(diff, index, module);
        else if (i >= MODULE_FIRST_FILE &&
                 !module_same_build(module, &diff->modules->modules[map[i]]))
            rebuilt[map[i]] = true;
    }
    return map;
}

// Profiles of other tools may not say which files their functions are in.
static bool names_files(const struct profile *profile)
{
    for (unsigned i = MODULE_FIRST_FILE; i < profile->module_count; i++)
        if (profile->modules[i].path && *profile->modules[i].path)
            return true;
    return false;
}

static bool is_same_program(const struct profile *one, const struct profile *other)
{
    if (!names_files(one) && !names_files(other))
        return true;
    struct module_index index;
    module_index_start(&index, one);
    bool libraries = false, programs = false;
    for (unsigned i = MODULE_FIRST_FILE; i < other->module_count; i++) {
        const struct profile_module *module = &other->modules[i];
        const bool common = module_index_find(&index, module) != 0 &&
                            !(module->path && profile_is_agent(module->path));
        libraries |= common;
        programs |= common && module_is_program(module);
    }
    module_index_free(&index);
    if (module_count_programs(one) == 0 || module_count_programs(other) == 0)
        return libraries;
    return programs;
}

// Trees

static uint32_t common_function(struct entering *entering, uint32_t function)
{
    uint32_t *known = &entering->functions[function];
    if (*known)
        return *known - 1;
    const struct diff *diff = entering->diff;
    const struct function *named = functions_get(entering->run->analysis->functions, function);
    const bool placed = named->module != MODULE_NONE &&
                        named->module < entering->run->analysis->profile->module_count;
    const uint32_t module = placed ? entering->modules[named->module] : MODULE_NONE;
    const char *name = named->name;
    char unknown[256];
    // Its address says nothing in another build.
    if (placed && entering->rebuilt[module] && name_is_address(name)) {
        const char *file = functions_module_name(diff->functions, module);
        snprintf(unknown, sizeof unknown, "<unknown in %s>", file ? file : "no module");
        name = unknown;
    }
    *known = 1 + functions_intern(diff->functions, name, module);
    return *known - 1;
}

// Exceptions, as page faults, are the program's doing; interrupts are not.
static bool is_interrupt(const struct function *function)
{
    return function->kernel && (strncmp(function->name, "asm_sysvec_", 11) == 0 ||
                                strcmp(function->name, "asm_common_interrupt") == 0 ||
                                strcmp(function->name, "asm_exc_nmi") == 0);
}

// The common node of a node, of whose parent it is known.
static uint32_t enter_node(struct entering *entering, const struct calltree *from, uint32_t number,
                           const uint32_t *node_of)
{
    struct diff *diff = entering->diff;
    const struct call_node *node = &from->nodes[number];
    if (number == 0 || node_of[node->parent] == diff->interrupts)
        return number == 0 ? 0 : diff->interrupts;
    if (is_interrupt(calltree_function(from, number)))
        return diff->interrupts;
    return calltree_child(diff->tree, node_of[node->parent],
                          (struct call_edge){.function = common_function(entering, node->function),
                                             .kind = node->kind});
}

static void enter_tree(struct entering *entering, const struct calltree *from)
{
    struct diff *diff = entering->diff;
    uint32_t *node_of = memory_array(from->count, sizeof *node_of);
    uint64_t *values = memory_array(diff->tree->metrics, sizeof *values);
    for (uint32_t i = 0; i < from->count; i++) {
        node_of[i] = enter_node(entering, from, i, node_of);
        for (unsigned m = 0; m < diff->metric_count; m++) {
            const unsigned metric = entering->run->from[m];
            values[diff_column(diff, entering->number, m)] =
                metric == DIFF_NONE ? 0 : calltree_self(from, i, metric);
        }
        calltree_add(diff->tree, node_of[i], 0, 0, values);
    }
    free(values);
    free(node_of);
}

static void enter_run(struct diff *diff, unsigned number, const unsigned *modules,
                      const bool *rebuilt)
{
    struct diff_run *run = &diff->runs[number];
    const struct build_options options = {0};
    struct calltree *whole =
        build_calltree(run->analysis->functions, run->analysis->profile, &options);
    // How deep recursion goes is chance, and what a compiler has cut in two calls itself.
    struct calltree *tree = refine_recursion(whole);
    calltree_free(whole);
    struct entering entering = {
        .diff = diff,
        .run = run,
        .number = number,
        .modules = modules,
        .rebuilt = rebuilt,
        .functions = memory_array(functions_count(run->analysis->functions), sizeof(uint32_t)),
    };
    enter_tree(&entering, tree);
    free(entering.functions);
    calltree_free(tree);
}

// The cost of the start and the end of the program, which is measured rather than sampled.
static uint64_t unsampled_cost(const struct diff *diff, unsigned column)
{
    uint64_t cost = 0;
    for (uint32_t i = 1; i < diff->tree->count; i++) {
        const char *name = calltree_function(diff->tree, i)->name;
        if (strcmp(name, FUNCTION_STARTUP) == 0 || strcmp(name, FUNCTION_EXIT) == 0)
            cost += calltree_total(diff->tree, i, column);
    }
    return cost;
}

// The smallest cost of a context: likely, that of a single sample.
static double least_cost(const struct diff *diff, unsigned column)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < diff->tree->count; i++) {
        const uint64_t cost = calltree_self(diff->tree, i, column);
        least = cost > 0 && cost < least ? cost : least;
    }
    return least == UINT64_MAX ? 1 : (double)least;
}

// The cost that a sample stands for, and what late ones have beyond that. If most are late, the
// machine cannot keep to the period.
static void weigh_samples(struct diff *diff, unsigned number, unsigned m)
{
    struct diff_run *run = &diff->runs[number];
    const struct profile *profile = run->analysis->profile;
    const struct profile_metric *metric = &profile->metrics[run->from[m]];
    if (is_exact(metric))
        return;
    const double weight = profile_sample_weight(profile, run->from[m]);
    const double period =
        weight > 0                                              ? weight
        : metric->period > 0                                    ? (double)metric->period
        : profile_is_time(metric) && metric->rate_requested > 0 ? 1e9 / metric->rate_requested
        : strcmp(metric->unit, "count") == 0                    ? 1
                                             : least_cost(diff, diff_column(diff, number, m));
    struct profile_totals totals;
    profile_sum(profile, &totals);
    const unsigned column = diff_column(diff, number, m);
    const uint64_t whole = calltree_total(diff->tree, 0, column),
                   unsampled = unsampled_cost(diff, column);
    const bool alone =
        metric->rate_requested > 0 && profile_is_time(metric) && profile_times(profile) == 1;
    const double cost = whole > unsampled ? (double)(whole - unsampled) : 0;
    const double mean = totals.samples > 0 && alone ? cost / (double)totals.samples : period;
    const bool keeps_pace = mean < MOST_LATE * period;
    run->sample[m] = run->scale[m] * (keeps_pace ? period : mean);
    if (keeps_pace && mean > period)
        run->late[m] = run->scale[m] * (mean - period) * (double)totals.samples;
}

// Normalised, a run costs as much as the old ones do on average.
static void scale_runs(struct diff *diff)
{
    for (unsigned m = 0; m < diff->metric_count; m++) {
        for (unsigned r = 0; r < diff->run_count; r++) {
            struct diff_run *run = &diff->runs[r];
            const struct profile *profile = run->analysis->profile;
            const unsigned from = run->from[m];
            run->scale[m] =
                from == DIFF_NONE ? 1 : 1 / (double)profile_runs(&profile->metrics[from]);
        }
        const bool is_cost = m < diff->compared && (m != diff->calls || m == diff->metric);
        const double wanted = diff_total(diff, 0, DIFF_OLD, m);
        for (unsigned r = 0; r < diff->run_count; r++) {
            struct diff_run *run = &diff->runs[r];
            const double total =
                (double)calltree_total(diff->tree, 0, diff_column(diff, r, m)) * run->scale[m];
            if (diff->normalized && is_cost && total > 0 && wanted > 0)
                run->scale[m] *= wanted / total;
            if (m < diff->compared)
                weigh_samples(diff, r, m);
        }
    }
    for (unsigned m = 0; m < diff->compared; m++)
        for (unsigned r = 0; r < diff->run_count && diff->metrics[m].error != DIFF_NONE; r++)
            diff->runs[r].scale[diff->metrics[m].error] = diff->runs[r].scale[m];
}

static unsigned merge_modules(struct diff *diff, unsigned **maps, bool **rebuilt)
{
    size_t most = MODULE_FIRST_FILE;
    for (unsigned r = 0; r < diff->run_count; r++)
        most += diff->runs[r].analysis->profile->module_count;
    diff->modules = memory_array(1, sizeof *diff->modules);
    diff->modules->modules = memory_array(most, sizeof *diff->modules->modules);
    diff->modules->module_count = MODULE_FIRST_FILE;
    *rebuilt = memory_array(most, sizeof **rebuilt);
    struct module_index index;
    module_index_start(&index, diff->modules);
    for (unsigned r = 0; r < diff->run_count; r++)
        maps[r] = map_modules(diff, &index, diff->runs[r].analysis->profile, *rebuilt);
    module_index_free(&index);
    unsigned count = 0;
    for (unsigned i = MODULE_FIRST_FILE; i < diff->modules->module_count; i++)
        count += (*rebuilt)[i] && !profile_is_agent(module_file_name(&diff->modules->modules[i]));
    return count;
}

static void merge_trees(struct diff *diff)
{
    unsigned **maps = memory_array(diff->run_count, sizeof *maps);
    bool *rebuilt = NULL;
    diff->rebuilt = merge_modules(diff, maps, &rebuilt);
    diff->functions = functions_new(diff->modules, NULL);
    char *const *command = diff->runs[diff->run_count - 1].analysis->profile->command;
    diff->tree = calltree_new(diff->functions, diff->run_count * diff->metric_count,
                              command && command[0] ? last_part(command[0]) : "all");
    diff->interrupts = calltree_child(
        diff->tree, 0,
        (struct call_edge){.function = functions_intern(diff->functions, INTERRUPTS, MODULE_NONE),
                           .kind = CALL_FUNCTION});
    for (unsigned r = 0; r < diff->run_count; r++)
        enter_run(diff, r, maps[r], rebuilt);
    calltree_sum(diff->tree);
    for (unsigned r = 0; r < diff->run_count; r++)
        free(maps[r]);
    free(maps);
    free(rebuilt);
}

int diff_open(struct diff *diff, const struct diff_input *inputs, unsigned count,
              const struct diff_options *options, char **error)
{
    *diff = (struct diff){.normalized = options->normalize, .run_count = count};
    diff->runs = memory_array(count, sizeof *diff->runs);
    int status = 0;
    for (unsigned i = 0; i < count; i++) {
        diff->runs[i] = (struct diff_run){
            .analysis = inputs[i].analysis, .path = inputs[i].path, .side = inputs[i].side};
        diff->side_runs[inputs[i].side]++;
    }
    for (unsigned i = 1; i < count && status == 0; i++)
        if (!is_same_program(inputs[0].analysis->profile, inputs[i].analysis->profile)) {
            *error =
                module_different_programs(inputs[0].analysis->profile, inputs[i].analysis->profile);
            status = -1;
        }
    if (status == 0) {
        choose_metrics(diff);
        status = find_metric(diff, options->metric, error);
    }
    if (status < 0) {
        diff_close(diff);
        return -1;
    }
    find_calls(diff);
    for (unsigned i = 0; i < count; i++)
        analysis_resolve(inputs[i].analysis, &(struct build_options){0});
    merge_trees(diff);
    scale_runs(diff);
    return 0;
}

void diff_close(struct diff *diff)
{
    for (unsigned r = 0; r < diff->run_count; r++) {
        free(diff->runs[r].from);
        free(diff->runs[r].scale);
        free(diff->runs[r].sample);
        free(diff->runs[r].late);
    }
    free(diff->runs);
    free(diff->metrics);
    calltree_free(diff->tree);
    functions_free(diff->functions);
    profile_free(diff->modules);
    *diff = (struct diff){0};
}

double diff_mean(const struct diff *diff, const uint64_t *columns, enum diff_side side,
                 unsigned metric)
{
    double sum = 0;
    for (unsigned r = 0; r < diff->run_count; r++)
        if (diff->runs[r].side == side)
            sum += (double)columns[diff_column(diff, r, metric)] * diff->runs[r].scale[metric];
    return sum / diff->side_runs[side];
}

double diff_self(const struct diff *diff, uint32_t node, enum diff_side side, unsigned metric)
{
    return diff_mean(diff, diff->tree->self + (size_t)node * diff->tree->metrics, side, metric);
}

double diff_total(const struct diff *diff, uint32_t node, enum diff_side side, unsigned metric)
{
    return diff_mean(diff, diff->tree->total + (size_t)node * diff->tree->metrics, side, metric);
}
