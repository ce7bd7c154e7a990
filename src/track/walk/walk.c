// SPDX-License-Identifier: MIT
#include "track/walk/walk.h"
#include "base/likely.h"
#include "base/system/agent_map.h"
#include "track/runtimes/java.h"
#include "track/runtimes/python.h"
#include "track/walk/program_unwinders.h"
#include "track/walk/seen_unwinders.h"
#include "track/walk/unmarkable.h"
#include "track/walk/unwind_pass.h"
#include "tree/bounded/bounded.h"
#include "unwind/arch.h"
#include "unwind/stack.h"
#include <errno.h>
#include <string.h>

#define FIRST_CAPACITY 204 // frames: two pages
#define EXPECT_BYTES 1536  // of the stack are looked through before a walk

#define PLACE_TRIES 16 // a return must not search a deep stack for a frame that may be marked

__thread struct walker *walk_current;

int walk_open(struct walker *walker, const struct tracker_place *place, bool use_marker)
{
    memset(walker, 0, sizeof *walker);
    walker->frames = unwind_pass_map_frames(FIRST_CAPACITY);
    if (!walker->frames)
        return -ENOMEM;
    walker->capacity = FIRST_CAPACITY;
    walker->arena = place->arena;
    walker->tree = place->tree;
    walker->stats = place->stats;
    walker->stack = place->stack;
    walker->lowest = place->stack.high;
    walker->use_marker = use_marker;
    walker->kind = *tree_traits_of(tree_kind(place->arena, place->tree));
    walker->keeps_returns = walker->kind.keeps_all;
    return 0;
}

// Takes the marker from the stack; the next sample walks to the root. Signal-safe.
static void lift_marker(struct walker *walker)
{
    marker_lift(&walker->marker);
}

void walk_abandon(struct walker *walker)
{
    walker->abandoned = 1;
    atomic_thread_fence(memory_order_seq_cst);
    marker_take_away(&walker->marker);
}

void walk_turn_to(struct walker *walker, ref_t tree, struct live_stats *stats)
{
    lift_marker(walker);
    walker->tree = tree;
    walker->stats = stats;
    walker->count = walker->loose = walker->watched = walker->guess = 0;
}

void walk_close(struct walker *walker)
{
    lift_marker(walker);
    if (walker->frames)
        agent_unmap(walker->frames, walker->capacity * sizeof *walker->frames);
    walker->frames = NULL;
    walker->count = walker->capacity = 0;
}

// The frames from index `keep` on have ended.
static void count_ends(struct walker *walker, size_t keep)
{
    for (size_t i = keep; i < walker->watched && walker->keeps_returns; i++)
        tree_count(walker->arena, walker->tree, walker->frames[i].node, 1);
    if (walker->watched > keep)
        walker->watched = keep;
}

static ref_t node_below(const struct walker *walker, size_t index)
{
    return index ? walker->frames[index - 1].node : tree_root(walker->arena, walker->tree);
}

// Finds or makes a frame's node. When memory is out, the deepest known ancestor stands for it.
static ref_t frame_node(struct walker *walker, ref_t parent, const struct walk_frame *frame)
{
    ref_t edge = tree_edge(walker->arena, walker->tree, frame->site, frame->function);
    ref_t node = tree_child(walker->arena, walker->tree, parent, edge);
    return node ? node : parent;
}

// Nodes for the walked frames from index `from` on, below parent. Returns the youngest.
static ref_t insert(struct unwind_pass *pass, size_t from, ref_t parent)
{
    struct walker *walker = pass->walker;
    for (size_t i = pass->low + from; i < walker->capacity; i++)
        tree_expect_edge_record(walker->arena, walker->tree, walker->frames[i].site,
                                walker->frames[i].function);
    for (size_t i = pass->low + from; i < walker->capacity; i++) {
        parent = walker->frames[i].node = frame_node(walker, parent, &walker->frames[i]);
        if (UNLIKELY(pass->amount))
            tree_charge(walker->arena, walker->tree, parent, pass->amount);
    }
    return parent;
}

