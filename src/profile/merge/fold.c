// SPDX-License-Identifier: MIT
#include "profile/merge/fold.h"
#include "profile/loader.h"
#include "profile/queries/totals.h"
#include "profile/timeline_records.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct tree_merger {
    struct profile_tree *into;
    unsigned metrics;
    uint32_t *slots; // node index, UINT32_MAX: free; keyed by (parent, site, function)
    size_t slot_count;
};

static size_t hash_node(const struct profile_node *node)
{
    uint64_t hash = node->site * UINT64_C(0x9e3779b97f4a7c15);
    hash = (hash ^ hash >> 32 ^ node->function) * UINT64_C(0xbf58476d1ce4e5b9);
    hash = (hash ^ hash >> 29 ^ node->parent) * UINT64_C(0x94d049bb133111eb);
    return (size_t)(hash ^ hash >> 31);
}

static uint32_t *find_slot(const struct tree_merger *merger, const struct profile_node *node)
{
    for (size_t at = hash_node(node) & (merger->slot_count - 1);;
         at = (at + 1) & (merger->slot_count - 1)) {
        uint32_t *slot = &merger->slots[at];
        if (*slot == UINT32_MAX)
            return slot;
        const struct profile_node *known = &merger->into->nodes[*slot];
        if (known->parent == node->parent && known->site == node->site &&
            known->function == node->function)
            return slot;
    }
}

static bool resize_slots(struct tree_merger *merger, size_t nodes)
{
    if (merger->slots && nodes * 4 <= merger->slot_count * 3)
        return true;
    size_t count = 64;
    while (nodes * 2 > count)
        count *= 2;
    uint32_t *slots = malloc(count * sizeof *slots);
    if (!slots)
        return false;
    memset(slots, 0xff, count * sizeof *slots);
    free(merger->slots);
    merger->slots = slots;
    merger->slot_count = count;
    for (uint32_t i = 0; i < merger->into->count; i++)
        *find_slot(merger, &merger->into->nodes[i]) = i;
    return true;
}

struct tree_merger *tree_merger_new(struct profile_tree *into, unsigned metrics)
{
    struct tree_merger *merger = calloc(1, sizeof *merger);
    if (!merger)
        return NULL;
    merger->into = into;
    merger->metrics = metrics;
    if (!resize_slots(merger, into->count)) {
        free(merger);
        return NULL;
    }
    return merger;
}

void tree_merger_free(struct tree_merger *merger)
{
    if (merger)
        free(merger->slots);
    free(merger);
}

static uint32_t merged_node(struct tree_merger *merger, const struct profile_node *node)
{
    struct profile_tree *into = merger->into;
    uint32_t *slot = find_slot(merger, node);
    if (*slot != UINT32_MAX)
        return *slot;
    if (!profile_grow_tree(into, into->count + 1, merger->metrics))
        return UINT32_MAX;
    into->nodes[into->count] = *node;
    return *slot = into->count++;
}

int tree_merger_add(struct tree_merger *merger, const struct profile_tree *tree, uint32_t *went)
{
    if (tree->count == 0)
        return 0;
    uint32_t *map = malloc(tree->count * sizeof *map);
    if (!map)
        return -ENOMEM;
    int result = 0;
    for (uint32_t i = 0; i < tree->count && result == 0; i++) {
        struct profile_node node = tree->nodes[i];
        // Roots meet whatever routine they began with: there is one per tree.
        if (node.parent == PROFILE_NO_PARENT && merger->into->count > 0) {
            map[i] = 0;
        } else {
            if (node.parent != PROFILE_NO_PARENT)
                node.parent = map[node.parent];
            if (!resize_slots(merger, (size_t)merger->into->count + 1) ||
                (map[i] = merged_node(merger, &node)) == UINT32_MAX) {
                result = -ENOMEM;
                break;
            }
        }
        for (unsigned metric = 0; metric < merger->metrics; metric++)
            merger->into->values[(size_t)map[i] * merger->metrics + metric] +=
                tree->values[(size_t)i * merger->metrics + metric];
    }
    if (went && result == 0)
        memcpy(went, map, tree->count * sizeof *went);
    free(map);
    if (result == 0) {
        stats_add(&merger->into->stats, &tree->stats);
        hot_add(&merger->into->hot, &tree->hot);
        merger->into->threads += tree->threads;
    }
    return result;
}

