// SPDX-License-Identifier: MIT
// The three trackers, each as a struct tracker.

#include "base/agent_code.h"
#include "base/likely.h"
#include "base/system/agent_map.h"
#include "patch/entries/entries.h"
#include "track/calls/bursts/burst.h"
#include "track/calls/call_sites.h"
#include "track/calls/find_caller.h"
#include "track/calls/trigger/call_trigger.h"
#include "track/encode/contexts/event_context.h"
#include "track/encode/encode.h"
#include "track/tracker.h"
#include "track/walk/seen_unwinders.h"
#include "track/walk/stack_cache.h"
#include "unwind/arch.h"
#include <errno.h>
#include <ucontext.h>

#define ALLOC_SLACK 16    // frames between the marker and where a block is allocated
#define WALKS_WITHOUT 100 // a thread with few events does not remember its walks

static struct tracker_process process;

static const struct tree_traits *tree_of_recording(void)
{
    return tree_traits_of(process.options->tree);
}

// The context that a handler would see which has interrupted the call.
static void interrupt_at(ucontext_t *context, const struct caller_registers *caller)
{
    char *registers = (char *)context;
    *(uintptr_t *)(registers + arch_context_offset(ARCH_RA)) = caller->pc - 1;
    *(uintptr_t *)(registers + arch_context_offset(ARCH_SP)) = caller->sp;
    *(uintptr_t *)(registers + arch_context_offset(ARCH_FP)) = caller->bp;
}

// ---- walk

// A walk of few frames must still come to the marker, which may be four times as far away.
static size_t alloc_slack(const struct live_options *options)
{
    const size_t near = options->bounded_depth > 0 ? (options->bounded_depth - 1) / 4 : 0;
    return tree_of_recording()->weighs_edges && near < ALLOC_SLACK ? near : ALLOC_SLACK;
}

static int open_trigger(struct tracked *tracked, const struct tracker_place *place)
{
    const struct live_options *options = process.options;
    tracked->trigger = agent_map(sizeof *tracked->trigger);
    if (!tracked->trigger)
        return -ENOMEM;
    tracked->walker.keeps_returns = 0; // frames count calls
    const struct trigger_options trigger = {
        .period = options->call_period,
        .by_function = options->trigger == LIVE_TRIGGER_BY_FUNCTION,
        .randomised = options->randomised,
        .weights = options->weights_all_new ? WALK_WEIGH_ALL_NEW : WALK_WEIGH_LAST,
        .beside = options->event != LIVE_EVENT_CALLS,
        .thread = place->thread,
        .stack = place->stack,
    };
    trigger_open(tracked->trigger, &tracked->walker, &trigger);
    return 0;
}

static int open_walker(struct tracked *tracked, const struct tracker_place *place, bool marker)
{
    const struct live_options *options = process.options;
    struct walker *walker = &tracked->walker;
    const int error = walk_open(walker, place, marker);
    if (walker->kind.weighs_edges)
        walker->limit = options->bounded_depth;
    if (live_has_counted(options)) {
        walker->keeps_returns = 0; // bytes is what a report shows, not how often
        walker->slack = alloc_slack(options);
    }
    return error || !options->trigger ? error : open_trigger(tracked, place);
}

static int walk_tracker_open(struct tracked *tracked, const struct tracker_place *place)
{
    const struct live_options *options = process.options;
    const int error = open_walker(tracked, place, options->marker && !arch_protects_returns());
    tracked->walker.with_python = !options->trigger && !tree_of_recording()->has_buffer;
    return error;
}

static int walk_tracker_start(const struct tracker_process *with)
{
    process = *with;
    if (!with->options->trigger)
        return 0;
    const int64_t functions = trigger_start();
    if (functions > 0 && with->options->empty_handler) // what the hooks alone cost
        entries_shut();
    return functions < 0 ? (int)functions : 0;
}

