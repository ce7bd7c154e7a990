// SPDX-License-Identifier: MIT
#include "analyze/report/shared_callers.h"
#include "base/memory.h"

#define LEAST_CUT 2 // links that a cut saves at least: the sign for it takes the place of one

// The first place where a function stands in a chain that ends in a root.
struct first_place {
    uint32_t link;  // in plan->links
    uint32_t after; // links of its chain that follow; with `link` 0: see `known`
    bool known;
};

static bool is_leaf(const struct row_plan *plan, size_t row)
{
    size_t next = row + 1;
    while (next < plan->row_count && plan->rows[next].line != CALL_NONE)
        next++;
    return plan->rows[row].line == CALL_NONE &&
           (next == plan->row_count || plan->rows[next].level <= plan->rows[row].level);
}

static bool is_same(const struct calltree *tree, const struct plan_link *a,
                    const struct plan_link *b)
{
    const struct call_node *left = &tree->nodes[a->node], *right = &tree->nodes[b->node];
    return left->function == right->function && left->kind == right->kind && a->times == b->times;
}

static bool goes_on_alike(const struct row_plan *plan, const struct calltree *tree,
                          const struct first_place *place, uint32_t link, uint32_t after)
{
    if (!place->known || place->after != after)
        return false;
    for (uint32_t i = 0; i <= after; i++)
        if (!is_same(tree, &plan->links[place->link + i], &plan->links[link + i]))
            return false;
    return true;
}

static bool cut_row(struct row_plan *plan, const struct calltree *tree, struct plan_row *row,
                    struct first_place *places)
{
    const uint32_t links = row->links;
    for (uint32_t i = 0; i < links; i++) {
        const uint32_t link = row->first_link + i, after = links - 1 - i;
        struct first_place *place = &places[tree->nodes[plan->links[link].node].function];
        if (after >= LEAST_CUT && goes_on_alike(plan, tree, place, link, after)) {
            row->links = i + 1;
            row->goes_on = true;
            return true;
        }
        if (!place->known)
            *place = (struct first_place){.link = link, .after = after, .known = true};
    }
    return false;
}

size_t cut_shared_callers(struct row_plan *plan, const struct calltree *tree)
{
    struct first_place *places =
        memory_array(functions_count(tree->functions), sizeof(struct first_place));
    size_t count = 0;
    for (size_t i = 0; i < plan->row_count; i++)
        if (is_leaf(plan, i))
            count += cut_row(plan, tree, &plan->rows[i], places);
    free(places);
    return count;
}
