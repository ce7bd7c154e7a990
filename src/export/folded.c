// SPDX-License-Identifier: MIT

// The flame graph convention: a line per call path, `outer;...;inner COUNT`. A path begins with the
// outermost function of its thread (_start, clone3), after the process and the thread if the tree
// has these, and COUNT is in units of the metric, so that all counts together are the recorded
// cost.

#include "base/memory.h"
#include "base/text/text.h"
#include "export/export.h"
#include <errno.h>

#define KERNEL_MARK "_[k]"

struct path {
    char *text;
    size_t length, capacity;
    size_t *ends; // how long it was without each of its names
    size_t depth, end_capacity;
};

// A semicolon would be taken for the end of a name. Line breaks are escaped as in all text.
// Functions of the kernel are marked: flame graph tools give them a colour of their own.
static void push(struct path *path, const struct function *function)
{
    const char *name = text_safe(function->name), *mark = function->kernel ? KERNEL_MARK : "";
    const size_t length = strlen(name), start = path->length > 0;
    path->text =
        memory_grown(path->text, &path->capacity, path->length + length + start + strlen(mark), 1);
    path->ends = memory_grown(path->ends, &path->end_capacity, path->depth + 1, sizeof *path->ends);
    path->ends[path->depth++] = path->length;
    if (start)
        path->text[path->length++] = ';';
    for (size_t i = 0; i < length; i++)
        path->text[path->length++] = name[i] == ';' ? ':' : name[i];
    for (; *mark; mark++)
        path->text[path->length++] = *mark;
}

static void pop(struct path *path)
{
    path->length = path->ends[--path->depth];
}

static int write_folded(FILE *out, const struct export_input *input)
{
    const struct calltree *tree = input->tree;
    struct path path = {0};
    struct calltree_walk walk;
    calltree_walk_start(&walk, tree);
    for (enum walk_event event; (event = calltree_walk_next(&walk)) != WALK_END;) {
        if (tree->nodes[walk.node].kind == CALL_ROOT)
            continue;
        const struct function *function = calltree_function(tree, walk.node);
        if (event == WALK_LEAVE) {
            pop(&path);
            continue;
        }
        if (calltree_total(tree, walk.node, input->metric) == 0) {
            // Still entered, and left: the walk sees it once more.
            calltree_walk_skip(&walk);
        }
        push(&path, function);
        uint64_t cost = calltree_self(tree, walk.node, input->metric);
        if (cost == 0)
            continue;
        fwrite_unlocked(path.text, 1, path.length, out);
        fprintf(out, " %llu\n", (unsigned long long)cost);
    }
    calltree_walk_end(&walk);
    free(path.text);
    free(path.ends);
    return ferror(out) ? -EIO : 0;
}

const struct export_format export_folded = {
    .name = "folded",
    .summary = "flamegraph.pl, speedscope, inferno: outer;...;inner COUNT",
    .write = write_folded,
};
