// SPDX-License-Identifier: MIT

#include "analyze/compare/compare.h"
#include "base/memory.h"

static uint64_t hash_name(const char *name, uint32_t module)
{
    uint64_t hash = 0xcbf29ce484222325;
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 0x100000001b3;
    return hash_index_mix(hash + module);
}

uint32_t compare_function(struct compare_tree *tree, const char *name, uint32_t module)
{
    uint64_t hash = hash_name(name, module);
    struct hash_index_cursor cursor = hash_index_find(&tree->by_name, hash);
    for (uint32_t found; hash_index_next(&tree->by_name, &cursor, &found);)
        if (tree->functions[found].module == module &&
            strcmp(tree->functions[found].name, name) == 0)
            return found;
    tree->functions = memory_grown(tree->functions, &tree->function_capacity,
                                   tree->function_count + 1, sizeof *tree->functions);
    uint32_t number = (uint32_t)tree->function_count++;
    tree->functions[number] = (struct compare_function){memory_text(name), module};
    hash_index_add(&tree->by_name, hash, number);
    return number;
}

struct compare_tree *compare_tree_new(void)
{
    struct compare_tree *tree = memory_array(1, sizeof *tree);
    compare_function(tree, "", 0);
    tree->contexts = memory_grown(NULL, &tree->capacity, 1, sizeof *tree->contexts);
    tree->contexts[0] = (struct compare_context){.has = {true, true}};
    tree->count = 1;
    return tree;
}

void compare_tree_free(struct compare_tree *tree)
{
    if (!tree)
        return;
    for (size_t i = 0; i < tree->function_count; i++)
        free(tree->functions[i].name);
    child_index_free(&tree->by_edge);
    hash_index_free(&tree->by_name);
    free(tree->functions);
    free(tree->contexts);
    free(tree);
}

uint32_t compare_child(struct compare_tree *tree, uint32_t parent, uint32_t site, uint32_t function,
                       enum compare_side side)
{
    const uint64_t edge = hash_index_mix((uint64_t)site << 32 | function);
    struct child_cursor cursor = child_index_find(&tree->by_edge, parent, edge);
    for (uint32_t found; child_index_next(&tree->by_edge, &cursor, &found);) {
        struct compare_context *context = &tree->contexts[found];
        if (context->parent == parent && context->site == site && context->function == function) {
            context->has[side] = true;
            return found;
        }
    }
    tree->contexts =
        memory_grown(tree->contexts, &tree->capacity, tree->count + 1, sizeof *tree->contexts);
    uint32_t number = (uint32_t)tree->count++;
    tree->contexts[number] =
        (struct compare_context){.parent = parent, .site = site, .function = function};
    tree->contexts[number].has[side] = true;
    child_index_add(&tree->by_edge, &cursor, number);
    return number;
}

size_t compare_prune(struct compare_tree *tree, enum compare_side side, double least)
{
    bool *kept = memory_array(tree->count, sizeof *kept);
    size_t dropped = 0;
    for (size_t i = tree->count; i-- > 1;) { // parents stand before their children
        struct compare_context *context = &tree->contexts[i];
        kept[i] |= (double)context->weight[side] >= least;
        kept[context->parent] |= kept[i];
        if (kept[i])
            continue;
        dropped += context->weight[side] > 0;
        tree->made_up[side] -= (int64_t)context->weight[side];
        context->weight[side] = 0;
        context->has[side] = false;
    }
    free(kept);
    return dropped;
}
