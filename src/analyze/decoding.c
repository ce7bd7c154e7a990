// SPDX-License-Identifier: MIT
#include "analyze/decoding.h"
#include "base/memory.h"
#include "encode/codebook/handle_frames.h"
#include <errno.h>
#include <stdlib.h>

enum {
    MOST_FRAMES = 1 << 16,
    MOST_THREADS = 64,   // that created each other
    MOST_ANCESTORS = 64, // that forked each other
};

struct book {
    bool open;
    int error; // of reading it: the rest is missing
    struct pool pool;
    struct codebook codebook;
};

struct decoding {
    const struct profile *profile;
    struct book *books; // by process
    struct handle_frames part;
    struct decoded_frame *frames;
    uint32_t count, capacity;
};

static void *take_memory(size_t bytes)
{
    return calloc(1, bytes);
}

static void give_memory(void *memory, size_t bytes)
{
    (void)bytes;
    free(memory);
}

struct decoding *decoding_new(const struct profile *profile)
{
    struct decoding *decoding = memory_checked(calloc(1, sizeof *decoding));
    struct handle_frames *part = &decoding->part;
    decoding->profile = profile;
    decoding->books = memory_checked(calloc(profile->process_count + 1u, sizeof(struct book)));
    part->limit = MOST_FRAMES;
    part->stack = memory_checked(calloc(MOST_FRAMES, sizeof *part->stack));
    part->path = memory_checked(calloc(MOST_FRAMES, sizeof *part->path));
    part->frames = memory_checked(calloc(MOST_FRAMES, sizeof *part->frames));
    return decoding;
}

void decoding_free(struct decoding *decoding)
{
    if (!decoding)
        return;
    for (unsigned i = 0; i < decoding->profile->process_count; i++)
        if (decoding->books[i].open)
            codebook_free(&decoding->books[i].codebook);
    free(decoding->books);
    free(decoding->part.stack);
    free(decoding->part.path);
    free(decoding->part.frames);
    free(decoding->frames);
    free(decoding);
}

static bool has_contexts(const struct profile_process *process)
{
    return process->contexts.bytes > 0;
}

bool decoding_has_any(const struct decoding *decoding)
{
    for (unsigned i = 0; i < decoding->profile->process_count; i++)
        if (has_contexts(&decoding->profile->processes[i]))
            return true;
    return false;
}

uint32_t decoding_process(const struct decoding *decoding, uint32_t key)
{
    for (unsigned i = 0; i < decoding->profile->process_count; i++) {
        const struct profile_process *process = &decoding->profile->processes[i];
        if (live_process_key(process->pid, process->start_ns) == key)
            return i;
    }
    return DECODING_NONE;
}

uint32_t decoding_process_of(const struct decoding *decoding, uint32_t pid)
{
    uint32_t found = DECODING_NONE;
    for (unsigned i = 0; i < decoding->profile->process_count; i++) {
        const struct profile_process *process = &decoding->profile->processes[i];
        if (!has_contexts(process) || (pid && process->pid != pid))
            continue;
        if (found != DECODING_NONE && !pid)
            return DECODING_NONE;
        found = i;
    }
    return found;
}

// The process that this one was forked from.
static uint32_t parent_of(const struct decoding *decoding, uint32_t index)
{
    const struct profile_process *child = &decoding->profile->processes[index];
    uint32_t parent = DECODING_NONE;
    for (unsigned i = 0; child->forked && i < decoding->profile->process_count; i++) {
        const struct profile_process *process = &decoding->profile->processes[i];
        if (i == index || process->pid != child->parent_pid || process->start_ns > child->start_ns)
            continue;
        // The newest image of that pid: the one before was gone by then.
        if (parent == DECODING_NONE ||
            process->start_ns >= decoding->profile->processes[parent].start_ns)
            parent = i;
    }
    return parent;
}

static struct book *book_of(struct decoding *decoding, uint32_t index)
{
    struct book *book = &decoding->books[index];
    const struct profile_contexts *contexts = &decoding->profile->processes[index].contexts;
    if (book->open)
        return book;
    book->open = true;
    book->pool = (struct pool){.map = take_memory, .unmap = give_memory, .piece = 1 << 16};
    codebook_init(&book->codebook, &book->pool);
    book->codebook.first_node = contexts->first;
    if (contexts->bytes)
        book->error = codebook_read(&book->codebook, contexts->sections, contexts->bytes);
    if (book->error == -ENOMEM)
        memory_checked(NULL);
    if (contexts->cut)
        book->error = -EBADMSG;
    return book;
}

