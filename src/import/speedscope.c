// SPDX-License-Identifier: MIT

// speedscope's own file format. Profiles of one unit are threads; those of cairn's exports name
// their metric.

#include "base/memory.h"
#include "import/import.h"
#include "import/json_reader.h"

struct frame {
    char *name, *file;
    uint32_t line;
    int64_t place; // IMPORT_NONE: not looked up yet
};

struct speedscope_reader {
    struct importer *importer;
    struct frame *frames;
    size_t frame_count, frame_capacity;
    bool ours;
    // Of the profile that is read now:
    int metric, tree;
    struct json_reader samples, weights, events;
    struct open_frame {
        size_t frame;
        int64_t node;
    } * stack;
    size_t depth, stack_capacity;
};

static bool damaged(const struct speedscope_reader *speedscope, const struct json_reader *json)
{
    if (json->failed)
        importer_fail(speedscope->importer, "damaged JSON at byte %zu",
                      (size_t)(json->at - json->begin));
    return speedscope->importer->error != NULL;
}

static bool read_frame(struct speedscope_reader *speedscope, struct json_reader *json)
{
    struct frame frame = {.place = IMPORT_NONE};
    char buffer[JSON_KEY_BYTES];
    const char *key, *start = json->at;
    if (!json_enter(json, '{'))
        return !damaged(speedscope, json);
    while ((key = json_next_key(json, buffer))) {
        char **text = strcmp(key, "name") == 0   ? &frame.name
                      : strcmp(key, "file") == 0 ? &frame.file
                                                 : NULL;
        if (text) {
            free(*text);
            *text = json_text(json);
        } else if (strcmp(key, "line") == 0) {
            const double line = json_number(json);
            frame.line = line > 0 && line < UINT32_MAX ? (uint32_t)line : 0;
        } else {
            json_skip(json);
        }
    }
    importer_charge(speedscope->importer, (size_t)(json->at - start) + 2 * sizeof frame);
    speedscope->frames = memory_grown(speedscope->frames, &speedscope->frame_capacity,
                                      speedscope->frame_count + 1, sizeof frame);
    speedscope->frames[speedscope->frame_count++] = frame;
    return !damaged(speedscope, json);
}

static void read_shared(struct speedscope_reader *speedscope, struct json_reader *json)
{
    char buffer[JSON_KEY_BYTES];
    const char *key;
    if (!json_enter(json, '{'))
        return;
    while ((key = json_next_key(json, buffer))) {
        if (strcmp(key, "frames") != 0 || speedscope->frame_count)
            json_skip(json);
        else if (json_enter(json, '['))
            while (json_next(json) && read_frame(speedscope, json))
                ;
    }
}

static int64_t place_of(struct speedscope_reader *speedscope, size_t number)
{
    if (number >= speedscope->frame_count) {
        importer_fail(speedscope->importer, "frame %zu is not there", number);
        return IMPORT_NONE;
    }
    struct frame *frame = &speedscope->frames[number];
    // cairn writes the module where the file is not known.
    const bool is_module =
        speedscope->ours && frame->file && frame->line == 0 && !strchr(frame->file, '/');
    const struct import_line line = {.function = frame->name ? frame->name : "[unknown]",
                                     .file = is_module ? NULL : frame->file,
                                     .first = frame->line};
    if (frame->place == IMPORT_NONE)
        frame->place = importer_place(
            speedscope->importer, &(struct import_place){.module = is_module ? frame->file : NULL,
                                                         .lines = &line,
                                                         .line_count = 1});
    return frame->place;
}

static bool add_cost(struct speedscope_reader *speedscope, double cost)
{
    double values[IMPORT_METRICS] = {0};
    if (speedscope->depth == 0 || cost == 0)
        return true;
    const struct open_frame *top = &speedscope->stack[speedscope->depth - 1];
    values[speedscope->metric] = cost;
    return importer_cost(speedscope->importer, speedscope->tree, top->node,
                         place_of(speedscope, top->frame), values);
}

