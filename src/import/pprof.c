// SPDX-License-Identifier: MIT

// pprof's profile.proto; src/export/pprof.c has the numbers of its fields.

#include "base/memory.h"
#include "import/import.h"
#include "profile/chunks/bytes.h"
#include <limits.h>

struct field {
    unsigned number;
    uint64_t value;
    struct cursor bytes; // of one that has a length; else empty
    bool has_bytes;
};

// Of a table of messages by their ids.
struct message {
    uint64_t id;
    struct cursor fields;
};

struct message_table {
    struct message *list; // by id
    size_t count, capacity;
};

struct pprof_reader {
    struct importer *importer;
    const char **strings;
    size_t string_count, string_capacity;
    struct message_table mappings, locations, functions;
    int64_t *places; // by location; IMPORT_NONE: not looked up yet
    int metrics[IMPORT_METRICS];
    unsigned value_count;
    int64_t *path;
    size_t path_capacity;
};

// False: the message is over, or damaged.
static bool next_field(struct cursor *cursor, struct field *field)
{
    if (cursor_left(cursor) == 0 || cursor->failed)
        return false;
    const uint64_t tag = cursor_varint(cursor);
    *field = (struct field){.number = tag >> 3 < UINT_MAX ? (unsigned)(tag >> 3) : 0};
    const unsigned type = tag & 7;
    if (type == 0) {
        field->value = cursor_varint(cursor);
    } else if (type == 1 || type == 5) {
        field->value = cursor_fixed(cursor, type == 1 ? 8 : 4);
    } else if (type == 2) {
        const uint64_t size = cursor_varint(cursor);
        const uint8_t *data = size > cursor_left(cursor) ? NULL : cursor_bytes(cursor, size);
        cursor->failed |= !data;
        field->has_bytes = true;
        if (data)
            field->bytes = (struct cursor){.at = data, .end = data + size};
    } else {
        cursor->failed = true;
    }
    return !cursor->failed;
}

// The first field of a message with that number; 0 if there is none.
static uint64_t number_in(struct cursor message, unsigned number)
{
    for (struct field field; next_field(&message, &field);)
        if (field.number == number && !field.has_bytes)
            return field.value;
    return 0;
}

static const char *text_in(const struct pprof_reader *pprof, struct cursor message, unsigned number)
{
    const uint64_t index = number_in(message, number);
    return index < pprof->string_count ? pprof->strings[index] : "";
}

// The next number of a repeated field, which may be packed: *packed is left to be read first.
static bool next_number(struct cursor *packed, struct cursor *message, unsigned number,
                        uint64_t *value)
{
    while (cursor_left(packed) == 0 || packed->failed) {
        struct field field;
        if (!next_field(message, &field))
            return false;
        if (field.number != number)
            continue;
        if (!field.has_bytes) {
            *value = field.value;
            return true;
        }
        *packed = field.bytes;
    }
    *value = cursor_varint(packed);
    return !packed->failed;
}

static bool has_head(const struct import_file *file)
{
    struct cursor cursor = {.at = (const uint8_t *)file->data,
                            .end = (const uint8_t *)file->data + file->size};
    unsigned known = 0;
    for (struct field field; next_field(&cursor, &field);) {
        if (field.number == 0 || field.number > 16)
            return false;
        known += field.number == 1 || field.number == 6;
    }
    return !cursor.failed && known >= 2;
}

static bool add_string(struct pprof_reader *pprof, struct cursor bytes)
{
    const size_t length = cursor_left(&bytes);
    if (!importer_charge(pprof->importer, length + 64))
        return false;
    pprof->strings = memory_grown(pprof->strings, &pprof->string_capacity, pprof->string_count + 1,
                                  sizeof *pprof->strings);
    pprof->strings[pprof->string_count++] =
        length ? memory_checked(strndup((const char *)bytes.at, length)) : memory_text("");
    return true;
}

static bool add_message(struct pprof_reader *pprof, struct message_table *table,
                        struct cursor fields)
{
    if (!importer_charge(pprof->importer, 2 * sizeof *table->list))
        return false;
    table->list =
        memory_grown(table->list, &table->capacity, table->count + 1, sizeof *table->list);
    table->list[table->count++] = (struct message){.id = number_in(fields, 1), .fields = fields};
    return true;
}

static int compare_messages(const void *left, const void *right)
{
    const struct message *a = left, *b = right;
    return a->id < b->id ? -1 : a->id > b->id;
}

static const struct message *find(const struct message_table *table, uint64_t id)
{
    const struct message key = {.id = id};
    return id && table->count
               ? bsearch(&key, table->list, table->count, sizeof key, compare_messages)
               : NULL;
}

