// SPDX-License-Identifier: MIT
#include "agent/interpose/events/io.h"
#include "event/clock.h"
#include "track/kernel_frames.h"
#include "track/runtimes/file_places.h"
#include <errno.h>

static struct {
    bool started;
    bool keeps;     // trees are full: their statements have all values
    unsigned value; // the first of the values in a node
    uint64_t since; // when counting began
} io;

// Values of enum live_io_value of one operation.
struct io_done {
    uint64_t values[LIVE_IO_VALUES];
};

// Whether the recording is about such operations; of those through two files, the part that it is.
static bool is_wanted(enum io_direction *direction)
{
    const enum live_io_part part = agent.session->options.io_part;
    const enum io_direction only = part == LIVE_IO_READS ? IO_IN : IO_OUT;
    if (part != LIVE_IO_ALL && *direction == IO_THROUGH)
        *direction = only;
    return part == LIVE_IO_ALL || *direction == only;
}

static struct io_done describe(enum io_direction direction, int64_t result, uint64_t ns)
{
    const uint64_t bytes = result > 0 ? (uint64_t)result : 0;
    const uint64_t in = direction == IO_IN || direction == IO_THROUGH ? bytes : 0,
                   out = direction == IO_OUT || direction == IO_THROUGH ? bytes : 0;
    return (struct io_done){{in + out, in, out, 1, ns}};
}

static void charge(ref_t ref, const struct io_done *done)
{
    struct node *node = arena_at(&agent.arena, ref);
    for (unsigned i = 0; i < LIVE_IO_VALUES; i++)
        if (done->values[i])
            counted_add(&node->value[io.value + i], done->values[i]);
}

static ref_t attribute(struct thread *thread, const struct caller_registers *caller,
                       const struct io_done *done, place_t file)
{
    const uint64_t bytes = done->values[LIVE_IO_BYTES];
    const ref_t node = counted_locate(thread, caller, LIVE_EVENT_IO, bytes);
    if (node && io.keeps)
        charge(file ? frame_below_statement(&agent.arena, thread->record->tree, node, file) : node,
               done);
    else if (node && bytes)
        tree_charge(&agent.arena, thread->record->tree, node, bytes);
    return node;
}

static void note(enum counted_visit visit, const struct io_done *done, const void *frame,
                 int descriptor)
{
    const struct caller_registers caller = unwind_caller_of(frame);
    struct thread *thread = counted_thread(visit);
    ref_t node = 0;
    const place_t file = io.keeps ? file_place(descriptor) : 0;
    if (LIKELY(counted_begin(thread, frame))) {
        node = attribute(thread, &caller, done, file);
        counted_end(thread, node);
    }
    if (!node && io.keeps)
        charge(counted_without_context, done);
}

void io_note(enum io_direction direction, int64_t bytes, uint64_t begun, const void *frame,
             int descriptor)
{
    const int saved_errno = errno;
    const enum counted_visit visit = counted_enter(LIVE_EVENT_IO, frame);
    // One that was under way when the recording began is none of it.
    if (visit && begun >= io.since && is_wanted(&direction) && agent_is_recording()) {
        const struct io_done done = describe(direction, bytes, clock_now(LIVE_EVENT_WALL) - begun);
        note(visit, &done, frame, descriptor);
    }
    counted_leave(visit);
    errno = saved_errno;
}

// Only in the builds that have them.
#pragma weak io_tell_trackers
#pragma weak stdio_intercept
#pragma weak stdio_release

static void intercept(void)
{
    if (!io_tell_trackers) {
        agent_note("libcairn.so sees no I/O: libcairn-io.so does");
        return;
    }
    if (!counted_may_end)
        io_tell_trackers(); // else only walks are made
    if (!stdio_intercept())
        agent_note("the I/O of stdio (fread, printf) is not seen: this libc keeps its streams "
                   "closed to us");
}

void io_end(void)
{
    if (stdio_release)
        stdio_release();
}

int io_start(void)
{
    if (!io.started || counted_may_end)
        intercept();
    io.started = true;
    io.keeps = tree_traits_of(agent.session->options.tree)->keeps_all;
    io.value = live_io_value(&agent.session->options);
    io.since = clock_now(LIVE_EVENT_WALL);
    return counted_switch_on(LIVE_EVENT_IO, COUNTED_ALL);
}
