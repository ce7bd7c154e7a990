// SPDX-License-Identifier: MIT

// Trace events of Chrome, as Perfetto reads them: a track for each thread, and on it a slice for
// each function from when it was first seen to when it was last seen, as samples tell it.
//
// A charge stands for the time before it. Charges follow each other closely while a thread runs;
// slices go on from one to the next then, as far as their paths are the same. They end where the
// thread has rested for longer than the charge.

#include "analyze/names/names.h"
#include "base/memory.h"
#include "base/text/json.h"
#include "export/export.h"
#include "profile/timeline.h"
#include <errno.h>

struct stay {
    uint32_t tid, node; // of the call tree
    uint64_t begin, end;
};

struct open_slice {
    uint32_t node;
    uint64_t begin;
};

struct chrome {
    struct json json;
    const struct export_input *input;
    const struct calltree *tree;
    uint32_t pid;
    struct stay *stays;
    size_t stay_count, stay_capacity;
    struct open_slice *open; // from the outermost one on
    size_t depth, open_capacity;
    uint32_t *path; // innermost first
    size_t path_length, path_capacity;
};

static void put_microseconds(struct chrome *chrome, const char *key, uint64_t ns)
{
    char text[40];
    const int length = snprintf(text, sizeof text, "%llu.%03llu", (unsigned long long)(ns / 1000),
                                (unsigned long long)(ns % 1000));
    json_key(&chrome->json, key);
    json_put_members(&chrome->json, text, (size_t)length);
}

static void put_head(struct chrome *chrome, const char *type, const char *name, uint32_t tid)
{
    json_object(&chrome->json);
    json_put_string(&chrome->json, "ph", type);
    json_put_string(&chrome->json, "name", name);
    json_put_unsigned(&chrome->json, "pid", chrome->pid);
    json_put_unsigned(&chrome->json, "tid", tid);
}

static void put_name(struct chrome *chrome, const char *kind, uint32_t tid, const char *name)
{
    put_head(chrome, "M", kind, tid);
    json_key(&chrome->json, "args");
    json_object(&chrome->json);
    json_put_string(&chrome->json, "name", name);
    json_end_object(&chrome->json);
    json_end_object(&chrome->json);
}

static void put_slice(struct chrome *chrome, uint32_t tid, const struct open_slice *slice,
                      uint64_t end)
{
    const struct functions *functions = chrome->tree->functions;
    const struct function *function = calltree_function(chrome->tree, slice->node);
    const char *module = functions_module_name(functions, function->module);
    put_head(chrome, "X", function->name, tid);
    if (module)
        json_put_string(&chrome->json, "cat", module);
    put_microseconds(chrome, "ts", slice->begin);
    put_microseconds(chrome, "dur", end - slice->begin);
    json_end_object(&chrome->json);
}

// Ends all slices but the outermost ones.
static void close_slices(struct chrome *chrome, uint32_t tid, size_t keep, uint64_t end)
{
    while (chrome->depth > keep)
        put_slice(chrome, tid, &chrome->open[--chrome->depth], end);
}

static void find_path(struct chrome *chrome, uint32_t node)
{
    chrome->path_length = 0;
    for (; node != 0; node = chrome->tree->nodes[node].parent) {
        chrome->path = memory_grown(chrome->path, &chrome->path_capacity, chrome->path_length + 1,
                                    sizeof *chrome->path);
        chrome->path[chrome->path_length++] = node;
    }
}

static void open_slices(struct chrome *chrome, uint32_t tid, const struct stay *stay, uint64_t last)
{
    size_t same = 0;
    find_path(chrome, stay->node);
    while (same < chrome->depth && same < chrome->path_length &&
           chrome->open[same].node == chrome->path[chrome->path_length - 1 - same])
        same++;
    close_slices(chrome, tid, same, last);
    for (; chrome->depth < chrome->path_length; chrome->depth++) {
        chrome->open = memory_grown(chrome->open, &chrome->open_capacity, chrome->depth + 1,
                                    sizeof *chrome->open);
        chrome->open[chrome->depth] = (struct open_slice){
            .node = chrome->path[chrome->path_length - 1 - chrome->depth], .begin = stay->begin};
    }
}