static bool read_tables(struct pprof_reader *pprof, struct cursor file)
{
    for (struct field field; next_field(&file, &field);) {
        struct message_table *const tables[] = {
            [3] = &pprof->mappings, [4] = &pprof->locations, [5] = &pprof->functions};
        if (!field.has_bytes)
            continue;
        if (field.number == 6 && !add_string(pprof, field.bytes))
            return false;
        if (field.number >= 3 && field.number <= 5 &&
            !add_message(pprof, tables[field.number], field.bytes))
            return false;
    }
    if (file.failed)
        return importer_fail(pprof->importer, "a field reaches beyond the end of the file");
    struct message_table *const all[] = {&pprof->mappings, &pprof->locations, &pprof->functions};
    for (size_t i = 0; i < 3; i++)
        if (all[i]->count)
            qsort(all[i]->list, all[i]->count, sizeof *all[i]->list, compare_messages);
    pprof->places = memory_array(pprof->locations.count, sizeof *pprof->places);
    for (size_t i = 0; i < pprof->locations.count; i++)
        pprof->places[i] = IMPORT_NONE;
    return true;
}

static bool read_metrics(struct pprof_reader *pprof, struct cursor file)
{
    for (struct field field; next_field(&file, &field);) {
        if (field.number != 1 || !field.has_bytes)
            continue;
        if (pprof->value_count == IMPORT_METRICS)
            return importer_fail(pprof->importer, "it has more than %d kinds of values",
                                 IMPORT_METRICS);
        const int metric = importer_metric(pprof->importer, text_in(pprof, field.bytes, 1),
                                           text_in(pprof, field.bytes, 2));
        if (metric == IMPORT_NONE)
            return false;
        pprof->metrics[pprof->value_count++] = metric;
    }
    return pprof->value_count || importer_fail(pprof->importer, "it does not say what it counts");
}

// The one that is shown first comes first.
static bool read_default(struct pprof_reader *pprof, struct cursor file)
{
    const char *name = text_in(pprof, file, 14);
    struct cursor again = file;
    for (struct field field; *name && next_field(&again, &field);)
        if (field.number == 1 && field.has_bytes &&
            strcmp(text_in(pprof, field.bytes, 1), name) == 0)
            return importer_metric(pprof->importer, name, text_in(pprof, field.bytes, 2)) !=
                   IMPORT_NONE;
    return true;
}

static void read_head(struct pprof_reader *pprof, struct cursor file)
{
    struct profile *profile = pprof->importer->profile;
    profile->start_realtime_ns = number_in(file, 9);
    profile->duration_ns = number_in(file, 10);
    const uint64_t comment = number_in(file, 13);
    if (comment && comment < pprof->string_count)
        importer_command(pprof->importer, pprof->strings[comment]);
    for (struct field field; next_field(&file, &field);)
        if (field.number == 11 && field.has_bytes)
            for (unsigned i = 0; i < profile->metric_count; i++)
                if (strcmp(profile->metrics[i].name, text_in(pprof, field.bytes, 1)) == 0)
                    profile->metrics[i].period = number_in(file, 12);
}

static struct import_line read_line(const struct pprof_reader *pprof, struct cursor fields)
{
    const struct message *function = find(&pprof->functions, number_in(fields, 1));
    const struct cursor none = {0};
    const struct cursor of = function ? function->fields : none;
    const char *name = text_in(pprof, of, 2), *file = text_in(pprof, of, 4);
    const uint64_t line = number_in(fields, 2), first = number_in(of, 5);
    return (struct import_line){
        .function = *name ? name : "[unknown]",
        .file = *file ? file : NULL,
        .line = line < UINT32_MAX ? (uint32_t)line : 0,
        .first = first < UINT32_MAX ? (uint32_t)first : 0,
    };
}

static size_t read_lines(const struct pprof_reader *pprof, struct cursor location,
                         struct import_line *lines)
{
    size_t count = 0;
    for (struct field field; next_field(&location, &field);) {
        if (field.number != 4 || !field.has_bytes)
            continue;
        if (lines)
            lines[count] = read_line(pprof, field.bytes);
        count++;
    }
    return count;
}

