// SPDX-License-Identifier: MIT
#include "encode/codebook/codebook.h"
#include <errno.h>
#include <string.h>

struct source {
    const uint8_t *at, *end;
    bool failed; // sticky: looked at where it matters
};

static uint64_t take(struct source *source)
{
    uint64_t value = 0;
    for (unsigned shift = 0; source->at < source->end && shift < 64; shift += 7) {
        uint8_t byte = *source->at++;
        if (shift == 63 && byte > 1)
            break;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return value;
    }
    source->failed = true;
    return 0;
}

static uint64_t take_signed(struct source *source)
{
    uint64_t value = take(source);
    return value >> 1 ^ (0 - (value & 1));
}

// A number below a limit.
static uint32_t take_below(struct source *source, uint64_t limit)
{
    uint64_t value = take(source);
    if (value >= limit)
        source->failed = true;
    return source->failed ? 0 : (uint32_t)value;
}

// How many follow; each takes at least one byte, and must be there.
static uint32_t take_count(struct source *source)
{
    return take_below(source, (uint64_t)(source->end - source->at) + 1);
}

static uint32_t take_near(struct source *source, uint64_t from, uint64_t limit)
{
    uint64_t value = from + take_signed(source);
    if (value >= limit)
        source->failed = true;
    return source->failed ? 0 : (uint32_t)value;
}

void codebook_init(struct codebook *codebook, struct pool *pool)
{
    *codebook = (struct codebook){.pool = pool, .dictionary_limit = UINT64_C(1) << 32};
    graph_init(&codebook->graph, pool);
    codebook->dictionaries.size = sizeof(struct dictionary *);
}

void codebook_free(struct codebook *codebook)
{
    for (uint32_t i = 0; i < codebook->dictionary_count; i++)
        dictionary_free(&codebook->graph,
                        *(struct dictionary **)series_at(&codebook->dictionaries, i));
    series_free(&codebook->dictionaries, codebook->pool);
    graph_free(&codebook->graph);
    pool_unmap(codebook->pool, codebook->intern.node, codebook->intern_bytes);
    pool_close(codebook->pool);
    *codebook = (struct codebook){0};
}

static bool is_kind(uint64_t kind)
{
    return kind == EDGE_CALL || kind == EDGE_INDIRECT || kind == EDGE_SILENT_JUMP ||
           kind == EDGE_SILENT_CALL;
}

static int read_edge(struct graph *graph, struct source *source, uint32_t *before)
{
    uint32_t caller = take_near(source, *before, graph->function_count);
    uint32_t callee = take_near(source, caller, graph->function_count);
    uint64_t distance = take_signed(source);
    uint64_t kind = take(source);
    const uint64_t flags = kind / 8;
    kind %= 8;
    if (source->failed || (flags & ~(uint64_t)EDGE_UNENCODED) || !is_kind(kind))
        return -EBADMSG;
    place_t site = graph_function(graph, caller)->entry + distance;
    const uint32_t known = graph_find_site(graph, site);
    if ((known != GRAPH_NONE && graph_site(graph, known)->caller != caller) ||
        graph_find_edge(graph, site, callee) != GRAPH_NONE)
        return -EBADMSG;
    uint32_t edge = graph_add_edge(graph, site, caller, callee, (enum edge_kind)kind);
    if (edge == GRAPH_NONE)
        return -ENOMEM;
    graph_edge(graph, edge)->flags = (uint8_t)flags;
    *before = caller;
    return 0;
}

static int read_graph(struct codebook *codebook, struct source *source)
{
    struct graph *graph = &codebook->graph;
    if (take(source) != graph->function_count)
        return -EBADMSG;
    uint32_t count = take_count(source), before = 0;
    place_t entry =
        graph->function_count ? graph_function(graph, graph->function_count - 1)->entry : 0;
    for (; count > 0 && !source->failed; count--) {
        uint32_t number = graph->function_count;
        entry += take_signed(source);
        uint32_t function = source->failed ? number : graph_add_function(graph, entry);
        if (function == GRAPH_NONE)
            return -ENOMEM;
        if (function != number)
            return -EBADMSG;
    }
    if (take(source) != graph->edge_count)
        return -EBADMSG;
    int status = 0;
    for (count = take_count(source); count > 0 && status == 0; count--)
        status = read_edge(graph, source, &before);
    return status < 0 || !source->failed ? status : -EBADMSG;
}

