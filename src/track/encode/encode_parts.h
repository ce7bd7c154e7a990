// SPDX-License-Identifier: MIT
#ifndef CAIRN_TRACK_ENCODE_PARTS_H
#define CAIRN_TRACK_ENCODE_PARTS_H

// Between the files of the encode tracker.

#include "encode/decode.h"
#include "encode/policy.h"
#include "patch/sites.h"
#include "track/encode/encode.h"

// A tail jump went to a function that the thread's encoding does not know there. In that function,
// and in all that it calls, the number of the thread means nothing.
struct encode_unknown_jump {
    uintptr_t slot;    // of the return address that is on top of the stack at the jump; 0: none
    uintptr_t returns; // the address: if it is another one, the function has returned
    uint32_t edge;     // the newest of such edges: an encoding that knows it knows all of them
};

// Of each thread, at offsets that the hooks in assembler know.
struct encode_state {
    struct context_state context;
    uint32_t attention; // the next hook goes the long way
    uint32_t in_flight; // an unwinder has come by a stub, and may still be at work
    // The number is not that of the stack, or may not be: set with `attention`; while there are
    // frames of calls that were made before they were followed; and while a handler of the program
    // runs that has left frames without a return. Whom that has interrupted may have been between a
    // call and what the call does to the state, which the stack does not tell.
    uint32_t doubt;
    struct encode_thread *thread;
    uintptr_t stack_low, stack_bytes; // the thread's own stack; 0: the long way alone
    int32_t countdown;                // pushes until one is looked at
    uint32_t countdown_from, lot;
    // What stubs read: the thread's own words, or those that lead to the long way. The thread
    // writes; so does who publishes a new encoding, under the lock, the latter ones.
    struct encode_words *_Atomic words;
    uint64_t base; // what an id is after a push, in the encoding that the thread is on
    // Exceptions of C++ that are not caught yet, as its runtime counts them; NULL: none was thrown.
    const unsigned *uncaught;
    bool foreign; // somebody else has thrown, and nobody tells whether it was caught
    // Calls from deeper than where an unwinder was last seen are its own, mostly: all but one in
    // some are not looked at.
    uintptr_t unwinder_sp;
    uint32_t unwinder_calls;
    struct encode_unknown_jump jump; // the oldest that has not returned
};

// Whether code that runs with that stack pointer was reached by the jump. Signal-safe.
static inline bool encode_is_below_jump(const struct encode_state *state, uintptr_t sp)
{
    const struct encode_unknown_jump *jump = &state->jump;
    return jump->slot && sp <= jump->slot && *(const uintptr_t *)jump->slot == jump->returns;
}

extern __thread struct encode_state encode_state;

// A frame as a walk sees it.
struct encode_frame {
    uintptr_t slot; // of its return address; 0: a signal's frame
    place_t site, function;
};

enum {
    ENCODE_EDGES = 1 << 19, // more push, by hooks
    ENCODE_ASIDE = 64 << 10,
    ENCODE_FRAMES = 1 << 16, // deeper stacks are not looked at
    ENCODE_STACK = 1 << 20,  // entries of ccStack
    ENCODE_CACHE = 1 << 12,  // contexts that are remembered
    ENCODE_ABOVE = 32,       // frames above the root, of libc and the agent
    ENCODE_CLIMBED = 32,     // frames of functions that have no number, or need none
    ENCODE_HINTS = 1 << 12,
    ENCODE_LANDINGS = 1 << 6,
};

// By edge.
struct encode_words {
    _Atomic int64_t word[ENCODE_EDGES];
    _Atomic uint64_t first[ENCODE_EDGES]; // what the id of the callee begins with after a push
};

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

struct encode_memo { // a context that a walk has confirmed
    uint64_t key, id;
    place_t function;
    place_t site;   // that the function was called from; 0: it is the root
    uintptr_t slot; // and where that has left its return address; 0: anywhere
    uint32_t stamp;
    ref_t tree, node;
};

// A jump that was made before, and the state of where it landed. The same jump from the same state
// lands in the same one: programs whose coroutines yield by longjmp make a million a second.
struct encode_landing {
    uint64_t key; // of the state and the caller of longjmp
    uintptr_t sp, goal;
    uint64_t id;
    uint32_t depth, count; // of ccStack, and of the entry on top of it
    uint32_t stamp, unloads;
    bool known;
};