// Folding

struct fold_candidate {
    uint32_t process;
    uint64_t cost;
};

static int costliest_first(const void *a, const void *b)
{
    const struct fold_candidate *one = a, *other = b;
    if (one->cost != other->cost)
        return one->cost < other->cost ? 1 : -1;
    return one->process < other->process ? -1 : one->process > other->process;
}

struct fold {
    struct profile *profile;
    const bool *apart;
    uint32_t *target;  // by process: where its trees go; itself if they stay
    bool *has_trees;   // by process
    bool *is_shared;   // by process: others were folded into it before
    uint32_t *by_name; // hash of processes that represent a program
    size_t name_slots;
};

static const char *program_name(const struct profile *profile, uint32_t process)
{
    char **command = profile->processes[process].command;
    return command && command[0] ? command[0] : "";
}

// The process that stands for a program; the asker itself if it is the first.
static uint32_t representative(struct fold *fold, uint32_t process)
{
    const char *name = program_name(fold->profile, process);
    size_t hash = 5381;
    for (const char *c = name; *c; c++)
        hash = hash * 33 + (unsigned char)*c;
    for (size_t at = hash & (fold->name_slots - 1);; at = (at + 1) & (fold->name_slots - 1)) {
        if (fold->by_name[at] == UINT32_MAX)
            fold->by_name[at] = process;
        if (strcmp(program_name(fold->profile, fold->by_name[at]), name) == 0)
            return fold->by_name[at];
    }
}

static bool may_fold(const struct fold *fold, uint32_t process)
{
    const struct profile_process *told = &fold->profile->processes[process];
    return told->ended && told->merged_into == PROFILE_NOT_MERGED && fold->has_trees[process] &&
           !fold->is_shared[process] && !fold->apart[process];
}

static int choose_targets(struct fold *fold, unsigned most, bool *any)
{
    struct profile *profile = fold->profile;
    struct fold_candidate *candidates = malloc((profile->process_count + 1) * sizeof *candidates);
    if (!candidates)
        return -ENOMEM;
    unsigned count = 0;
    for (uint32_t i = 0; i < profile->process_count; i++) {
        fold->target[i] = i;
        if (may_fold(fold, i))
            candidates[count++] = (struct fold_candidate){i, profile->processes[i].cost_ns};
        else if (fold->is_shared[i])
            representative(fold, i);
    }
    *any = count > most;
    if (*any) {
        qsort(candidates, count, sizeof *candidates, costliest_first);
        for (unsigned i = most / 2; i < count; i++) {
            uint32_t process = candidates[i].process, into = representative(fold, process);
            fold->target[process] = into;
            if (into != process)
                profile->processes[process].merged_into = into;
        }
    }
    free(candidates);
    return 0;
}

// A tree of the target process with the same start routine, or none. Trees of one target are few.
struct destination {
    uint32_t process, tree;
    struct tree_merger *merger;
};

static struct destination *find_destination(struct destination *list, size_t count,
                                            const struct profile *profile,
                                            const struct profile_tree *tree, uint32_t process)
{
    for (size_t i = 0; i < count; i++)
        if (list[i].process == process && profile_same_threads(&profile->trees[list[i].tree], tree))
            return &list[i];
    return NULL;
}

static int add_destination(struct destination **list, size_t *count, uint32_t process,
                           uint32_t tree)
{
    if (!profile_grow((void **)list, *count, *count + 1, sizeof **list))
        return -ENOMEM;
    (*list)[(*count)++] = (struct destination){process, tree, NULL};
    return 0;
}

