// SPDX-License-Identifier: MIT
#include "patch/write/growing_list.h"
#include "base/system/agent_map.h"
#include <string.h>

#define KEPT_BYTES (UINT64_C(64) << 10)

void *growing_list_add(struct growing_list *growing, size_t bytes)
{
    if (growing->used + bytes > growing->room) {
        const size_t room = growing->room ? 2 * growing->room : KEPT_BYTES;
        unsigned char *more = agent_map(room);
        if (!more)
            return NULL;
        if (growing->room) {
            memcpy(more, growing->start, growing->used);
            agent_unmap(growing->start, growing->room);
        }
        growing->start = more;
        growing->room = room;
    }
    void *item = growing->start + growing->used;
    growing->used += bytes;
    return item;
}

void growing_list_clear(struct growing_list *growing)
{
    growing->used = 0;
    if (growing->room <= KEPT_BYTES)
        return;
    agent_unmap(growing->start, growing->room);
    *growing = (struct growing_list){0};
}
