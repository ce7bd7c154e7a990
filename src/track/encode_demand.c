// SPDX-License-Identifier: MIT
// Which functions are looked at, that is, have their calls followed: those on the stack when
// somebody asks for a context (a sample, an allocation, the program), and those that one of them
// calls often. All others are *open*: calls of them push, and what they call runs as it was
// compiled.
//
//   main ─► f ─► g ─► h     f is called by main, and pushed; nobody asks: g and h are not known
//           │    └── a sample here: f, g and h are looked at, the calls on the stack become edges,
//           │        and their return addresses lead to stubs, as if they had come through these
//           └── k           called thousands of times from f, so it is looked at, too

#include "patch/functions.h"
#include "patch/lock.h"
#include "track/encode_facts.h"

enum {
    LOOKS_MOST = 128, // functions that are looked at for one stack: the next one goes on
    HOT_CALLS = 2000,
};

static uint32_t is_looked_at(uint32_t function)
{
    return function != GRAPH_NONE && !(encode_facts_of(function)->flags & UNLOOKED);
}

// Where the function begins that a pc is in; 0: no table covers it.
static uintptr_t start_of(uintptr_t pc)
{
    uintptr_t start = 0;
    if (patch_lock())
        return 0;
    loadmap_enter();
    const struct patch_function *function = functions_at(pc);
    if (function)
        start = function->start;
    loadmap_leave();
    patch_unlock();
    return start;
}

static struct encode_site *site_of(const struct encode_frame *frame)
{
    struct stub_place place;
    const uintptr_t address = *(const uintptr_t *)frame->slot;
    const struct site *site = sites_locate(address, &place) ? place.site : sites_before(address);
    return site ? encode_site_of(site) : NULL;
}

// The function that a frame's call has entered, with `pc` in what runs there now; 0: not known.
static uintptr_t target_of(const struct encode_site *site, uintptr_t pc)
{
    if (!encode_is_direct(site))
        return start_of(pc);
    return site->site->target ? site->site->target
           : site->site->slot ? *(const uintptr_t *)site->site->slot
                              : 0;
}

// The call of a frame becomes an edge, and what it has entered is looked at. False: what is deeper
// cannot be told by numbers.
static bool take_frame(const struct encode_frame *frame, uintptr_t pc, uint32_t *looks)
{
    struct encode_site *site = site_of(frame);
    if (encode_is_quiet(frame->function))
        return false;
    if (!site || site->dead || site->site->kind == SITE_TAIL_INDIRECT)
        return is_looked_at(graph_find_function(&encode.graph, frame->function));
    const uint32_t known = encode.graph.edge_count;
    const uintptr_t target = target_of(site, pc);
    const uint32_t edge = target ? encode_edge(site, target) : GRAPH_NONE;
    if (edge == GRAPH_NONE)
        return false;
    *looks += encode.graph.edge_count > known;
    *looks += encode_look(graph_edge(&encode.graph, edge)->callee);
    // A jump may have led on from there.
    return is_looked_at(graph_find_function(&encode.graph, frame->function));
}

// What has been called from functions that were open does not know of it.
static void distrust_others(const struct encode_thread *thread)
{
    for (struct encode_thread *other = encode.threads; other; other = other->next)
        if (other != thread) {
            other->state->attention = other->state->doubt = 1;
            encode_notice(other->state);
        }
}

static bool can_move(const struct encode_thread *thread)
{
    // On a small stack of a handler there may not be the room.
    const uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    return !encode.frozen && !encode.failed && !thread->has_signal && !thread->has_gap &&
           !thread->has_hook && !thread->jumping && !thread->state->in_flight &&
           thread->root_slot && here - thread->stack.low >= 65536 && here < thread->stack.high;
}

bool encode_demand(struct encode_thread *thread, uintptr_t pc)
{
    enum cover cover;
    uint32_t looks = 0;
    if (!can_move(thread))
        return false;
    for (uint32_t i = thread->count; i-- > 0 && looks < LOOKS_MOST;) {
        const struct encode_frame *frame = &thread->frames[i];
        const uintptr_t inside =
            i == 0 || !thread->frames[i - 1].slot
                ? pc
                : sites_true_pc(*(const uintptr_t *)thread->frames[i - 1].slot) - 1;
        if (!frame->slot || !take_frame(frame, inside, &looks))
            break;
    }
    if (looks == 0 || numbering_cover(&encode.numbering, &cover))
        return false;
    encode_move_returns(thread);
    if (encode_is_behind(thread))
        encode_join(thread);
    encode_replay(thread, 0);
    if (!thread->state->attention)
        encode_calm(thread->state);
    distrust_others(thread);
    encode_count_graph();
    return true;
}

void encode_demand_hot(uint32_t edge)
{
    const struct graph_edge *one = graph_edge(&encode.graph, edge);
    if (one->heat < HOT_CALLS || is_looked_at(one->callee))
        return;
    // Relaxed: any of them will do.
    atomic_store_explicit(&encode.hot, one->callee + 1, memory_order_relaxed);
    atomic_store_explicit(&encode.wanted, REENCODE_STACK, memory_order_relaxed);
    encode_notice(&encode_state);
}

void encode_look_at_hot(void)
{
    const uint32_t hot = atomic_exchange_explicit(&encode.hot, 0, memory_order_relaxed);
    enum cover cover;
    if (!hot || encode.frozen || !encode_look(hot - 1))
        return;
    numbering_cover(&encode.numbering, &cover);
    distrust_others(NULL);
}