// Dictionaries come in the order of their stamps.
static int keep(struct codebook *codebook, struct dictionary *dictionary)
{
    uint32_t count = codebook->dictionary_count;
    if (count > 0) {
        const struct dictionary *newest =
            *(struct dictionary **)series_at(&codebook->dictionaries, count - 1);
        if (dictionary->stamp <= newest->stamp)
            return -EBADMSG;
    }
    if (!series_reach(&codebook->dictionaries, codebook->pool, count))
        return -ENOMEM;
    *(struct dictionary **)series_at(&codebook->dictionaries, count) = dictionary;
    codebook->dictionary_bytes += dictionary->bytes;
    codebook->dictionary_count++;
    return 0;
}

// The lists of a dictionary.
struct lists {
    const struct graph *graph;
    uint32_t functions, edges_known;
    uint32_t *first, *edges;     // see struct dictionary_plan
    uint32_t count;              // edges so far
    bool *used;                  // by edge: it stands in a list
    bool *reserved, *has_no_own; // by function
    void *memory;
    size_t bytes;
};

static bool lists_init(struct lists *lists)
{
    size_t words = (size_t)lists->functions + 1 + lists->edges_known;
    lists->bytes = words * sizeof(uint32_t) + lists->edges_known + 2 * (size_t)lists->functions;
    lists->memory = pool_map(lists->graph->pool, lists->bytes);
    if (!lists->memory)
        return false;
    lists->first = lists->memory;
    lists->edges = lists->first + lists->functions + 1;
    lists->used = (bool *)(lists->edges + lists->edges_known);
    lists->reserved = lists->used + lists->edges_known;
    lists->has_no_own = lists->reserved + lists->functions;
    return true;
}

static bool add_edge(struct lists *lists, uint32_t function, uint32_t edge)
{
    if (lists->used[edge] || graph_edge(lists->graph, edge)->callee != function ||
        graph_edge(lists->graph, edge)->caller >= lists->functions)
        return false;
    lists->used[edge] = true;
    lists->edges[lists->count++] = edge;
    return true;
}

static bool read_lists(struct lists *lists, struct source *source)
{
    uint32_t next = 0; // function whose list begins next
    for (uint32_t count = take_count(source); count > 0; count--) {
        uint64_t gap = take(source);
        if (source->failed || gap >= (uint64_t)lists->functions - next)
            return false;
        const uint32_t function = next + (uint32_t)gap;
        while (next <= function)
            lists->first[next++] = lists->count;
        uint64_t edges = take(source);
        uint32_t before = 0;
        lists->reserved[function] = edges & 1;
        lists->has_no_own[function] = edges >> 1 & 1;
        for (edges /= 4; edges > 0; edges--) {
            before = take_near(source, before, lists->edges_known);
            if (source->failed || !add_edge(lists, function, before))
                return false;
        }
    }
    while (next <= lists->functions)
        lists->first[next++] = lists->count;
    return !source->failed;
}

static int build_from(struct codebook *codebook, struct lists *lists, struct source *source,
                      const struct dictionary *head)
{
    if (!read_lists(lists, source))
        return -EBADMSG;
    struct silent_edges silent;
    if (silent_init(&silent, &codebook->graph, lists->functions, lists->edges_known) < 0)
        return -ENOMEM;
    struct dictionary_plan plan = {.stamp = head->stamp,
                                   .functions = lists->functions,
                                   .edges_known = lists->edges_known,
                                   .first = lists->first,
                                   .edges = lists->edges,
                                   .reserved = lists->reserved,
                                   .has_no_own = lists->has_no_own,
                                   .silent = &silent,
                                   .id_bits = 64,
                                   .ranges = head->ranges,
                                   .overflow = OVERFLOW_FAILS};
    struct dictionary *made = NULL;
    int status = dictionary_build(&codebook->graph, &plan, &made);
    silent_free(&silent);
    if (status < 0)
        return status == -ENOMEM ? status : -EBADMSG;
    if (made->max_id != head->max_id)
        status = -EBADMSG;
    else if (made->bytes > codebook->dictionary_limit - codebook->dictionary_bytes)
        status = -ENOMEM;
    if (status == 0)
        status = keep(codebook, made);
    if (status < 0)
        dictionary_free(&codebook->graph, made);
    return status;
}

