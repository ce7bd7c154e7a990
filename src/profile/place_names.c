// SPDX-License-Identifier: MIT
#include "profile/place_names.h"
#include "profile/read_records.h"
#include <stdlib.h>
#include <string.h>

static void put_text(struct bytes *out, const char *text)
{
    bytes_put_string(out, text, strlen(text));
}

void place_names_put(struct batch *batch, const struct profile_place *place)
{
    struct bytes *out = &batch->payload[CHUNK_PLACES];
    bytes_put_varint(out, place_module(place->place));
    bytes_put_varint(out, place_offset(place->place));
    bytes_put_varint(out, place_offset(place->begin));
    bytes_put_varint(out, place->offset);
    bytes_put_varint(out, place->line_count);
    for (uint32_t i = 0; i < place->line_count; i++) {
        put_text(out, place->lines[i].function);
        put_text(out, place->lines[i].file);
        bytes_put_varint(out, place->lines[i].line);
    }
}

void place_names_free(struct profile_place *place)
{
    for (uint32_t i = 0; i < place->line_count; i++) {
        free(place->lines[i].function);
        free(place->lines[i].file);
    }
    free(place->lines);
}

static bool take_lines(struct loader *loader, struct cursor *cursor, struct profile_place *place)
{
    const uint32_t count = cursor_varint32(cursor);
    if (cursor->failed || count == 0 || count > cursor_left(cursor) ||
        !loader_charge(loader, count * sizeof *place->lines))
        return false;
    place->lines = calloc(count, sizeof *place->lines);
    if (!place->lines) {
        loader->out_of_memory = true;
        return false;
    }
    place->line_count = count;
    for (uint32_t i = 0; i < count; i++) {
        struct profile_line *line = &place->lines[i];
        if (!loader_take_text(loader, cursor, &line->function) ||
            !loader_take_text(loader, cursor, &line->file))
            return false;
        line->line = cursor_varint32(cursor);
    }
    return !cursor->failed;
}

static bool append(struct profile *profile, const struct profile_place *place)
{
    if (!profile_grow((void **)&profile->places, profile->place_count,
                      profile->place_count + (size_t)1, sizeof *place))
        return false;
    profile->places[profile->place_count++] = *place;
    return true;
}

bool place_names_take(struct loader *loader, struct cursor *cursor)
{
    struct profile_place place = {0};
    const uint64_t module = cursor_varint(cursor), offset = cursor_varint(cursor);
    const uint64_t begin = cursor_varint(cursor);
    place.offset = cursor_varint(cursor);
    place.place = place_make((unsigned)module, offset);
    place.begin = place_make((unsigned)module, begin);
    if (cursor->failed || module >= MODULE_LIMIT || offset >= PLACE_OFFSET_UNKNOWN ||
        begin >= PLACE_OFFSET_UNKNOWN || !loader_charge(loader, 2 * sizeof place) ||
        !take_lines(loader, cursor, &place)) {
        place_names_free(&place);
        return false;
    }
    if (append(loader->profile, &place))
        return true;
    loader->out_of_memory = true;
    place_names_free(&place);
    return false;
}

static int compare_places(const void *left, const void *right)
{
    const struct profile_place *a = left, *b = right;
    return a->place < b->place ? -1 : a->place > b->place;
}

void place_names_sort(struct profile *profile)
{
    unsigned count = 0;
    if (profile->place_count)
        qsort(profile->places, profile->place_count, sizeof *profile->places, compare_places);
    for (unsigned i = 0; i < profile->place_count; i++) {
        if (count && profile->places[count - 1].place == profile->places[i].place)
            place_names_free(&profile->places[i]);
        else
            profile->places[count++] = profile->places[i];
    }
    // Arrays grow by their count: beyond it there is nothing.
    if (count < profile->place_count)
        memset(profile->places + count, 0,
               (profile->place_count - count) * sizeof *profile->places);
    profile->place_count = count;
}

bool place_names_add(struct profile *profile, const struct profile_place *place, place_t as,
                     place_t begin)
{
    struct profile_place copy = {.place = as, .begin = begin, .offset = place->offset};
    copy.lines = calloc(place->line_count + (size_t)1, sizeof *copy.lines);
    bool made = copy.lines != NULL;
    while (made && copy.line_count < place->line_count) {
        const struct profile_line *line = &place->lines[copy.line_count];
        struct profile_line *to = &copy.lines[copy.line_count++];
        *to = (struct profile_line){strdup(line->function), strdup(line->file), line->line};
        made = to->function && to->file;
    }
    if (made && append(profile, &copy))
        return true;
    place_names_free(&copy);
    return false;
}
