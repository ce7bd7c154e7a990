// SPDX-License-Identifier: MIT
#include "track/calls.h"
#include "loadmap/loadmap.h"
#include "patch/entries.h"
#include "patch/loader.h"
#include "track/forbidden.h"
#include "unwind/arch.h"
#include "unwind/recipe.h"
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define SMALLEST_FRAME 8        // a return address: entries of a shadow lie at least that far apart
#define MOST_ENTRIES (8u << 20) // of one shadow: 128 MB of addresses, used as the stack is used
#define MOST_CHUNKS 128         // of code that are rewritten at the begin and the end of each burst
#define NEW_STACK_REACH (UINT64_C(1) << 16) // of a stack that nothing is known of: around the slot

__thread struct calls_thread *calls_current;

// Anyone adds; hooks compare. Relaxed: a hook that sees it late counts one call to a stale cursor.
__attribute__((visibility("hidden"))) _Atomic uint32_t calls_generation = 1;

_Static_assert(offsetof(struct calls_thread, memos) == 64 && sizeof(struct edge_memo) == 32 &&
                   offsetof(struct calls_thread, generation) == 32 &&
                   offsetof(struct edge_memo, edge) == 16 &&
                   offsetof(struct edge_memo, distance) == 20 &&
                   offsetof(struct edge_memo, rule) == 24 && CALLER_BY_SLOT == 1 &&
                   CALLER_BY_FP == 2 && offsetof(struct node, child) == 8,
               "calls_x86_64.S relies on the layout");

static _Atomic unsigned followed_threads;

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

// What the caller's frame looks like at the call, for the next time. Only of followed functions:
// their own hooks have put them into the shadow.
static void learn_caller(struct edge_memo *memo, const union unwind_recipe *recipe)
{
    memo->rule = CALLER_UNKNOWN;
    if (recipe->kind == RECIPE_SP) {
        memo->rule = CALLER_BY_SLOT;
        memo->distance = recipe->cfa_offset + (int32_t)sizeof(uintptr_t) + ARCH_RA_OFFSET;
    } else if (recipe->kind == RECIPE_FP) {
        memo->rule = CALLER_BY_FP;
        memo->distance = recipe->cfa_offset + ARCH_RA_OFFSET;
    } else if (recipe->kind == RECIPE_LOADED &&
               recipe->detail >> DETAIL_REGISTER_SHIFT == ARCH_FP) {
        memo->rule = CALLER_LOADED;
        memo->inner = (int16_t)recipe->cfa_offset;
        memo->distance = (recipe->cfa_offset >> 16) + ARCH_RA_OFFSET;
    }
}

static struct edge_memo *remember_edge(struct calls_thread *calls, uintptr_t site, uintptr_t back,
                                       ref_t edge)
{
    if (calls->map_generation != loadmap_generation()) {
        memset(calls->memos, 0, sizeof calls->memos);
        memset(calls->bridges, 0, sizeof calls->bridges);
        calls->map_generation = loadmap_generation();
    }
    struct edge_memo *memo = memo_of(calls, site);
    *memo = (struct edge_memo){.site = site, .back = back, .edge = edge};
    return memo;
}

