// SPDX-License-Identifier: MIT

#include "analyze/compare/compare_align.h"
#include "analyze/compare/compare_modules.h"
#include "analyze/views/hot.h"
#include "base/memory.h"
#include "base/text/text.h"

// The functions that the tree of calls can have; by common function.
struct projection {
    bool *followed; // its calls were counted
    bool *left_out;
    size_t capacity; // of followed
};

// One of the two profiles, on its way into the common tree.
struct aligning {
    struct alignment *alignment;
    struct analysis *analysis;
    enum compare_side side;
    const struct module_map *modules;
    uint32_t *common_function; // by number of the profile's functions, + 1; 0: not yet known
    uint32_t *common_site;     // by number of the place that calls, + 1; 0: not yet known
    size_t common_capacity, site_capacity;
    const struct projection *projection; // NULL: every frame stays

    const struct profile_tree *tree;
    place_t *inside;   // by node: a place that lies in that frame; 0: not known
    uint32_t *context; // by node
    size_t inside_capacity, context_capacity;
};

static place_t call_place(place_t site)
{
    return place_offset(site) > 0 && place_is_known(site) ? site - 1 : 0;
}

static bool is_root(const struct profile_tree *tree, uint32_t node)
{
    return tree->nodes[node].parent >= node;
}

static uint32_t common_module(const struct aligning *aligning, uint32_t module)
{
    return aligning->modules
        ->number[module < aligning->analysis->profile->module_count ? module : 0];
}

static uint32_t *known_number(uint32_t **numbers, size_t *capacity, uint32_t index)
{
    const size_t before = *capacity;
    *numbers = memory_grown(*numbers, capacity, (size_t)index + 1, sizeof **numbers);
    memset(*numbers + before, 0, (*capacity - before) * sizeof **numbers);
    return &(*numbers)[index];
}

static uint32_t common_function(struct aligning *aligning, uint32_t function)
{
    uint32_t *known =
        known_number(&aligning->common_function, &aligning->common_capacity, function);
    if (*known == 0) {
        const struct function *named = functions_get(aligning->analysis->functions, function);
        *known = 1 + compare_function(aligning->alignment->tree, named->name,
                                      common_module(aligning, named->module));
    }
    return *known - 1;
}

static const struct located *real_function(struct functions *functions, const struct spot *spot)
{
    return functions_located(functions, spot) + spot->count - 1;
}

// The profile's number of a frame's function: by its entry, or by a place in it.
static uint32_t frame_function(struct aligning *aligning, uint32_t index)
{
    struct functions *functions = aligning->analysis->functions;
    const struct profile_tree *tree = aligning->tree;
    place_t entry = tree->nodes[index].function;
    const struct spot *spot = functions_look_up(functions, tree->process, entry);
    if (!spot)
        spot = functions_look_up(functions, tree->process, aligning->inside[index]);
    if (spot)
        return real_function(functions, spot)->function;
    return functions_intern(functions, "<unknown>", place_module(entry));
}

static uint32_t intern_site(struct alignment *alignment, struct compare_site site)
{
    uint64_t hash =
        hash_index_mix(hash_index_mix(site.offset) + ((uint64_t)site.module << 32 | site.line));
    struct hash_index_cursor cursor = hash_index_find(&alignment->by_site, hash);
    for (uint32_t found; hash_index_next(&alignment->by_site, &cursor, &found);) {
        struct compare_site *known = &alignment->sites[found];
        if (known->offset == site.offset && known->module == site.module &&
            known->line == site.line) {
            free(known->where ? site.where : NULL);
            if (!known->where)
                known->where = site.where;
            return found;
        }
    }
    alignment->sites = memory_grown(alignment->sites, &alignment->site_capacity,
                                    alignment->site_count + 1, sizeof site);
    uint32_t number = (uint32_t)alignment->site_count++;
    alignment->sites[number] = site;
    hash_index_add(&alignment->by_site, hash, number);
    return number;
}

