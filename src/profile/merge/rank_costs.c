// SPDX-License-Identifier: MIT
#include "profile/merge/rank_costs.h"
#include "profile/loader.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(PROFILE_MOST_METRICS <= 64, "a rank has a bit for each metric");

struct profile_rank *ranks_add(struct profile *profile, const char *name, uint64_t metrics)
{
    char *copy = strdup(name);
    if (!copy || !profile_grow((void **)&profile->ranks, profile->rank_count,
                               profile->rank_count + (size_t)1, sizeof *profile->ranks)) {
        free(copy);
        return NULL;
    }
    struct profile_rank *rank = &profile->ranks[profile->rank_count++];
    *rank = (struct profile_rank){.name = copy, .metrics = metrics};
    return rank;
}

static int compare_costs(const void *left, const void *right)
{
    const struct rank_cost *a = left, *b = right;
    if (a->metric != b->metric)
        return a->metric < b->metric ? -1 : 1;
    if (a->tree != b->tree)
        return a->tree < b->tree ? -1 : 1;
    return a->node < b->node ? -1 : a->node > b->node;
}

static size_t added_up(struct rank_cost *costs, size_t count)
{
    size_t kept = 0;
    if (count)
        qsort(costs, count, sizeof *costs, compare_costs);
    for (size_t i = 0; i < count; i++) {
        if (kept && compare_costs(&costs[kept - 1], &costs[i]) == 0)
            costs[kept - 1].value += costs[i].value;
        else
            costs[kept++] = costs[i];
    }
    return kept;
}

// Puts the costs of the metric and the tree of the first. Returns how many these are.
static size_t put_section(struct bytes *out, const struct rank_cost *costs, size_t most)
{
    size_t count = 1;
    while (count < most && costs[count].metric == costs->metric && costs[count].tree == costs->tree)
        count++;
    bytes_put_varint(out, costs->metric);
    bytes_put_varint(out, costs->tree);
    bytes_put_varint(out, count);
    for (size_t i = 0; i < count; i++) {
        bytes_put_varint(out, i ? costs[i].node - costs[i - 1].node : costs[i].node);
        bytes_put_varint(out, costs[i].value);
    }
    return count;
}

int rank_set_costs(struct profile_rank *rank, struct rank_cost *costs, size_t count)
{
    struct bytes out = {0};
    count = added_up(costs, count);
    for (size_t done = 0; done < count;)
        done += put_section(&out, &costs[done], count - done);
    uint8_t *kept = out.failed ? NULL : malloc(out.size + 1);
    if (kept && out.size)
        memcpy(kept, out.data, out.size);
    if (kept) {
        free(rank->costs);
        rank->costs = kept;
        rank->bytes = out.size;
    }
    bytes_free(&out);
    return kept ? 0 : -ENOMEM;
}
