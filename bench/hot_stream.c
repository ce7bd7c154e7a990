// SPDX-License-Identifier: MIT
// 24 hours in 60 seconds: a stream of calls over far more contexts than memory could hold goes
// through a hot tree, and the tree must stay within its budget and its bounds.
//
//   hot_stream [CALLS [CONTEXTS [COUNTERS [MINER]]]]     10^9 calls over 10^8 contexts, 50000
//                                                        counters, space-saving (lossy, sticky)
//
// The program that calls is an explicit stack: it returns for some frames, and calls as many anew.
// Most of its ways are drawn evenly, so that most contexts are met once or twice; the others prefer
// low digits, so that some are hot; and a few deep contexts are visited on purpose. Exact
// counts are kept of those, of all contexts near the root, and of one in a thousand of the others.
// It prints what it found, and fails if anything does not hold.

#include "tree/layout.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { MOST_DEPTH = 16, PLANTED = 64, PLANTED_ONE_IN = 64, TABLE_BITS = 20, SAMPLED_ONE_IN = 1024 };

struct sampled {
    uint64_t name, count;
};

static struct {
    uint64_t calls, counters;
    unsigned base, depth, miner;
    struct arena arena;
    uint64_t arena_bytes;
    ref_t tree;
    ref_t edges[256];
    // The stack of the program: node and name of each frame. A name is the number that the digits
    // of a path make, behind a leading 1.
    ref_t nodes[MOST_DEPTH + 1];
    uint64_t names[MOST_DEPTH + 1];
    unsigned top;
    uint64_t done;
    uint64_t random;
    uint64_t planted[PLANTED];
    uint8_t maybe_planted[512];
    // What is known exactly.
    uint64_t *near; // by name, of all names below near_limit
    uint64_t near_limit;
    struct sampled *sample;
    uint64_t sample_missed;
    uint8_t *met; // a bit for each name
    uint64_t distinct;
    uint64_t most_nodes;
    uint64_t wrong;
} stream;

static uint64_t next_random(void)
{
    stream.random ^= stream.random << 13;
    stream.random ^= stream.random >> 7;
    stream.random ^= stream.random << 17;
    return stream.random;
}

static uint64_t mix(uint64_t name)
{
    return name * UINT64_C(0x9e3779b97f4a7c15) >> 20;
}

static bool is_planted(uint64_t name)
{
    const uint64_t bit = mix(name) % 4096;
    if (!(stream.maybe_planted[bit / 8] >> bit % 8 & 1))
        return false;
    for (unsigned i = 0; i < PLANTED; i++)
        if (stream.planted[i] == name)
            return true;
    return false;
}

static struct sampled *find_sample(uint64_t name)
{
    const uint64_t mask = (UINT64_C(1) << TABLE_BITS) - 1;
    for (uint64_t at = mix(name) >> 10, tries = 0; tries < 64; at++, tries++) {
        struct sampled *entry = &stream.sample[at & mask];
        if (entry->name == name || entry->name == 0)
            return entry;
    }
    return NULL;
}

static bool is_sampled(uint64_t name)
{
    return mix(name) % SAMPLED_ONE_IN == 0;
}

static void note_exactly(uint64_t name, bool planted)
{
    const uint8_t bit = (uint8_t)(1u << name % 8);
    stream.distinct += !(stream.met[name / 8] & bit);
    stream.met[name / 8] |= bit;
    if (name < stream.near_limit) {
        stream.near[name]++;
    } else if (planted || is_sampled(name)) {
        struct sampled *entry = find_sample(name);
        if (entry) {
            entry->name = name;
            entry->count++;
        } else {
            stream.sample_missed++;
        }
    }
}

static void call(unsigned digit, bool planted)
{
    const ref_t caller = stream.nodes[stream.top];
    const uint64_t name = stream.names[stream.top] * stream.base + digit;
    __builtin_prefetch(&stream.met[name / 8]); // so that what is measured is the tree
    ref_t node = tree_child(&stream.arena, stream.tree, caller, stream.edges[digit]);
    if (!node) {
        stream.wrong++;
        return;
    }
    tree_charge(&stream.arena, stream.tree, node, 1);
    stream.top++;
    stream.nodes[stream.top] = node;
    stream.names[stream.top] = name;
    stream.done++;
    note_exactly(name, planted || (stream.top == stream.depth && is_planted(name)));
}

