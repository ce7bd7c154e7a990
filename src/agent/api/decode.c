// SPDX-License-Identifier: MIT
// Contexts of the process decoded by itself: it reads what it left for the recorder.

#include "agent/api/api.h"
#include "agent/api/contexts.h"
#include "agent/api/item.h"
#include "base/system/agent_map.h"
#include "encode/codebook/handle_frames.h"
#include "track/context_id/context_id.h"
#include "track/context_id/handle_table.h"
#include <errno.h>
#include <pthread.h>

#define MOST_CREATORS 64 // threads that threads have created

// The process' own sections, as far as they were read. Under the lock.
static struct {
    pthread_mutex_t lock;
    bool open, broken;
    struct pool pool;
    struct codebook book;
    ref_t read; // head of the list as it was
    struct handle_frames part;
} decoder = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool open_decoder(void)
{
    struct handle_frames *part = &decoder.part;
    if (!part->stack)
        part->stack = agent_map(CONTEXT_ID_FRAMES * sizeof *part->stack);
    if (!part->path)
        part->path = agent_map(CONTEXT_ID_FRAMES * sizeof *part->path);
    if (!part->frames)
        part->frames = agent_map(CONTEXT_ID_FRAMES * sizeof *part->frames);
    if (!part->stack || !part->path || !part->frames)
        return false;
    part->limit = CONTEXT_ID_FRAMES;
    if (!decoder.open) {
        decoder.pool = (struct pool){.map = agent_map, .unmap = agent_unmap, .piece = 1 << 16};
        codebook_init(&decoder.book, &decoder.pool);
        decoder.open = true;
    }
    return true;
}

void api_context_after_fork(void)
{
    pthread_mutex_init(&decoder.lock, NULL);
    if (decoder.open) {
        decoder.book.intern = (struct intern){0}; // was never its own
        codebook_free(&decoder.book);
    }
    decoder.open = decoder.broken = false;
    decoder.read = 0;
}

// The sections that came since the last time, oldest first.
static int read_sections(void)
{
    const ref_t head =
        atomic_load_explicit(&agent.process->contexts.sections, memory_order_acquire);
    size_t count = 0;
    uint32_t most = LIVE_MOST_LISTED;
    const struct live_sections *listed;
    for (ref_t at = head;
         at != decoder.read && (listed = live_listed(&agent.arena, at, sizeof *listed, &most));
         at = listed->next)
        count++;
    if (!count)
        return 0;
    ref_t *refs = agent_map(count * sizeof *refs);
    if (!refs)
        return -ENOMEM;
    size_t left = count;
    for (ref_t at = head; left > 0; at = ((struct live_sections *)arena_at(&agent.arena, at))->next)
        refs[--left] = at;
    int error = 0;
    for (size_t i = 0; i < count && !error; i++) {
        const struct live_sections *sections = arena_at(&agent.arena, refs[i]);
        error = codebook_read(&decoder.book, sections->data, sections->bytes);
        if (!error)
            decoder.read = refs[i];
    }
    agent_unmap(refs, count * sizeof *refs);
    decoder.broken = error != 0; // a part of a section may have been taken in
    return error;
}

static unsigned put_frames(const struct api_modules *modules, const struct handle_frames *part,
                           struct cairn_frame *frames, unsigned from, unsigned most)
{
    for (uint32_t i = 0; i < part->count && from + i < most; i++) {
        const struct walked *frame = &part->frames[part->count - 1 - i];
        frames[from + i] =
            api_frame(modules, &(struct edge){.site = frame->site, .function = frame->function});
    }
    return from + part->count;
}

static int decode_frames(struct cairn_context context, struct cairn_frame *frames, unsigned most)
{
    struct api_modules modules;
    struct handle_frames *part = &decoder.part;
    int error = api_modules_open(&modules);
    unsigned count = 0;
    uint64_t id = context.id, handle = context.handle;
    for (unsigned i = 0; !error && handle && i < MOST_CREATORS; i++) {
        const int status = codebook_frames(&decoder.book, id, handle, part);
        // A thread whose creator is not known any more is shown as if it had none.
        if (status < 0 && i > 0)
            break;
        error = status == -EBADMSG ? -EINVAL : status;
        if (error)
            break;
        count = put_frames(&modules, part, frames, count, most);
        id = part->creator_id;
        handle = part->creator_handle;
    }
    api_modules_close(&modules);
    return error ? error : (int)count;
}

API int cairn_decode_1(struct cairn_context context, struct cairn_frame *frames, unsigned most)
{
    if (!context.handle)
        return -ENOENT;
    if (!agent.active || agent_in_vfork_child())
        return -EINVAL;
    if ((uint32_t)context.handle < agent.process->contexts.first)
        return -ESTALE;
    const int saved_errno = errno;
    pthread_mutex_lock(&decoder.lock);
    uint32_t first;
    const struct intern *table = handles_table(&first);
    int result = !table ? -EINVAL : decoder.broken || !open_decoder() ? -ENOMEM : read_sections();
    if (!result) {
        decoder.book.intern = *table;
        decoder.book.first_node = first;
        result = decode_frames(context, frames, most);
    }
    pthread_mutex_unlock(&decoder.lock);
    errno = saved_errno;
    return result;
}