// An address in the function of a frame.
static uintptr_t address_in(const struct walker *walker, size_t index)
{
    return index + 1 < walker->count ? walker->frames[index + 1].ra - 1 : walker->leaf;
}

// The stub comes here, too, and a function's result may be in a vector register: nothing of libc or
// the loader may be called.
static bool may_mark(const struct walker *walker, size_t index)
{
    const struct walk_frame *frame = &walker->frames[index];
    return frame->flags & WALK_CFI &&
           !unmarkable_by_code_that_stays(frame->function, address_in(walker, index)) &&
           !unmarkable_is(frame->function, frame->site) && unwind_still_follows_call(frame->ra);
}

// Has functions examined that the marker may go to: those of the frames from index `fresh` on,
// which returns will lead it to, and older ones up to the first that may carry it. Unlike the stub,
// a sample may ask the loader for the modules of functions.
static void examine_frames(const struct walker *walker, size_t fresh, size_t end)
{
    size_t tries = PLACE_TRIES;
    bool found = false;
    for (size_t i = end; i-- > 0 && (i >= fresh || !found) && tries > 0;
         tries -= !(walker->frames[i].flags & WALK_PYTHON))
        if (walker->frames[i].flags & WALK_CFI &&
            !unmarkable_by_code(walker->frames[i].function, address_in(walker, i)))
            found = true;
}

// Puts the marker into the youngest frame below index `end` that may carry it.
static void place_marker(struct walker *walker, size_t end)
{
    size_t tries = PLACE_TRIES;
    for (size_t i = end; i-- > 0 && tries > 0;) {
        const struct walk_frame *frame = &walker->frames[i];
        tries -= !(frame->flags & WALK_PYTHON);
        // Set before the marker is there: once it is, a return uses it.
        walker->marked = i;
        if (may_mark(walker, i) && marker_place(&walker->marker, frame->slot, frame->ra)) {
            walker->serial += walker->serial == UINT32_MAX ? 2 : 1;
            if (walker->watched <= i)
                walker->watched = i + 1;
            return;
        }
    }
}

// Some frames away from the leaf, where it is wanted so. None on a stack that is not that deep.
static void place_apart(struct walker *walker, size_t slack)
{
    if (walker->count > slack)
        place_marker(walker, walker->count - slack);
}

void unwind_pass_move_marker(struct walker *walker, size_t fresh)
{
    const bool allowed = !program_unwinder_forbids_markers() && !program_unwinder_goes_on(walker);
    if (allowed && walker->marker.entry && walker->count - walker->marked <= 1 + 4 * walker->slack)
        return;
    marker_lift(&walker->marker);
    if (UNLIKELY(!allowed) || walker->count <= 2 * walker->slack)
        return;
    examine_frames(walker, fresh, walker->count - 2 * walker->slack);
    place_apart(walker, 2 * walker->slack);
}

bool unwind_pass_bury_marker(struct unwind_pass *pass, uintptr_t leaf_sp)
{
    struct walker *walker = pass->walker;
    const bool own = unwind_pass_in_bounds(&walker->stack, leaf_sp);
    const bool dead = own && walker->marker.slot < leaf_sp;
    if (!dead && marker_is_mine(&walker->marker) &&
        marker_is_stub(*(uintptr_t *)walker->marker.slot))
        return false;
    marker_bury(&walker->marker); // its frame was cut away: longjmp, an exception, another stack
    return true;
}

bool unwind_pass_give_up_marker(struct unwind_pass *pass, uintptr_t leaf_sp)
{
    struct walker *walker = pass->walker;
    if (!walker->marker.entry || unwind_pass_bury_marker(pass, leaf_sp))
        return pass->on_own_stack;
    // On a coroutine's stack, or stopped early: the marker is still good for when the thread comes
    // back.
    if (!pass->on_own_stack || pass->verdict != VERDICT_COMPLETE)
        return false;
    marker_lift(&walker->marker);
    return true;
}

