// SPDX-License-Identifier: MIT
#include "track/calls.h"
#include "loadmap/loadmap.h"
#include "patch/entries.h"
#include "track/forbidden.h"
#include "unwind/arch.h"
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define SMALLEST_FRAME 16       // of a function that calls another one: its return address, aligned
#define MOST_ENTRIES (4u << 20) // of one shadow: 64 MB of addresses, used as the stack is used
#define MOST_CHUNKS 128         // of code that are rewritten at the begin and the end of each burst
#define NEW_STACK_REACH (UINT64_C(1) << 16) // of a stack that nothing is known of: around the slot

__thread struct calls_thread *calls_current;

// Anyone adds; hooks compare. Relaxed: a hook that sees it late counts one call to a stale cursor.
__attribute__((visibility("hidden"))) _Atomic uint32_t calls_generation = 1;

_Static_assert(offsetof(struct calls_thread, memos) == 64 && sizeof(struct edge_memo) == 32 &&
                   offsetof(struct calls_thread, generation) == 32 &&
                   offsetof(struct node, child) == 8,
               "calls_x86_64.S relies on the layout");

static _Atomic unsigned followed_threads;

static place_t place_at(uintptr_t address)
{
    struct module_ref module;
    bool unloading = false;
    loadmap_enter();
    bool found = loadmap_find(address, &module, &unloading);
    loadmap_leave();
    return found ? place_make(module.id, address - module.base)
                 : place_make(MODULE_ANONYMOUS, address);
}

// Where the function begins whose hook returns to `back`: the entry is its first instruction, or
// follows an endbr.
static uintptr_t function_of(uintptr_t back)
{
    static const unsigned char endbr[4] = {0xf3, 0x0f, 0x1e, 0xfa};
    uintptr_t entry = back - ENTRY_BYTES;
    return memcmp((const void *)(entry - 4), endbr, 4) ? entry : entry - 4;
}

static struct edge_memo *memo_of(struct calls_thread *calls, uintptr_t site)
{
    return &calls->memos[site % EDGE_MEMOS];
}

// A memo that is missing or another's. Takes the load map's word, which may take the loader's:
// vector registers do not survive this.
static ref_t find_edge(struct calls_thread *calls, uintptr_t site, uintptr_t back)
{
    if (calls->map_generation != loadmap_generation()) {
        memset(calls->memos, 0, sizeof calls->memos);
        calls->map_generation = loadmap_generation();
    }
    struct edge_memo *memo = memo_of(calls, site);
    if (memo->edge && memo->site == site && memo->back == back)
        return memo->edge;
    ref_t edge = tree_edge(calls->arena, calls->tree, place_at(site), place_at(function_of(back)));
    if (edge) {
        memo->site = site;
        memo->back = back;
        memo->edge = edge;
    }
    return edge;
}

// ---- shadows

static struct node *node_at(const struct calls_thread *calls, ref_t ref)
{
    return arena_at(calls->arena, ref);
}

static ref_t ref_of(const struct calls_thread *calls, const struct node *node)
{
    return (ref_t)(((const unsigned char *)node - calls->base) / 8);
}

