// SPDX-License-Identifier: MIT

// The processed profile format of the Firefox Profiler, version 48. It holds one metric: the weight
// of samples. Without a timeline, the samples of a thread follow each other in the order of the
// call tree, each as long as it weighs.

#include "analyze/names/names.h"
#include "base/memory.h"
#include "base/text/json.h"
#include "export/export.h"
#include "export/locations.h"
#include <errno.h>

enum category { CATEGORY_OTHER, CATEGORY_USER, CATEGORY_KERNEL, CATEGORY_JIT };

enum { VERSION = 48, VERSION_OF_GECKO = 24, RESOURCE_LIBRARY = 1 };

// A position on a path: a line of a node. Its number in the tables of stacks and of frames.
struct firefox_stack {
    uint32_t node, file, line;
    uint32_t prefix; // + 1; 0: none
};

struct firefox {
    struct json json;
    const struct export_input *input;
    // Of the thread that is written:
    const struct calltree *tree;
    struct locations strings; // for its table of strings alone
    struct firefox_stack *stacks;
    size_t stack_count, stack_capacity;
    struct hash_index by_position;
    uint32_t *function_numbers; // by function, + 1
    uint32_t *functions;        // by number
    size_t function_count, function_capacity;
    uint32_t *library_numbers; // by module, + 1
    uint32_t *libraries;
    size_t library_count, library_capacity;
};

static void put_key(struct firefox *firefox, const char *key)
{
    json_key(&firefox->json, key);
    json_array(&firefox->json);
}

static void put_same(struct firefox *firefox, const char *key, size_t count, const char *value)
{
    put_key(firefox, key);
    for (size_t i = 0; i < count; i++)
        json_put_members(&firefox->json, value, strlen(value));
    json_end_array(&firefox->json);
}

static void put_empty(struct firefox *firefox, const char *const *keys)
{
    for (; *keys; keys++)
        put_same(firefox, *keys, 0, "");
    json_put_unsigned(&firefox->json, "length", 0);
}

static void put_number(struct firefox *firefox, uint32_t number, bool known)
{
    if (known)
        json_unsigned(&firefox->json, number);
    else
        json_null(&firefox->json);
}

// Milliseconds, exact to the nanosecond.
static void put_ms(struct firefox *firefox, uint64_t ns)
{
    char text[40];
    const int length =
        snprintf(text, sizeof text, "%llu.%06llu", (unsigned long long)(ns / 1000000),
                 (unsigned long long)(ns % 1000000));
    json_put_members(&firefox->json, text, (size_t)length);
}

static uint32_t number_of(uint32_t *numbers, uint32_t of, uint32_t **list, size_t *count,
                          size_t *capacity)
{
    if (!numbers[of]) {
        *list = memory_grown(*list, capacity, *count + 1, sizeof **list);
        (*list)[(*count)++] = of;
        numbers[of] = (uint32_t)*count;
    }
    return numbers[of] - 1;
}

static uint32_t function_number(struct firefox *firefox, uint32_t function)
{
    return number_of(firefox->function_numbers, function, &firefox->functions,
                     &firefox->function_count, &firefox->function_capacity);
}

static uint32_t library_number(struct firefox *firefox, uint32_t module)
{
    return number_of(firefox->library_numbers, module, &firefox->libraries, &firefox->library_count,
                     &firefox->library_capacity);
}

// Its callers have numbers already: parents stand before their children.
static uint32_t stack_number(struct firefox *firefox, uint32_t node, uint32_t file, uint32_t line)
{
    const struct calltree *tree = firefox->tree;
    const struct call_node *call = &tree->nodes[node];
    const uint64_t hash = hash_index_mix(hash_index_mix((uint64_t)file << 32 | line) + node);
    struct hash_index_cursor cursor = hash_index_find(&firefox->by_position, hash);
    for (uint32_t found; hash_index_next(&firefox->by_position, &cursor, &found);) {
        const struct firefox_stack *known = &firefox->stacks[found];
        if (known->node == node && known->file == file && known->line == line)
            return found;
    }
    struct firefox_stack stack = {.node = node, .file = file, .line = line};
    if (call->parent != 0)
        stack.prefix = stack_number(firefox, call->parent, call->call_file, call->call_line) + 1;
    firefox->stacks = memory_grown(firefox->stacks, &firefox->stack_capacity,
                                   firefox->stack_count + 1, sizeof stack);
    firefox->stacks[firefox->stack_count] = stack;
    hash_index_add(&firefox->by_position, hash, (uint32_t)firefox->stack_count);
    function_number(firefox, call->function);
    return (uint32_t)firefox->stack_count++;
}