static void count_walk(struct unwind_pass *pass, size_t keep, size_t from)
{
    struct live_stats *stats = pass->walker->stats;
    const bool joined = pass->joined || pass->met || pass->spliced;
    stats->verdicts[unwind_pass_verdict(pass, keep, joined)]++;
    stats->frames_stack += keep + unwind_pass_walked(pass) - from;
    stats->frames_walked += unwind_pass_walked(pass);
}

void unwind_pass_adopt(struct unwind_pass *pass, size_t keep, size_t from)
{
    struct walker *walker = pass->walker;
    size_t fresh = unwind_pass_walked(pass) - from;
    if (walker->guess > keep)
        walker->guess = 0;
    if (UNLIKELY(pass->guess) && !walker->guess)
        walker->guess = keep + unwind_pass_walked(pass) - from - pass->guess + 1;
    // Not by memmove(): so far away that the handful of frames is moved before it has come.
    for (size_t i = 0; i < fresh; i++)
        walker->frames[keep + i] = walker->frames[pass->low + from + i];
    walker->count = keep + fresh;
}

// frames[0 .. keep) of the last sample are there still, and the walked ones from index `from` on
// are younger. The watched frames that are not among them have ended without a return to the
// marker: an exception or a jump left them, or no marker stood.
static void note_ends(const struct unwind_pass *pass, size_t keep, size_t from)
{
    struct walker *walker = pass->walker;
    const struct walk_frame *fresh = &walker->frames[pass->low + from];
    const size_t walked = unwind_pass_walked(pass) - from;
    for (size_t i = 0; keep < walker->watched && i < walked &&
                       unwind_pass_same_frame(&walker->frames[keep], &fresh[i]);
         i++)
        keep++; // a walk that joins the list has met it again
    if (pass->verdict == VERDICT_COMPLETE && !pass->guessed)
        count_ends(walker, keep);
    else if (walker->watched > keep)
        walker->watched = keep;
}

// Where the walked frames hang in the list: how many of the list stay, and how many of the walked
// are in it.
static ref_t insert_walked(struct unwind_pass *pass, uintptr_t leaf_sp)
{
    struct walker *walker = pass->walker;
    if (UNLIKELY(walker->whole)) {
        unwind_pass_name_leaf(pass);
        walker->stats->frames_walked += unwind_pass_walked(pass);
        return unwind_pass_insert_path(pass);
    }
    if (UNLIKELY(walker->kind.weighs_edges))
        return unwind_pass_insert_bounded(pass, leaf_sp);
    size_t keep = 0, from = 0;
    bool adoptable = !pass->frozen && !walker->suspended;
    if (pass->met) {
        struct walk_frame *marked = &walker->frames[walker->marked];
        if (UNLIKELY(unwind_pass_note_tail_call(pass))) {
            marked->node = frame_node(walker, node_below(walker, walker->marked), marked);
            tree_pin(walker->arena, walker->tree, marked->node);
        }
        keep = walker->marked + 1;
    } else if (UNLIKELY(pass->spliced)) {
        keep = walker->count;
        adoptable = false;
    } else if (pass->joined) {
        keep = pass->keep;
        adoptable = adoptable && !pass->unwinding;
    } else {
        walker->in_stub = 0; // if it was set, a longjmp has left the stub behind
        keep = from = unwind_pass_common(pass);
        adoptable = adoptable && !pass->unwinding && unwind_pass_give_up_marker(pass, leaf_sp);
    }
    ref_t node = insert(pass, from, node_below(walker, keep));
    count_walk(pass, keep, from);
    if (UNLIKELY(!adoptable))
        return node;
    if (!pass->met && !pass->joined)
        walker->rooted = pass->verdict;
    walker->known_since = pass->unwinding ? 0 : loadmap_generation();
    note_ends(pass, keep, from);
    unwind_pass_adopt(pass, keep, from);
    tree_pin(walker->arena, walker->tree, node); // the list holds it until the next sample
    if (walker->use_marker && !pass->unwinding)
        unwind_pass_move_marker(walker, keep);
    return node;
}