static bool open_frame(struct speedscope_reader *speedscope, size_t number)
{
    const struct open_frame *caller =
        speedscope->depth ? &speedscope->stack[speedscope->depth - 1] : NULL;
    const int64_t place = place_of(speedscope, number);
    const int64_t node =
        importer_call(speedscope->importer, speedscope->tree, caller ? caller->node : IMPORT_NONE,
                      caller ? place_of(speedscope, caller->frame) : IMPORT_NONE, place);
    if (node == IMPORT_NONE)
        return false;
    speedscope->stack = memory_grown(speedscope->stack, &speedscope->stack_capacity,
                                     speedscope->depth + 1, sizeof *speedscope->stack);
    speedscope->stack[speedscope->depth++] = (struct open_frame){number, node};
    return true;
}

static size_t index_of(double number)
{
    return number >= 0 && number < 1e9 ? (size_t)number : SIZE_MAX;
}

static bool close_frame(struct speedscope_reader *speedscope, size_t number)
{
    if (speedscope->depth == 0 || speedscope->stack[speedscope->depth - 1].frame != number)
        return importer_fail(speedscope->importer,
                             "frame %zu is left where another one was entered last", number);
    speedscope->depth--;
    return true;
}

static bool read_event(struct speedscope_reader *speedscope, struct json_reader *json, double *now)
{
    char buffer[JSON_KEY_BYTES], *type = NULL;
    const char *key;
    double at = 0, frame = -1;
    if (!json_enter(json, '{'))
        return !damaged(speedscope, json);
    while ((key = json_next_key(json, buffer))) {
        if (strcmp(key, "type") == 0) {
            free(type);
            type = json_text(json);
        } else if (strcmp(key, "at") == 0) {
            at = json_number(json);
        } else if (strcmp(key, "frame") == 0) {
            frame = json_number(json);
        } else {
            json_skip(json);
        }
    }
    const bool opens = type && strcmp(type, "O") == 0;
    free(type);
    if (damaged(speedscope, json) || !add_cost(speedscope, at - *now))
        return false;
    *now = at;
    return opens ? open_frame(speedscope, index_of(frame))
                 : close_frame(speedscope, index_of(frame));
}

static void read_events(struct speedscope_reader *speedscope, double start)
{
    struct json_reader *json = &speedscope->events;
    double now = start;
    if (json_enter(json, '['))
        while (json_next(json) && read_event(speedscope, json, &now))
            ;
    damaged(speedscope, json);
}

// Samples and their weights are lists beside each other.
static void read_samples(struct speedscope_reader *speedscope)
{
    struct json_reader *samples = &speedscope->samples, *weights = &speedscope->weights;
    const bool weighted = weights->at && json_enter(weights, '[');
    if (!json_enter(samples, '['))
        return;
    while (json_next(samples) && !damaged(speedscope, samples)) {
        const double weight = weighted && json_next(weights) ? json_number(weights) : !weighted;
        speedscope->depth = 0;
        if (!json_enter(samples, '['))
            continue;
        while (json_next(samples))
            if (!open_frame(speedscope, index_of(json_number(samples))))
                return;
        if (!add_cost(speedscope, weight))
            return;
    }
    damaged(speedscope, samples);
}

// The metric of a profile, and its thread. Exports of cairn are called "thread: metric", which is
// cut apart.
static const char *metric_in(const struct speedscope_reader *speedscope, char *name,
                             const char *unit, const char **thread)
{
    char *colon = strrchr(name, ':');
    *thread = name;
    if (!speedscope->ours)
        return strcmp(unit, "bytes") == 0  ? "bytes"
               : strcmp(unit, "none") == 0 ? "samples"
                                           : "time";
    *thread = NULL;
    if (!colon || colon[1] != ' ')
        return name;
    *colon = '\0';
    *thread = name;
    return colon + 2;
}

enum pass { FIND_METRICS, READ_PROFILES };