// Calls first, from the root on, so that a deep path is no deep recursion.
static void find_stacks(struct firefox *firefox)
{
    const struct calltree *tree = firefox->tree;
    for (uint32_t i = 1; i < tree->count; i++)
        if (tree->nodes[i].parent != 0)
            stack_number(firefox, tree->nodes[i].parent, tree->nodes[i].call_file,
                         tree->nodes[i].call_line);
}

static enum category category_of(const struct firefox *firefox, uint32_t node)
{
    const struct function *function = calltree_function(firefox->tree, node);
    if (function->kernel)
        return CATEGORY_KERNEL;
    if (function->module == MODULE_ANONYMOUS)
        return CATEGORY_JIT;
    return function->module == MODULE_NONE ? CATEGORY_OTHER : CATEGORY_USER;
}

struct firefox_sample {
    uint32_t stack;
    uint64_t weight;
};

static size_t find_samples(struct firefox *firefox, struct firefox_sample *samples)
{
    const struct calltree *tree = firefox->tree;
    const unsigned metric = firefox->input->metric;
    uint32_t *lines, *first = calltree_lines(tree, &lines);
    size_t count = 0;
    struct calltree_walk walk;
    calltree_walk_start(&walk, tree);
    for (enum walk_event event; (event = calltree_walk_next(&walk)) != WALK_END;) {
        if (event != WALK_ENTER || walk.node == 0)
            continue;
        for (uint32_t i = first[walk.node]; i < first[walk.node + 1]; i++) {
            const struct call_line *line = &tree->lines[lines[i]];
            const uint64_t weight = tree->line_values[lines[i] * (size_t)tree->metrics + metric];
            if (weight)
                samples[count++] = (struct firefox_sample){
                    stack_number(firefox, walk.node, line->file, line->line), weight};
        }
    }
    calltree_walk_end(&walk);
    free(first);
    free(lines);
    return count;
}

static void put_samples(struct firefox *firefox, const struct firefox_sample *samples, size_t count)
{
    struct json *json = &firefox->json;
    const char *unit = firefox->input->analysis->profile->metrics[firefox->input->metric].unit;
    const bool is_time = strcmp(unit, "ns") == 0;
    uint64_t now = 0;
    json_key(json, "samples");
    json_object(json);
    json_put_string(json, "weightType",
                    is_time                      ? "tracing-ms"
                    : strcmp(unit, "bytes") == 0 ? "bytes"
                                                 : "samples");
    put_key(firefox, "weight");
    for (size_t i = 0; i < count; i++)
        if (is_time)
            put_ms(firefox, samples[i].weight);
        else
            json_unsigned(json, samples[i].weight);
    json_end_array(json);
    put_key(firefox, "time");
    for (size_t i = 0; i < count; now += is_time ? samples[i].weight : 1000000, i++)
        put_ms(firefox, now);
    json_end_array(json);
    put_key(firefox, "stack");
    for (size_t i = 0; i < count; i++)
        json_unsigned(json, samples[i].stack);
    json_end_array(json);
    json_put_unsigned(json, "length", count);
    json_end_object(json);
}

static void put_stacks(struct firefox *firefox)
{
    struct json *json = &firefox->json;
    json_key(json, "stackTable");
    json_object(json);
    put_key(firefox, "frame");
    for (uint32_t i = 0; i < firefox->stack_count; i++)
        json_unsigned(json, i);
    json_end_array(json);
    put_key(firefox, "prefix");
    for (size_t i = 0; i < firefox->stack_count; i++)
        put_number(firefox, firefox->stacks[i].prefix - 1, firefox->stacks[i].prefix != 0);
    json_end_array(json);
    put_key(firefox, "category");
    for (size_t i = 0; i < firefox->stack_count; i++)
        json_unsigned(json, category_of(firefox, firefox->stacks[i].node));
    json_end_array(json);
    put_same(firefox, "subcategory", firefox->stack_count, "0");
    json_put_unsigned(json, "length", firefox->stack_count);
    json_end_object(json);
}

static void put_frames(struct firefox *firefox)
{
    struct json *json = &firefox->json;
    const size_t count = firefox->stack_count;
    json_key(json, "frameTable");
    json_object(json);
    put_same(firefox, "address", count, "-1");
    put_same(firefox, "inlineDepth", count, "0");
    put_key(firefox, "category");
    for (size_t i = 0; i < count; i++)
        json_unsigned(json, category_of(firefox, firefox->stacks[i].node));
    json_end_array(json);
    put_same(firefox, "subcategory", count, "0");
    put_key(firefox, "func");
    for (size_t i = 0; i < count; i++)
        json_unsigned(
            json, function_number(firefox, firefox->tree->nodes[firefox->stacks[i].node].function));
    json_end_array(json);
    put_same(firefox, "nativeSymbol", count, "null");
    put_same(firefox, "innerWindowID", count, "0");
    put_same(firefox, "implementation", count, "null");
    put_key(firefox, "line");
    for (size_t i = 0; i < count; i++)
        put_number(firefox, firefox->stacks[i].line, firefox->stacks[i].line != 0);
    json_end_array(json);
    put_same(firefox, "column", count, "null");
    json_put_unsigned(json, "length", count);
    json_end_object(json);
}

