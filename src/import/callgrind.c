// SPDX-License-Identifier: MIT

// The format of valgrind's callgrind: functions, the cost of their lines, and calls from a line of
// one to another. It has no paths; call_paths.h makes some.

#include "base/memory.h"
#include "import/call_paths.h"
#include "import/lines.h"
#include <ctype.h>

enum name_kind { NAME_FILE, NAME_FUNCTION, NAME_OBJECT, NAME_KINDS };

// Names by their numbers: "fn=(3) main".
struct named {
    uint64_t number;
    char *name;
};

struct callgrind_reader {
    struct importer *importer;
    struct call_graph graph;
    struct named *names[NAME_KINDS];
    size_t name_count[NAME_KINDS], name_capacity[NAME_KINDS];
    struct hash_index by_number[NAME_KINDS];
    struct text_lines lines;
    const char *file, *object, *called_file, *called_object; // current ones
    const char *line_file;                                   // another one, after fi=
    uint32_t function, callee;
    uint64_t calls;
    bool has_function, has_callee, after_calls;
    unsigned positions, events; // numbers in a line
    int metrics[IMPORT_METRICS];
    uint64_t line; // for positions that are differences
};

static bool fail(struct callgrind_reader *callgrind, const char *why)
{
    return importer_fail(callgrind->importer, "line %u: %s", callgrind->lines.number, why);
}

// "(3) main", "(3)" or "main". NULL after an error.
static const char *read_name(struct callgrind_reader *callgrind, enum name_kind kind, char *text)
{
    char *end;
    if (*text != '(' || !isdigit((unsigned char)text[1]))
        return text;
    const uint64_t number = strtoull(text + 1, &end, 10), hash = hash_index_mix(number);
    if (*end != ')')
        return text;
    end += 1 + strspn(end + 1, " ");
    struct hash_index_cursor cursor = hash_index_find(&callgrind->by_number[kind], hash);
    for (uint32_t found; hash_index_next(&callgrind->by_number[kind], &cursor, &found);)
        if (callgrind->names[kind][found].number == number)
            return callgrind->names[kind][found].name;
    if (!*end) {
        fail(callgrind, "a number stands for a name that was not given");
        return NULL;
    }
    callgrind->names[kind] =
        memory_grown(callgrind->names[kind], &callgrind->name_capacity[kind],
                     callgrind->name_count[kind] + 1, sizeof **callgrind->names);
    callgrind->names[kind][callgrind->name_count[kind]] = (struct named){number, end};
    hash_index_add(&callgrind->by_number[kind], hash, (uint32_t)callgrind->name_count[kind]++);
    return end;
}

static const char *known(const char *name)
{
    return name && *name && strcmp(name, "???") != 0 ? name : NULL;
}

static uint32_t function(struct callgrind_reader *callgrind, const char *object, const char *file,
                         const char *name)
{
    return call_graph_function(&callgrind->graph, callgrind->importer,
                               &(struct call_function){.object = known(object),
                                                       .file = known(file),
                                                       .name = *name ? name : "[unknown]"});
}

// "event: cpu : CPU time [ns]" has a unit, as cairn writes it.
static bool read_events(struct callgrind_reader *callgrind, char *text,
                        const struct import_file *file)
{
    for (char *name; (name = strsep(&text, " \t"));) {
        char unit[32] = "count", wanted[128];
        if (!*name)
            continue;
        if (callgrind->events == IMPORT_METRICS)
            return fail(callgrind, "too many events");
        snprintf(wanted, sizeof wanted, "event: %s :", name);
        // Lines before this one have been cut by now.
        for (char *at = file->data; at < callgrind->lines.at; at += strlen(at) + 1)
            if (strncmp(at, wanted, strlen(wanted)) == 0 && strrchr(at, '['))
                sscanf(strrchr(at, '['), "[%31[^]]", unit);
        const int metric = importer_metric(callgrind->importer, name, unit);
        if (metric == IMPORT_NONE)
            return false;
        callgrind->metrics[callgrind->events++] = metric;
    }
    return callgrind->events || fail(callgrind, "no events");
}

static void read_positions(struct callgrind_reader *callgrind, const char *text)
{
    callgrind->positions = (strstr(text, "instr") != NULL) + (strstr(text, "line") != NULL);
}

// A number, "+3", "-2" or "*": the same again.
static bool read_position(char **at, uint64_t *position)
{
    char *text = *at + strspn(*at, " \t"), *end = text + 1;
    if (*text == '*') {
        *at = end;
        return true;
    }
    const bool relative = *text == '+' || *text == '-';
    if (!isdigit((unsigned char)text[relative]))
        return false;
    const uint64_t number = strtoull(text + relative, &end, 0);
    *position = *text == '+' ? *position + number : *text == '-' ? *position - number : number;
    *at = end;
    return true;
}

static bool read_cost(struct callgrind_reader *callgrind, char *text)
{
    uint64_t address = 0;
    double values[IMPORT_METRICS] = {0};
    for (unsigned i = 0; i < callgrind->positions; i++)
        if (!read_position(&text, i + 1 == callgrind->positions ? &callgrind->line : &address))
            return fail(callgrind, "no position and costs");
    for (unsigned i = 0; i < callgrind->events; i++) {
        char *end;
        const uint64_t value = strtoull(text, &end, 0);
        if (end == text)
            break; // those that are left out are 0
        values[callgrind->metrics[i]] = (double)value;
        text = end;
    }
    if (text[strspn(text, " \t")])
        return fail(callgrind, "more costs than events");
    if (!callgrind->has_function)
        return fail(callgrind, "a cost before the first function");
    struct graph_line line = {
        .file = known(callgrind->line_file),
        .line = callgrind->line < UINT32_MAX ? (uint32_t)callgrind->line : 0,
        .callee = callgrind->after_calls ? callgrind->callee : CALL_GRAPH_NONE,
    };
    memcpy(line.values, values, sizeof values);
    line.calls = (double)callgrind->calls;
    callgrind->after_calls = false;
    return call_graph_add(&callgrind->graph, callgrind->importer, callgrind->function, &line);
}