// The edge, remembered together with the caller's recipe (NULL: not known, or not followed). Takes
// the load map's word, which may take the loader's: vector registers do not survive this.
static ref_t find_edge(struct calls_thread *calls, uintptr_t site, uintptr_t back,
                       const union unwind_recipe *caller)
{
    ref_t edge =
        tree_edge(calls->arena, calls->tree, loadmap_place(site), loadmap_place(function_of(back)));
    if (!edge)
        return 0;
    struct edge_memo *memo = remember_edge(calls, site, back, edge);
    if (caller)
        learn_caller(memo, caller);
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
static bool switch_stack(struct calls_thread *calls, uintptr_t slot)
{
    bool fresh;
    if (calls->active)
        calls->active->top = calls->top;
    struct shadow *shadow = shadow_of(calls, slot, &fresh);
    if (!shadow)
        return false;
    activate(calls, shadow, fresh ? shadow->entries : shadow->top);
    return true;
}

// ---- finding the caller by a walk that ends at a frame with an entry

struct search {
    struct calls_thread *calls;
    struct unwind_cursor cursor;
    struct shadow *shadow;      // of the stack that the walk is on
    struct shadow_entry *entry; // of it: what lies younger has ended
    struct shadow_entry *fresh; // frames without an entry, at the far end of the active shadow
    bool all;                   // frames that are not followed, too
    uintptr_t pc;               // of the sample
    uintptr_t pier;             // slot of the frame left before
    enum verdict verdict;
};

static struct shadow_entry *last_entry(const struct calls_thread *calls,
                                       const struct shadow *shadow)
{
    return shadow == calls->active ? calls->top : shadow->top;
}

static bool is_entry_of(const struct search *search, const struct unwind_frame *left)
{
    const struct calls_thread *calls = search->calls;
    const struct shadow_entry *entry = search->entry;
    if (entry->slot != left->ra_slot)
        return false;
    // What was there before may have ended without a trace. The same return address tells that it
    // has not; the cold part of a function has none of its own.
    const struct edge *edge = arena_at(calls->arena, entry->node->edge);
    return edge->site == search->cursor.frame.place &&
           (edge->function == left->function || !is_followed(left));
}

// True if the frame that the walk has left has an entry, which is search->entry then.
static bool meets_entry(struct search *search)
{
    const uintptr_t slot = search->cursor.left.ra_slot;
    if (!search->shadow || !holds(search->shadow, slot)) {
        struct calls_thread *calls = search->calls;
        search->shadow = holds(&calls->own, slot) ? &calls->own : NULL;
        for (unsigned i = 0; i < OTHER_STACKS && !search->shadow; i++)
            if (holds(&calls->others[i], slot))
                search->shadow = &calls->others[i];
        if (!search->shadow)
            return false;
        search->entry = last_entry(calls, search->shadow);
    }
    while (search->entry->slot < slot)
        search->entry--;
    return is_entry_of(search, &search->cursor.left);
}

// Set once: where the hook's own code lies.
static unsigned agent_module;

// What a hook costs is the cost of the function that was entered.
static bool is_ours(const struct unwind_frame *frame)
{
    return place_module(frame->place) == agent_module ||
           (place_module(frame->place) == MODULE_ANONYMOUS && entries_is_relay(frame->pc));
}

// Walks on from where the cursor stands. True if an entry was met; else the walk has come to its
// end. What was walked has its edge in fresh[].
static bool walk_to_entry(struct search *search)
{
    struct calls_thread *calls = search->calls;
    while (unwind_step(&search->cursor, &search->verdict) == UNWIND_OK) {
        const struct unwind_frame *left = &search->cursor.left;
        calls->stats->frames_walked++;
        if (search->all && is_ours(left)) {
            search->fresh = calls->active->entries + calls->active->capacity;
            search->pc = search->cursor.frame.pc;
            continue;
        }
        if (!left->ra_slot) // a signal frame
            continue;
        if (meets_entry(search))
            return true;
        search->pier = left->ra_slot;
        if (search->fresh > calls->top + 2 && (search->all || is_followed(left))) {
            search->fresh--;
            search->fresh->slot = left->ra_slot;
            // The edge, until the tree gives the node.
            search->fresh->node = (struct node *)(uintptr_t)tree_edge(
                calls->arena, calls->tree, search->cursor.frame.place, left->function);
        }
    }
    return false;
}

static void start_search(struct search *search, struct calls_thread *calls, bool all)
{
    search->calls = calls;
    search->shadow = NULL;
    search->fresh = calls->active->entries + calls->active->capacity;
    search->all = all;
    search->pier = 0;
    search->verdict = VERDICT_COMPLETE;
}

static void remember_bridge(struct calls_thread *calls, const struct search *search,
                            uintptr_t *slot)
{
    if (!search->pier)
        return;
    calls->bridges[*slot % BRIDGES] = (struct bridge){
        .site = *slot,
        .slot = (uintptr_t)slot,
        .parent = search->entry->slot,
        .pier = search->pier,
        .returns = *(const uintptr_t *)search->pier,
    };
}

// The frames that a walk found without entries become nodes, and entries if they are on the stack
// in use. The youngest of them.
static struct node *take_fresh(struct search *search, struct node *node)
{
    struct calls_thread *calls = search->calls;
    const struct shadow_entry *end = calls->active->entries + calls->active->capacity;
    for (; search->fresh < end; search->fresh++) {
        const uintptr_t slot = search->fresh->slot;
        ref_t child = tree_child(calls->arena, calls->tree, ref_of(calls, node),
                                 (ref_t)(uintptr_t)search->fresh->node);
        if (!child)
            continue;
        node = node_at(calls, child);
        if (!search->all && holds(calls->active, slot) && slot < calls->top->slot)
            push(calls, slot, node);
    }
    return node;
}

// The node of the caller of a function that was entered; the top of the shadow is then the youngest
// entry that has not ended. *recipe: of the caller's frame, if it is followed.
static struct node *find_caller(struct calls_thread *calls, uintptr_t *slot, uintptr_t back,
                                uintptr_t bp, union unwind_recipe *recipe, bool *followed)
{
    struct search search;
    struct unwind_bounds own = {.low = calls->own.low, .high = calls->own.high};
    if (holds(&calls->own, (uintptr_t)slot))
        own.low = (uintptr_t)slot; // below may be the guard page
    start_search(&search, calls, false);
    unwind_start_here(&search.cursor, back, (uintptr_t)slot, bp, own);
    *followed = false;
    bool met = false;
    if (unwind_step(&search.cursor, &search.verdict) == UNWIND_OK) {
        *followed = is_followed(&search.cursor.frame);
        *recipe = search.cursor.recipe;
        met = walk_to_entry(&search);
    }
    struct node *node = calls->active->entries->node;
    if (met && search.shadow == calls->active) {
        if (search.fresh == calls->active->entries + calls->active->capacity)
            remember_bridge(calls, &search, slot);
        calls->top = search.entry;
        node = search.entry->node;
    } else if (met) { // the handler of a signal, on a stack of its own
        calls->top = calls->active->entries;
        node = search.entry->node;
    } else if (search.verdict == VERDICT_COMPLETE) {
        calls->top = calls->active->entries;
    } else { // code that cannot be unwound: what lies above is the best there is
        while (calls->top->slot <= (uintptr_t)slot)
            calls->top--;
        node = calls->top->node;
        search.fresh = calls->active->entries + calls->active->capacity;
    }
    return take_fresh(&search, node);
}

// ---- the hook's longer ways; the short one is in calls_x86_64.S

// One call more on the child of the caller by that edge, which becomes the cursor.
static void count_call(struct calls_thread *calls, struct node *caller, uintptr_t slot, ref_t edge)
{
    ref_t child = tree_child(calls->arena, calls->tree, ref_of(calls, caller), edge);
    if (!child) // out of memory: the caller stands for it
        calls->stats->unplaced++;
    struct node *node = child ? node_at(calls, child) : caller;
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

static bool on_stack(const struct calls_thread *calls, uintptr_t address)
{
    return holds(calls->active, address);
}

// The slot of the caller, as the memo of the call tells; 0: not known.
static uintptr_t caller_slot(const struct calls_thread *calls, const struct edge_memo *memo,
                             uintptr_t slot, uintptr_t bp)
{
    const uintptr_t distance = (uintptr_t)(intptr_t)memo->distance;
    switch (memo->rule) {
    case CALLER_BY_SLOT:
        return slot + distance;
    case CALLER_BY_FP:
        return bp + distance;
    case CALLER_LOADED:
        bp += (uintptr_t)(intptr_t)memo->inner;
        return bp > slot && bp % sizeof bp == 0 && on_stack(calls, bp)
                   ? *(const uintptr_t *)bp + distance
                   : 0;
    }
    const struct bridge *bridge = &calls->bridges[memo->site % BRIDGES];
    return bridge->site == memo->site && bridge->slot == slot && on_stack(calls, bridge->pier) &&
                   *(const uintptr_t *)bridge->pier == bridge->returns
               ? bridge->parent
               : 0;
}

// The edge is known, the node may be new. Touches no vector register: the function's arguments are
// in them.
__attribute__((visibility("hidden"))) bool
calls_enter_known(struct calls_thread *calls, uintptr_t *slot, uintptr_t back, uintptr_t bp)
{
    const uintptr_t address = (uintptr_t)slot;
    const struct edge_memo *memo = memo_of(calls, *slot);
    if (address - calls->low >= calls->span || memo->site != *slot || memo->back != back ||
        calls->generation != atomic_load_explicit(&calls_generation, memory_order_relaxed))
        return false;
    const uintptr_t wanted = caller_slot(calls, memo, address, bp);
    struct shadow_entry *caller = calls->top;
    while (caller->slot < wanted)
        caller--;
    if (caller->slot != wanted || wanted <= address)
        return false;
    shut(calls);
    calls->top = caller;
    count_call(calls, caller->node, address, memo->edge);
    reopen(calls);
    if (!__atomic_load_n(&calls->missed_count, __ATOMIC_RELAXED))
        return true;
    calls->only_missed = true;
    return false;
}

// A signal's handler calls while the hook that it interrupted has closed the tree. Handlers nest:
// each takes its place first.
static void remember_missed(struct calls_thread *calls, uintptr_t *slot, uintptr_t back)
{
    unsigned place = __atomic_fetch_add(&calls->missed_count, 1, __ATOMIC_RELAXED);
    if (place < MISSED_CALLS)
        calls->missed[place] =
            (struct missed_call){.slot = (uintptr_t)slot, .site = *slot, .back = back};
    else
        calls->stats->lost++;
}

// Counts them, below the function whose hook it was.
static void count_missed(struct calls_thread *calls)
{
    unsigned done = 0, count = 0;
    do {
        for (; done < count && done < MISSED_CALLS; done++) {
            const struct missed_call call = calls->missed[done];
            while (calls->top->slot <= call.slot)
                calls->top--;
            if (on_stack(calls, call.slot))
                count_call(calls, calls->top->node, call.slot,
                           find_edge(calls, call.site, call.back, NULL));
            else
                calls->stats->lost++;
        }
    } while (!__atomic_compare_exchange_n(&calls->missed_count, &count, 0, false, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED));
}

static void reopen_and_settle(struct calls_thread *calls)
{
    reopen(calls);
    while (__atomic_load_n(&calls->missed_count, __ATOMIC_RELAXED)) {
        shut(calls);
        count_missed(calls);
        reopen(calls);
    }
}

// Calls were not followed for a while: whatever entries there are, their functions may have ended.
static void forget_entries(struct calls_thread *calls)
{
    calls->own.top = calls->own.entries;
    for (unsigned i = 0; i < OTHER_STACKS; i++)
        calls->others[i].top = calls->others[i].entries;
    calls->top = calls->active->entries;
}

// Everything else. The caller has saved all registers.
__attribute__((visibility("hidden"))) void
calls_enter_unknown(struct calls_thread *calls, uintptr_t *slot, uintptr_t back, uintptr_t bp)
{
    const uintptr_t address = (uintptr_t)slot;
    if (!calls->span) {
        // Wiped: a child of a fork that nobody told us of. It is not followed.
        if (calls->stats)
            remember_missed(calls, slot, back);
        return;
    }
    const int saved = errno;
    if (calls->only_missed) { // the call itself is counted
        calls->only_missed = false;
        reopen_and_settle(calls);
        errno = saved;
        return;
    }
    const bool same_stack = address - calls->low < calls->span;
    const uint32_t generation = atomic_load_explicit(&calls_generation, memory_order_relaxed);
    const bool missed = calls->generation != generation;
    shut(calls);
    calls->generation = generation;
    if (same_stack || switch_stack(calls, address)) {
        union unwind_recipe recipe;
        bool followed;
        if (missed)
            forget_entries(calls);
        struct node *caller = find_caller(calls, slot, back, bp, &recipe, &followed);
        ref_t edge = find_edge(calls, *slot, back, followed ? &recipe : NULL);
        count_call(calls, caller, address, edge);
    }
    reopen_and_settle(calls);
    errno = saved;
}

// ---- functions compiled with -finstrument-functions: told of by name, on entry and exit. Their
// slots are not known; the caller's stack pointer, which is a little lower, will do. Functions
// inlined into each other share it.

static ref_t edge_of_function(struct calls_thread *calls, uintptr_t function, uintptr_t site)
{
    const struct edge_memo *memo = memo_of(calls, site);
    if (memo->edge && memo->site == site && memo->back == function &&
        calls->map_generation == loadmap_generation())
        return memo->edge;
    ref_t edge = tree_edge(calls->arena, calls->tree, loadmap_place(site), loadmap_place(function));
    return edge ? remember_edge(calls, site, function, edge)->edge : 0;
}

static place_t function_at(const struct calls_thread *calls, ref_t edge)
{
    return edge ? ((const struct edge *)arena_at(calls->arena, edge))->function : 0;
}

// The entry of that function among those of this level; NULL.
static struct shadow_entry *entry_at_level(const struct calls_thread *calls, uintptr_t level,
                                           place_t function)
{
    for (struct shadow_entry *entry = calls->top; entry->slot == level; entry--)
        if (function_at(calls, entry->node->edge) == function)
            return entry;
    return NULL;
}

// True if the tree is free; then it is shut.
static bool begin_function(struct calls_thread *calls, uintptr_t level)
{
    if (!calls->span) {
        if (calls->stats)
            calls->stats->lost++;
        return false;
    }
    const bool same_stack = level - calls->low < calls->span;
    shut(calls);
    if (same_stack || switch_stack(calls, level))
        return true;
    reopen(calls);
    return false;
}

void calls_function_entered(struct calls_thread *calls, const struct told_call *call)
{
    const int saved = errno;
    if (!begin_function(calls, call->level))
        return;
    while (calls->top->slot < call->level)
        calls->top--;
    ref_t edge = edge_of_function(calls, call->function, call->site);
    // There already, and not told to have ended: a longjmp has cut it off.
    struct shadow_entry *stale = entry_at_level(calls, call->level, function_at(calls, edge));
    if (stale)
        calls->top = stale - 1;
    // Inlined into the function that is there: the site that it tells of is that one's.
    if (calls->top->slot == call->level)
        edge = edge_of_function(calls, call->function, call->hook_site);
    if (calls->top + 1 < calls->active->entries + calls->active->capacity)
        count_call(calls, calls->top->node, call->level, edge);
    else
        calls->stats->lost++;
    reopen_and_settle(calls);
    errno = saved;
}

void calls_function_left(struct calls_thread *calls, const struct told_call *call)
{
    const int saved = errno;
    if (!begin_function(calls, call->level))
        return;
    const place_t function =
        function_at(calls, edge_of_function(calls, call->function, call->site));
    bool found = false;
    // An exit that is the function's last act, a jump, has the stack pointer of its caller.
    for (; calls->top->slot < call->level; calls->top--)
        found |= function_at(calls, calls->top->node->edge) == function;
    struct shadow_entry *entry = found ? NULL : entry_at_level(calls, call->level, function);
    if (entry)
        calls->top = entry - 1;
    reopen_and_settle(calls);
    errno = saved;
}

// ---- life

// In calls_x86_64.S.
void calls_enter(void);
void calls_vector_start(void);

static void on_libraries_changed(void)
{
    const int saved = errno;
    entries_find_new();
    errno = saved;
}

int64_t calls_start(void)
{
    uint64_t skipped = 0;
    calls_vector_start();
    agent_module = place_module(loadmap_place((uintptr_t)calls_enter));
    int64_t found = entries_find(calls_enter, &skipped);
    if (found < 0)
        return found;
    int error = entries_switch(true, true);
    if (!error)
        loader_watch(on_libraries_changed); // without it, what comes later is not followed
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
    // The child of a fork that we are not told of must not write to its parent's tree.
    madvise(calls, sizeof *calls, MADV_WIPEONFORK);
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
    struct search search;
    struct unwind_bounds own = {.low = holds(&calls->own, sp) ? sp : calls->own.low,
                                .high = calls->own.high};
    start_search(&search, calls, true);
    unwind_start(&search.cursor, ucontext, own);
    search.pc = pc;
    struct node *node = calls->active->entries->node;
    if (walk_to_entry(&search)) {
        node = search.entry->node;
        calls->stats->frames_stack += (uint64_t)(search.entry - search.shadow->entries);
        search.verdict = VERDICT_COMPLETE;
    } else if (search.verdict != VERDICT_COMPLETE) {
        search.fresh = calls->active->entries + calls->active->capacity;
        node = calls->top->node;
    }
    calls->stats->verdicts[search.verdict]++;
    ref_t frame = ref_of(calls, take_fresh(&search, node));
    ref_t edge = tree_edge(calls->arena, calls->tree, loadmap_place(search.pc), 0);
    ref_t statement = tree_child(calls->arena, calls->tree, frame, edge);
    if (statement)
        return statement;
    calls->stats->unplaced++;
    return tree_unplaced(calls->arena, calls->tree, frame);
}
