// SPDX-License-Identifier: MIT
// What a profile of exact calls holds, for the tables of the HCCT paper: functions (nodes of the
// call graph), call sites, contexts, calls, the share of the calls that the hottest contexts have
// (of one in 10,000, 1,000, 100 and 10), and for each phi, how many nodes the hot tree would have
// and which share of the calls is in them.
//
//   context_counts PROFILE PHI...

#include "profile/profile.h"
#include <stdio.h>
#include <stdlib.h>

static unsigned metric; // of the calls
static unsigned metrics;

// Sets of places, as sorted arrays: each is made once and asked once.
struct places {
    place_t *items;
    size_t count, capacity;
};

static void places_add(struct places *places, place_t place)
{
    if (places->count == places->capacity) {
        places->capacity = places->capacity ? places->capacity * 2 : 1 << 16;
        places->items = realloc(places->items, places->capacity * sizeof *places->items);
        if (!places->items)
            exit(1);
    }
    places->items[places->count++] = place;
}

static int by_value(const void *a, const void *b)
{
    const place_t x = *(const place_t *)a, y = *(const place_t *)b;
    return (x > y) - (x < y);
}

// Sorted and without repetitions, so that memory stays proportional to what is distinct.
static size_t places_distinct(struct places *places)
{
    size_t kept = 0;
    qsort(places->items, places->count, sizeof *places->items, by_value);
    for (size_t i = 0; i < places->count; i++)
        if (!kept || places->items[kept - 1] != places->items[i])
            places->items[kept++] = places->items[i];
    places->count = kept;
    return kept;
}

static uint64_t calls_of(const struct profile_tree *tree, uint32_t node)
{
    return tree->values[(size_t)node * metrics + metric];
}

struct hot {
    uint64_t nodes, calls;
};

// Hot nodes and their ancestors: parents come before children, so one pass from the end does it.
static struct hot hot_nodes(const struct profile *profile, uint64_t threshold)
{
    struct hot hot = {0};
    for (unsigned t = 0; t < profile->tree_count; t++) {
        const struct profile_tree *tree = &profile->trees[t];
        bool *kept = calloc(tree->count + 1, 1);
        if (!kept)
            exit(1);
        for (uint32_t node = tree->count; node-- > 0;) {
            kept[node] |= tree->nodes[node].function && calls_of(tree, node) >= threshold;
            if (kept[node] && tree->nodes[node].parent != PROFILE_NO_PARENT)
                kept[tree->nodes[node].parent] = true;
            hot.nodes += kept[node];
            hot.calls += kept[node] && tree->nodes[node].function ? calls_of(tree, node) : 0;
        }
        free(kept);
    }
    return hot;
}

// Their counts, the largest first.
static uint64_t *sorted_counts(const struct profile *profile, uint64_t contexts)
{
    uint64_t *counts = malloc((contexts + 1) * sizeof *counts), *next = counts;
    if (!counts)
        exit(1);
    for (unsigned t = 0; t < profile->tree_count; t++)
        for (uint32_t node = 0; node < profile->trees[t].count; node++)
            if (profile->trees[t].nodes[node].function)
                *next++ = ~calls_of(&profile->trees[t], node);
    qsort(counts, contexts, sizeof *counts, by_value);
    for (uint64_t i = 0; i < contexts; i++)
        counts[i] = ~counts[i];
    return counts;
}

static void print_skew(const struct profile *profile, uint64_t contexts, uint64_t calls)
{
    uint64_t *counts = sorted_counts(profile, contexts);
    uint64_t sum = 0, taken = 0;
    printf("\"skew\":[");
    for (uint64_t part = 10000; part >= 10; part /= 10) {
        for (; taken < (contexts + part - 1) / part; taken++)
            sum += counts[taken];
        printf("%s%.6f", part < 10000 ? "," : "", calls ? (double)sum / (double)calls : 0);
    }
    printf("],");
    free(counts);
}

int main(int count, char **words)
{
    char *error = NULL;
    struct profile *profile = count > 1 ? profile_read(words[1], &error) : NULL;
    if (!profile) {
        fprintf(stderr, "context_counts: %s\n", error ? error : "which profile?");
        return 2;
    }
    metrics = profile->metric_count;
    while (metric < metrics && !profile_counts_calls(&profile->metrics[metric]))
        metric++;
    if (metric == metrics) {
        fprintf(stderr, "context_counts: no calls in %s\n", words[1]);
        return 2;
    }
    struct places functions = {0}, sites = {0};
    uint64_t calls = 0, contexts = 0, hottest = 0, bytes = 0;
    for (unsigned t = 0; t < profile->tree_count; t++) {
        const struct profile_tree *tree = &profile->trees[t];
        for (uint32_t node = 0; node < tree->count; node++) {
            if (!tree->nodes[node].function)
                continue;
            contexts++;
            calls += calls_of(tree, node);
            if (calls_of(tree, node) > hottest)
                hottest = calls_of(tree, node);
            places_add(&functions, tree->nodes[node].function);
            places_add(&sites, tree->nodes[node].site);
            if (functions.count > 1 << 22)
                places_distinct(&functions);
            if (sites.count > 1 << 22)
                places_distinct(&sites);
        }
    }
    for (unsigned i = 0; i < profile->process_count; i++)
        bytes += profile->processes[i].tree_bytes;
    printf("{\"functions\":%zu,\"sites\":%zu,\"contexts\":%llu,\"calls\":%llu,"
           "\"hottest\":%llu,\"tree_bytes\":%llu,",
           places_distinct(&functions), places_distinct(&sites), (unsigned long long)contexts,
           (unsigned long long)calls, (unsigned long long)hottest, (unsigned long long)bytes);
    print_skew(profile, contexts, calls);
    struct hot *hot = calloc((size_t)count, sizeof *hot);
    if (!hot)
        exit(1);
    for (int i = 2; i < count; i++) {
        const double threshold = atof(words[i]) * (double)calls;
        hot[i] = hot_nodes(profile, threshold < 1 ? 1 : (uint64_t)threshold);
    }
    printf("\"hot\":[");
    for (int i = 2; i < count; i++)
        printf("%s%llu", i > 2 ? "," : "", (unsigned long long)hot[i].nodes);
    printf("],\"overlap\":[");
    for (int i = 2; i < count; i++)
        printf("%s%.6f", i > 2 ? "," : "", calls ? (double)hot[i].calls / (double)calls : 0);
    puts("]}");
    free(hot);
    free(functions.items);
    free(sites.items);
    profile_free(profile);
    return 0;
}