static void put_functions(struct firefox *firefox)
{
    struct json *json = &firefox->json;
    struct functions *functions = firefox->tree->functions;
    const size_t count = firefox->function_count;
    json_key(json, "funcTable");
    json_object(json);
    put_same(firefox, "isJS", count, "false");
    put_same(firefox, "relevantForJS", count, "false");
    put_key(firefox, "name");
    for (size_t i = 0; i < count; i++)
        json_unsigned(json,
                      locations_string(&firefox->strings,
                                       functions_get(functions, firefox->functions[i])->name));
    json_end_array(json);
    put_key(firefox, "resource");
    for (size_t i = 0; i < count; i++) {
        const uint32_t module = functions_get(functions, firefox->functions[i])->module;
        if (functions_module_name(functions, module))
            json_unsigned(json, library_number(firefox, module));
        else
            json_put_members(json, "-1", 2);
    }
    json_end_array(json);
    put_key(firefox, "fileName");
    for (size_t i = 0; i < count; i++) {
        const char *file =
            functions_file(functions, functions_get(functions, firefox->functions[i])->file);
        put_number(firefox, file ? locations_string(&firefox->strings, file) : 0, file != NULL);
    }
    json_end_array(json);
    put_key(firefox, "lineNumber");
    for (size_t i = 0; i < count; i++) {
        const uint32_t line = functions_get(functions, firefox->functions[i])->line;
        put_number(firefox, line, line != 0);
    }
    json_end_array(json);
    put_same(firefox, "columnNumber", count, "null");
    json_put_unsigned(json, "length", count);
    json_end_object(json);
}

static void put_resources(struct firefox *firefox)
{
    struct json *json = &firefox->json;
    const size_t count = firefox->library_count;
    json_key(json, "resourceTable");
    json_object(json);
    put_same(firefox, "lib", count, "null");
    put_key(firefox, "name");
    for (size_t i = 0; i < count; i++)
        json_unsigned(json, locations_string(&firefox->strings,
                                             functions_module_name(firefox->tree->functions,
                                                                   firefox->libraries[i])));
    json_end_array(json);
    put_same(firefox, "host", count, "null");
    put_key(firefox, "type");
    for (size_t i = 0; i < count; i++)
        json_unsigned(json, RESOURCE_LIBRARY);
    json_end_array(json);
    json_put_unsigned(json, "length", count);
    json_end_object(json);
    json_key(json, "nativeSymbols");
    json_object(json);
    put_empty(firefox, (const char *const[]){"libIndex", "address", "name", "functionSize", NULL});
    json_end_object(json);
}

static void put_thread_head(struct firefox *firefox, uint32_t index)
{
    struct json *json = &firefox->json;
    struct functions *functions = firefox->tree->functions;
    const struct profile *profile = firefox->input->analysis->profile;
    const struct profile_tree *thread = &profile->trees[index];
    const bool known = thread->process < profile->process_count;
    char pid[16];
    snprintf(pid, sizeof pid, "%u", known ? profile->processes[thread->process].pid : 0);
    json_put_string(json, "processType", "default");
    json_put_unsigned(json, "processStartupTime", 0);
    json_key(json, "processShutdownTime");
    json_null(json);
    json_put_unsigned(json, "registerTime", 0);
    json_key(json, "unregisterTime");
    json_null(json);
    put_same(firefox, "pausedRanges", 0, "");
    char *name = NULL;
    // No thread has grown the tree of what was not sampled.
    const char *of = thread->threads ? build_thread_name(functions, profile, thread, THREADS_APART)
                                     : "start-up and exit";
    if (asprintf(&name, "%s%s%s", of, thread->phase[0] ? ", " : "", thread->phase) < 0)
        memory_checked(NULL);
    json_put_string(json, "name", name);
    free(name);
    json_put_bool(json, "isMainThread", thread->start == 0);
    if (known)
        json_put_string(json, "processName",
                        names_process(functions_names(functions), thread->process));
    json_put_string(json, "pid", pid);
    json_put_unsigned(json, "tid", thread->tid);
    json_key(json, "markers");
    json_object(json);
    put_empty(firefox, (const char *const[]){"data", "name", "startTime", "endTime", "phase",
                                             "category", NULL});
    json_end_object(json);
}

