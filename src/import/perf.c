// SPDX-License-Identifier: MIT

// The text of `perf script`: a line for each sample, then its stack, innermost function first.
//
//   perl 4321/4322 [002] 1234.567890:    1000000 cpu-clock:u:
//           55d0c0ffee Perl_pp_add+0x12 (/usr/bin/perl)
//             pp_hot.c:99
//           7f00c0ffee main (inlined)

#include "base/memory.h"
#include "import/lines.h"
#include <ctype.h>

struct sample {
    const char *comm, *event;
    uint32_t pid, tid;
    double time, period;
    bool has_pid, has_period;
};

struct frames {
    struct importer *importer;
    struct import_line *lines; // innermost first
    const char **modules;      // by line; NULL: inlined into the next one
    size_t count, line_capacity, module_capacity;
    int64_t *path;
    size_t path_capacity;
};

static char *skip_blanks(char *at)
{
    return at + strspn(at, " \t");
}

static char *skip_digits(char *at)
{
    return at + strspn(at, "0123456789");
}

// "[002] 1234.567890: " behind the number of a thread; NULL: something else.
static char *read_time(char *at, double *time)
{
    at = skip_blanks(at);
    if (*at == '[' && *skip_digits(at + 1) == ']')
        at = skip_blanks(skip_digits(at + 1) + 1);
    char *end = skip_digits(at);
    if (end == at || *end != '.' || *skip_digits(end + 1) != ':')
        return NULL;
    *time = strtod(at, NULL);
    return skip_digits(end + 1) + 1;
}

// "4321/4322 ..." behind the name of a thread, which may have blanks. NULL: it is no such line.
static char *read_thread(char *line, struct sample *sample)
{
    for (char *at = strpbrk(line, " \t"); at; at = strpbrk(at + 1, " \t")) {
        char *number = skip_blanks(at), *end = skip_digits(number), *slash = end;
        if (end == number)
            continue;
        if (*slash == '/')
            end = skip_digits(slash + 1);
        char *rest = read_time(end, &sample->time);
        if (!rest)
            continue;
        sample->has_pid = *slash == '/';
        sample->tid = (uint32_t)strtoul(*slash == '/' ? slash + 1 : number, NULL, 10);
        sample->pid = (uint32_t)strtoul(number, NULL, 10);
        *at = '\0';
        sample->comm = line;
        return rest;
    }
    return NULL;
}

// Letters behind the last colon modify an event: "cpu-clock:u", but not "sched:sched_switch".
static void strip_modifiers(char *event)
{
    char *colon = strrchr(event, ':');
    if (colon && colon != event && colon[1 + strspn(colon + 1, "ukhIGHpPSDWeb")] == '\0')
        *colon = '\0';
}

static bool read_head(char *line, struct sample *sample, char **rest)
{
    char *at = read_thread(line, sample);
    if (!at)
        return false;
    at = skip_blanks(at);
    char *end = skip_digits(at);
    if (end > at && isblank((unsigned char)*end)) {
        sample->period = strtod(at, NULL);
        sample->has_period = true;
        at = skip_blanks(end);
    }
    end = at + strcspn(at, " \t");
    *rest = *end ? end + 1 : end;
    *end = '\0';
    if (end == at || end[-1] != ':')
        return false;
    end[-1] = '\0';
    strip_modifiers(at);
    sample->event = at;
    return true;
}

static const char *unit_of(const struct sample *sample)
{
    if (!sample->has_period)
        return "samples";
    return strstr(sample->event, "cpu-clock") || strstr(sample->event, "task-clock") ? "ns"
                                                                                     : "count";
}

static const char *module_of(const char *dso)
{
    const size_t length = strlen(dso);
    if (strncmp(dso, "[kernel", 7) == 0 || strncmp(dso, "[guest.kernel", 13) == 0 ||
        strstr(dso, "vmlinux") || (length > 3 && strcmp(dso + length - 3, ".ko") == 0))
        return PLACE_KERNEL;
    if (strncmp(dso, "/tmp/perf-", 10) == 0 || strcmp(dso, "//anon") == 0)
        return "[jit]";
    return strcmp(dso, "[unknown]") == 0 ? "" : dso;
}

static void add_frame(struct frames *frames, const char *function, const char *module)
{
    frames->lines = memory_grown(frames->lines, &frames->line_capacity, frames->count + 1,
                                 sizeof *frames->lines);
    frames->modules = memory_grown(frames->modules, &frames->module_capacity, frames->count + 1,
                                   sizeof *frames->modules);
    frames->lines[frames->count] = (struct import_line){.function = function};
    frames->modules[frames->count++] = module;
}

// "Perl_pp_add+0x12 (/usr/bin/perl)" behind the address.
static void read_function(struct frames *frames, char *at)
{
    size_t length = strlen(at);
    while (length && isblank((unsigned char)at[length - 1]))
        at[--length] = '\0';
    const char *module = "";
    char *open = length && at[length - 1] == ')' ? strrchr(at, '(') : NULL;
    if (open) {
        at[length - 1] = '\0';
        module = strcmp(open + 1, "inlined") == 0 ? NULL : module_of(open + 1);
        while (open > at && isblank((unsigned char)open[-1]))
            open--;
        *open = '\0';
    }
    char *offset = strstr(at, "+0x");
    for (char *next; offset && (next = strstr(offset + 1, "+0x"));)
        offset = next;
    if (offset && offset > at && offset[3 + strspn(offset + 3, "0123456789abcdef")] == '\0')
        *offset = '\0';
    add_frame(frames, *at ? at : "[unknown]", module);
}