static uintptr_t stack_pointer(const void *ucontext)
{
    return *(const uintptr_t *)((const char *)ucontext + arch_context_offset(ARCH_SP));
}

// The part of the thread's stack that is mapped for sure: from the lowest stack pointer that was
// ever seen there. The window that walker->stack describes also holds the guard page, or what the
// stack has not grown to yet.
static struct unwind_bounds readable_stack(struct walker *walker, uintptr_t sp)
{
    if (unwind_pass_in_bounds(&walker->stack, sp) && sp < walker->lowest)
        walker->lowest = stack_mapped_from(sp, walker->lowest);
    return (struct unwind_bounds){.low = walker->lowest, .high = walker->stack.high};
}

// The stub was left by a longjmp out of a signal handler that had interrupted it.
static bool stub_abandoned(const struct walker *walker, uintptr_t leaf_sp)
{
    return unwind_pass_in_bounds(&walker->stack, leaf_sp) && leaf_sp >= walker->in_stub;
}

// A tree of functions: no walk, unless it is out of the agent.
static ref_t function_node(struct unwind_pass *pass)
{
    struct walker *walker = pass->walker;
    const struct unwind_frame *frame = &pass->cursor.frame;
    unwind_pass_leave_agent(pass);
    const bool unnamed = place_offset(frame->function) == PLACE_OFFSET_UNKNOWN;
    const ref_t node =
        bounded_counter(walker->arena, walker->tree, unnamed ? frame->place : frame->function);
    struct live_stats *stats = walker->stats;
    stats->verdicts[VERDICT_COMPLETE]++;
    stats->frames_stack++;
    stats->frames_walked++;
    stats->unplaced += node == tree_root(walker->arena, walker->tree);
    stats->purged = bounded_purged(walker->arena, walker->tree);
    return node;
}

// Prefetches for the frames between the leaf and the marker, as far as it looks.
static void expect_walk(const struct walker *walker, const void *ucontext, uintptr_t leaf_sp)
{
    const uintptr_t slot = walker->marker.slot, last = walker->stack.high - sizeof(uintptr_t);
    const bool marked = walker->marker.entry && slot >= leaf_sp && slot - leaf_sp < EXPECT_BYTES;
    const uintptr_t high = marked ? slot : leaf_sp + EXPECT_BYTES;
    if (leaf_sp >= walker->lowest && leaf_sp < last)
        unwind_expect_stack(ucontext, leaf_sp, high < last ? high : last);
}

// How many frames of the last sample may be met, where no marker says which of them are there
// still.
static size_t count_known(const struct walker *walker)
{
    const bool known = !walker->marker.entry && !walker->in_stub && !unwind_truth &&
                       walker->rooted == VERDICT_COMPLETE && !walker->kind.weighs_edges &&
                       !walker->whole && walker->known_since == loadmap_generation();
    return known ? walker->count : 0;
}

// The cursor has been started: the node of a sample there, of which `statement` is the instruction.
static ref_t sample_node(struct unwind_pass *pass, uintptr_t leaf_sp, place_t statement,
                         uint64_t weight)
{
    struct walker *walker = pass->walker;
    if (UNLIKELY(walker->in_stub) && stub_abandoned(walker, leaf_sp))
        walker->in_stub = 0;
    pass->frozen = walker->in_stub != 0;
    pass->statement = statement;
    tree_expect_edge(walker->arena, walker->tree, statement, 0);
    if (walker->count) // most likely the walk ends near where the last one did
        __builtin_prefetch(arena_at(walker->arena, walker->frames[walker->count - 1].node));
    pass->amount = walker->kind.weighs_edges ? weight : 0;
    pass->keep = count_known(walker);
    if (UNLIKELY(python_is_known) && walker->with_python)
        pass->python = python_record(leaf_sp);
    unwind_pass_walk(pass);
    ref_t frame = insert_walked(pass, leaf_sp);
    if (!walker->kind.keeps_all) // has no statements
        return frame;
    ref_t edge = tree_edge(walker->arena, walker->tree, pass->statement, 0);
    ref_t node = tree_child(walker->arena, walker->tree, frame, edge);
    if (!UNLIKELY(!node))
        return node;
    walker->stats->unplaced++;
    return tree_unplaced(walker->arena, walker->tree, frame);
}