static int read_dictionary(struct codebook *codebook, struct source *source,
                           enum dictionary_ranges ranges)
{
    struct dictionary head = {.ranges = ranges};
    head.stamp = take_below(source, UINT64_C(1) << 32);
    take_below(source, 1); // no other dictionary that it builds on
    struct lists lists = {.graph = &codebook->graph};
    lists.functions = take_below(source, codebook->graph.function_count + 1ull);
    lists.edges_known = take_below(source, codebook->graph.edge_count + 1ull);
    head.max_id = take(source);
    if (source->failed)
        return -EBADMSG;
    int status = lists_init(&lists) ? 0 : -ENOMEM;
    if (status == 0)
        status = build_from(codebook, &lists, source, &head);
    pool_unmap(codebook->pool, lists.memory, lists.bytes);
    return status;
}

// Room for more nodes: the old ones are copied. Nobody looks them up by content here.
static bool reach_nodes(struct codebook *codebook, uint64_t count)
{
    struct intern *intern = &codebook->intern;
    if (count <= intern->capacity)
        return true;
    uint64_t capacity = intern->capacity ? intern->capacity : 64;
    while (capacity < count)
        capacity *= 2;
    struct intern_node *nodes = pool_map(codebook->pool, capacity * sizeof *nodes);
    if (!nodes)
        return false;
    if (intern->used > 0)
        memcpy(nodes, intern->node, intern->used * sizeof *nodes);
    pool_unmap(codebook->pool, intern->node, codebook->intern_bytes);
    intern->node = nodes;
    intern->capacity = (uint32_t)capacity;
    intern->used = intern->used ? intern->used : 1;
    codebook->intern_bytes = capacity * sizeof *nodes;
    return true;
}

static uint32_t take_function(struct source *source)
{
    return take_below(source, UINT64_C(1) << 32) - 1; // 0: GRAPH_NONE
}

static int read_node(struct codebook *codebook, struct source *source)
{
    enum { ORIGIN, POINT, FRAME, ENTRY };
    struct intern *intern = &codebook->intern;
    struct intern_node node = {.level = 1};
    const uint32_t kind = take_below(source, (uint64_t)codebook->graph.edge_count + ENTRY);
    node.edge = kind >= ENTRY    ? kind - ENTRY
                : kind == ORIGIN ? INTERN_ORIGIN
                : kind == POINT  ? INTERN_POINT
                                 : INTERN_FRAME;
    node.id = take(source);
    if (kind == FRAME)
        node.handle = take(source);
    else
        node.count = kind >= ENTRY ? take_below(source, UINT64_C(1) << 32) : take_function(source);
    if (kind == ORIGIN) {
        node.parent = take_function(source);
        node.handle = take(source);
    } else {
        node.parent = take_near(source, intern->used, intern->used);
        node.level = source->failed ? 0 : intern->node[node.parent].level + 1;
        if (node.parent == 0)
            return -EBADMSG;
    }
    if (source->failed)
        return -EBADMSG;
    intern->node[intern->used++] = node;
    return 0;
}

static int read_stacks(struct codebook *codebook, struct source *source)
{
    uint64_t first = take(source);
    uint32_t count = take_count(source);
    if (source->failed || first != (codebook->intern.used ? codebook->intern.used : 1) ||
        first + count > UINT64_C(1) << 31)
        return -EBADMSG;
    if (!reach_nodes(codebook, first + count))
        return -ENOMEM;
    int status = 0;
    for (; count > 0 && status == 0; count--)
        status = read_node(codebook, source);
    return status;
}

int codebook_read(struct codebook *codebook, const uint8_t *data, size_t size)
{
    struct source source = {data, data + size, false};
    int status = 0;
    while (status == 0 && source.at < source.end) {
        switch (take(&source)) {
        case SECTION_GRAPH:
            status = read_graph(codebook, &source);
            break;
        case SECTION_DICTIONARY:
            status = read_dictionary(codebook, &source, RANGES_FROM_BEGIN);
            break;
        case SECTION_DICTIONARY_FROM_ZERO:
            status = read_dictionary(codebook, &source, RANGES_FROM_ZERO);
            break;
        case SECTION_STACKS:
            status = read_stacks(codebook, &source);
            break;
        default:
            status = -EBADMSG;
        }
    }
    return status;
}

const struct dictionary *codebook_dictionary(const struct codebook *codebook, uint32_t stamp)
{
    uint32_t first = 0, end = codebook->dictionary_count;
    while (first < end) {
        uint32_t middle = first + (end - first) / 2;
        const struct dictionary *dictionary =
            *(struct dictionary **)series_at(&codebook->dictionaries, middle);
        if (dictionary->stamp == stamp)
            return dictionary;
        if (dictionary->stamp < stamp)
            first = middle + 1;
        else
            end = middle;
    }
    return NULL;
}
