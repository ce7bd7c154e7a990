// SPDX-License-Identifier: MIT
#include "analyze/tree/creation_path.h"
#include "base/memory.h"
#include <stdlib.h>

static int by_place(const void *left, const void *right)
{
    const place_t a = *(const place_t *)left, b = *(const place_t *)right;
    return a < b ? -1 : a > b;
}

static bool is_shown(const struct profile_creation *step, const struct known_functions *known)
{
    return !step->function || !known->count ||
           bsearch(&step->function, known->places, known->count, sizeof *known->places, by_place);
}

// The step that comes before, or the creator itself; PROFILE_NO_PARENT: none.
static uint32_t first_step(const struct profile *profile, const struct profile_tree *tree)
{
    return tree->creator && tree->creator <= profile->creation_count ? tree->creator - 1
                                                                     : PROFILE_NO_PARENT;
}

struct profile_tree creation_path(const struct profile *profile, const struct profile_tree *tree,
                                  const struct known_functions *known)
{
    const struct profile_creation *steps = profile->creations;
    struct profile_tree path = {.process = tree->process, .count = 1};
    const uint32_t last = first_step(profile, tree);
    for (uint32_t at = last; at != PROFILE_NO_PARENT; at = steps[at].parent)
        path.count += is_shown(&steps[at], known);
    path.nodes = memory_array(path.count, sizeof *path.nodes);
    uint32_t free = path.count;
    for (uint32_t at = last; at != PROFILE_NO_PARENT; at = steps[at].parent) {
        if (!is_shown(&steps[at], known))
            continue;
        free--;
        path.nodes[free] = (struct profile_node){
            .parent = free - 1, .site = steps[at].site, .function = steps[at].function};
    }
    path.nodes[0] = (struct profile_node){.parent = PROFILE_NO_PARENT};
    return path;
}

struct known_functions known_functions(const struct profile *profile)
{
    struct known_functions known = {0};
    size_t most = 0;
    if (!profile->tracker || strcmp(profile->tracker, "calls") != 0)
        return known;
    for (unsigned t = 0; t < profile->tree_count; t++)
        most += profile->trees[t].count;
    known.places = memory_array(most, sizeof *known.places);
    for (unsigned t = 0; t < profile->tree_count; t++)
        for (uint32_t i = 0; i < profile->trees[t].count; i++)
            if (profile->trees[t].nodes[i].function)
                known.places[known.count++] = profile->trees[t].nodes[i].function;
    if (known.count)
        qsort(known.places, known.count, sizeof *known.places, by_place);
    return known;
}

void known_functions_free(struct known_functions *known)
{
    free(known->places);
    *known = (struct known_functions){0};
}

bool creation_is_known(const struct profile *profile)
{
    bool threads = false;
    for (unsigned i = 0; i < profile->tree_count; i++) {
        if (profile->trees[i].creator)
            return true;
        threads |= profile->trees[i].start != 0;
    }
    return !threads;
}