// The place of a location, by its position in the table.
static int64_t place_of(struct pprof_reader *pprof, uint64_t id)
{
    const struct message *location = find(&pprof->locations, id);
    if (!location) {
        importer_fail(pprof->importer, "a sample has location %llu, which is not there",
                      (unsigned long long)id);
        return IMPORT_NONE;
    }
    int64_t *known = &pprof->places[location - pprof->locations.list];
    if (*known != IMPORT_NONE)
        return *known;
    const struct message *mapping = find(&pprof->mappings, number_in(location->fields, 2));
    const uint64_t address = number_in(location->fields, 3);
    const size_t count = read_lines(pprof, location->fields, NULL);
    struct import_line *lines = memory_array(count, sizeof *lines);
    struct import_place place = {.lines = lines, .line_count = count ? (uint32_t)count : 1};
    char name[512];
    read_lines(pprof, location->fields, lines);
    if (mapping) {
        const uint64_t start = number_in(mapping->fields, 2);
        place.module = text_in(pprof, mapping->fields, 5);
        place.build_id = text_in(pprof, mapping->fields, 6);
        if (address >= start)
            place.offset = address - start + number_in(mapping->fields, 4);
    }
    if (count == 0) {
        const char *module = place.module && *place.module ? strrchr(place.module, '/') : NULL;
        snprintf(name, sizeof name, "%s+0x%llx",
                 module ? module + 1 : (place.module ? place.module : "?"),
                 (unsigned long long)(mapping ? place.offset : address));
        lines[0] = (struct import_line){.function = name};
    }
    *known = importer_place(pprof->importer, &place);
    free(lines);
    return *known;
}

static int thread_of(struct pprof_reader *pprof, struct cursor sample)
{
    struct import_thread thread = {0};
    for (struct field field; next_field(&sample, &field);) {
        if (field.number != 3 || !field.has_bytes)
            continue;
        const char *key = text_in(pprof, field.bytes, 1), *text = text_in(pprof, field.bytes, 2);
        const uint64_t number = number_in(field.bytes, 3);
        if (strcmp(key, "process") == 0 || strcmp(key, "comm") == 0)
            thread.process = text;
        else if (strcmp(key, "thread") == 0 || strcmp(key, "thread_name") == 0)
            thread.thread = text;
        else if (strcmp(key, "phase") == 0)
            thread.phase = text;
        else if (strcmp(key, "pid") == 0)
            thread.pid = (uint32_t)number;
        else if (strcmp(key, "tid") == 0 || strcmp(key, "thread_id") == 0)
            thread.tid = (uint32_t)number;
    }
    return importer_thread(pprof->importer, &thread);
}

static bool read_sample(struct pprof_reader *pprof, struct cursor sample)
{
    double values[IMPORT_METRICS] = {0};
    size_t depth = 0, count = 0;
    struct cursor message = sample, packed = {0};
    for (uint64_t value; next_number(&packed, &message, 2, &value); count++)
        if (count < pprof->value_count)
            values[pprof->metrics[count]] += (double)(int64_t)value;
    if (count != pprof->value_count)
        return importer_fail(pprof->importer, "a sample has %zu values instead of %u", count,
                             pprof->value_count);
    message = sample;
    packed = (struct cursor){0};
    for (uint64_t id; next_number(&packed, &message, 1, &id);) {
        pprof->path =
            memory_grown(pprof->path, &pprof->path_capacity, depth + 1, sizeof *pprof->path);
        pprof->path[depth++] = place_of(pprof, id);
        if (pprof->importer->error)
            return false;
    }
    for (size_t i = 0; i < depth / 2; i++) {
        const int64_t other = pprof->path[i];
        pprof->path[i] = pprof->path[depth - 1 - i];
        pprof->path[depth - 1 - i] = other;
    }
    const int tree = thread_of(pprof, sample);
    return tree != IMPORT_NONE && importer_path(pprof->importer, tree, pprof->path, depth, values);
}

static void read_samples(struct pprof_reader *pprof, struct cursor file)
{
    for (struct field field; next_field(&file, &field);)
        if (field.number == 2 && field.has_bytes && !read_sample(pprof, field.bytes))
            return;
}

static void read_pprof(struct importer *importer, const struct import_file *file,
                       const struct import_options *options)
{
    (void)options;
    struct pprof_reader pprof = {.importer = importer};
    const struct cursor top = {.at = (const uint8_t *)file->data,
                               .end = (const uint8_t *)file->data + file->size};
    if (read_tables(&pprof, top) && read_default(&pprof, top) && read_metrics(&pprof, top)) {
        read_head(&pprof, top);
        read_samples(&pprof, top);
    }
    for (size_t i = 0; i < pprof.string_count; i++)
        free((char *)pprof.strings[i]);
    free(pprof.strings);
    free(pprof.mappings.list);
    free(pprof.locations.list);
    free(pprof.functions.list);
    free(pprof.places);
    free(pprof.path);
}

const struct import_format import_pprof = {
    .name = "pprof",
    .summary = "pprof and all that writes its profile.proto",
    .matches = has_head,
    .read = read_pprof,
};
