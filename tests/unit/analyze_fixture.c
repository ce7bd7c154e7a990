// SPDX-License-Identifier: MIT

#include "analyze_fixture.h"
#include "base/memory.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define LIMIT 64

struct known_function {
    place_t begin;
    char *name, *file;
    unsigned line;
};

struct known_inline {
    place_t begin, end;
    char *name, *file;
    unsigned line;
};

static struct known_function known_functions[LIMIT];
static struct known_inline inlines[LIMIT];
static unsigned known_count, inline_count, pattern_count;
static struct pattern *patterns[LIMIT];
static struct profile profile;
static struct analysis analysis;
static size_t node_capacity, value_capacity;
char *fixture_error;

struct symbols {
    struct symbol symbol[4096]; // answers stay where they are
    struct symbol_frame frames[4096][4];
    char unknown[4096][40];
    unsigned count;
};

struct symbols *symbols_new(const struct profile *of, const struct symbols_options *options)
{
    (void)of;
    (void)options;
    return memory_array(1, sizeof(struct symbols));
}

void symbols_free(struct symbols *symbols)
{
    free(symbols);
}

void symbols_want(struct symbols *symbols, unsigned process, place_t place)
{
    (void)symbols;
    (void)process;
    assert_int_not_equal(place, 0);
}

void symbols_resolve(struct symbols *symbols)
{
    (void)symbols;
}

const struct symbol *symbols_at(struct symbols *symbols, unsigned process, place_t place)
{
    (void)process;
    assert_true(symbols->count < 4096);
    unsigned number = symbols->count++, depth = 0;
    struct symbol_frame *frames = symbols->frames[number];
    struct symbol *symbol = &symbols->symbol[number];
    symbol->frames = frames;
    place_t stands_at = place; // for what was inlined, the function stands where that begins
    for (unsigned i = inline_count; i-- > 0;)
        if (place >= inlines[i].begin && place < inlines[i].end) {
            stands_at = inlines[i].begin;
            frames[depth++] =
                (struct symbol_frame){inlines[i].name, inlines[i].file, inlines[i].line};
        }
    for (unsigned i = 0; i < known_count; i++)
        if (place >= known_functions[i].begin &&
            place < known_functions[i].begin + FUNCTION_BYTES) {
            unsigned line =
                known_functions[i].line + (unsigned)(stands_at - known_functions[i].begin) / 16;
            frames[depth++] =
                (struct symbol_frame){known_functions[i].name, known_functions[i].file, line};
            symbol->function = known_functions[i].begin;
            symbol->count = depth;
            return symbol;
        }
    snprintf(symbols->unknown[number], sizeof symbols->unknown[number], "m%u+0x%llx",
             place_module(place), (unsigned long long)place_offset(place));
    frames[0] = (struct symbol_frame){.function = symbols->unknown[number]};
    symbol->count = 1;
    return symbol;
}

enum symbol_quality symbols_quality(const struct symbols *symbols, unsigned module)
{
    (void)symbols;
    return module == PROGRAM ? SYMBOLS_DWARF : SYMBOLS_TABLE;
}

const char *symbols_note(const struct symbols *symbols, unsigned index)
{
    (void)symbols;
    return index == 0 ? "no debug file for libc.so.6" : NULL;
}

// The reader is not part of these tests.
struct profile *profile_read(const char *path, char **error)
{
    (void)path;
    (void)error;
    return NULL;
}

// Profiles of these tests have no timeline.
int profile_keep_range(struct profile *of, const struct time_range *range)
{
    (void)of;
    (void)range;
    return -ENOTSUP;
}

void profile_free(struct profile *read)
{
    (void)read;
}

struct analysis *fixture_start(void)
{
    static char *command[] = {"./prog", "-x", NULL};
    static struct profile_metric metric = {
        .name = "cpu", .unit = "ns", .period = 1000, .rate_requested = 1000, .source = "test"};
    profile = (struct profile){.format = 1,
                               .command = command,
                               .tracker = "walk",
                               .tree_kind = "full",
                               .complete = true,
                               .metric_count = 1,
                               .metrics = &metric,
                               .module_count = AGENT + 1};
    profile.modules = memory_array(profile.module_count, sizeof *profile.modules);
    profile.modules[PROGRAM].path = "/bin/prog";
    profile.modules[LIBRARY].path = "/lib/libc.so.6";
    profile.modules[AGENT].path = "/opt/libcairn.so";
    profile.processes = memory_array(LIMIT, sizeof *profile.processes);
    profile.trees = memory_array(LIMIT, sizeof *profile.trees);
    profile.creations = memory_array(LIMIT, sizeof *profile.creations);
    known_count = inline_count = 0;
    analysis.profile = &profile;
    analysis.symbols = symbols_new(&profile, NULL);
    analysis.functions = functions_new(&profile, analysis.symbols);
    fixture_process(100, "./prog");
    return &analysis;
}

struct analysis *fixture_analysis(void)
{
    return &analysis;
}

void fixture_end(void)
{
    functions_free(analysis.functions);
    symbols_free(analysis.symbols);
    for (unsigned i = 0; i < profile.tree_count; i++) {
        free(profile.trees[i].nodes);
        free(profile.trees[i].values);
    }
    for (unsigned i = 0; i < profile.process_count; i++)
        free(profile.processes[i].command);
    for (unsigned i = 0; i < known_count; i++)
        free(known_functions[i].file);
    while (pattern_count > 0)
        pattern_free(patterns[--pattern_count]);
    free(profile.processes);
    free(profile.trees);
    free(profile.creations);
    free(profile.modules);
    free(fixture_error);
    fixture_error = NULL;
}

