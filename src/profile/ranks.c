// SPDX-License-Identifier: MIT
#include "profile/ranks.h"

void rank_cursor_start(struct rank_cursor *cursor, const struct profile *profile, uint32_t rank)
{
    const struct profile_rank *from = &profile->ranks[rank];
    *cursor = (struct rank_cursor){.profile = profile,
                                   .bytes = {.at = from->costs, .end = from->costs + from->bytes}};
}

static bool is_known(const struct profile *profile, const struct rank_cost *cost)
{
    return cost->metric < profile->metric_count && cost->tree < profile->tree_count &&
           cost->node < profile->trees[cost->tree].count;
}

const struct rank_cost *rank_cursor_next(struct rank_cursor *cursor)
{
    struct rank_cost *cost = &cursor->cost;
    while (cursor_left(&cursor->bytes) > 0 && !cursor->bytes.failed) {
        if (cursor->left == 0) {
            cost->metric = cursor_varint32(&cursor->bytes);
            cost->tree = cursor_varint32(&cursor->bytes);
            cost->node = 0;
            cursor->left = cursor_varint(&cursor->bytes);
            continue;
        }
        cursor->left--;
        cost->node += cursor_varint32(&cursor->bytes);
        cost->value = cursor_varint(&cursor->bytes);
        if (!cursor->bytes.failed && is_known(cursor->profile, cost))
            return cost;
    }
    return NULL;
}
