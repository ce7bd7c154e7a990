// SPDX-License-Identifier: MIT
#ifndef CAIRN_TRACK_ENCODE_THREADS_EPOCH_H
#define CAIRN_TRACK_ENCODE_THREADS_EPOCH_H

// Encodings that threads are on (epoch.c has the drawing). All under the lock but where it says
// otherwise.

#include "track/encode/sites/stubs.h"
#include "track/encode/threads/threads.h"

// An encoding that threads are on. Each is on one, and goes on to a newer one when it is in a hook
// or a sample; until then its state, and what its returns undo, is by the old one.
struct encode_epoch {
    struct encode_epoch *older; // of those that somebody is on
    struct dictionary *dictionary;
    uint32_t users; // threads
    uint8_t *open;  // by function, of those that were known when it was made
    uint32_t open_count;
    struct encode_words words;
};

static inline bool encode_was_open(const struct encode_epoch *epoch, uint32_t function)
{
    return function < epoch->open_count && epoch->open[function];
}

// The id that a sub-path begins with in a function, without the base.
static inline uint64_t encode_first_id(const struct encode_epoch *epoch, uint32_t function)
{
    return dictionary_own(epoch->dictionary, function) +
           (encode_was_open(epoch, function) ? ID_OPEN : 0);
}

int encode_start_epochs(void); // before any of these. 0, or -1: no memory
// The numbering `next` is in force from now on; threads will notice. False: no memory, and nothing
// has changed.
bool encode_publish(struct numbering *next);
// Around publishing: before it, sites that will do something are led to their stubs; after it, those
// that do nothing any more run their original code. 0 or -errno: some sites go on as they did.
int encode_lead_sites(const struct numbering *numbering, enum encode_phase phase);
// The thread is on the encoding in force from now on; its state is to be computed.
void encode_join(struct encode_thread *thread);
void encode_leave(struct encode_thread *thread);
// A new edge: it pushes, in whatever encoding.
void encode_add_word(uint32_t edge);
// The word of an edge in an encoding that is to come.
int64_t encode_next_word(const struct numbering *numbering, uint32_t edge);
// The same in the one that a thread is on. Signal-safe, no lock.
int64_t encode_word(const struct encode_thread *thread, uint32_t edge);
bool encode_repeats(const struct encode_thread *thread, uint32_t edge);
// The next call of the thread takes the slow path of its hook; or the fast one again. No lock.
void encode_take_slow_path(struct encode_state *state);
void encode_take_fast_path(struct encode_state *state);
void encode_detach_words(struct encode_state *state); // the thread ends

// A newer encoding is in force: until the thread switches, its number is not even that of the one
// that it is on, since sites may do already what the newer one says.
static inline bool encode_is_behind(const struct encode_thread *thread)
{
    return thread->epoch != atomic_load_explicit(&encode.epoch, memory_order_acquire);
}

// Whether the number of the thread says something of its stack, with the stack pointer there.
static inline bool encode_is_sound(const struct encode_thread *thread, uintptr_t sp)
{
    const struct encode_state *state = thread->state;
    return !encode.stopped && !thread->busy && !thread->jumping && !state->context.over &&
           state->validity == STATE_VALID && thread->root_slot && sp >= thread->stack.low &&
           sp <= thread->root_slot && !encode_is_behind(thread) && !encode_is_below_jump(state, sp);
}

// Whether a call is that of a confirmed context, with the stack pointer there; it is in the stack.
static inline bool encode_still_holds(const struct confirmed *known, uintptr_t sp)
{
    return known->unloads == atomic_load_explicit(&encode.unloads, memory_order_relaxed) &&
           *(const uintptr_t *)(sp + known->slot) == known->caller;
}

#endif