static uint32_t make_site(struct aligning *aligning, place_t site, const struct spot *spot)
{
    struct functions *functions = aligning->analysis->functions;
    const uint32_t module = place_module(site);
    const struct located *caller = spot ? real_function(functions, spot) : NULL;
    struct compare_site made = {.module = common_module(aligning, module)};
    if (aligning->modules->same_build[module]) {
        made.offset = place_offset(site);
    } else if (caller) {
        made.offset = common_function(aligning, caller->function);
        made.line = caller->line;
    }
    const char *file = caller ? functions_file(functions, caller->file) : NULL;
    if (file && caller->line && asprintf(&made.where, "%s:%u", last_part(file), caller->line) < 0)
        memory_checked(NULL);
    return intern_site(aligning->alignment, made);
}

static uint32_t common_site(struct aligning *aligning, place_t site)
{
    const struct functions *functions = aligning->analysis->functions;
    const place_t call = call_place(site);
    if (call == 0 || place_module(site) >= aligning->analysis->profile->module_count)
        return 0;
    const uint32_t number = functions_number(functions, aligning->tree->process, call);
    if (number == 0)
        return make_site(aligning, site, NULL);
    uint32_t *known = known_number(&aligning->common_site, &aligning->site_capacity, number);
    if (*known == 0)
        *known = 1 + make_site(aligning, site, functions_spot(functions, number));
    return *known - 1;
}

static void find_insides(struct aligning *aligning)
{
    const struct profile_tree *tree = aligning->tree;
    aligning->inside = memory_grown(aligning->inside, &aligning->inside_capacity, tree->count,
                                    sizeof *aligning->inside);
    for (uint32_t i = 0; i < tree->count; i++) {
        const struct profile_node *node = &tree->nodes[i];
        aligning->inside[i] = 0;
        if (!is_root(tree, i) && aligning->inside[node->parent] == 0)
            aligning->inside[node->parent] = node->function ? call_place(node->site) : node->site;
    }
}

// Whether a frame of that function is not for both trees to have.
static bool is_left_out(const struct aligning *aligning, uint32_t function, uint32_t above)
{
    const struct projection *projection = aligning->projection;
    return projection &&
           (projection->left_out[function] || (above == 0 && !projection->followed[function]));
}

static uint32_t frame_context(struct aligning *aligning, uint32_t index, uint64_t weight)
{
    const struct profile_node *node = &aligning->tree->nodes[index];
    uint32_t above = aligning->context[node->parent];
    uint32_t function = frame_function(aligning, index);
    const struct function *known = functions_get(aligning->analysis->functions, function);
    // Neither the agent nor the kernel is the program: interrupts come where they like. Start-up is
    // one context: the few samples of the loader have no function entries to distinguish them.
    const bool foreign = known->agent || known->kernel ||
                         aligning->tree->nodes[node->parent].function == PLACE_STARTUP;
    uint32_t common = common_function(aligning, function);
    if (foreign || is_left_out(aligning, common, above)) {
        aligning->alignment->left_out[aligning->side] += !foreign;
        return above;
    }
    struct compare_tree *tree = aligning->alignment->tree;
    uint32_t context =
        compare_child(tree, above, common_site(aligning, node->site), common, aligning->side);
    tree->contexts[context].weight[aligning->side] += weight;
    return context;
}

static void add_tree(struct aligning *aligning, const struct profile_tree *tree)
{
    const struct profile *profile = aligning->analysis->profile;
    unsigned metric = aligning->alignment->metric[aligning->side];
    bool calls = profile_counts_calls(&profile->metrics[metric]);
    aligning->tree = tree;
    find_insides(aligning);
    aligning->context = memory_grown(aligning->context, &aligning->context_capacity, tree->count,
                                     sizeof *aligning->context);
    for (uint32_t i = 0; i < tree->count; i++) {
        uint64_t value = tree->values[(size_t)i * profile->metric_count + metric];
        if (is_root(tree, i)) {
            aligning->context[i] = 0;
        } else if (tree->nodes[i].function) {
            // Of a cost, a frame has only returns.
            aligning->context[i] = frame_context(aligning, i, calls ? value : 0);
        } else {
            aligning->context[i] = aligning->context[tree->nodes[i].parent];
            aligning->alignment->tree->contexts[aligning->context[i]].weight[aligning->side] +=
                value;
        }
    }
}

