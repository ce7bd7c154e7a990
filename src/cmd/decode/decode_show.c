// SPDX-License-Identifier: MIT
#include "cmd/decode/decode_show.h"
#include "base/memory.h"
#include "base/text/text.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

// A decoded context, as it is printed.
struct decode_kept {
    uint64_t id, handle;
    uint32_t process;
    bool failed;
    char *text; // NULL: a free slot
};

enum { FIRST_SLOTS = 1024, MOST_KEPT = 1 << 20 };

void decode_show_open(struct decode_show *show, const struct profile *profile,
                      enum decode_style style, bool debuginfod)
{
    const struct symbols_options options = {.inlines = true, .debuginfod = debuginfod};
    *show = (struct decode_show){.profile = profile, .style = style};
    show->decoding = decoding_new(profile);
    show->symbols = memory_checked(symbols_new(profile, &options));
    show->kept_slots = FIRST_SLOTS;
    show->kept = memory_checked(calloc(show->kept_slots, sizeof *show->kept));
}

static void forget_kept(struct decode_show *show)
{
    for (uint32_t i = 0; i < show->kept_slots; i++) {
        free(show->kept[i].text);
        show->kept[i].text = NULL;
    }
    show->kept_count = 0;
}

uint64_t decode_show_close(struct decode_show *show)
{
    if (show->style == DECODE_JSON && show->resolved) {
        json_end_array(&show->json);
        json_end_object(&show->json);
        json_finish(&show->json);
    }
    forget_kept(show);
    free(show->kept);
    symbols_free(show->symbols);
    decoding_free(show->decoding);
    return show->failed;
}

void decode_show_find(const struct decode_show *show, struct decode_item *item)
{
    item->process = item->verdict == CONTEXT_TEXT_SOUND
                        ? decoding_process(show->decoding, item->value.process)
                        : DECODING_NONE;
}

void decode_show_resolve(struct decode_show *show)
{
    symbols_resolve(show->symbols);
    show->resolved = true;
    if (show->style != DECODE_JSON)
        return;
    json_start(&show->json, stdout);
    json_object(&show->json);
    json_key(&show->json, "contexts");
    json_spread_array(&show->json);
}

static void want(void *context, unsigned process, place_t place)
{
    struct decode_show *show = context;
    if (place)
        symbols_want(show->symbols, process, place);
}

void decode_show_all(struct decode_show *show)
{
    decoding_places(show->decoding, want, show);
    decode_show_resolve(show);
}

// ---- one context

static int decode_item(struct decode_show *show, const struct decode_item *item,
                       struct decoded *decoded)
{
    if (item->process == DECODING_NONE)
        return -ESRCH;
    return decoding_tell(show->decoding, item->process, item->value.id, item->value.handle,
                         decoded);
}

static const char *why_not(const struct decode_item *item, int status)
{
    return item->verdict == CONTEXT_TEXT_DAMAGED ? "damaged"
           : status == -ESRCH                    ? "of a process that is not in this profile"
           : status == -EBADMSG                  ? "lost: the profile is damaged"
                                                 : "not in this profile";
}

// The first function at a frame to show: the call that asks for the context is inlined everywhere.
static unsigned first_of(const struct symbol *symbol, uint32_t frame)
{
    return symbol && frame == 0 && symbol->count > 1 &&
           strcmp(symbol->frames[0].function, "cairn_context") == 0;
}

// The symbol of a frame: inlined functions first. Where the instruction is not known, the function
// alone.
static const struct symbol *symbol_of(const struct decode_show *show,
                                      const struct decoded_frame *frame)
{
    const place_t place = frame->inside ? frame->inside : frame->function;
    return frame->function && place ? symbols_at(show->symbols, frame->process, place) : NULL;
}

static void put_below(FILE *out, const struct decode_show *show, const struct decoded *decoded)
{
    unsigned thread = 0;
    for (uint32_t i = 0; i < decoded->count; i++) {
        const struct decoded_frame *frame = &decoded->frames[i];
        const struct symbol *symbol = symbol_of(show, frame);
        if (frame->thread != thread)
            fputs("    [the thread was created by]\n", out);
        thread = frame->thread;
        if (!symbol)
            fputs("    [what called it is not known]\n", out);
        for (unsigned j = first_of(symbol, i); symbol && j < symbol->count; j++) {
            const struct symbol_frame *at = &symbol->frames[j];
            fprintf(out, "    %s", text_safe(at->function));
            if (at->file)
                fprintf(out, "  %s:%u", text_safe(at->file), at->line);
            fputs(j + 1 < symbol->count ? "  (inlined)\n" : "\n", out);
        }
    }
}