static void walk_tracker_close(struct tracked *tracked)
{
    walk_close(&tracked->walker);
    if (tracked->trigger)
        agent_unmap(tracked->trigger, sizeof *tracked->trigger);
    if (tracked->stack_cache)
        agent_unmap(tracked->stack_cache, sizeof *tracked->stack_cache);
    tracked->trigger = NULL;
    tracked->stack_cache = NULL;
}

static const char *walk_tracker_unwinder_note(const struct live_options *options)
{
    return options->marker
               ? "a program has an unwinder of its own (libunwind, or whatever asks for all unwind "
                 "tables), which would see the marker: none was placed, and returns were not "
                 "counted"
               : NULL; // there would be no marker anyway
}

static void walk_tracker_turn_to(struct tracked *tracked, ref_t tree, struct live_stats *stats)
{
    walk_turn_to(&tracked->walker, tree, stats);
}

static ref_t walk_tracker_locate(struct tracked *tracked, void *ucontext, uint64_t weight)
{
    return walk_sample(&tracked->walker, ucontext, weight);
}

// A walk. When there are some, they are worth to be remembered.
static __attribute__((noinline)) ref_t
walk_and_keep(struct tracked *tracked, const struct caller_registers *caller, uint64_t weight)
{
    struct walker *walker = &tracked->walker;
    const ref_t node = walk_here(walker, caller, weight);
    if (!tracked->stack_cache && tree_of_recording()->keeps_all && ++tracked->walks > WALKS_WITHOUT)
        tracked->stack_cache = agent_map(sizeof *tracked->stack_cache);
    if (tracked->stack_cache)
        stack_cache_keep(tracked->stack_cache, walker, caller, node);
    return node;
}

// A remembered node, and what a walk says, which holds.
static ref_t verified(struct tracked *tracked, const struct caller_registers *caller,
                      uint64_t weight, ref_t remembered)
{
    const ref_t node = walk_here(&tracked->walker, caller, weight);
    atomic_fetch_add_explicit(&process.alloc->verified, 1, memory_order_relaxed);
    if (node != remembered)
        atomic_fetch_add_explicit(&process.alloc->mismatches, 1, memory_order_relaxed);
    return node;
}

static ref_t walk_tracker_locate_caller(struct tracked *tracked,
                                        const struct caller_registers *caller, uint64_t weight)
{
    const ref_t node = LIKELY(tracked->stack_cache != NULL)
                           ? stack_cache_find(tracked->stack_cache, &tracked->walker, caller)
                           : 0;
    if (!LIKELY(node != 0))
        return walk_and_keep(tracked, caller, weight);
    return LIKELY(!process.options->verify) ? node : verified(tracked, caller, weight, node);
}

static void walk_tracker_jump(const void *buffer, const void *frame)
{
    if (walk_current)
        walk_jump(walk_current, arch_jump_goal(buffer), frame);
}

static const struct tracker walk_tracker = {
    .unwinder_note = walk_tracker_unwinder_note,
    .start = walk_tracker_start,
    .open = walk_tracker_open,
    .close = walk_tracker_close,
    .turn_to = walk_tracker_turn_to,
    .locate = walk_tracker_locate,
    .locate_caller = walk_tracker_locate_caller,
    .jump = walk_tracker_jump,
};

// ---- calls

// Calls count for one each, in trees whose nodes are what they are for good.
static bool counts_exactly(const struct live_options *options)
{
    return tree_of_recording()->keeps_all && !options->burst_interval_ns;
}

static int calls_tracker_start(const struct tracker_process *with)
{
    const struct live_options *options = with->options;
    process = *with;
    if (options->burst_interval_ns)
        burst_start(&(struct burst_options){.interval_ns = options->burst_interval_ns,
                                            .length_ns = options->burst_length_ns,
                                            .one_in = options->burst_one_in});
    const int64_t functions =
        calls_start(options->calls_by, counts_exactly(options), with->encode, with->hands_on);
    if (functions < 0 && options->calls_by != LIVE_BY_ENTRIES) {
        with->note("call sites cannot be rewritten in a process: its calls were not followed");
        return 0;
    }
    if (functions >= 0 && options->calls_window)
        burst_start_window(with->recording);
    if (functions > 0 && options->empty_handler) // what the hooks alone cost
        entries_shut();
    return functions < 0 ? (int)functions : 0;
}

