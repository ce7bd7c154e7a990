// SPDX-License-Identifier: MIT

#include "analyze/tree/process_tree.h"
#include "analyze/names/names.h"
#include "base/memory.h"

struct born {
    uint32_t process;
    uint32_t pid;
    uint64_t start_ns;
};

static int by_birth(const void *left, const void *right)
{
    const struct born *a = left, *b = right;
    if (a->start_ns != b->start_ns)
        return a->start_ns < b->start_ns ? -1 : 1;
    return a->process < b->process ? -1 : a->process > b->process;
}

static int by_pid(const void *left, const void *right)
{
    const struct born *a = left, *b = right;
    return a->pid != b->pid ? (a->pid < b->pid ? -1 : 1) : by_birth(left, right);
}

// The process that had a number when another one was born: the last before that. NULL: none.
static const struct born *find_parent(const struct born *sorted, uint32_t count, uint32_t pid,
                                      const struct born *child)
{
    const struct born sought = {.process = child->process, .pid = pid, .start_ns = child->start_ns};
    uint32_t low = 0, high = count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (by_pid(&sorted[middle], &sought) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 && sorted[low - 1].pid == pid ? &sorted[low - 1] : NULL;
}

// The cost of each process in each metric.
static uint64_t *own_costs(struct functions *functions, const struct profile *profile,
                           const struct build_options *options)
{
    const unsigned metrics = profile->metric_count;
    uint64_t *costs = memory_array((size_t)profile->process_count * metrics, sizeof *costs);
    for (unsigned t = 0; t < profile->tree_count; t++) {
        const struct profile_tree *tree = &profile->trees[t];
        if (tree->process >= profile->process_count ||
            !build_selects(functions, profile, tree, options))
            continue;
        for (uint32_t i = 0; i < tree->count; i++)
            for (unsigned m = 0; m < metrics; m++)
                // A frame has returns in place of a cost.
                if (tree->nodes[i].function == 0 || !profile_is_cost(&profile->metrics[m]))
                    costs[(size_t)tree->process * metrics + m] +=
                        tree->values[(size_t)i * metrics + m];
    }
    return costs;
}

// While recording, trees of many processes are folded into one; the cost of each is known in the
// first metric of time.
static void give_back(const struct profile *profile, uint64_t *costs)
{
    unsigned metric = 0;
    while (metric < profile->metric_count && !profile_is_time(&profile->metrics[metric]))
        metric++;
    for (uint32_t i = 0; i < profile->process_count && metric < profile->metric_count; i++) {
        const struct profile_process *process = &profile->processes[i];
        if (process->merged_into >= profile->process_count)
            continue;
        uint64_t *from = &costs[(size_t)process->merged_into * profile->metric_count + metric];
        const uint64_t cost = process->cost_ns < *from ? process->cost_ns : *from;
        costs[(size_t)i * profile->metric_count + metric] += cost;
        *from -= cost;
    }
}

static struct born *births(const struct profile *profile)
{
    struct born *born = memory_array(profile->process_count, sizeof *born);
    for (uint32_t i = 0; i < profile->process_count; i++)
        born[i] = (struct born){
            .process = i,
            .pid = profile->processes[i].pid,
            .start_ns = profile->processes[i].start_ns,
        };
    return born;
}

struct calltree *process_tree(struct functions *functions, const struct profile *profile,
                              const struct build_options *options)
{
    const uint32_t count = profile->process_count;
    struct calltree *tree = calltree_new(functions, profile->metric_count, "all");
    struct born *order = births(profile), *sorted = births(profile);
    uint32_t *nodes = memory_array(count, sizeof *nodes);
    uint64_t *costs = own_costs(functions, profile, options);
    if (!build_is_part(options))
        give_back(profile, costs);
    if (count > 1) {
        qsort(order, count, sizeof *order, by_birth);
        qsort(sorted, count, sizeof *sorted, by_pid);
    }
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t process = order[i].process;
        const struct born *parent =
            find_parent(sorted, count, profile->processes[process].parent_pid, &order[i]);
        char *name = NULL;
        if (asprintf(&name, "%s [%u]", names_process(functions_names(functions), process),
                     profile->processes[process].pid) < 0)
            memory_checked(NULL);
        nodes[process] = calltree_child(
            tree, parent ? nodes[parent->process] : 0,
            (struct call_edge){.function = functions_intern(functions, name, MODULE_NONE),
                               .kind = CALL_PROCESS});
        free(name);
        calltree_add(tree, nodes[process], 0, 0, costs + (size_t)process * profile->metric_count);
    }
    free(order);
    free(sorted);
    free(nodes);
    free(costs);
    calltree_sum(tree);
    return tree;
}