// All digits of a way come from one number: seldom is a division needed.
static void go_somewhere(void)
{
    const uint64_t draw = next_random();
    const bool evenly = draw >> 8 & 3;
    unsigned back = 1 + (unsigned)(draw >> 10 & 3);
    if ((draw >> 16 & 7) == 0)
        back = stream.depth; // another path altogether
    stream.top = stream.top > back ? stream.top - back : 0;
    uint64_t digits = next_random();
    while (stream.top < stream.depth) {
        unsigned digit = (unsigned)((digits & 0xffffffff) * stream.base >> 32);
        digits = digits * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        if (!evenly) { // the least of three
            for (unsigned i = 0; i < 2; i++) {
                const unsigned other = (unsigned)((digits >> 32) * stream.base >> 32);
                digits = digits * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
                digit = other < digit ? other : digit;
            }
        }
        digits = digits << 7 | digits >> 57;
        call(digit, false);
    }
}

static void go_to(uint64_t name)
{
    unsigned digits[MOST_DEPTH];
    for (unsigned i = stream.depth; i-- > 0; name /= stream.base)
        digits[i] = (unsigned)(name % stream.base);
    stream.top = 0;
    for (unsigned i = 0; i < stream.depth; i++)
        call(digits[i], i + 1 == stream.depth);
}

static uint64_t power(uint64_t base, unsigned exponent)
{
    uint64_t result = 1;
    while (exponent-- > 0)
        result *= base;
    return result;
}