// In a bounded tree walks go to the root from now on, as other frames of an interpreter may lead to
// the same return addresses.
static void go_to_root(struct walker *walker)
{
    lift_marker(walker);
    walker->whole = 1;
    walker->count = walker->loose = walker->watched = walker->guess = walker->rest_count = 0;
}

// Clears all but the cursor, which is for unwind_start*(), and the fields for cuts: clearing these
// would wait for half a kilobyte of a stack that is in no cache.
static void begin(struct unwind_pass *pass, struct walker *walker)
{
    if (UNLIKELY(java_is_running()) && walker->kind.weighs_edges && !walker->whole &&
        !walker->in_stub)
        go_to_root(walker);
    walker->leaf = 0;
    pass->walker = walker;
    pass->low = walker->capacity;
    pass->limit = walker->whole ? 0 : walker->limit;
    pass->rest.valid = false;
    pass->statement = 0;
    pass->python = 0;
    pass->amount = pass->last_amount = 0;
    pass->guess = pass->sure = 0;
    pass->keep = 0;
    pass->frozen = pass->unwinding = pass->guessed = pass->on_own_stack = false;
    pass->spliced = pass->joined = pass->met = pass->cut = false;
    pass->verdict = VERDICT_COMPLETE;
}

ref_t walk_sample(struct walker *walker, const void *ucontext, uint64_t weight)
{
    struct unwind_pass pass;
    begin(&pass, walker);
    const uintptr_t leaf_sp = stack_pointer(ucontext);
    const struct unwind_bounds stack = readable_stack(walker, leaf_sp);
    if (walker->kind.has_paths)
        expect_walk(walker, ucontext, leaf_sp);
    unwind_start(&pass.cursor, ucontext, stack);
    if (UNLIKELY(!walker->kind.has_paths))
        return function_node(&pass);
    return sample_node(&pass, leaf_sp, pass.cursor.frame.place, weight);
}

static void begin_at_call(struct unwind_pass *pass, struct walker *walker,
                          const struct caller_registers *caller)
{
    begin(pass, walker);
    unwind_start_here(&pass->cursor, caller, readable_stack(walker, caller->sp));
}

ref_t walk_here(struct walker *walker, const struct caller_registers *caller, uint64_t weight)
{
    struct unwind_pass pass;
    begin_at_call(&pass, walker, caller);
    if (!walker->kind.has_paths)
        return function_node(&pass);
    // The call itself lies before the place that it returns to.
    return sample_node(&pass, caller->sp, pass.cursor.frame.place - 1, weight);
}

void walk_call(struct walker *walker, const struct caller_registers *entered, uint64_t amount,
               enum walk_weights weights)
{
    struct unwind_pass pass;
    begin_at_call(&pass, walker, entered);
    if (!walker->kind.has_paths) {
        tree_charge(walker->arena, walker->tree, function_node(&pass), amount);
        return;
    }
    if (walker->in_stub && stub_abandoned(walker, entered->sp))
        walker->in_stub = 0;
    pass.frozen = walker->in_stub != 0;
    pass.amount = weights == WALK_WEIGH_ALL_NEW ? amount : 0;
    pass.last_amount = amount - pass.amount;
    pass.keep = count_known(walker);
    unwind_pass_walk(&pass);
    ref_t frame = insert_walked(&pass, entered->sp);
    if (weights == WALK_WEIGH_LAST || walker->kind.weighs_edges)
        tree_charge(walker->arena, walker->tree, frame, amount);
}