static bool follows_calls(const struct profile *profile)
{
    return profile->tracker && strcmp(profile->tracker, "calls") == 0;
}

static bool is_called(const struct profile *profile, const struct profile_tree *tree, uint32_t node)
{
    bool counted = false;
    for (unsigned i = 0; i < profile->metric_count; i++) {
        counted |= profile_counts_calls(&profile->metrics[i]);
        if (profile_counts_calls(&profile->metrics[i]) &&
            tree->values[(size_t)node * profile->metric_count + i] > 0)
            return true;
    }
    return !counted; // a hot tree of time: what is in it was followed
}

static bool *followed_function(struct projection *projection, uint32_t function)
{
    const size_t before = projection->capacity;
    projection->followed = memory_grown(projection->followed, &projection->capacity,
                                        (size_t)function + 1, sizeof *projection->followed);
    memset(projection->followed + before, false, projection->capacity - before);
    return &projection->followed[function];
}

// Gives numbers to all functions of a profile's frames. Marks those whose calls were counted, if a
// projection is given.
static void meet_functions(struct aligning *aligning, struct projection *projection)
{
    const struct profile *profile = aligning->analysis->profile;
    for (unsigned t = 0; t < profile->tree_count; t++) {
        aligning->tree = &profile->trees[t];
        find_insides(aligning);
        for (uint32_t i = 0; i < aligning->tree->count; i++) {
            if (is_root(aligning->tree, i) || aligning->tree->nodes[i].function == 0)
                continue;
            uint32_t function = common_function(aligning, frame_function(aligning, i));
            if (projection && is_called(profile, aligning->tree, i))
                *followed_function(projection, function) = true;
        }
    }
}

// Decides what is left out of both trees (see the header). False: nothing.
static bool project(struct projection *projection, struct aligning sides[2])
{
    const struct alignment *alignment = sides[EXACT].alignment;
    bool by_exact = follows_calls(sides[EXACT].analysis->profile);
    bool by_approx = !by_exact && follows_calls(sides[APPROX].analysis->profile);
    if (!by_exact && !by_approx)
        return false;
    meet_functions(&sides[EXACT], by_exact ? projection : NULL);
    meet_functions(&sides[APPROX], by_approx ? projection : NULL);
    if (projection->capacity == 0)
        return false;
    size_t count = alignment->tree->function_count;
    followed_function(projection, (uint32_t)count);
    const struct compare_function *functions = alignment->tree->functions;
    bool *has_module = memory_array(alignment->modules.count, sizeof *has_module);
    projection->left_out = memory_array(count, sizeof *projection->left_out);
    for (size_t i = 0; i < count; i++)
        if (projection->followed[i])
            has_module[functions[i].module] = true;
    for (size_t i = 0; i < count; i++)
        projection->left_out[i] =
            !projection->followed[i] && !(by_approx && has_module[functions[i].module]);
    free(has_module);
    return true;
}

static int no_common_metric(const struct analysis *exact, const struct analysis *approx,
                            char **error)
{
    char *one = analysis_list_metrics(exact), *other = analysis_list_metrics(approx);
    if (asprintf(error, "these profiles have no metric in common: the first has %s, the second %s",
                 one, other) < 0)
        memory_checked(NULL);
    free(one);
    free(other);
    return -1;
}