static int calls_tracker_open(struct tracked *tracked, const struct tracker_place *place)
{
    const struct live_options *options = process.options;
    tracked->walker.stack = place->stack;
    tracked->calls = agent_map(sizeof *tracked->calls);
    if (!tracked->calls)
        return -ENOMEM;
    const int error = calls_open(tracked->calls, place);
    tracked->calls->folds = options->fold_recursion;
    tracked->calls->beside = options->event != LIVE_EVENT_CALLS;
    tracked->calls->exact = counts_exactly(options);
    if (tracked->calls->beside && tree_of_recording()->has_errors)
        tracked->calls->amount = 0; // its counts are the event's
    return error;
}

static void calls_tracker_close(struct tracked *tracked)
{
    if (!tracked->calls)
        return;
    calls_close(tracked->calls);
    agent_unmap(tracked->calls, sizeof *tracked->calls);
    tracked->calls = NULL;
}

static ref_t calls_tracker_locate(struct tracked *tracked, void *ucontext, uint64_t weight)
{
    (void)weight;
    return calls_sample(tracked->calls, ucontext);
}

static ref_t calls_tracker_locate_caller(struct tracked *tracked,
                                         const struct caller_registers *caller, uint64_t weight)
{
    ucontext_t context = {.uc_flags = 0};
    interrupt_at(&context, caller);
    return calls_tracker_locate(tracked, &context, weight);
}

static uint64_t calls_tracker_first_tick(struct tracked *tracked, uint64_t owed)
{
    return burst_open(tracked->calls, owed);
}

static uint64_t calls_tracker_tick(struct tracked *tracked, const void *ucontext, bool recording)
{
    if (process.options->calls_window)
        burst_tick_window(tracked->calls, ucontext, recording);
    return process.options->burst_interval_ns ? burst_tick(tracked->calls, ucontext) : 0;
}

static uint64_t calls_tracker_owed(const struct tracked *tracked)
{
    return burst_owed(tracked->calls);
}

static const struct tracker calls_tracker = {
    .patches = true,
    .start = calls_tracker_start,
    .open = calls_tracker_open,
    .close = calls_tracker_close,
    .locate = calls_tracker_locate,
    .locate_caller = calls_tracker_locate_caller,
    .is_hook = caller_was_hook,
    .first_tick = calls_tracker_first_tick,
    .tick = calls_tracker_tick,
    .owed = calls_tracker_owed,
};

// ---- encode: threads that keep no number are walked

static int encode_tracker_start(const struct tracker_process *with)
{
    process = *with;
    if (!program_unwinder_has_memory() && encode_start(with->encode, with->options))
        with->note("call sites cannot be rewritten in a process: its stacks were walked");
    return 0;
}

static int encode_tracker_open(struct tracked *tracked, const struct tracker_place *place)
{
    const int error = open_walker(tracked, place, false);
    tracked->walker.whole = tree_of_recording()->weighs_edges;
    return error;
}

static void encode_tracker_close(struct tracked *tracked)
{
    walk_tracker_close(tracked);
}

static const char *encode_tracker_unwinder_note(const struct live_options *options)
{
    (void)options;
    return "a program has an unwinder of its own (libunwind, or whatever asks for all unwind "
           "tables), which would see the stubs of rewritten calls: its stacks were walked";
}

static void encode_tracker_enter(uintptr_t root, struct unwind_bounds stack)
{
    encode_open(root, stack);
}

static void encode_tracker_leave(void)
{
    encode_close(encode_current);
}

static ref_t encode_tracker_locate(struct tracked *tracked, void *ucontext, uint64_t weight)
{
    return encode_current ? encode_sample_aside(encode_current, &tracked->walker, ucontext, weight)
                          : walk_sample(&tracked->walker, ucontext, weight);
}