// Moves or adds each tree to where it goes. goes_to[i] is i for trees that stay.
static int move_trees(struct fold *fold, uint32_t *goes_to)
{
    struct profile *profile = fold->profile;
    struct destination *list = NULL;
    size_t count = 0;
    int result = 0;
    bool *is_target = calloc(profile->process_count + 1, sizeof *is_target);
    if (!is_target)
        return -ENOMEM;
    for (uint32_t i = 0; i < profile->process_count; i++)
        if (fold->target[i] != i)
            is_target[fold->target[i]] = true;
    for (uint32_t i = 0; i < profile->tree_count; i++) {
        goes_to[i] = i;
        if (is_target[profile->trees[i].process] && result == 0)
            result = add_destination(&list, &count, profile->trees[i].process, i);
    }
    for (uint32_t i = 0; i < profile->tree_count && result == 0; i++) {
        struct profile_tree *tree = &profile->trees[i];
        uint32_t process = fold->target[tree->process];
        if (process == tree->process)
            continue;
        struct destination *to = find_destination(list, count, profile, tree, process);
        if (!to) {
            tree->process = process;
            result = add_destination(&list, &count, process, i);
            continue;
        }
        if (!to->merger)
            to->merger = tree_merger_new(&profile->trees[to->tree], profile->metric_count);
        result = to->merger ? tree_merger_add(to->merger, tree, NULL) : -ENOMEM;
        profile_join_names(&profile->trees[to->tree], tree);
        profile->trees[to->tree].charges.lost += tree->charges.count + tree->charges.lost;
        goes_to[i] = to->tree;
    }
    for (size_t i = 0; i < count; i++)
        tree_merger_free(list[i].merger);
    free(list);
    free(is_target);
    return result;
}

// Takes out the trees that went into others. tree_map: old to new indices.
static void close_ranks(struct profile *profile, const uint32_t *goes_to, uint32_t *tree_map)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < profile->tree_count; i++) {
        if (goes_to[i] == i)
            tree_map[i] = kept++;
    }
    for (uint32_t i = 0; i < profile->tree_count; i++) {
        if (goes_to[i] != i) {
            free(profile->trees[i].nodes);
            free(profile->trees[i].values);
            timeline_drop(&profile->trees[i]);
            tree_map[i] = tree_map[goes_to[i]];
        } else if (tree_map[i] != i) {
            profile->trees[tree_map[i]] = profile->trees[i];
        }
    }
    profile->tree_count = kept;
}

// Which processes have trees, and which have taken in others before.
static void survey(struct fold *fold)
{
    const struct profile *profile = fold->profile;
    for (uint32_t i = 0; i < profile->tree_count; i++)
        fold->has_trees[profile->trees[i].process] = true;
    for (uint32_t i = 0; i < profile->process_count; i++)
        if (profile->processes[i].merged_into != PROFILE_NOT_MERGED)
            fold->is_shared[profile->processes[i].merged_into] = true;
    memset(fold->by_name, 0xff, fold->name_slots * sizeof *fold->by_name);
}

int profile_fold(struct profile *profile, unsigned most, const bool *apart, uint32_t *tree_map)
{
    for (uint32_t i = 0; i < profile->tree_count; i++)
        tree_map[i] = i;
    struct fold fold = {.profile = profile, .apart = apart, .name_slots = 64};
    while (fold.name_slots < (size_t)profile->process_count * 2)
        fold.name_slots *= 2;
    size_t processes = (size_t)profile->process_count + 1;
    fold.target = calloc(processes, sizeof *fold.target);
    fold.has_trees = calloc(processes, sizeof *fold.has_trees);
    fold.is_shared = calloc(processes, sizeof *fold.is_shared);
    fold.by_name = calloc(fold.name_slots, sizeof *fold.by_name);
    uint32_t *goes_to = calloc((size_t)profile->tree_count + 1, sizeof *goes_to);
    int result = -ENOMEM;
    if (fold.target && fold.has_trees && fold.is_shared && fold.by_name && goes_to) {
        survey(&fold);
        bool any = false;
        result = choose_targets(&fold, most, &any);
        if (result == 0 && any)
            result = move_trees(&fold, goes_to);
        if (result == 0 && any)
            close_ranks(profile, goes_to, tree_map);
    }
    free(fold.target);
    free(fold.has_trees);
    free(fold.is_shared);
    free(fold.by_name);
    free(goes_to);
    return result;
}