static bool find_common_metric(struct alignment *alignment, const struct profile *exact,
                               const struct profile *approx, bool calls_only)
{
    for (unsigned i = 0; i < exact->metric_count; i++)
        for (unsigned j = 0; j < approx->metric_count; j++) {
            const struct profile_metric *one = &exact->metrics[i], *other = &approx->metrics[j];
            if (strcmp(one->name, other->name) != 0 || strcmp(one->unit, other->unit) != 0 ||
                (calls_only && !profile_counts_calls(one)))
                continue;
            alignment->metric[EXACT] = i;
            alignment->metric[APPROX] = j;
            return true;
        }
    return false;
}

static int choose_metric(struct alignment *alignment, const struct analysis *exact,
                         const struct analysis *approx, const char *metric, char **error)
{
    const struct analysis *analyses[] = {exact, approx};
    const struct profile *one = exact->profile, *other = approx->profile;
    // For a profile that followed each call, calls come first.
    if (!metric && ((follows_calls(one) && find_common_metric(alignment, one, other, true)) ||
                    find_common_metric(alignment, one, other, false)))
        return 0;
    if (!metric)
        return no_common_metric(exact, approx, error);
    const char *comma = strchr(metric, ',');
    for (unsigned side = 0; side < 2; side++) {
        char *name = comma && side == EXACT
                         ? memory_checked(strndup(metric, (size_t)(comma - metric)))
                         : memory_text(comma ? comma + 1 : metric);
        int found = analysis_metric(analyses[side], name, error);
        free(name);
        if (found < 0)
            return -1;
        alignment->metric[side] = (unsigned)found;
    }
    const struct profile_metric *metrics[] = {&one->metrics[alignment->metric[EXACT]],
                                              &other->metrics[alignment->metric[APPROX]]};
    if (strcmp(metrics[0]->unit, metrics[1]->unit) == 0)
        return 0;
    if (asprintf(error, "%s is in %s, but %s in %s", metrics[0]->name, metrics[0]->unit,
                 metrics[1]->name, metrics[1]->unit) < 0)
        memory_checked(NULL);
    return -1;
}

int compare_align(struct alignment *alignment, struct analysis *exact, struct analysis *approx,
                  const char *metric, char **error)
{
    *alignment = (struct alignment){0};
    struct module_map maps[2] = {0};
    if (module_maps_new(&alignment->modules, maps, exact->profile, approx->profile, error) < 0) {
        alignment_free(alignment);
        return -1;
    }
    int status = choose_metric(alignment, exact, approx, metric, error);
    struct projection projection = {0};
    struct aligning sides[2] = {
        {.alignment = alignment, .analysis = exact, .side = EXACT, .modules = &maps[EXACT]},
        {.alignment = alignment, .analysis = approx, .side = APPROX, .modules = &maps[APPROX]},
    };
    if (status == 0) {
        alignment->tree = compare_tree_new();
        intern_site(alignment, (struct compare_site){0}); // number 0: no place
        for (unsigned side = 0; side < 2; side++)
            analysis_resolve(sides[side].analysis, &(struct build_options){0});
        if (project(&projection, sides))
            sides[EXACT].projection = sides[APPROX].projection = &projection;
        for (unsigned side = 0; side < 2; side++) {
            const struct profile *profile = sides[side].analysis->profile;
            for (unsigned t = 0; t < profile->tree_count; t++)
                add_tree(&sides[side], &profile->trees[t]);
            alignment->tree->made_up[side] = hot_made_up(profile, alignment->metric[side]);
        }
    }
    for (unsigned side = 0; side < 2; side++) {
        free(sides[side].common_function);
        free(sides[side].common_site);
        free(sides[side].inside);
        free(sides[side].context);
        module_map_free(&maps[side]);
    }
    free(projection.followed);
    free(projection.left_out);
    if (status < 0)
        alignment_free(alignment);
    return status;
}

void alignment_free(struct alignment *alignment)
{
    compare_tree_free(alignment->tree);
    for (size_t i = 0; i < alignment->site_count; i++)
        free(alignment->sites[i].where);
    free(alignment->sites);
    hash_index_free(&alignment->by_site);
    free(alignment->modules.names);
    *alignment = (struct alignment){0};
}