// Room for as many activations as the stack can hold: a shadow never moves, because a hook that a
// signal has interrupted holds a pointer into it.
static bool open_shadow(struct calls_thread *calls, struct shadow *shadow, uintptr_t low,
                        uintptr_t high)
{
    if (!shadow->entries) {
        size_t capacity = (high - low) / SMALLEST_FRAME + 2;
        if (capacity > MOST_ENTRIES)
            capacity = MOST_ENTRIES;
        void *entries = mmap(NULL, capacity * sizeof *shadow->entries, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (entries == MAP_FAILED)
            return false;
        shadow->entries = entries;
        shadow->capacity = capacity;
    }
    // Deeper than the shadow has room for is a stack that nobody knows.
    const uintptr_t reach = (shadow->capacity - 2) * SMALLEST_FRAME;
    shadow->low = high - low > reach ? high - reach : low;
    shadow->high = high;
    shadow->entries[0] = (struct shadow_entry){
        .slot = UINTPTR_MAX, .node = node_at(calls, tree_root(calls->arena, calls->tree))};
    return true;
}

static void activate(struct calls_thread *calls, struct shadow *shadow, struct shadow_entry *top)
{
    calls->active = shadow;
    calls->low = shadow->low;
    calls->top = top;
}

static void push(struct calls_thread *calls, uintptr_t slot, struct node *node)
{
    struct shadow_entry *top = calls->top + 1;
    top->slot = slot;
    top->node = node;
    calls->top = top;
}

static bool holds(const struct shadow *shadow, uintptr_t slot)
{
    return shadow->entries && slot >= shadow->low && slot < shadow->high;
}

// ---- finding the cursor by a walk, where entries were missed

// True if frames of this function are followed by hooks: it has an entry, at its begin or after an
// endbr.
static bool is_followed(const struct unwind_frame *frame)
{
    if (place_offset(frame->function) == PLACE_OFFSET_UNKNOWN)
        return false;
    uintptr_t begin = frame->pc - (place_offset(frame->place) - place_offset(frame->function));
    return entries_is_return(begin + ENTRY_BYTES) || entries_is_return(begin + 4 + ENTRY_BYTES);
}

// Puts the cursor below the followed functions that a walk finds active. At a hook, the frame that
// the walk starts in is left out: its own hook is at work. What is walked is laid at the far end of
// the shadow first, youngest last.
static void resync(struct calls_thread *calls, struct unwind_cursor *cursor, bool at_hook)
{
    struct shadow *shadow = calls->active;
    struct shadow_entry *fresh = shadow->entries + shadow->capacity;
    enum verdict verdict;
    bool first = at_hook;
    while (fresh > shadow->entries + 1 && unwind_step(cursor, &verdict) == UNWIND_OK) {
        if (!first && cursor->left.ra_slot && is_followed(&cursor->left)) {
            fresh--;
            fresh->slot = cursor->left.ra_slot;
            // The edge, until the tree gives the node.
            fresh->node = (struct node *)(uintptr_t)tree_edge(
                calls->arena, calls->tree, cursor->frame.place, cursor->left.function);
        }
        first = false;
    }
    calls->top = shadow->entries;
    for (; fresh < shadow->entries + shadow->capacity; fresh++) {
        ref_t node = tree_child(calls->arena, calls->tree, ref_of(calls, calls->top->node),
                                (ref_t)(uintptr_t)fresh->node);
        if (node)
            push(calls, fresh->slot, node_at(calls, node));
    }
}

static void resync_at_hook(struct calls_thread *calls, uintptr_t slot, uintptr_t back, uintptr_t bp)
{
    struct unwind_cursor cursor;
    struct unwind_bounds own = {.low = calls->own.low, .high = calls->own.high};
    if (holds(&calls->own, slot))
        own.low = slot; // below may be the guard page
    unwind_start_here(&cursor, back, slot, bp, own);
    resync(calls, &cursor, true);
}

// The shadow of the stack that a slot lies on; *fresh if nothing is known of that stack yet.
static struct shadow *shadow_of(struct calls_thread *calls, uintptr_t slot, bool *fresh)
{
    *fresh = false;
    if (holds(&calls->own, slot))
        return &calls->own;
    for (unsigned i = 0; i < OTHER_STACKS; i++)
        if (holds(&calls->others[i], slot))
            return &calls->others[i];
    *fresh = true;
    struct shadow *shadow = &calls->others[calls->next_other++ % OTHER_STACKS];
    return open_shadow(calls, shadow, slot - NEW_STACK_REACH, slot + 8) ? shadow : NULL;
}

// The program runs on another stack than at the last hook.
static bool switch_stack(struct calls_thread *calls, uintptr_t slot, uintptr_t back, uintptr_t bp)
{
    bool fresh;
    if (calls->active)
        calls->active->top = calls->top;
    struct shadow *shadow = shadow_of(calls, slot, &fresh);
    if (!shadow)
        return false;
    activate(calls, shadow, fresh ? shadow->entries : shadow->top);
    if (fresh)
        resync_at_hook(calls, slot, back, bp);
    return true;
}

// ---- the hook's longer ways; the short one is in calls_x86_64.S

// One call more on the child of the cursor by that edge, which becomes the cursor.
static void count_call(struct calls_thread *calls, uintptr_t slot, ref_t edge)
{
    struct node *parent = calls->top->node;
    ref_t child = tree_child(calls->arena, calls->tree, ref_of(calls, parent), edge);
    if (!child) // out of memory: the caller stands for it
        calls->stats->unplaced++;
    struct node *node = child ? node_at(calls, child) : parent;
    node->value[0] += calls->amount;
    push(calls, slot, node);
}

// While the tree is being changed no hook may enter it: a signal's handler may call functions too.
static void shut(struct calls_thread *calls)
{
    calls->span = 0;
    atomic_signal_fence(memory_order_seq_cst);
}

static void reopen(struct calls_thread *calls)
{
    atomic_signal_fence(memory_order_seq_cst);
    calls->span = calls->active->high - calls->active->low;
}

// The edge is known, the node may be new. Touches no vector register: the function's arguments are
// in them.
__attribute__((visibility("hidden"))) bool calls_enter_known(struct calls_thread *calls,
                                                             uintptr_t *slot, uintptr_t back)
{
    const uintptr_t address = (uintptr_t)slot;
    const struct edge_memo *memo = memo_of(calls, *slot);
    if (address - calls->low >= calls->span || memo->site != *slot || memo->back != back ||
        calls->generation != atomic_load_explicit(&calls_generation, memory_order_relaxed))
        return false;
    shut(calls);
    while (calls->top->slot <= address)
        calls->top--;
    count_call(calls, address, memo->edge);
    reopen(calls);
    return true;
}

// Everything else. The caller has saved all registers.
__attribute__((visibility("hidden"))) void
calls_enter_unknown(struct calls_thread *calls, uintptr_t *slot, uintptr_t back, uintptr_t bp)
{
    const uintptr_t address = (uintptr_t)slot;
    if (!calls->span) {
        calls->stats->lost++;
        return;
    }
    const bool same_stack = address - calls->low < calls->span;
    const uint32_t generation = atomic_load_explicit(&calls_generation, memory_order_relaxed);
    const bool missed = calls->generation != generation;
    shut(calls);
    calls->generation = generation;
    if (same_stack || switch_stack(calls, address, back, bp)) {
        if (missed && same_stack)
            resync_at_hook(calls, address, back, bp);
        while (calls->top->slot <= address)
            calls->top--;
        count_call(calls, address, find_edge(calls, *slot, back));
    }
    reopen(calls);
}

// ---- life

// In calls_x86_64.S.
void calls_enter(void);
void calls_vector_start(void);

int64_t calls_start(void)
{
    uint64_t skipped = 0;
    calls_vector_start();
    int64_t found = entries_find(calls_enter, &skipped);
    if (found <= 0)
        return found;
    int error = entries_switch(true, true);
    return error ? error : found;
}

void calls_note_unload(void)
{
    atomic_fetch_add_explicit(&calls_generation, 1, memory_order_relaxed);
}

void calls_switch(bool on)
{
    if (on)
        atomic_fetch_add_explicit(&calls_generation, 1, memory_order_relaxed);
    // Taking every hook out costs a moment, leaving them in a little at every call.
    if (entries_chunks() > MOST_CHUNKS)
        entries_relay(on);
    else
        entries_switch(on, atomic_load_explicit(&followed_threads, memory_order_relaxed) == 1);
}

struct node *calls_find_cursor(struct calls_thread *calls, const void *ucontext)
{
    if (!calls->span) // inside of the tree: the hook that was interrupted will do
        return NULL;
    const uintptr_t sp =
        *(const uintptr_t *)((const char *)ucontext + arch_context_offset(ARCH_SP));
    if (!holds(calls->active, sp))
        return NULL;
    shut(calls);
    struct unwind_cursor cursor;
    struct unwind_bounds own = {.low = holds(&calls->own, sp) ? sp : calls->own.low,
                                .high = calls->own.high};
    unwind_start(&cursor, ucontext, own);
    resync(calls, &cursor, false);
    calls->generation = atomic_load_explicit(&calls_generation, memory_order_relaxed);
    reopen(calls);
    return calls->top->node;
}

int calls_open(struct calls_thread *calls, struct arena *arena, ref_t tree,
               struct live_stats *stats, struct unwind_bounds stack)
{
    memset(calls, 0, sizeof *calls);
    calls->arena = arena;
    calls->tree = tree;
    calls->stats = stats;
    calls->generation = atomic_load_explicit(&calls_generation, memory_order_relaxed);
    calls->map_generation = loadmap_generation();
    calls->amount = 1;
    calls->base = arena->base;
    if (!open_shadow(calls, &calls->own, stack.low, stack.high))
        return -ENOMEM;
    activate(calls, &calls->own, calls->own.entries);
    reopen(calls);
    atomic_fetch_add_explicit(&followed_threads, 1, memory_order_relaxed);
    return 0;
}

static void close_shadow(struct shadow *shadow)
{
    if (shadow->entries)
        munmap(shadow->entries, shadow->capacity * sizeof *shadow->entries);
    shadow->entries = NULL;
}

void calls_close(struct calls_thread *calls)
{
    if (calls->own.entries)
        atomic_fetch_sub_explicit(&followed_threads, 1, memory_order_relaxed);
    close_shadow(&calls->own);
    for (unsigned i = 0; i < OTHER_STACKS; i++)
        close_shadow(&calls->others[i]);
}

ref_t calls_sample(struct calls_thread *calls, const void *ucontext)
{
    if (!calls->span)
        return 0;
    const char *context = ucontext;
    const uintptr_t sp = *(const uintptr_t *)(context + arch_context_offset(ARCH_SP));
    const uintptr_t pc = *(const uintptr_t *)(context + arch_context_offset(ARCH_RA));
    const struct shadow_entry *top = calls->top;
    // What lies below the stack pointer has ended; a slot at it belongs to a function in its first
    // or last instruction.
    if (sp - calls->low < calls->span)
        while (top->slot < sp)
            top--;
    calls->stats->verdicts[VERDICT_COMPLETE]++;
    calls->stats->frames_stack += (uint64_t)(top - calls->active->entries);
    ref_t edge = tree_edge(calls->arena, calls->tree, place_at(pc), 0);
    ref_t node = tree_child(calls->arena, calls->tree, ref_of(calls, top->node), edge);
    if (node)
        return node;
    calls->stats->unplaced++;
    return tree_unplaced(calls->arena, calls->tree, ref_of(calls, top->node));
}