struct encode_thread {
    // Samples are taken on a stack of ours: to decode a number takes some thousand bytes, and the
    // alternate stack of a Rust program has eight thousand, the signal's frame included.
    _Alignas(16) unsigned char aside[ENCODE_ASIDE];
    struct encode_state *state;
    struct encode_epoch *epoch;
    struct encode_thread *next; // of all, under the lock
    struct unwind_bounds stack;
    uintptr_t root_slot; // of the root's return address; 0: not known yet
    place_t root;
    bool has_signal, has_gap; // of the last walk: a signal's frame was met, or one without tables
    bool has_hook;            // or that of a hook at work
    bool has_unwinder;        // or of an unwinder that looks at return addresses
    bool has_callback;        // or of one that takes part, called by code that does not
    bool busy;                // a hook is on its long way
    bool in_stub;             // for the moment, the state is that of who is about to call from one
    bool jumping;             // the state is that of where a longjmp lands: perhaps not there yet
    uintptr_t jump_sp;        // where it was called
    uintptr_t signal_sp;      // of the last walk: of the oldest frame that a signal interrupted
    uint32_t count;           // frames of the last walk, youngest first
    uint32_t path_count;      // of the last path that was decoded: at the end of `path`
    uint32_t ticks;
    struct encode_frame frames[ENCODE_FRAMES];
    struct walked walked[ENCODE_FRAMES];
    uint32_t path[ENCODE_FRAMES], before[ENCODE_FRAMES];
    uint32_t before_count;
    ref_t above_tree, above[ENCODE_ABOVE]; // edges that lead to the root in that tree, last first
    uint32_t above_count;
    struct edge above_frames[ENCODE_ABOVE]; // the same for a bounded tree, which keeps no edges
    struct encode_memo memo[ENCODE_CACHE];
    // How many frames to climb from a function to one whose number tells its context, by its place.
    uint8_t hint[ENCODE_HINTS];
    struct encode_landing landings[ENCODE_LANDINGS];
    struct cc_entry entries[ENCODE_STACK];
};

struct encode_target { // of an indirect call or jump
    uintptr_t target;
    uint32_t edge;
    bool in_chain;
    bool written;             // the code of its arm
    bool loaded, gone;        // in a library that was loaded later, and was unloaded
    bool led_plain;           // the chain leads to the latter
    struct stub *arm, *plain; // of a call: with its word, and for as long as that is 0
};

struct encode_targets {
    struct encode_targets *next; // of those that are free
    struct stub *chain;
    bool grown;      // targets are to be in it that are not
    uint32_t chains; // that were made
    uint32_t count, room;
    struct encode_target one[];
};

struct encode_site {
    struct site *site; // NULL: it was unloaded, and another one may take this place
    struct stub *hook;
    struct stub *adding;            // of a direct call, once it is needed
    struct encode_targets *targets; // of an indirect one, once it was met
    uint32_t edge;                  // of a direct call, once it was made; GRAPH_NONE
    uint32_t caller;                // the function that it is in
    bool pinned; // of libc, which is not rewritten once there are threads: it always has a stub
};

struct encode {
    _Atomic uint32_t wanted; // enum reencode: the next hook encodes anew
    bool started, verify;
    enum live_by by;          // whose functions take part
    bool company;             // there may be threads
    bool restless;            // for tests: encodes anew all the time, at random
    bool stopped;             // all sites run their original code, and contexts are walked
    _Atomic uint32_t unloads; // so far; written under the lock: code addresses have another meaning
    _Atomic bool unsettled;   // what functions are is by an encoding that is still to come
    struct encode_epoch *_Atomic epoch; // in force; handlers read both
    struct encode_thread *threads;
    bool failed; // sites could not be led to what the encoding says: all samples are walked
    struct pool pool;
    struct graph graph;
    uint32_t nowhere; // what open functions lead to
    struct numbering numbering;
    struct policy policy;
    struct policy_counters policy_counters;
    uint64_t encoded_at, cooled_at; // nanoseconds
    struct live_encode *counts;
};

extern struct encode encode __attribute__((visibility("hidden")));

// epoch.c; all under the lock but where it says otherwise.