place_t fixture_function(unsigned module, uint64_t offset, const char *name, unsigned line)
{
    struct known_function *known = &known_functions[known_count++];
    *known = (struct known_function){
        .begin = place_make(module, offset), .name = (char *)name, .line = line};
    assert_true(asprintf(&known->file, "/src/%s.c", name) > 0);
    return known->begin;
}

void fixture_inline(place_t begin, place_t end, const char *name, unsigned line)
{
    inlines[inline_count++] =
        (struct known_inline){begin, end, (char *)name, "/src/inlined.h", line};
}

void fixture_process(uint32_t pid, const char *command)
{
    struct profile_process *process = &profile.processes[profile.process_count++];
    *process = (struct profile_process){.pid = pid, .merged_into = PROFILE_NOT_MERGED};
    process->command = memory_array(2, sizeof(char *));
    process->command[0] = (char *)command;
}

static uint32_t add_node(struct profile_node node, uint64_t value)
{
    struct profile_tree *tree = &profile.trees[profile.tree_count - 1];
    tree->nodes = memory_grown(tree->nodes, &node_capacity, tree->count + 1, sizeof node);
    tree->values = memory_grown(tree->values, &value_capacity, tree->count + 1, sizeof value);
    tree->nodes[tree->count] = node;
    tree->values[tree->count] = value;
    return tree->count++;
}

uint32_t fixture_tree(place_t start, uint32_t tid)
{
    node_capacity = value_capacity = 0;
    profile.trees[profile.tree_count++] = (struct profile_tree){
        .process = profile.process_count - 1, .tid = tid, .start = start, .threads = 1};
    profile.processes[profile.process_count - 1].thread_starts++;
    return add_node((struct profile_node){.parent = PROFILE_NO_PARENT, .function = start}, 0);
}

uint32_t fixture_frame(uint32_t parent, place_t site, place_t function, uint64_t returns)
{
    return add_node((struct profile_node){parent, site, function}, returns);
}

uint32_t fixture_creation(uint32_t parent, place_t site, place_t function)
{
    profile.creations[profile.creation_count] = (struct profile_creation){parent, site, function};
    return profile.creation_count++;
}

void fixture_statement(uint32_t parent, place_t pc, uint64_t cost)
{
    struct profile_tree *tree = &profile.trees[profile.tree_count - 1];
    add_node((struct profile_node){parent, pc, 0}, cost);
    tree->stats.samples++;
    tree->stats.cost_ns += cost;
}

void fixture_figure1(void)
{
    place_t main_ = fixture_function(PROGRAM, 0x1000, "main", 10);
    place_t a = fixture_function(PROGRAM, 0x1100, "a", 20);
    place_t b = fixture_function(PROGRAM, 0x1200, "b", 30);
    place_t c = fixture_function(PROGRAM, 0x1300, "c", 40);
    uint32_t root = fixture_tree(0, 100);
    uint32_t main_frame = fixture_frame(root, 0, main_, 0);
    uint32_t a_frame = fixture_frame(main_frame, main_ + 0x11, a, 1);
    uint32_t b_frame = fixture_frame(main_frame, main_ + 0x21, b, 2);
    uint32_t a_c = fixture_frame(a_frame, a + 0x21, c, 7);
    uint32_t b_c = fixture_frame(b_frame, b + 0x31, c, 70);
    fixture_statement(main_frame, main_ + 0x30, 1);
    fixture_statement(a_frame, a + 0x30, 2);
    fixture_statement(b_frame, b + 0x30, 3);
    fixture_statement(a_c, c + 0x10, 40);
    fixture_statement(b_c, c + 0x10, 50);
    fixture_statement(b_c, c + 0x20, 4);
}

struct report_options fixture_options(void)
{
    return (struct report_options){.least = -1, .fold = true};
}

struct pattern *fixture_pattern(const char *expression)
{
    struct pattern *pattern = pattern_new(expression, &fixture_error);
    assert_non_null(pattern);
    return patterns[pattern_count++] = pattern;
}

char *fixture_report(struct report_options options)
{
    return fixture_styled_report(options, (struct text_style){0});
}

char *fixture_styled_report(struct report_options options, struct text_style style)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    int failed = report_print(out, &style, &analysis, &options, &fixture_error);
    fclose(out);
    if (!failed)
        return text;
    free(text);
    return NULL;
}

void fixture_check_json(const char *json, const char *program)
{
    char *command = NULL;
    assert_true(asprintf(&command, "python3 -c 'import json, sys\nd = json.load(sys.stdin)\n%s'",
                         program) > 0);
    FILE *python = popen(command, "w");
    assert_non_null(python);
    fputs(json, python);
    assert_int_equal(pclose(python), 0);
    free(command);
}

static uint32_t find(const struct calltree *tree, const char *path)
{
    char names[256];
    snprintf(names, sizeof names, "%s", path);
    uint32_t at = 0;
    for (char *rest = names, *name; (name = strsep(&rest, ";"));) {
        uint32_t found = CALL_NONE;
        for (uint32_t i = 1; i < tree->count; i++)
            if (tree->nodes[i].parent == at && strcmp(calltree_function(tree, i)->name, name) == 0)
                found = i;
        if (found == CALL_NONE)
            return CALL_NONE;
        at = found;
    }
    return at;
}

bool fixture_has(const struct calltree *tree, const char *path)
{
    return find(tree, path) != CALL_NONE;
}

uint32_t fixture_find(const struct calltree *tree, const char *path)
{
    uint32_t node = find(tree, path);
    if (node == CALL_NONE)
        fail_msg("there is no path %s", path);
    return node;
}
