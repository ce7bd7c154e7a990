// SPDX-License-Identifier: MIT

// Waiters for locks, and the holders of these: pairs of nodes.

#include "base/memory.h"
#include "export/page/page_columns.h"

struct lock_pair {
    uint32_t waiter, holder; // rows of nodes
    uint64_t ns, waits;
};

// The row of a node of the profile; CALL_NONE: it is not in the page.
static uint32_t row_of(const struct page_columns *page, uint32_t tree, uint32_t node)
{
    const struct profile *profile = page->input->analysis->profile;
    if (tree >= profile->tree_count || node >= profile->trees[tree].count ||
        !page->input->images[tree].nodes)
        return CALL_NONE;
    const uint32_t into = page->input->images[tree].nodes[node];
    return into == CALL_NONE ? CALL_NONE : page->id[into];
}

void page_put_locks(struct page_columns *page)
{
    const struct profile *profile = page->input->analysis->profile;
    struct lock_pair *pairs = memory_array(profile->blame_count, sizeof *pairs);
    size_t count = 0;
    for (unsigned i = 0; i < profile->blame_count; i++) {
        const struct profile_blame *blame = &profile->blames[i];
        const struct lock_pair pair = {
            .waiter = row_of(page, blame->waiter.tree, blame->waiter.node),
            .holder = row_of(page, blame->holder.tree, blame->holder.node),
            .ns = blame->ns,
            .waits = blame->waits,
        };
        if (pair.waiter != CALL_NONE && pair.holder != CALL_NONE)
            pairs[count++] = pair;
    }
    const size_t begin = page_section_begin(&page->out, "LOCK");
    bytes_put_varint(&page->out, count);
    for (size_t i = 0; i < count; i++)
        bytes_put_varint(&page->out, pairs[i].waiter);
    for (size_t i = 0; i < count; i++)
        bytes_put_varint(&page->out, pairs[i].holder);
    for (size_t i = 0; i < count; i++)
        bytes_put_varint(&page->out, pairs[i].ns);
    for (size_t i = 0; i < count; i++)
        bytes_put_varint(&page->out, pairs[i].waits);
    page_section_end(&page->out, begin);
    free(pairs);
}