// The numbering `next` is in force from now on; threads will notice. False: no memory, and nothing
// has changed.
bool encode_publish(struct numbering *next);
// The thread is on the encoding in force from now on; its state is to be computed.
void encode_join(struct encode_thread *thread);
void encode_leave(struct encode_thread *thread);
// What is done for an edge in the encoding that a thread is on. Signal-safe, no lock.
int64_t encode_word(const struct encode_thread *thread, uint32_t edge);
// The same in one that is to come.
int64_t encode_next_word(const struct numbering *next, uint32_t edge);
// A new edge: it pushes, in whatever encoding.
void encode_add_word(uint32_t edge);
int encode_start_epochs(void); // before any of these. 0, or -1: no memory
// The calling thread goes the long way at its next call, or short ways again. No lock.
void encode_notice(struct encode_state *state);
void encode_calm(struct encode_state *state);
void encode_forget_words(struct encode_state *state); // the thread ends
// Around publishing: sites that will do something are led to their stubs, before; those that do
// nothing any more run their original code, after. If that fails, they go on as they did.
int encode_lead_in(const struct numbering *next);
void encode_lead_out(void);

// call_graph.c; all under the lock but encode_site_of().

int encode_graph_start(void);
// The function at an address, with its sites led to hooks; GRAPH_NONE: no memory.
uint32_t encode_meet(uintptr_t address);
// A site was unloaded.
void encode_drop_site(uint32_t number);
// What the encoding in force says of functions does not hold any more: no number is told until
// there is another one, soon.
void encode_unsettle(void);
// Whether the site must stay as it is.
static inline bool encode_is_fixed(const struct encode_site *site)
{
    return site->pinned && encode.company;
}
// Whether functions there take part: their calls are followed. Signal-safe.
bool encode_takes_part(uintptr_t address);
// Whether it is in the library that exceptions are thrown by.
bool encode_is_in_unwinder(uintptr_t address);
// The edge of a call that goes to `target` now; GRAPH_NONE: no memory.
uint32_t encode_edge(struct encode_site *site, uintptr_t target);
// The silent edge of a jump that goes to `target` now; GRAPH_NONE: no memory.
uint32_t encode_jump_edge(struct encode_site *site, uintptr_t target);
// Whether calls that are left as they are end in the function: nobody knows who has come there.
// Signal-safe.
bool encode_is_reached_unseen(uint32_t function);
// Before the edges are numbered: which of them may be.
void encode_settle(void);
struct encode_site *encode_site_of(const struct site *site);
// Whether a function may be left silently in ways that are not in the graph. Signal-safe.
bool encode_is_open(uint32_t function);
// Whether its calls are not followed. Signal-safe.
bool encode_is_left_out(uint32_t function);
// NULL: no more. Some are unloaded.
struct encode_site *encode_site_number(uint32_t number);
void encode_count_graph(void);
// Whether nothing but its site stands against a number for the edge.
bool encode_may_number(uint32_t edge);

// Whether a call leads out of what is encoded. Signal-safe, as are the next ones.
bool encode_leads_outside(uint32_t edge);
// Whether the number that a thread has there is not that of the function: it does not take part,
// or was reached unseen.
bool encode_is_untold(const struct encode_thread *thread, place_t function);

// stubs.c; all under the lock

void encode_know_target(struct encode_site *site, uintptr_t target, uint32_t edge);
void encode_free_targets(struct encode_targets *targets); // of a site that is no more; or NULL
// Forgets targets that are gone; what leads to a library that was loaded again is known anew. True:
// the site must not lead to where it did.
bool encode_lose_targets(struct encode_site *site, bool (*is_gone)(uintptr_t target));
// Before the edges are numbered: which targets of indirect calls can have numbers.
void encode_settle_targets(void);
// The stub for an edge of an indirect call; NULL: it has none.
struct stub *encode_arm_of(const struct encode_site *site, uint32_t edge);
// What a site leads to by an encoding; NULL: its original code. Before it is published, all that
// does something in it; then what does nothing.
enum encode_phase { ENCODE_BEFORE, ENCODE_AFTER };
struct stub *encode_stub_for(struct encode_site *site, const struct numbering *numbering,
                             enum encode_phase phase);

// state_from_stack.c

