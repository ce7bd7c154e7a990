// SPDX-License-Identifier: MIT
#include "track/runtimes/python.h"
#include "loadmap/lookup.h"
#include "track/runtimes/python_code.h"
#include "track/runtimes/runtime_memory.h"
#include "track/runtimes/runtime_spots.h"
#include <dlfcn.h>
#include <stddef.h>

#define MOST_FRAMES 20000 // of an evaluation
#define MOST_RECORDS 64   // that lie below the stack pointer, or on another stack

// Where a version of CPython (major and minor) has what.
struct python_version {
    uint32_t version;
    uint32_t thread_record;                 // in PyThreadState
    uint32_t record_frame, record_previous; // in _PyCFrame
    uint32_t code, previous, instruction;   // in _PyInterpreterFrame
    uint32_t end, end_value; // the byte that says that a frame is the last of its evaluation
    bool end_is_frame;       // and whether that is one of Python's
    struct python_code_layout layout;
};

static const struct python_version versions[] = {
    {0x030b, 56, 8, 16, 32, 48, 56, 68, 1, true, {72, 112, 128, 136, 184, 48, 72}},
    {0x030c, 56, 0, 8, 0, 8, 56, 70, 3, false, {68, 112, 128, 136, 192, 40, 56}},
};

static const struct python_version *version;
static void *(*thread_state)(void);
bool python_is_known;

bool python_start(void)
{
    enum { VERSION, THREAD_STATE, CODE, TEXT, BYTES, NAMES };
    static const char *const names[NAMES] = {"Py_Version", "PyGILState_GetThisThreadState",
                                             "PyCode_Type", "PyUnicode_Type", "PyBytes_Type"};
    void *found[NAMES];
    lookup_symbols(RTLD_DEFAULT, names, found, NAMES);
    const unsigned long *number = found[VERSION];
    *(void **)&thread_state = found[THREAD_STATE];
    const struct python_types types = {.code = (uintptr_t)found[CODE],
                                       .text = (uintptr_t)found[TEXT],
                                       .bytes = (uintptr_t)found[BYTES]};
    for (size_t i = 0; number && i < sizeof versions / sizeof *versions; i++)
        if (versions[i].version == (uint32_t)*number >> 16)
            version = &versions[i];
    if (!version || !thread_state || !types.code || !types.text || !types.bytes)
        return number == NULL;
    python_code_start(&version->layout, &types);
    return python_is_known = true;
}

uintptr_t python_older_record(uintptr_t record)
{
    uintptr_t page = 0, older;
    return runtime_load(&page, record + version->record_previous, &older) ? older : 0;
}

// The record of a thread that runs no Python lies in its state, far away from stacks.
uintptr_t python_record(uintptr_t sp)
{
    const uintptr_t state = (uintptr_t)thread_state();
    uintptr_t page = 0, record;
    if (!state || !runtime_load(&page, state + version->thread_record, &record))
        return 0;
    for (unsigned i = 0; record && record < sp; i++)
        if (i == MOST_RECORDS || !runtime_load(&page, record + version->record_previous, &record))
            return 0;
    return record;
}

struct python_frames python_frames(uintptr_t record)
{
    struct python_frames frames = {.left = MOST_FRAMES};
    if (!runtime_load(&frames.page, record + version->record_frame, &frames.next))
        frames.next = 0;
    return frames;
}

static bool describe(uintptr_t code, uintptr_t instruction, struct runtime_frame *frame)
{
    if (runtime_spot_recall(instruction, code, frame) == SPOT_FRESH)
        return true;
    if (!python_code_places(code, instruction, &frame->function, &frame->line))
        return false;
    frame->proof = 0;
    runtime_spot_remember(instruction, code, frame);
    return true;
}

// Goes to the next older one. False: `frame` is no frame of Python's.
static bool advance(struct python_frames *frames, uintptr_t frame)
{
    const uintptr_t word = frame + (version->end & ~7u);
    uintptr_t end, older;
    const bool known = runtime_load(&frames->page, word, &end) &&
                       runtime_load(&frames->page, frame + version->previous, &older);
    const bool last = known && (end >> version->end % 8 * 8 & 0xff) == version->end_value;
    frames->next = known && !last && --frames->left ? older : 0;
    return known && (!last || version->end_is_frame);
}

// False: there is no room, or no such word.
static bool note_word(struct unwind_word **word, const struct unwind_word *end, uintptr_t *page,
                      uintptr_t place)
{
    if (*word == end || !runtime_load(page, place, &(*word)->value))
        return false;
    (*word)++->place = place;
    return true;
}

size_t python_words(uintptr_t sp, uintptr_t end, struct unwind_word *words, size_t most)
{
    struct unwind_word *word = words, *const full = words + most;
    for (uintptr_t record = python_record(sp); record && record < end;
         record = python_older_record(record)) {
        struct python_frames frames = python_frames(record);
        bool noted = note_word(&word, full, &frames.page, record + version->record_frame);
        while (noted && frames.next) {
            const uintptr_t at = frames.next;
            advance(&frames, at);
            noted = note_word(&word, full, &frames.page, at + (version->end & ~7u)) &&
                    note_word(&word, full, &frames.page, at + version->code) &&
                    note_word(&word, full, &frames.page, at + version->instruction) &&
                    note_word(&word, full, &frames.page, at + version->previous);
        }
        if (!noted)
            return most;
    }
    return (size_t)(word - words);
}

bool python_next(struct python_frames *frames, struct runtime_frame *frame)
{
    if (frames->left == MOST_FRAMES)
        runtime_spots_begin();
    while (frames->next) {
        const uintptr_t at = frames->next;
        uintptr_t code, instruction;
        if (advance(frames, at) && runtime_load(&frames->page, at + version->code, &code) &&
            runtime_load(&frames->page, at + version->instruction, &instruction) &&
            describe(code, instruction, frame))
            return true;
    }
    return false;
}