static void open_stream(void)
{
    // What the tree may take: a counter's node, twice as many for their ancestors, M, and a little
    // for edges and heads.
    stream.arena_bytes = stream.counters * (3 * 32 + 8) + (UINT64_C(1) << 20);
    if (stream.miner != TREE_SPACE_SAVING)
        stream.arena_bytes *= 8; // they have as many counters as they need
    void *memory = mmap(NULL, stream.arena_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        exit(2);
    arena_init(&stream.arena, memory, sizeof(struct arena_head), stream.arena_bytes);
    stream.tree =
        tree_new(&stream.arena, &(struct tree_options){.kind = TREE_HOT,
                                                       .miner = stream.miner,
                                                       .counters = stream.counters,
                                                       .sticky_items = stream.counters * 4});
    if (!stream.tree)
        exit(2);
    for (unsigned i = 0; i < stream.base; i++)
        stream.edges[i] = tree_edge(&stream.arena, stream.tree, 16 + i, 512 + i);
    stream.nodes[0] = tree_root(&stream.arena, stream.tree);
    stream.names[0] = 1;
    stream.random = UINT64_C(88172645463325252);
    stream.near_limit = 2 * power(stream.base, stream.depth > 4 ? 4 : stream.depth);
    stream.near = calloc(stream.near_limit, sizeof *stream.near);
    stream.sample = calloc(UINT64_C(1) << TABLE_BITS, sizeof *stream.sample);
    const uint64_t deepest = power(stream.base, stream.depth);
    stream.met = calloc(deepest / 4 + 1, 1);
    if (!stream.near || !stream.sample || !stream.met)
        exit(2);
    for (unsigned i = 0; i < PLANTED; i++) {
        stream.planted[i] = deepest + next_random() % deepest;
        const uint64_t bit = mix(stream.planted[i]) % 4096;
        stream.maybe_planted[bit / 8] |= (uint8_t)(1u << bit % 8);
    }
}

static uint64_t name_of(ref_t ref)
{
    uint64_t name = 0, unit = 1;
    const ref_t root = tree_root(&stream.arena, stream.tree);
    for (; ref && ref != root; unit *= stream.base) {
        const struct node *node = arena_at(&stream.arena, ref);
        struct edge edge;
        if (!tree_edge_read(&stream.arena, stream.arena_bytes, node->edge, &edge))
            return 0;
        name += (edge.function - 512) * unit;
        ref = node->parent;
    }
    return name + unit;
}

static uint64_t *exact_count(uint64_t name)
{
    if (name < stream.near_limit)
        return &stream.near[name];
    if (!is_sampled(name) && !is_planted(name))
        return NULL;
    struct sampled *entry = find_sample(name);
    return entry && entry->name == name ? &entry->count : NULL;
}

struct outcome {
    struct tree_hot hot;
    uint64_t sum, checked, largest_error, planted;
};

// What was monitored is taken out of the exact counts: what is left was not.
static bool check_node(void *context, ref_t ref, const struct node *node)
{
    struct outcome *outcome = context;
    const uint64_t count = node->value[0], error = node->value[1], name = name_of(ref);
    outcome->sum += count;
    if (count == 0)
        return true;
    outcome->planted += name && is_planted(name);
    uint64_t *exact = exact_count(name);
    if (!exact)
        return true;
    outcome->checked++;
    const bool bounded = outcome->hot.miner == TREE_STICKY_SAMPLING
                             ? count <= *exact
                             : count >= *exact && count - error <= *exact;
    if (!bounded || error > outcome->hot.floor) {
        stream.wrong++;
        fprintf(stderr, "%" PRIu64 ": %" PRIu64 " - %" PRIu64 " but %" PRIu64 "\n", name, count,
                error, *exact);
    }
    const uint64_t off = count > *exact ? count - *exact : *exact - count;
    if (off > outcome->largest_error)
        outcome->largest_error = off;
    *exact = 0;
    return true;
}

static void check_the_rest(const struct outcome *outcome)
{
    for (uint64_t i = 2; i < stream.near_limit; i++)
        if (stream.near[i] > outcome->hot.floor)
            stream.wrong++;
    for (uint64_t i = 0; i < UINT64_C(1) << TABLE_BITS; i++)
        if (stream.sample[i].count > outcome->hot.floor)
            stream.wrong++;
    if (outcome->sum - outcome->hot.made_up != stream.done)
        stream.wrong++;
    if (outcome->hot.floor > stream.done / stream.counters)
        stream.wrong++;
    if (outcome->hot.miner == TREE_SPACE_SAVING &&
        (outcome->hot.scans > 2 * outcome->hot.events || outcome->hot.made_up))
        stream.wrong++;
    if (atomic_load(&arena_head(&stream.arena)->refused) || stream.sample_missed)
        stream.wrong++;
}

static uint64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static uint64_t argument(int count, char **words, int index, uint64_t otherwise)
{
    return count > index ? (uint64_t)strtod(words[index], NULL) : otherwise;
}

// Digits for that many contexts and half as many again, as some are never met.
static void choose_base(uint64_t contexts)
{
    stream.depth = contexts < 1000000 ? 6 : 8;
    stream.base = 2;
    while (stream.base < 256 && power(stream.base, stream.depth) < contexts + contexts / 2)
        stream.base++;
}

static void report(const struct outcome *outcome, const char *miner, uint64_t spent)
{
    const uint64_t used = atomic_load(&arena_head(&stream.arena)->used);
    printf("%" PRIu64 " calls in %" PRIu64 " contexts, by %s with %" PRIu64 " counters: %.1f s of "
           "CPU time, %.0f ns a call, exact counts beside it included\n",
           stream.done, stream.distinct, miner, stream.counters, (double)spent / 1e9,
           (double)spent / (double)stream.done);
    printf("memory: %.2f MB of a budget of %.2f MB, %" PRIu64 " nodes at most; a full tree would "
           "have %.0f MB\n",
           (double)used / 1e6, (double)stream.arena_bytes / 1e6, stream.most_nodes,
           (double)stream.distinct * 24 / 1e6);
    printf("bounds: a context that is not there has at most %" PRIu64 " (epsilon * N is %" PRIu64
           "); %" PRIu64 " counts compared with exact ones, the largest error is %" PRIu64
           "; %" PRIu64 " of %d planted contexts found; %.2f scans an event; %" PRIu64 " wrong\n",
           outcome->hot.floor, stream.done / stream.counters, outcome->checked,
           outcome->largest_error, outcome->planted, PLANTED,
           (double)outcome->hot.scans / (double)outcome->hot.events, stream.wrong);
}

// As many as there ever were at once: the next one is made where none is free.
static uint64_t nodes_made(void)
{
    uint64_t nodes = 0;
    const struct node_block *block;
    for (ref_t at = tree_at(&stream.arena, stream.tree)->first_block; at; at = block->next) {
        block = arena_at(&stream.arena, at);
        nodes += block->used;
    }
    return nodes;
}

int main(int count, char **words)
{
    stream.calls = argument(count, words, 1, 1000000000);
    const uint64_t contexts = argument(count, words, 2, 100000000);
    stream.counters = argument(count, words, 3, 50000);
    const char *miner = count > 4 ? words[4] : "space-saving";
    stream.miner = !strcmp(miner, "lossy")    ? TREE_LOSSY_COUNTING
                   : !strcmp(miner, "sticky") ? TREE_STICKY_SAMPLING
                                              : TREE_SPACE_SAVING;
    choose_base(contexts);
    open_stream();
    const uint64_t begin = now();
    for (uint64_t i = 0; stream.done < stream.calls; i++) {
        if (i % PLANTED_ONE_IN == 0)
            go_to(stream.planted[i / PLANTED_ONE_IN % PLANTED]);
        else
            go_somewhere();
    }
    const uint64_t spent = now() - begin;
    stream.most_nodes = nodes_made();
    static struct outcome outcome;
    if (!tree_hot_read(&stream.arena, stream.arena_bytes, stream.tree, &outcome.hot))
        return 2;
    tree_scan(&stream.arena, stream.arena_bytes, stream.tree, check_node, &outcome);
    check_the_rest(&outcome);
    report(&outcome, miner, spent);
    return stream.wrong ? 1 : 0;
}
