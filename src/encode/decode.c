// SPDX-License-Identifier: MIT
#include "encode/decode.h"
#include "encode/ways.h"
#include <errno.h>

struct decoding {
    const struct graph *graph;
    const struct dictionary *dictionary;
    uint32_t *path;
    uint32_t at; // what lies behind it is filled
    uint32_t edges;
    uint64_t id;
    uint32_t function;
    bool confirmed;
};

static int emit(struct decoding *decoding, uint32_t edge)
{
    if (decoding->at == 0)
        return -ENOSPC;
    decoding->path[--decoding->at] = edge;
    return 0;
}

// A function has left by jumps that change nothing, which end in the one that is decoded.
static int decode_silent(struct decoding *decoding, uint32_t head)
{
    if (head >= graph_functions(decoding->graph))
        return -EBADMSG;
    uint32_t edges[WAYS];
    struct ways ways = {.graph = decoding->graph,
                        .kind = decoding->confirmed ? WAYS_OF_JUMPS : EDGE_SILENT_JUMP};
    ways_from_function(&ways, head);
    int count = ways_find(&ways, decoding->function, edges);
    if (count < 0)
        return -EBADMSG;
    for (int i = 1; i <= count; i++) {
        if (emit(decoding, edges[WAYS - i]) < 0)
            return -ENOSPC;
    }
    return 0;
}

// The head has no ids of its own, and has left silently. If the id 0 means something else in any
// function that it may have come to, it is not known where it is.
static int decode_head(struct decoding *decoding, uint32_t head)
{
    if (decoding->id != 0 || head >= graph_functions(decoding->graph))
        return -EBADMSG;
    if (decoding->confirmed)
        return decode_silent(decoding, head);
    uint32_t edges[WAYS];
    struct ways ways = {.graph = decoding->graph, .kind = EDGE_SILENT_JUMP};
    ways_from_function(&ways, head);
    ways_find(&ways, GRAPH_NONE, edges);
    for (uint32_t i = 0; i < ways.count; i++)
        if (dictionary_find(decoding->dictionary, ways.way[i].function, 0))
            return -EBADMSG;
    return ways.count < WAYS ? decode_silent(decoding, head) : -EBADMSG;
}

// The sub-path from its head, with its id there, to the function. Encoded edges make no circle, so
// the head is met once.
static int decode_part(struct decoding *decoding, uint32_t head, uint64_t id)
{
    while (decoding->id != id || decoding->function != head) {
        const struct dictionary_step *step =
            dictionary_find(decoding->dictionary, decoding->function, decoding->id);
        if (!step)
            return id == 0 ? decode_head(decoding, head) : -EBADMSG;
        int status = step->edge == GRAPH_NONE ? decode_silent(decoding, step->caller)
                                              : emit(decoding, step->edge);
        if (status < 0)
            return status;
        if (step->edge != GRAPH_NONE)
            decoding->id -= step->start;
        decoding->function = step->caller;
    }
    return 0;
}

// The entry below which a sub-path goes on; its edge if it is sound.
static const struct graph_edge *entry_edge(const struct decoding *decoding,
                                           const struct cc_entry *entry)
{
    if (entry->edge >= decoding->edges)
        return NULL;
    const struct graph_edge *edge = graph_edge(decoding->graph, entry->edge);
    if (edge_keeps_function(edge) && entry->count >= graph_functions(decoding->graph))
        return NULL;
    return edge;
}

static int64_t decode(const struct graph *graph, const struct dictionary *dictionary,
                      const struct context *context, uint32_t *path, uint32_t limit, bool confirmed)
{
    struct decoding decoding = {.graph = graph,
                                .dictionary = dictionary,
                                .path = path,
                                .at = limit,
                                .edges = graph_edges(graph),
                                .id = context->id,
                                .function = context->function,
                                .confirmed = confirmed};
    uint32_t depth = context->depth, repeated = 0; // of the entry on top: how often it was decoded
    for (;;) {
        const struct cc_entry *top = depth > 0 ? &context->stack[depth - 1] : NULL;
        const struct graph_edge *edge = top ? entry_edge(&decoding, top) : NULL;
        // A sub-path that began with an unencoded edge says so by the range of its id.
        if ((top != NULL) != (decoding.id > dictionary->max_id) || (top && !edge))
            return -EBADMSG;
        if (top)
            decoding.id -= dictionary_base(dictionary);
        int status =
            edge ? decode_part(&decoding, edge->callee, dictionary_own(dictionary, edge->callee))
                 : decode_part(&decoding, context->root, 0);
        if (status < 0)
            return status;
        if (!edge)
            return limit - decoding.at;
        if (emit(&decoding, top->edge) < 0)
            return -ENOSPC;
        decoding.id = top->id;
        bool keeps = edge_keeps_function(edge);
        decoding.function = keeps ? top->count : edge->caller;
        if (!keeps && repeated < top->count) {
            repeated++;
        } else {
            repeated = 0;
            depth--;
        }
    }
}

int64_t context_decode(const struct graph *graph, const struct dictionary *dictionary,
                       const struct context *context, uint32_t *path, uint32_t limit)
{
    return decode(graph, dictionary, context, path, limit, false);
}

int64_t context_decode_confirmed(const struct graph *graph, const struct dictionary *dictionary,
                                 const struct context *context, uint32_t *path, uint32_t limit)
{
    return decode(graph, dictionary, context, path, limit, true);
}

int64_t context_translate(struct machine *machine, uint32_t function, const struct dictionary *old,
                          const struct numbering *numbering, uint32_t *path, uint32_t limit)
{
    struct context context = context_of(machine, function);
    int64_t count = context_decode(numbering->graph, old, &context, path, limit);
    if (count < 0)
        return count;
    int status = machine_replay(machine, numbering, path + limit - count, (uint32_t)count);
    return status < 0 ? status : count;
}

uint32_t path_to_walk(const struct graph *graph, const uint32_t *path, uint32_t count,
                      struct walked *frames)
{
    uint32_t made = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct graph_edge *edge = graph_edge(graph, path[i]);
        place_t function = graph_function(graph, edge->callee)->entry;
        if (!edge_is_tail(edge))
            frames[made++] =
                (struct walked){graph_site(graph, edge->site)->place, function, path[i]};
        else if (made > 0)
            frames[made - 1].function = function;
    }
    return made;
}
