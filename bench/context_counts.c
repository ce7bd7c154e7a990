// SPDX-License-Identifier: MIT
// What a profile of exact calls holds, for the tables of the HCCT paper: functions (nodes of the
// call graph), call sites, contexts, calls, and how many nodes the hot tree of each phi would have.
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

// Hot nodes and their ancestors: parents come before children, so one pass from the end does it.
static uint64_t hot_nodes(const struct profile *profile, uint64_t threshold)
{
    uint64_t hot = 0;
    for (unsigned t = 0; t < profile->tree_count; t++) {
        const struct profile_tree *tree = &profile->trees[t];
        bool *kept = calloc(tree->count + 1, 1);
        if (!kept)
            exit(1);
        for (uint32_t node = tree->count; node-- > 0;) {
            kept[node] |= tree->nodes[node].function && calls_of(tree, node) >= threshold;
            if (kept[node] && tree->nodes[node].parent != PROFILE_NO_PARENT)
                kept[tree->nodes[node].parent] = true;
            hot += kept[node];
        }
        free(kept);
    }
    return hot;
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
           "\"hottest\":%llu,\"tree_bytes\":%llu,\"hot\":[",
           places_distinct(&functions), places_distinct(&sites), (unsigned long long)contexts,
           (unsigned long long)calls, (unsigned long long)hottest, (unsigned long long)bytes);
    for (int i = 2; i < count; i++) {
        double threshold = atof(words[i]) * (double)calls;
        printf("%s%llu", i > 2 ? "," : "",
               (unsigned long long)hot_nodes(profile, threshold < 1 ? 1 : (uint64_t)threshold));
    }
    puts("]}");
    free(functions.items);
    free(sites.items);
    profile_free(profile);
    return 0;
}