static void put_strings(struct firefox *firefox)
{
    put_key(firefox, "stringArray");
    for (size_t i = 0; i < firefox->strings.string_count; i++)
        json_string(&firefox->json, firefox->strings.strings[i]);
    json_end_array(&firefox->json);
}

static void forget_thread(struct firefox *firefox)
{
    locations_close(&firefox->strings);
    hash_index_free(&firefox->by_position);
    free(firefox->stacks);
    free(firefox->function_numbers);
    free(firefox->functions);
    free(firefox->library_numbers);
    free(firefox->libraries);
    *firefox = (struct firefox){.json = firefox->json, .input = firefox->input};
}

static void put_thread(struct firefox *firefox, uint32_t index, const struct calltree *tree)
{
    const struct analysis *analysis = firefox->input->analysis;
    firefox->tree = tree;
    locations_open(&firefox->strings, analysis);
    firefox->function_numbers =
        memory_array(functions_count(tree->functions), sizeof *firefox->function_numbers);
    firefox->library_numbers =
        memory_array(analysis->profile->module_count, sizeof *firefox->library_numbers);
    find_stacks(firefox);
    struct firefox_sample *samples = memory_array(tree->line_count, sizeof *samples);
    const size_t count = find_samples(firefox, samples);
    json_object(&firefox->json);
    put_thread_head(firefox, index);
    put_samples(firefox, samples, count);
    put_stacks(firefox);
    put_frames(firefox);
    put_functions(firefox);
    put_resources(firefox);
    put_strings(firefox);
    json_end_object(&firefox->json);
    free(samples);
    forget_thread(firefox);
}

static void put_categories(struct json *json)
{
    static const struct {
        const char *name, *color;
    } categories[] = {
        {"Other", "grey"}, {"User", "yellow"}, {"Kernel", "orange"}, {"JIT", "green"}};
    json_key(json, "categories");
    json_array(json);
    for (size_t i = 0; i < sizeof categories / sizeof *categories; i++) {
        json_object(json);
        json_put_string(json, "name", categories[i].name);
        json_put_string(json, "color", categories[i].color);
        json_put_words(json, "subcategories", (char *[]){"Other", NULL});
        json_end_object(json);
    }
    json_end_array(json);
}

static void put_meta(struct firefox *firefox)
{
    struct json *json = &firefox->json;
    const struct profile *profile = firefox->input->analysis->profile;
    const struct profile_metric *metric = &profile->metrics[firefox->input->metric];
    char *command = analysis_command(profile->command);
    json_key(json, "meta");
    json_object(json);
    json_key(json, "interval");
    put_ms(firefox, strcmp(metric->unit, "ns") == 0 && metric->period ? metric->period : 1000000);
    json_key(json, "startTime");
    put_ms(firefox, profile->start_realtime_ns);
    json_put_unsigned(json, "processType", 0);
    json_put_string(json, "product", command);
    json_put_string(json, "importedFrom", "cairn");
    json_put_unsigned(json, "stackwalk", 1);
    json_put_bool(json, "debug", false);
    json_put_unsigned(json, "version", VERSION_OF_GECKO);
    json_put_unsigned(json, "preprocessedProfileVersion", VERSION);
    json_put_bool(json, "symbolicated", true);
    json_put_bool(json, "symbolicationNotSupported", true);
    json_put_bool(json, "usesOnlyOneStackType", true);
    json_put_bool(json, "doesNotUseFrameImplementation", true);
    json_put_bool(json, "sourceCodeIsNotOnSearchfox", true);
    put_same(firefox, "markerSchema", 0, "");
    put_categories(json);
    json_end_object(json);
    free(command);
}

static int write_firefox(FILE *out, const struct export_input *input)
{
    struct firefox firefox = {.input = input};
    struct json *json = &firefox.json;
    json_start(json, out);
    json_object(json);
    put_meta(&firefox);
    put_same(&firefox, "libs", 0, "");
    put_same(&firefox, "pages", 0, "");
    put_same(&firefox, "counters", 0, "");
    put_same(&firefox, "profilerOverhead", 0, "");
    json_key(json, "threads");
    json_spread_array(json);
    for (uint32_t t = 0; t < input->analysis->profile->tree_count; t++) {
        struct calltree *tree = export_thread(input, EXPORT_LINES, t);
        if (!tree)
            continue;
        calltree_order(tree, input->metric, ORDER_TOTAL);
        if (calltree_total(tree, 0, input->metric))
            put_thread(&firefox, t, tree);
        calltree_free(tree);
    }
    json_end_array(json);
    json_end_object(json);
    json_finish(json);
    return ferror(out) ? -EIO : 0;
}

const struct export_format export_firefox = {
    .name = "firefox",
    .summary = "profiler.firefox.com: its processed format",
    .threads_apart = true,
    .write = write_firefox,
};