// Whether a function leads to another by jumps that change nothing. Signal-safe.
bool encode_leads_to(uint32_t from, uint32_t function);
// Walks to the root. False: it was not met.
bool encode_walk(struct encode_thread *thread, struct unwind_cursor *cursor);
// The same behind the frames that are there already.
bool encode_walk_on(struct encode_thread *thread, struct unwind_cursor *cursor);
// What the walked stack stands for becomes the state. Signal-safe.
void encode_replay(struct encode_thread *thread, uintptr_t above);
// Leads the walked frames back to the code that their sites go through now.
void encode_move_returns(struct encode_thread *thread);
// Leads all of them to the original code.
void encode_uncover_returns(struct encode_thread *thread);
// Whether, in the walked frames, the function that the program called to jump is no more.
bool encode_has_landed(const struct encode_thread *thread);
// Whether as many calls of the walked stack have pushed as there are entries: else the state is
// another stack's, since somebody has jumped and told nobody.
bool encode_fits(const struct encode_thread *thread);
// By which a context is remembered: the number, ccStack, and where the thread is.
uint64_t encode_key(const struct context_state *context, uint64_t where);
// Whether the walked stack is one that a number must tell rightly, if it tells it. Not across a
// signal's frame, nor in a function of libc that a hook has called, or an unwinder; nor where code
// that does not take part was left for by a jump, and has called back.
static inline bool encode_judges(const struct encode_thread *thread)
{
    return !thread->has_signal && !thread->has_gap && !thread->has_hook && !thread->has_unwinder &&
           !thread->has_callback;
}
// Whether the walk and the path in thread->path are the same, but for so many youngest frames.
bool encode_compare(struct encode_thread *thread, uint32_t skipped);

// The stack was walked: the state is computed from it, for the encoding in force if that can be.
// Under the lock.
void encode_go_on(struct encode_thread *thread);

// What a word says, before a call and behind it; `edge` is for one that does not tell it.
void encode_do(struct encode_state *state, int64_t word, uint32_t edge);

void encode_push(struct encode_state *state, uint32_t edge, bool repeats);
bool encode_repeats(const struct encode_thread *thread, uint32_t edge);

// leaf_functions.c

struct encode_kept { // of the state of a thread: what undoing one call may change
    uint64_t id;
    uint32_t depth, over;
    struct cc_entry top;
};

struct encode_climbed { // from a sample to the function whose number it is, youngest first
    unsigned frames;    // of the stack
    bool outside;       // some are not of quiet functions
    unsigned count;     // of these, without those of the agent
    place_t site[ENCODE_CLIMBED], function[ENCODE_CLIMBED];
    unsigned undone; // calls: the state is that of the oldest one's caller for the moment
    struct encode_kept kept[ENCODE_CLIMBED];
};

// Whether calls of the target are left as they are. Under the lock.
bool encode_leads_to_quiet(uintptr_t target);
bool encode_is_quiet(place_t function); // signal-safe, as are the next ones
// Takes the cursor out of quiet functions, and of so many frames at least, and the state with it.
// False: it cannot be told whose number it is.
bool encode_climb(struct encode_thread *thread, struct unwind_cursor *cursor,
                  struct encode_climbed *climbed, unsigned least);
bool encode_climb_on(struct encode_thread *thread, struct unwind_cursor *cursor,
                     struct encode_climbed *climbed, unsigned least); // from where it is
void encode_climb_down(struct encode_thread *thread, struct encode_climbed *climbed);
// The node of the quiet function, from that of its caller's frame; 0: no memory.
ref_t encode_place_climbed(const struct encode_climbed *climbed, struct walker *walker, ref_t node);

// What a call has done to the state, undone: its return address lies in a stub. False: it does not.
bool encode_undo_call(struct encode_thread *thread, const struct stub_place *place);
void encode_keep_state(const struct encode_thread *thread, struct encode_kept *kept);
void encode_restore_state(struct encode_thread *thread, const struct encode_kept *kept);

// libraries.c

void encode_watch_loader(void); // once, before there is a site
// Whether the address is in a library that was loaded later, and the loader will tell before it is
// unloaded. Under the lock.
bool encode_is_watched(uintptr_t address);
// All sites run their original code, for good, and contexts are walked. The stack was walked. Under
// the lock.
void encode_stop(struct encode_thread *thread);

// sample.c

// Decodes the state for a thread that is in the function; into thread->path. False: it means
// nothing.
bool encode_decode_state(struct encode_thread *thread, place_t place);
// Heats the edges of the path in thread->path that are new since the last one. Signal-safe.
void encode_observe(struct encode_thread *thread);

