// SPDX-License-Identifier: MIT

#include "analyze/tree/name_sums.h"
#include "analyze/names/names.h"
#include "base/memory.h"

#define NAMES_LISTED 12

static void add(struct name_sums *sums, const char *name, uint64_t members, uint64_t cost)
{
    uint64_t hash = 0;
    for (const char *at = name; *at; at++)
        hash = hash_index_mix(hash + (unsigned char)*at);
    struct hash_index_cursor cursor = hash_index_find(&sums->by_name, hash);
    for (uint32_t found; hash_index_next(&sums->by_name, &cursor, &found);)
        if (strcmp(sums->sums[found].name, name) == 0) {
            sums->sums[found].members += members;
            sums->sums[found].cost += cost;
            return;
        }
    sums->sums = memory_grown(sums->sums, &sums->capacity, sums->count + 1, sizeof *sums->sums);
    sums->sums[sums->count] =
        (struct name_sum){.name = memory_text(name), .members = members, .cost = cost};
    hash_index_add(&sums->by_name, hash, (uint32_t)sums->count++);
}

static int compare(const void *left, const void *right)
{
    const struct name_sum *a = left, *b = right;
    if (a->cost != b->cost)
        return a->cost < b->cost ? 1 : -1;
    return strcmp(a->name, b->name);
}

static struct name_sums sorted(struct name_sums sums)
{
    if (sums.count > 1)
        qsort(sums.sums, sums.count, sizeof *sums.sums, compare);
    hash_index_free(&sums.by_name); // its numbers are wrong now
    sums.by_name = (struct hash_index){0};
    return sums;
}

struct name_sums name_sums_threads(struct functions *functions, const struct profile *profile,
                                   const struct build_options *options, const uint64_t *costs)
{
    struct name_sums sums = {0};
    for (unsigned i = 0; i < profile->tree_count; i++) {
        const struct profile_tree *tree = &profile->trees[i];
        if (build_selects(functions, profile, tree, options))
            add(&sums, build_thread_name(functions, profile, tree, THREADS_BY_NAME), tree->threads,
                costs ? costs[i] : tree->stats.cost_ns);
    }
    return sorted(sums);
}

struct name_sums name_sums_programs(struct functions *functions, const struct profile *profile,
                                    const struct build_options *options, const uint64_t *costs)
{
    struct name_sums sums = {0};
    const struct names *names = functions_names(functions);
    for (uint32_t i = 0; i < profile->process_count; i++)
        if (build_selects_process(functions, profile, i, options))
            add(&sums, names_program(names, i), 1, 0);
    for (unsigned i = 0; i < profile->tree_count; i++) {
        const struct profile_tree *tree = &profile->trees[i];
        if (tree->process < profile->process_count &&
            build_selects(functions, profile, tree, options))
            add(&sums, names_program(names, tree->process), 0,
                costs ? costs[i] : tree->stats.cost_ns);
    }
    return sorted(sums);
}

void name_sums_free(struct name_sums *sums)
{
    for (size_t i = 0; i < sums->count; i++)
        free(sums->sums[i].name);
    free(sums->sums);
    *sums = (struct name_sums){0};
}

char *name_sums_list(const struct name_sums *sums)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = memory_checked(open_memstream(&text, &bytes));
    for (size_t i = 0; i < sums->count && i < NAMES_LISTED; i++) {
        fprintf(out, "%s%s", i ? ", " : "", sums->sums[i].name);
        if (sums->sums[i].members > 1)
            fprintf(out, " (%llu)", (unsigned long long)sums->sums[i].members);
    }
    if (sums->count > NAMES_LISTED)
        fprintf(out, " and %zu more", sums->count - NAMES_LISTED);
    if (sums->count == 0)
        fputs("none", out);
    fclose(out);
    return memory_checked(text);
}
