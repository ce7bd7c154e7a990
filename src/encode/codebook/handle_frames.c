// SPDX-License-Identifier: MIT
#include "encode/codebook/handle_frames.h"
#include <errno.h>

// A node that is whole; NULL: there is none of that number.
static const struct intern_node *node_at(const struct intern *intern, uint32_t number)
{
    if (number == 0 || number >= intern->capacity)
        return NULL;
    const struct intern_node *node = &intern->node[number];
    return __atomic_load_n(&node->level, __ATOMIC_ACQUIRE) ? node : NULL;
}

// Frames that were walked, from the youngest on.
static int walked_part(const struct intern *intern, const struct intern_node *node,
                       struct handle_frames *part)
{
    // The origin is the first level. Each parent is one level lower, so this ends.
    const uint32_t count = node->level - 1;
    if (count > part->limit)
        return -ENOSPC;
    for (uint32_t left = count; left > 0; left--) {
        if (!node || node->edge != INTERN_FRAME || node->level != left + 1)
            return -EBADMSG;
        part->frames[left - 1] = (struct walked){node->id, node->handle};
        node = node_at(intern, node->parent);
    }
    if (!node || node->edge != INTERN_ORIGIN)
        return -EBADMSG;
    part->count = count;
    part->creator_id = node->id;
    part->creator_handle = node->handle;
    return 0;
}

// The root is a frame, too, as long as it has not left by a jump.
static void path_to_frames(const struct graph *graph, const uint32_t *path, uint32_t count,
                           uint32_t root, struct handle_frames *part)
{
    part->frames[0] = (struct walked){0, graph_function(graph, root)->entry};
    part->count = 1 + path_to_walk(graph, path, count, part->frames + 1);
    for (uint32_t i = 0; i < count; i++) {
        const struct graph_edge *edge = graph_edge(graph, path[i]);
        if (edge->kind != EDGE_SILENT_JUMP)
            return;
        part->frames[0].function = graph_function(graph, edge->callee)->entry;
    }
}

static int encoded_part(const struct codebook *codebook, const struct interned_context *interned,
                        struct handle_frames *part)
{
    const struct graph *graph = &codebook->graph;
    const struct dictionary *dictionary =
        codebook_dictionary(codebook, handle_stamp(interned->handle));
    struct intern_result found = {.stack = part->stack, .limit = part->limit};
    if (part->limit < 2)
        return -ENOSPC;
    const int status = intern_context(&codebook->intern, interned, &found);
    if (status < 0)
        return status;
    const struct encoded_context *context = &found.context;
    if (!dictionary || context->function >= graph_functions(graph) ||
        context->root >= graph_functions(graph))
        return -EBADMSG;
    const uint32_t most = part->limit - 1; // the root is a frame, too
    int64_t count = context_decode_confirmed(graph, dictionary, context, part->path, most);
    if (count < 0)
        return (int)count;
    path_to_frames(graph, part->path + most - count, (uint32_t)count, context->root, part);
    part->creator_id = found.origin.id;
    part->creator_handle = found.origin.handle;
    return 0;
}

int codebook_frames(const struct codebook *codebook, uint64_t id, uint64_t handle,
                    struct handle_frames *part)
{
    const struct intern *intern = &codebook->intern;
    const uint32_t number = (uint32_t)handle;
    if (number != 0 && number < codebook->first_node)
        return -ESTALE;
    const struct intern_node *point = node_at(intern, number - codebook->first_node);
    if (!point || point->edge != INTERN_POINT)
        return -EBADMSG;
    part->point = point->id;
    const struct intern_node *below = node_at(intern, point->parent);
    if (!below)
        return -EBADMSG;
    // Walked contexts have no number, and no stamp: anything else was never handed out.
    if (point->count == GRAPH_NONE)
        return id || handle_stamp(handle) ? -EBADMSG : walked_part(intern, below, part);
    const struct interned_context interned = {id, handle - number + point->parent, point->count};
    return encoded_part(codebook, &interned, part);
}