// A newer encoding is in force: until the thread has gone over, its number is not even that of the
// one that it is on, since sites may do already what the newer one says.
static inline bool encode_is_behind(const struct encode_thread *thread)
{
    return thread->epoch != atomic_load_explicit(&encode.epoch, memory_order_acquire);
}

// Whether the number of the thread says something of its stack, with the stack pointer there.
static inline bool encode_is_sound(const struct encode_thread *thread, uintptr_t sp)
{
    const struct encode_state *state = thread->state;
    return !encode.failed && !encode.stopped && !thread->busy && !thread->jumping &&
           !state->context.over && !state->doubt && thread->root_slot && sp >= thread->stack.low &&
           sp <= thread->root_slot && !encode_is_behind(thread) && !encode_is_below_jump(state, sp);
}

// count_pushes.c: a push that was looked at. Signal-safe.
void encode_count_push(struct encode_state *state, uint32_t edge);
// So much time was lost that an encoding would have saved. Signal-safe.
void encode_count_waste(struct encode_state *state, uint64_t nanoseconds);
// A sample was decoded. Signal-safe.
void encode_count_depths(uint32_t frames, uint32_t entries);
// An encoding was made. Under the lock.
void encode_count_progress(void);

// insert_path.c: for trees that forget

void encode_learn_above(struct encode_thread *thread, const struct walker *walker, ref_t node);
// The node of the path in thread->path, of the tree in which above was learnt. 0: no memory.
ref_t encode_place(struct encode_thread *thread, struct walker *walker);

// The same for bounded trees: what lies above is found by a walk from `start`; the node is that of
// what was climbed from. 0: no memory, or it is not known what lies above.
void encode_walk_above(struct encode_thread *thread, const struct walker *walker,
                       const struct unwind_cursor *start);
ref_t encode_place_bounded(struct encode_thread *thread, struct walker *walker,
                           const struct encode_climbed *climbed, uint64_t weight);

static inline void encode_count(uint64_t *counter, uint64_t amount)
{
    // Relaxed: sums.
    __atomic_fetch_add(counter, amount, __ATOMIC_RELAXED);
}

// hooks.c: forgets which edges calls take: their stubs or targets may be gone. Under the
// lock.
void encode_forget_calls(void);
// A new encoding. The stack was walked. False: no memory, and no number is told
// until there is one.
bool encode_renumber(struct encode_thread *thread);

// threads.c

// False: the thread has it already, and was interrupted, or must not wait for it.
bool encode_lock(struct encode_thread *thread, uint64_t *mask);
void encode_unlock(struct encode_thread *thread, const uint64_t *mask);
// In our handler, where all signals are blocked: without waiting.
bool encode_try_lock(void);
void encode_give_up_lock(void);
// For a thread that may wait for locks of libc meanwhile: whoever has one of these does not wait
// for ours. The program's signals may come. False: nobody will ever release it.
bool encode_hold_lock(void);
void encode_let_go_of_lock(void);
uint64_t encode_now(void);     // nanoseconds
uint64_t encode_cpu_now(void); // of the thread's own time: others that run do not count
// Whether others may run while code is rewritten.
enum company encode_company(void);

// exceptions.c: exceptions

void encode_watch_unwinders(void); // before there is a stub
// Whether a frame is that of an unwinder which may be about to leave others. Signal-safe.
bool encode_is_unwinder(const struct unwind_frame *frame);
// Whether it is the function that lets an exception go on, which never returns.
bool encode_resumes(uintptr_t target);
// Whether a call from there is one of an unwinder at work, and not to be looked at.
bool encode_is_unwinders(struct encode_state *state, uintptr_t sp);
// Whether return addresses of the walked stack may be led to stubs, and away from them: no
// exception is on its way that has looked at them. Signal-safe.
bool encode_may_move(const struct encode_thread *thread);

// hooks.c

// For the stubs.
void encode_push_direct(void);
void encode_push_indirect(void);
void encode_before_table(void);
void encode_after_table(void);
void encode_before_direct(void);
void encode_before_indirect(void);
void encode_before_tail(void);
void encode_after(void);

// Calls work(with) on the stack that ends at `top`, a multiple of 16.
void encode_call_on(void *top, void (*work)(void *), void *with);

#endif