static place_t map_place(const struct decoding *decoding, uint32_t index, place_t place)
{
    const struct profile_contexts *contexts = &decoding->profile->processes[index].contexts;
    const unsigned module = place_module(place);
    if (module < MODULE_FIRST_FILE)
        return place;
    const unsigned mapped = module < contexts->module_count ? contexts->modules[module] : 0;
    if (!mapped || mapped >= decoding->profile->module_count)
        return PLACE_UNKNOWN;
    return place_make(mapped, place_offset(place));
}

// The instruction before a place behind it; 0 if there is none.
static place_t before(place_t place)
{
    return place && place_offset(place) > 0 && place_offset(place) != PLACE_OFFSET_UNKNOWN
               ? place - 1
               : 0;
}

static void add_frames(struct decoding *decoding, uint32_t index, unsigned thread)
{
    const struct handle_frames *part = &decoding->part;
    const uint32_t wanted = decoding->count + part->count;
    if (wanted > decoding->capacity) {
        decoding->capacity = wanted * 2;
        decoding->frames = memory_checked(
            reallocarray(decoding->frames, decoding->capacity, sizeof *decoding->frames));
    }
    place_t inside = part->point;
    for (uint32_t i = part->count; i-- > 0;) {
        const struct walked *frame = &part->frames[i];
        decoding->frames[decoding->count++] = (struct decoded_frame){
            .function = frame->function ? map_place(decoding, index, frame->function) : 0,
            .inside = before(inside ? map_place(decoding, index, inside) : 0),
            .process = index,
            .thread = thread,
        };
        inside = frame->site;
    }
}

// One thread's part, in the process or those that it was forked from; *process is the one that had
// it.
static int decode_part(struct decoding *decoding, uint32_t *process, uint64_t id, uint64_t handle)
{
    for (unsigned i = 0; i < MOST_ANCESTORS; i++) {
        const struct book *book = book_of(decoding, *process);
        const int status = codebook_frames(&book->codebook, id, handle, &decoding->part);
        if (status == 0)
            return 0;
        if (status != -ESTALE)
            return book->error ? -EBADMSG : -ENOENT;
        const uint32_t parent = parent_of(decoding, *process);
        if (parent == DECODING_NONE)
            return -ENOENT;
        *process = parent;
    }
    return -ENOENT;
}

int decoding_tell(struct decoding *decoding, uint32_t process, uint64_t id, uint64_t handle,
                  struct decoded *decoded)
{
    decoding->count = 0;
    for (unsigned thread = 0; handle && thread < MOST_THREADS; thread++) {
        const int status = decode_part(decoding, &process, id, handle);
        if (status && thread == 0)
            return status;
        if (status) // a creator that is lost
            break;
        add_frames(decoding, process, thread);
        id = decoding->part.creator_id;
        handle = decoding->part.creator_handle;
    }
    *decoded = (struct decoded){decoding->frames, decoding->count};
    return decoding->count ? 0 : -ENOENT;
}

static void places_of_nodes(struct decoding *decoding, uint32_t index,
                            void (*each)(void *, unsigned, place_t), void *context)
{
    const struct intern *intern = &decoding->books[index].codebook.intern;
    for (uint32_t i = 1; i < intern->used; i++) {
        const struct intern_node *node = &intern->node[i];
        if (node->edge != INTERN_POINT && node->edge != INTERN_FRAME)
            continue;
        each(context, index, before(map_place(decoding, index, node->id)));
        if (node->edge == INTERN_FRAME)
            each(context, index, map_place(decoding, index, node->handle));
    }
}

void decoding_places(struct decoding *decoding,
                     void (*each)(void *context, unsigned process, place_t place), void *context)
{
    for (unsigned p = 0; p < decoding->profile->process_count; p++) {
        if (!has_contexts(&decoding->profile->processes[p]))
            continue;
        const struct graph *graph = &book_of(decoding, p)->codebook.graph;
        for (uint32_t i = 0; i < graph->function_count; i++)
            each(context, p, map_place(decoding, p, graph_function(graph, i)->entry));
        for (uint32_t i = 0; i < graph->site_count; i++)
            each(context, p, before(map_place(decoding, p, graph_site(graph, i)->place)));
        places_of_nodes(decoding, p, each, context);
    }
}