// Where the tree keeps its nodes: by the number, or by a walk that may confirm it.
static ref_t locate_by_number(struct tracked *tracked, const struct caller_registers *caller,
                              uint64_t weight)
{
    struct walker *walker = &tracked->walker;
    ref_t node = encode_event_node(walker, caller->pc, caller->sp);
    if (LIKELY(node != 0))
        return node;
    agent_code_begin();
    node = walk_tracker_locate_caller(tracked, caller, weight);
    encode_event_walked(walker, caller, node);
    agent_code_end();
    return node;
}

static ref_t encode_tracker_locate_caller(struct tracked *tracked,
                                          const struct caller_registers *caller, uint64_t weight)
{
    if (!encode_current)
        return walk_tracker_locate_caller(tracked, caller, weight);
    if (tree_of_recording()->keeps_all)
        return locate_by_number(tracked, caller, weight);
    ucontext_t context = {.uc_flags = 0};
    interrupt_at(&context, caller);
    agent_code_begin();
    const ref_t node = encode_sample(encode_current, &tracked->walker, &context, weight);
    agent_code_end();
    return node;
}

static const struct tracker encode_tracker = {
    .unwinder_note = encode_tracker_unwinder_note,
    .patches = true,
    .start = encode_tracker_start,
    .open = encode_tracker_open,
    .close = encode_tracker_close,
    .enter = encode_tracker_enter,
    .leave = encode_tracker_leave,
    .turn_to = walk_tracker_turn_to,
    .locate = encode_tracker_locate,
    .locate_caller = encode_tracker_locate_caller,
    .jump = encode_jump,
    .doubt = encode_doubt_state,
    .expect_threads = encode_expect_threads,
};

// ---- any of them

const struct tracker *tracker = &walk_tracker;

const struct tracker *tracker_of(enum live_tracker which)
{
    static const struct tracker *const trackers[] = {
        [LIVE_TRACKER_WALK] = &walk_tracker,
        [LIVE_TRACKER_CALLS] = &calls_tracker,
        [LIVE_TRACKER_ENCODE] = &encode_tracker,
    };
    return trackers[which < sizeof trackers / sizeof *trackers ? which : LIVE_TRACKER_WALK];
}

void tracker_doubt(void)
{
    if (tracker->doubt)
        tracker->doubt();
}

void tracked_adopt(struct tracked *tracked)
{
    walk_current = tracked && !tracked->calls ? &tracked->walker : NULL;
    calls_current = tracked ? tracked->calls : NULL;
    trigger_current = tracked ? tracked->trigger : NULL;
}

bool tracked_may_turn(const struct tracked *tracked)
{
    return tracker->turn_to && !tracked->trigger && !tracked->walker.in_stub &&
           !tracked->walker.suspended;
}

bool tracked_is_busy(const struct tracked *tracked)
{
    return tracked->trigger && tracked->trigger->firing;
}

struct calls_thread *tracked_hold(void)
{
    struct calls_thread *calls = calls_current;
    calls_current = NULL;
    atomic_signal_fence(memory_order_seq_cst);
    return calls;
}

void tracked_release(struct calls_thread *held)
{
    atomic_signal_fence(memory_order_seq_cst);
    calls_current = held;
}

void trackers_forget_places(void)
{
    calls_note_unload();
}

bool trackers_see_unloading(void)
{
    return encode_hears_of_unloading();
}

void trackers_leave_calls(const uintptr_t *functions, unsigned count)
{
    encode_leave_calls(functions, count);
}

void trackers_doubt_functions(const uintptr_t *functions, unsigned count)
{
    encode_mark_reached_unseen(functions, count);
}

void trackers_before_fork(void)
{
    encode_before_fork();
}

void trackers_after_fork_in_parent(void)
{
    encode_after_fork_in_parent();
}

void trackers_break_locks(void)
{
    burst_after_fork();
}

void trackers_after_fork(const struct tracker_process *child)
{
    if (child)
        process = *child;
    encode_after_fork(child ? child->encode : NULL);
    if (child)
        calls_sites_after_fork(child->encode);
}