static int compare_stays(const void *left, const void *right)
{
    const struct stay *a = left, *b = right;
    if (a->tid != b->tid)
        return a->tid < b->tid ? -1 : 1;
    return a->end != b->end ? (a->end < b->end ? -1 : 1) : 0;
}

static void find_stays(struct chrome *chrome, const struct profile_tree *thread,
                       const uint32_t *nodes)
{
    struct timeline_cursor cursor = timeline_begin(chrome->input->analysis->profile, thread);
    chrome->stay_count = 0;
    for (struct timeline_charge charge; timeline_next(&cursor, &charge);) {
        if (charge.metric != chrome->input->metric || charge.node >= thread->count)
            continue;
        chrome->stays = memory_grown(chrome->stays, &chrome->stay_capacity, chrome->stay_count + 1,
                                     sizeof *chrome->stays);
        chrome->stays[chrome->stay_count++] = (struct stay){
            .tid = charge.tid,
            .node = nodes[charge.node],
            .begin = charge.time_ns > charge.weight ? charge.time_ns - charge.weight : 0,
            .end = charge.time_ns,
        };
    }
    if (chrome->stay_count)
        qsort(chrome->stays, chrome->stay_count, sizeof *chrome->stays, compare_stays);
}

static void put_slices(struct chrome *chrome)
{
    uint64_t last = 0;
    uint32_t tid = 0;
    for (size_t i = 0; i < chrome->stay_count; i++) {
        struct stay stay = chrome->stays[i];
        if (i && (stay.tid != tid || stay.begin > last + (stay.end - stay.begin))) {
            close_slices(chrome, tid, 0, last);
            last = 0;
        }
        // A clock of its own measures the CPU time: it may have begun before the last one ended.
        if (stay.begin < last || chrome->depth)
            stay.begin = last < stay.end ? last : stay.end;
        tid = stay.tid;
        open_slices(chrome, tid, &stay, last);
        last = stay.end;
    }
    close_slices(chrome, tid, 0, last);
}

static void put_thread(struct chrome *chrome, uint32_t index)
{
    const struct export_input *input = chrome->input;
    const struct profile *profile = input->analysis->profile;
    const struct profile_tree *thread = &profile->trees[index];
    uint32_t *nodes;
    if (!build_selects(input->analysis->functions, profile, thread, input->build))
        return;
    struct calltree *tree =
        build_thread_calltree(input->analysis->functions, profile, input->build, index, &nodes);
    chrome->tree = tree;
    chrome->pid =
        thread->process < profile->process_count ? profile->processes[thread->process].pid : 0;
    find_stays(chrome, thread, nodes);
    for (size_t i = 0; i < chrome->stay_count; i++)
        if (i == 0 || chrome->stays[i].tid != chrome->stays[i - 1].tid)
            put_name(chrome, "thread_name", chrome->stays[i].tid,
                     build_thread_name(input->analysis->functions, profile, thread, THREADS_APART));
    put_slices(chrome);
    calltree_free(tree);
    free(nodes);
}

static int write_chrome(FILE *out, const struct export_input *input)
{
    struct chrome chrome = {.input = input};
    const struct profile *profile = input->analysis->profile;
    json_start(&chrome.json, out);
    json_object(&chrome.json);
    json_put_string(&chrome.json, "displayTimeUnit", "ns");
    json_key(&chrome.json, "traceEvents");
    json_spread_array(&chrome.json);
    for (uint32_t i = 0; i < profile->process_count; i++) {
        chrome.pid = profile->processes[i].pid;
        put_name(&chrome, "process_name", 0,
                 names_process(functions_names(input->analysis->functions), i));
    }
    for (uint32_t t = 0; t < profile->tree_count; t++)
        put_thread(&chrome, t);
    json_end_array(&chrome.json);
    json_end_object(&chrome.json);
    json_finish(&chrome.json);
    free(chrome.stays);
    free(chrome.open);
    free(chrome.path);
    return ferror(out) ? -EIO : 0;
}

const struct export_format export_chrome = {
    .name = "chrome",
    .summary = "ui.perfetto.dev, chrome://tracing: threads by time",
    .threads_apart = true,
    .needs_timeline = true,
    .write = write_chrome,
};
