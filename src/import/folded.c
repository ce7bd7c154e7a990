// SPDX-License-Identifier: MIT

// Folded stacks: "outer;...;inner COUNT".

#include "base/memory.h"
#include "import/lines.h"

// Where the count of a line begins; NULL: it has none.
static char *count_of(char *line, double *count)
{
    char *space = strrchr(line, ' '), *end;
    if (!space || space == line)
        return NULL;
    *count = strtod(space + 1, &end);
    return end > space + 1 && !*end ? space : NULL;
}

static bool looks_folded(const struct import_file *file)
{
    const size_t length = strcspn(file->data, "\r\n");
    double count;
    char *line = memory_checked(strndup(file->data, length));
    const bool folded = length < file->size && count_of(line, &count) && strlen(line) == length;
    free(line);
    return folded;
}

// Marks of flame graph tools say whose code a function is.
static const char *module_of(char *name)
{
    char *mark = strstr(name, "_[");
    if (!mark || strlen(mark) != 4 || mark[3] != ']' || !strchr("kj", mark[2]))
        return NULL;
    *mark = '\0';
    return mark[2] == 'k' ? PLACE_KERNEL : "[jit]";
}

static int64_t place_of(struct importer *importer, char *name)
{
    const char *module = module_of(name);
    const struct import_line line = {.function = name};
    return importer_place(
        importer, &(struct import_place){.module = module, .lines = &line, .line_count = 1});
}

static bool read_path(struct importer *importer, int tree, char *path, double count)
{
    int64_t node = IMPORT_NONE, caller = IMPORT_NONE;
    for (char *next; path; path = next) {
        char *end = strchr(path, ';');
        next = end ? end + 1 : NULL;
        if (end)
            *end = '\0';
        const int64_t place = place_of(importer, path);
        node = importer_call(importer, tree, node, caller, place);
        caller = place;
        if (node == IMPORT_NONE)
            return false;
    }
    return importer_cost(importer, tree, node, caller, &count);
}

static void read_folded(struct importer *importer, const struct import_file *file,
                        const struct import_options *options)
{
    importer_metric(importer, options->metric ? options->metric : "samples",
                    options->unit ? options->unit : "count");
    const int tree = importer_thread(importer, &(struct import_thread){0});
    struct text_lines lines = text_lines(file);
    for (char *line; (line = text_line(&lines)) && !importer->error;) {
        double count = 0;
        if (!*line)
            continue;
        char *end = count_of(line, &count);
        if (!end) {
            importer_fail(importer, "line %u does not end with a count", lines.number);
            return;
        }
        *end = '\0';
        read_path(importer, tree, line, count);
    }
}

const struct import_format import_folded = {
    .name = "folded",
    .summary = "flame graph tools: outer;...;inner COUNT",
    .matches = looks_folded,
    .read = read_folded,
};
