// SPDX-License-Identifier: MIT

#include "analyze/index/child_index.h"
#include "base/memory.h"

enum { LISTED_CHILDREN = 16 };

struct child_cursor child_index_find(const struct child_index *index, uint32_t parent,
                                     uint64_t edge)
{
    return (struct child_cursor){
        .parent = parent,
        .next = parent < index->used ? index->links[parent].newest_child : 0,
        .hash = edge + parent,
    };
}

bool child_index_next(const struct child_index *index, struct child_cursor *cursor, uint32_t *child)
{
    if (cursor->next) {
        *child = cursor->next;
        cursor->next = index->links[*child].older_sibling;
        if (++cursor->listed == LISTED_CHILDREN) {
            cursor->hash = hash_index_mix(cursor->hash);
            cursor->further = hash_index_find(&index->further, cursor->hash);
        }
        return true;
    }
    return cursor->listed == LISTED_CHILDREN &&
           hash_index_next(&index->further, &cursor->further, child);
}

void child_index_add(struct child_index *index, const struct child_cursor *cursor, uint32_t child)
{
    if (cursor->listed == LISTED_CHILDREN) {
        hash_index_add(&index->further, cursor->hash, child);
        return;
    }
    // Parents stand before their children.
    const size_t used = (size_t)child + 1;
    index->links = memory_grown(index->links, &index->capacity, used, sizeof *index->links);
    if (used > index->used) {
        memset(index->links + index->used, 0, (used - index->used) * sizeof *index->links);
        index->used = used;
    }
    index->links[child].older_sibling = index->links[cursor->parent].newest_child;
    index->links[cursor->parent].newest_child = child;
}

void child_index_free(struct child_index *index)
{
    free(index->links);
    hash_index_free(&index->further);
    *index = (struct child_index){0};
}