// As the folded format of `cairn export` has it.
static void put_folded_name(FILE *out, const char *name)
{
    for (name = text_safe(name); *name; name++)
        fputc(*name == ';' ? ':' : *name, out);
}

static void put_folded(FILE *out, const struct decode_show *show, const struct decoded *decoded)
{
    const char *between = "[";
    for (uint32_t i = decoded->count; i-- > 0;) {
        const struct symbol *symbol = symbol_of(show, &decoded->frames[i]);
        if (!symbol) {
            fprintf(out, "%s[unknown]", between);
            between = ";";
        }
        for (unsigned j = symbol ? symbol->count : 0; j-- > first_of(symbol, i); between = ";") {
            fputs(between, out);
            put_folded_name(out, symbol->frames[j].function);
        }
    }
    fputs("]", out);
}

static void put_text(FILE *out, struct decode_show *show, const struct decode_item *item,
                     bool *failed)
{
    struct decoded decoded;
    const int status = item->verdict == CONTEXT_TEXT_SOUND ? decode_item(show, item, &decoded) : 0;
    *failed = status || item->verdict == CONTEXT_TEXT_DAMAGED;
    const bool folded = show->style == DECODE_FOLDED;
    if (item->verdict == CONTEXT_TEXT_UNKNOWN)
        fputs(folded ? "[not known]" : "    [not known]\n", out);
    else if (*failed)
        fprintf(out, folded ? "[%s]" : "    [%s]\n", why_not(item, status));
    else
        (folded ? put_folded : put_below)(out, show, &decoded);
}

static struct decode_kept *slot_for(struct decode_show *show, const struct decode_item *item)
{
    uint64_t hash =
        (item->value.id ^ item->value.handle << 21 ^ item->process) * UINT64_C(0x9e3779b97f4a7c15);
    hash = (hash ^ hash >> 29 ^ item->value.handle) * UINT64_C(0xff51afd7ed558ccd);
    for (uint64_t at = hash >> 20;; at++) {
        struct decode_kept *kept = &show->kept[at & (show->kept_slots - 1)];
        if (!kept->text || (kept->id == item->value.id && kept->handle == item->value.handle &&
                            kept->process == item->process))
            return kept;
    }
}

static void grow_kept(struct decode_show *show)
{
    struct decode_kept *old = show->kept;
    const uint32_t slots = show->kept_slots;
    if (show->kept_count >= MOST_KEPT) {
        forget_kept(show);
        return;
    }
    if (show->kept_count * 2 < slots)
        return;
    show->kept_slots = slots * 2;
    show->kept = memory_checked(calloc(show->kept_slots, sizeof *show->kept));
    for (uint32_t i = 0; i < slots; i++) {
        if (!old[i].text)
            continue;
        const struct decode_item item = {.value = {.id = old[i].id, .handle = old[i].handle},
                                         .process = old[i].process};
        *slot_for(show, &item) = old[i];
    }
    free(old);
}

// The text of a context, which holds until the next one.
static const char *text_of(struct decode_show *show, const struct decode_item *item)
{
    struct decode_kept *kept = NULL;
    bool failed = false;
    if (item->verdict == CONTEXT_TEXT_SOUND && item->process != DECODING_NONE) {
        grow_kept(show);
        kept = slot_for(show, item);
        if (kept->text) {
            show->failed += kept->failed;
            return kept->text;
        }
    }
    static char *last; // of one that is not kept
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = memory_checked(open_memstream(&text, &bytes));
    put_text(out, show, item, &failed);
    fclose(out);
    memory_checked(text);
    show->failed += failed;
    if (kept) {
        *kept =
            (struct decode_kept){item->value.id, item->value.handle, item->process, failed, text};
        show->kept_count++;
    } else {
        free(last);
        last = text;
    }
    return text;
}

// ---- as JSON

static void put_json_frames(struct decode_show *show, const struct decoded *decoded)
{
    struct json *json = &show->json;
    json_key(json, "frames");
    json_array(json);
    for (uint32_t i = 0; i < decoded->count; i++) {
        const struct decoded_frame *frame = &decoded->frames[i];
        const struct symbol *symbol = symbol_of(show, frame);
        const unsigned module = place_module(frame->function);
        const bool placed =
            frame->function && place_offset(frame->function) != PLACE_OFFSET_UNKNOWN;
        for (unsigned j = first_of(symbol, i); j < (symbol ? symbol->count : 1); j++) {
            const struct symbol_frame *at = symbol ? &symbol->frames[j] : NULL;
            json_object(json);
            json_put_string(json, "function", at ? at->function : NULL);
            json_put_string(json, "module",
                            frame->function && module < show->profile->module_count
                                ? show->profile->modules[module].path
                                : NULL);
            json_key(json, "offset");
            placed ? json_unsigned(json, place_offset(frame->function)) : json_null(json);
            json_put_string(json, "file", at ? at->file : NULL);
            json_key(json, "line");
            at && at->line ? json_unsigned(json, at->line) : json_null(json);
            json_put_bool(json, "inlined", symbol && j + 1 < symbol->count);
            json_put_unsigned(json, "thread", frame->thread);
            json_end_object(json);
        }
    }
    json_end_array(json);
}