// Until end_change(), samples leave the list alone; those in functions of ours belong to its
// youngest frame.
static void begin_change(struct walker *walker, uintptr_t cfa)
{
    walker->in_stub = cfa;
    // The fences keep the compiler from moving changes of the list out of the protected stretch.
    atomic_signal_fence(memory_order_seq_cst);
}

static void end_change(struct walker *walker)
{
    atomic_signal_fence(memory_order_seq_cst);
    walker->in_stub = 0;
}

// The frames from index `keep` on have ended, the marked one among them.
static void leave_frames(struct walker *walker, size_t keep)
{
    count_ends(walker, keep);
    marker_lift(&walker->marker);
    walker->leaf = walker->frames[keep].ra - 1;
    walker->count = keep;
    if (!walker->suspended && !walker->unwinding && !program_unwinder_forbids_markers())
        place_apart(walker, walker->slack);
}

bool walk_marker_returned(struct marker *marker, uintptr_t cfa)
{
    struct walker *walker = walk_current;
    if (!walker || marker != &walker->marker || walker->abandoned)
        return false;
    begin_change(walker, cfa);
    leave_frames(walker, walker->marked); // the slot was consumed by the return
    end_change(walker);
    return true;
}

void walk_jump(struct walker *walker, uintptr_t goal, const void *frame)
{
    if (walker->in_stub || !walker->marker.entry || !walker->keeps_returns ||
        !unwind_pass_in_bounds(&walker->stack, goal))
        return;
    // A handler on a stack of its own is younger than what it has interrupted.
    size_t keep = walker->count;
    while (keep > 1 && (walker->frames[keep - 1].slot < goal ||
                        !unwind_pass_in_bounds(&walker->stack, walker->frames[keep - 1].slot)))
        keep--;
    if (keep > walker->marked)
        return;
    begin_change(walker, (uintptr_t)frame);
    leave_frames(walker, keep);
    end_change(walker);
}

uintptr_t walk_lift_for_exception(void)
{
    struct walker *walker = walk_current;
    if (!walker || !walker->marker.entry)
        return 0;
    const uintptr_t cfa = walker->marker.slot + 8, truth = marker_truth(cfa);
    begin_change(walker, cfa);
    lift_marker(walker);
    count_ends(walker, walker->marked); // none of them has a handler
    end_change(walker);
    return truth;
}

void walk_suspend(struct walker *walker)
{
    walker->suspended++;
    atomic_signal_fence(memory_order_seq_cst); // no sample may place it again after it is lifted
    lift_marker(walker);
}

void walk_resume(struct walker *walker)
{
    atomic_signal_fence(memory_order_seq_cst);
    walker->suspended--;
}

void walk_unwinder_asks(uintptr_t pc, const uintptr_t *frame)
{
    struct walker *walker = walk_current;
    const uintptr_t sp = (uintptr_t)(frame + 2);
    struct program_frame unwinder;
    if (walker && walker->suspended)
        return; // backtrace(), which is known to begin and to end
    if (!pc && java_is_hotspot(frame[1]))
        return;
    if (!pc)
        program_unwinder_expect_memory();
    // Where the stub is at work, a handler of the program has interrupted it. Most questions of an
    // unwinder come from the same depth.
    if (!walker || !walker->use_marker || walker->in_stub || walker->unwinding == sp)
        return;
    walk_suspend(walker);
    walker->unwinding = sp;
    if (pc && program_unwinder_stage(pc, frame, walker->stack.high, &unwinder) ==
                  PROGRAM_UNWINDER_UNKNOWN)
        program_unwinder_forbid_markers();
    walk_resume(walker);
}