static void use_profile(struct speedscope_reader *speedscope, const char *name, const char *unit,
                        double start, enum pass pass)
{
    const char *thread;
    char *copy = memory_text(name);
    speedscope->metric =
        importer_metric(speedscope->importer, metric_in(speedscope, copy, unit, &thread), unit);
    if (pass == READ_PROFILES && !speedscope->importer->error)
        speedscope->tree =
            importer_thread(speedscope->importer, &(struct import_thread){.thread = thread});
    free(copy);
    if (pass == FIND_METRICS || speedscope->importer->error)
        return;
    if (speedscope->events.at)
        read_events(speedscope, start);
    else if (speedscope->samples.at)
        read_samples(speedscope);
}

static bool read_profile(struct speedscope_reader *speedscope, struct json_reader *json,
                         enum pass pass)
{
    char buffer[JSON_KEY_BYTES], *name = NULL, *unit = NULL;
    const char *key;
    double start = 0;
    speedscope->samples = speedscope->weights = speedscope->events = (struct json_reader){0};
    speedscope->depth = 0;
    if (!json_enter(json, '{'))
        return !damaged(speedscope, json);
    while ((key = json_next_key(json, buffer))) {
        struct json_reader *list = strcmp(key, "samples") == 0   ? &speedscope->samples
                                   : strcmp(key, "weights") == 0 ? &speedscope->weights
                                   : strcmp(key, "events") == 0  ? &speedscope->events
                                                                 : NULL;
        char **text = strcmp(key, "name") == 0 ? &name : strcmp(key, "unit") == 0 ? &unit : NULL;
        if (strcmp(key, "startValue") == 0) {
            start = json_number(json);
        } else if (text) {
            free(*text);
            *text = json_text(json);
        } else {
            json_peek(json);
            if (list)
                *list = *json;
            json_skip(json);
        }
    }
    if (!damaged(speedscope, json))
        use_profile(speedscope, name ? name : "", unit ? unit : "none", start, pass);
    free(name);
    free(unit);
    return !speedscope->importer->error;
}

static void read_profiles(struct speedscope_reader *speedscope, struct json_reader json,
                          enum pass pass)
{
    if (json_enter(&json, '['))
        while (json_next(&json) && read_profile(speedscope, &json, pass))
            ;
    damaged(speedscope, &json);
}

static bool looks_like_speedscope(const struct import_file *file)
{
    return file->data[strspn(file->data, " \t\r\n")] == '{' &&
           (strstr(file->data, "speedscope.app/file-format-schema") ||
            (strstr(file->data, "\"frames\"") && strstr(file->data, "\"profiles\"")));
}

static void read_speedscope(struct importer *importer, const struct import_file *file,
                            const struct import_options *options)
{
    (void)options;
    struct speedscope_reader speedscope = {.importer = importer};
    struct json_reader json = json_reader(file->data, file->size), profiles = {0};
    char buffer[JSON_KEY_BYTES], *text;
    const char *key;
    if (!json_enter(&json, '{'))
        json.failed = true;
    while (!json.failed && (key = json_next_key(&json, buffer))) {
        if (strcmp(key, "shared") == 0) {
            read_shared(&speedscope, &json);
        } else if (strcmp(key, "name") == 0 && (text = json_text(&json))) {
            importer_command(importer, text);
            free(text);
        } else if (strcmp(key, "exporter") == 0 && (text = json_text(&json))) {
            speedscope.ours = strncmp(text, "cairn", 5) == 0;
            free(text);
        } else {
            json_peek(&json);
            if (strcmp(key, "profiles") == 0)
                profiles = json;
            json_skip(&json);
        }
    }
    if (!damaged(&speedscope, &json) && !profiles.at)
        importer_fail(importer, "it has no profiles");
    // All metrics must be known before the first thread.
    for (enum pass pass = FIND_METRICS; pass <= READ_PROFILES && !importer->error; pass++)
        read_profiles(&speedscope, profiles, pass);
    for (size_t i = 0; i < speedscope.frame_count; i++) {
        free(speedscope.frames[i].name);
        free(speedscope.frames[i].file);
    }
    free(speedscope.frames);
    free(speedscope.stack);
}

const struct import_format import_speedscope = {
    .name = "speedscope",
    .summary = "speedscope and all that writes its format",
    .matches = looks_like_speedscope,
    .read = read_speedscope,
};