static void put_json(struct decode_show *show, const struct decode_item *item)
{
    struct json *json = &show->json;
    struct decoded decoded = {0};
    const int status = item->verdict == CONTEXT_TEXT_SOUND ? decode_item(show, item, &decoded) : 0;
    const bool failed = status || item->verdict == CONTEXT_TEXT_DAMAGED;
    char *text = memory_checked(strndup(item->text, item->length));
    show->failed += failed;
    json_object(json);
    json_put_string(json, "context", text);
    if (item->line) {
        json_put_unsigned(json, "input_line", item->line);
    }
    json_key(json, "pid");
    item->process == DECODING_NONE
        ? json_null(json)
        : json_unsigned(json, show->profile->processes[item->process].pid);
    json_put_bool(json, "known", !failed && item->verdict == CONTEXT_TEXT_SOUND);
    json_put_string(json, "error", failed ? why_not(item, status) : NULL);
    put_json_frames(show, &decoded);
    json_end_object(json);
    free(text);
}

void decode_show_argument(struct decode_show *show, const struct decode_item *item)
{
    struct decoded decoded;
    if (!show->resolved) {
        if (item->verdict != CONTEXT_TEXT_SOUND || decode_item(show, item, &decoded))
            return;
        for (uint32_t i = 0; i < decoded.count; i++) {
            const struct decoded_frame *frame = &decoded.frames[i];
            want(show, frame->process, frame->inside ? frame->inside : frame->function);
        }
    } else if (show->style == DECODE_JSON) {
        put_json(show, item);
    } else {
        fwrite(item->text, 1, item->length, stdout);
        fputs(show->style == DECODE_FOLDED ? " " : "\n", stdout);
        fputs(text_of(show, item), stdout);
        if (show->style == DECODE_FOLDED)
            fputs("\n", stdout);
    }
}

// ---- lines

static bool is_letter(char letter)
{
    return (letter >= '0' && letter <= '9') || (letter >= 'a' && letter <= 'z') ||
           (letter >= 'A' && letter <= 'Z') || letter == '_';
}

// The next context in a line, at or behind `at`; false: none.
static bool next_item(const struct decode_show *show, const char *line, size_t bytes, size_t at,
                      struct decode_item *item)
{
    for (const char *found; at + 2 < bytes; at = (size_t)(found - line) + 1) {
        found = memmem(line + at, bytes - at, "c:", 2);
        if (!found)
            return false;
        if (found > line && is_letter(found[-1]))
            continue; // the end of a word
        const size_t left = bytes - (size_t)(found - line);
        item->verdict = context_text_parse(found, left, &item->value, &item->length);
        // A match that ends inside of a word is no context, or not all of one.
        if (item->verdict != CONTEXT_TEXT_NONE && item->length < left &&
            is_letter(found[item->length]))
            item->verdict =
                item->verdict == CONTEXT_TEXT_UNKNOWN ? CONTEXT_TEXT_NONE : CONTEXT_TEXT_DAMAGED;
        if (item->verdict == CONTEXT_TEXT_NONE)
            continue;
        item->text = found;
        decode_show_find(show, item);
        return true;
    }
    return false;
}

static void show_line(struct decode_show *show, const char *line, size_t bytes, uint64_t number)
{
    struct decode_item item = {.line = number};
    size_t at = 0, printed = 0;
    const bool folded = show->style == DECODE_FOLDED;
    if (show->style == DECODE_BELOW) {
        fwrite(line, 1, bytes, stdout);
        if (!bytes || line[bytes - 1] != '\n')
            fputs("\n", stdout);
    }
    while (next_item(show, line, bytes, at, &item)) {
        at = (size_t)(item.text - line) + item.length;
        if (show->style == DECODE_JSON) {
            put_json(show, &item);
            continue;
        }
        if (folded) {
            fwrite(line + printed, 1, at - printed, stdout);
            fputs(" ", stdout);
            printed = at;
        }
        fputs(text_of(show, &item), stdout);
    }
    if (folded)
        fwrite(line + printed, 1, bytes - printed, stdout);
}

void decode_show_lines(struct decode_show *show, FILE *in)
{
    char *line = NULL;
    size_t capacity = 0;
    ssize_t bytes;
    for (uint64_t number = 1; (bytes = getline(&line, &capacity, in)) >= 0; number++)
        show_line(show, line, (size_t)bytes, number);
    free(line);
}