// "key=value". False: it is no such line, or an error.
static bool read_assignment(struct callgrind_reader *callgrind, const char *key, char *value)
{
    static const struct {
        const char *key;
        enum name_kind kind;
    } kinds[] = {{"fl", NAME_FILE},     {"fi", NAME_FILE},     {"fe", NAME_FILE},
                 {"fn", NAME_FUNCTION}, {"ob", NAME_OBJECT},   {"cfn", NAME_FUNCTION},
                 {"cfi", NAME_FILE},    {"cfl", NAME_FILE},    {"cob", NAME_OBJECT},
                 {"jfi", NAME_FILE},    {"jfn", NAME_FUNCTION}};
    const char *name = NULL;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds && !name; i++)
        if (strcmp(kinds[i].key, key) == 0 && !(name = read_name(callgrind, kinds[i].kind, value)))
            return false;
    if (strcmp(key, "fl") == 0) {
        callgrind->file = callgrind->line_file = name;
    } else if (strcmp(key, "fi") == 0 || strcmp(key, "fe") == 0) {
        callgrind->line_file = name;
    } else if (strcmp(key, "ob") == 0) {
        callgrind->object = name;
    } else if (strcmp(key, "fn") == 0) {
        callgrind->function = function(callgrind, callgrind->object, callgrind->file, name);
        callgrind->line_file = callgrind->file;
        callgrind->has_function = true;
    } else if (strcmp(key, "cob") == 0) {
        callgrind->called_object = name;
    } else if (strcmp(key, "cfi") == 0 || strcmp(key, "cfl") == 0) {
        callgrind->called_file = name;
    } else if (strcmp(key, "cfn") == 0) {
        const char *object =
            callgrind->called_object ? callgrind->called_object : callgrind->object;
        const char *file = callgrind->called_file ? callgrind->called_file : callgrind->line_file;
        callgrind->callee = function(callgrind, object, file, name);
        callgrind->called_object = callgrind->called_file = NULL;
        callgrind->has_callee = true;
    } else if (strcmp(key, "calls") == 0) {
        callgrind->calls = strtoull(value, NULL, 0);
        if (!callgrind->has_callee)
            return fail(callgrind, "calls without a function");
        callgrind->after_calls = true;
    } else if (!name && strcmp(key, "jump") != 0 && strcmp(key, "jcnd") != 0) {
        return fail(callgrind, "nothing that callgrind writes");
    }
    return !callgrind->importer->error;
}

static void read_line(struct callgrind_reader *callgrind, char *line,
                      const struct import_file *file)
{
    const size_t word = strcspn(line, ":= \t");
    if (!*line || *line == '#')
        return;
    if (isdigit((unsigned char)*line) || *line == '+' || *line == '-' || *line == '*') {
        if (!callgrind->events)
            fail(callgrind, "a cost before 'events:'");
        else
            read_cost(callgrind, line);
        return;
    }
    const char kind = line[word];
    if (kind != '=' && kind != ':') {
        fail(callgrind, "nothing that callgrind writes");
        return;
    }
    line[word] = '\0';
    char *value = line + word + 1;
    if (kind == '=') {
        read_assignment(callgrind, line, value);
        return;
    }
    value += strspn(value, " \t");
    line[word] = ':'; // read_events() looks at it again
    if (strncmp(line, "events:", 7) == 0 && !callgrind->events)
        read_events(callgrind, value, file);
    else if (strncmp(line, "positions:", 10) == 0)
        read_positions(callgrind, value);
    else if (strncmp(line, "cmd:", 4) == 0)
        importer_command(callgrind->importer, value);
}

static bool looks_like_callgrind(const struct import_file *file)
{
    const char *events = strstr(file->data, "events:");
    return strncmp(file->data, "# callgrind format", 18) == 0 ||
           (events && (events == file->data || events[-1] == '\n') && strstr(events, "\nfn="));
}

static void read_callgrind(struct importer *importer, const struct import_file *file,
                           const struct import_options *options)
{
    (void)options;
    struct callgrind_reader callgrind = {
        .importer = importer, .graph.calls_metric = IMPORT_NONE, .positions = 1};
    // cairn's own exports have calls among the events, where they were counted.
    const bool ours = strstr(file->data, "\ncreator: cairn\n") != NULL;
    callgrind.lines = text_lines(file);
    for (char *line; (line = text_line(&callgrind.lines)) && !importer->error;) {
        read_line(&callgrind, line, file);
        if (callgrind.events && callgrind.graph.calls_metric == IMPORT_NONE && !ours)
            callgrind.graph.calls_metric = importer_metric(importer, PROFILE_CALLS, PROFILE_CALLS);
    }
    if (!importer->error)
        call_graph_import(&callgrind.graph, importer);
    call_graph_free(&callgrind.graph);
    for (unsigned kind = 0; kind < NAME_KINDS; kind++) {
        free(callgrind.names[kind]);
        hash_index_free(&callgrind.by_number[kind]);
    }
}

const struct import_format import_callgrind = {
    .name = "callgrind",
    .summary = "callgrind and other tools of valgrind",
    .matches = looks_like_callgrind,
    .read = read_callgrind,
};