// A line of a stack: an address and a function, or the source line of the one before.
static void read_frame(struct frames *frames, char *line)
{
    char *at = skip_blanks(line), *end = at + strspn(at, "0123456789abcdef");
    if (end > at && (!*end || isblank((unsigned char)*end))) {
        read_function(frames, skip_blanks(end));
        return;
    }
    char *colon = strrchr(at, ':');
    if (!colon || colon == at || colon[1] < '0' || colon[1] > '9' || !frames->count)
        return;
    *colon = '\0';
    frames->lines[frames->count - 1].file = at;
    frames->lines[frames->count - 1].line = (uint32_t)strtoul(colon + 1, NULL, 10);
}

static bool put_sample(struct frames *frames, const struct sample *sample, int metric)
{
    struct importer *importer = frames->importer;
    double values[IMPORT_METRICS] = {0};
    size_t depth = 0;
    char main_thread[64];
    snprintf(main_thread, sizeof main_thread, "main thread (%s)", sample->comm);
    const bool is_main = sample->has_pid && sample->pid == sample->tid;
    const int tree = importer_thread(importer, &(struct import_thread){
                                                   .process = sample->has_pid ? sample->comm : "?",
                                                   .thread = is_main ? main_thread : sample->comm,
                                                   .pid = sample->has_pid ? sample->pid : 0,
                                                   .tid = sample->tid,
                                               });
    if (tree == IMPORT_NONE)
        return false;
    // Functions without a stack of their own.
    if (!frames->count)
        add_frame(frames, "[unknown]", "");
    for (size_t first = 0, last; first < frames->count; first = last + 1) {
        for (last = first; last + 1 < frames->count && !frames->modules[last]; last++)
            ;
        const struct import_place place = {
            .module = frames->modules[last],
            .lines = frames->lines + first,
            .line_count = (uint32_t)(last - first + 1),
        };
        frames->path =
            memory_grown(frames->path, &frames->path_capacity, depth + 1, sizeof *frames->path);
        frames->path[depth++] = importer_place(importer, &place);
        if (importer->error)
            return false;
    }
    for (size_t i = 0; i < depth / 2; i++) {
        const int64_t other = frames->path[i];
        frames->path[i] = frames->path[depth - 1 - i];
        frames->path[depth - 1 - i] = other;
    }
    values[metric] = sample->has_period ? sample->period : 1;
    frames->count = 0;
    return importer_path(importer, tree, frames->path, depth, values);
}

// All events must be known before the first sample.
static bool find_events(struct importer *importer, const struct import_file *file)
{
    const struct import_file copy = {.data = memory_checked(malloc(file->size + 1)),
                                     .size = file->size};
    memcpy(copy.data, file->data, file->size + 1);
    struct text_lines lines = text_lines(&copy);
    bool fine = true;
    for (char *line, *rest; fine && (line = text_line(&lines));) {
        struct sample sample = {0};
        if (*line && *line != '#' && !isblank((unsigned char)*line) &&
            read_head(line, &sample, &rest))
            fine = importer_metric(importer, sample.event, unit_of(&sample)) != IMPORT_NONE;
    }
    free(copy.data);
    return fine;
}

static bool looks_like_perf(const struct import_file *file)
{
    const char *at = file->data;
    struct sample sample;
    bool found = false;
    for (unsigned i = 0; i < 200 && *at && !found; i++) {
        const size_t length = strcspn(at, "\r\n");
        char *line = memory_checked(strndup(at, length)), *rest;
        found = *line != '#' && !isblank((unsigned char)*line) && read_head(line, &sample, &rest);
        free(line);
        at += length;
        at += *at != '\0';
    }
    return found;
}

static void read_perf(struct importer *importer, const struct import_file *file,
                      const struct import_options *options)
{
    (void)options;
    if (!find_events(importer, file))
        return;
    struct frames frames = {.importer = importer};
    struct text_lines lines = text_lines(file);
    struct sample sample = {0};
    double first = 0, last = 0;
    int metric = IMPORT_NONE; // of the sample that is being read
    for (char *line, *rest; (line = text_line(&lines)) && !importer->error;) {
        if (*line == '#')
            continue;
        if (isblank((unsigned char)*line)) {
            if (metric != IMPORT_NONE && *skip_blanks(line))
                read_frame(&frames, line);
            continue;
        }
        if (metric != IMPORT_NONE && !put_sample(&frames, &sample, metric))
            break;
        metric = IMPORT_NONE;
        if (!*line)
            continue;
        sample = (struct sample){0};
        if (!read_head(line, &sample, &rest)) {
            importer_fail(importer, "line %u is no sample of perf script", lines.number);
            break;
        }
        metric = importer_metric(importer, sample.event, unit_of(&sample));
        if (*skip_blanks(rest))
            read_frame(&frames, rest);
        first = first == 0 || sample.time < first ? sample.time : first;
        last = sample.time > last ? sample.time : last;
        importer_command(importer, sample.comm);
    }
    if (metric != IMPORT_NONE && !importer->error)
        put_sample(&frames, &sample, metric);
    if (last - first < 1e9)
        importer->profile->duration_ns = (uint64_t)((last - first) * 1e9);
    free(frames.lines);
    free(frames.modules);
    free(frames.path);
}

const struct import_format import_perf = {
    .name = "perf",
    .summary = "the output of perf script",
    .matches = looks_like_perf,
    .read = read_perf,
};
