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

#include "base/unseen.h"
#include "track/encode_facts.h"
#include "unwind/stack.h"

enum {
    LOOKS_MOST = 128, // functions that are looked at for one stack: the next one goes on
    HOT_CALLS = 2000,
    // Of the time of the program, one in so many may be spent on looking for samples, and a little
    // to begin with: what leads to others by jumps is looked at together with all of them, which
    // may be thousands.
    LOOK_PARTS = 64,
    LOOK_FREE_NS = 8000000,
    // So there is an end to that. The tables of instructions of a compiler, say, are a hundred
    // functions that jump to each other, with 17,000 calls: 60 ms.
    LOOK_SITES = 1024,
    // So a function has to be on so many stacks: much of what runs as a program begins does so
    // once.
    SEEN_LEAST = 3,
    SEEN = 4096,
    // Samples that are to come in so much of the program's time before functions are looked at for
    // them. To walk one costs microseconds, to have numbers ready for it some percent of the time.
    OFTEN = 8,
    OFTEN_NS = 250000000,
    YOUNG = 8,             // frames of a stack
    ROOM_BYTES = 48 << 10, // of the stack that it is done on
};

static uint64_t looked_ns; // on that, and on what was called often. Under the lock.

// What may be spent now, in nanoseconds: on the functions at the young end of stacks half of it, so
// that there is always something left for those that many stacks have in common.
struct allowance {
    bool free; // anything
    uint64_t young, old;
};

// Who asks with each allocation has a purse of his own.
static bool is_free_to_look(void)
{
    return encode.verify || encode.restless || encode.weighs;
}

// What one function may lead to.
static uint32_t most_sites(void)
{
    return is_free_to_look() || encode.guesses ? UINT32_MAX : LOOK_SITES;
}

static struct allowance allowance(void)
{
    const uint64_t all = LOOK_FREE_NS + encode_process_now() / LOOK_PARTS;
    if (is_free_to_look())
        return (struct allowance){true, UINT64_MAX, UINT64_MAX};
    return (struct allowance){.young = all / 2 > looked_ns ? all / 2 - looked_ns : 0,
                              .old = all > looked_ns ? all - looked_ns : 0};
}

bool encode_is_asked_often(void)
{
    static uint64_t since; // under the lock, as is the next
    static uint32_t asked;
    if (is_free_to_look())
        return true;
    const uint64_t now = encode_process_now();
    if (now - since > OFTEN_NS) {
        since = now;
        asked = 0;
    }
    return ++asked > OFTEN;
}

static uint32_t is_looked_at(uint32_t function)
{
    return function != GRAPH_NONE && !(encode_facts_of(function)->flags & UNLOOKED);
}

static uint8_t seen[SEEN] UNSEEN; // on stacks, by function. Under the lock.

static bool is_seen_again(place_t function)
{
    uint8_t *times = &seen[lookup_hash(function, 0) % SEEN];
    *times += *times < SEEN_LEAST;
    return *times == SEEN_LEAST || is_looked_at(graph_find_function(&encode.graph, function));
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
        return encode_start_of(pc);
    return site->site->target ? site->site->target
           : site->site->slot ? *(const uintptr_t *)site->site->slot
                              : 0;
}

// A frame that is older than the hooks of what its call has entered: that has left through a
// pointer, by whichever of its jumps, for what runs now.
static uint32_t take_jump(uint32_t entered, place_t function, uintptr_t pc)
{
    const struct encode_facts *facts = encode_facts_of(entered);
    const uint32_t runs = graph_find_function(&encode.graph, function);
    struct site_list list;
    // If it has numbers, it would have to be encoded before anything else.
    if ((facts->flags & (TAILS | PUSHES | OPEN)) != (TAILS | PUSHES) ||
        (runs != GRAPH_NONE && encode_leads_to(entered, runs)) ||
        sites_find(facts->address, &list, NULL))
        return 0;
    for (unsigned i = 0; i < list.count; i++) {
        struct encode_site *site =
            list.site[i].kind == SITE_TAIL_INDIRECT ? encode_site_of(&list.site[i]) : NULL;
        const uintptr_t start = site ? encode_start_of(pc) : 0;
        if (start) {
            encode_tail(site, start);
            return 1;
        }
    }
    return 0;
}

// The call of a frame becomes an edge, and what it has entered is looked at, if it may be. False:
// what is deeper cannot be told by numbers.
static bool take_frame(const struct encode_frame *frame, uintptr_t pc, bool may_look,
                       uint32_t *looks)
{
    struct encode_site *site = site_of(frame);
    if (encode_is_quiet(frame->function))
        return false;
    if (!site || site->dead || site->site->kind == SITE_TAIL_INDIRECT)
        return is_looked_at(graph_find_function(&encode.graph, frame->function));
    if (encode_is_futile(site->caller))
        return false;
    const uint32_t known = encode.graph.edge_count;
    const uintptr_t target = target_of(site, pc);
    const uint32_t edge = target ? encode_edge(site, target) : GRAPH_NONE;
    if (edge == GRAPH_NONE)
        return false;
    *looks += encode.graph.edge_count > known;
    if (may_look) {
        *looks += encode_look(graph_edge(&encode.graph, edge)->callee, most_sites());
        *looks += take_jump(graph_edge(&encode.graph, edge)->callee, frame->function, pc);
    }
    // A jump may have led on from there.
    return is_looked_at(graph_find_function(&encode.graph, frame->function));
}

// On a small stack of the program's there may not be the room. Samples are taken on the thread's
// stack aside.
static bool has_room(const struct encode_thread *thread)
{
    const uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    const struct unwind_bounds aside = {(uintptr_t)thread->aside,
                                        (uintptr_t)thread->aside + sizeof thread->aside};
    const struct unwind_bounds *stack = stack_holds(&aside, here)               ? &aside
                                        : stack_holds(&stack_of_handlers, here) ? &stack_of_handlers
                                                                                : &thread->stack;
    return stack_holds(stack, here) && here - stack->low >= ROOM_BYTES;
}

static bool can_move(const struct encode_thread *thread)
{
    return !encode.frozen && !encode.failed && !encode.resting && encode_may_move(thread) &&
           !thread->has_hook && !thread->jumping && thread->root_slot && has_room(thread);
}

// What calls have entered and left by a jump at once is never on a stack: the entries of ccStack
// tell it.
static uint32_t look_at_entered(const struct machine *machine, uint64_t end)
{
    uint32_t looks = 0;
    for (uint32_t i = 0; i < machine->depth && looks < LOOKS_MOST; i++) {
        const uint32_t edge = machine->stack[i].edge;
        if (edge >= encode.graph.edge_count ||
            is_looked_at(graph_edge(&encode.graph, edge)->callee))
            continue;
        if (encode_cpu_now() > end)
            break;
        looks += encode_look(graph_edge(&encode.graph, edge)->callee, most_sites());
    }
    return looks;
}

// A call that was not known when the state was computed: nothing is told as long as its frame is
// there.
static bool has_blind_entry(const struct machine *machine)
{
    for (uint32_t i = 0; i < machine->depth; i++)
        if (machine->stack[i].edge == GRAPH_NONE)
            return true;
    return false;
}

bool encode_demand(struct encode_thread *thread, uintptr_t pc)
{
    enum cover cover;
    uint32_t looks = 0;
    const uint64_t begin = encode_cpu_now();
    const struct allowance allowed = allowance();
    if (!can_move(thread) || (allowed.old == 0 && !has_blind_entry(&thread->state->machine)))
        return false;
    // Not yet, if numbers rested as it began.
    looks += encode_look(thread->state->machine.root, UINT32_MAX);
    for (uint32_t i = thread->count; i-- > 0 && looks < LOOKS_MOST;) {
        const uint32_t before = looks;
        const struct encode_frame *frame = &thread->frames[i];
        const uintptr_t inside =
            i == 0 || !thread->frames[i - 1].slot
                ? pc
                : sites_true_pc(*(const uintptr_t *)thread->frames[i - 1].slot) - 1;
        const uint64_t ns = i < YOUNG ? allowed.young : allowed.old;
        const bool may_look = ns > 0 && (allowed.free || is_seen_again(frame->function));
        if (!frame->slot || !take_frame(frame, inside, may_look, &looks) ||
            (may_look && looks > before && encode_cpu_now() - begin > ns))
            break;
    }
    looks +=
        look_at_entered(&thread->state->machine, allowed.free ? UINT64_MAX : begin + allowed.old);
    looked_ns += encode_cpu_now() - begin;
    if (looks == 0 || numbering_cover(&encode.numbering, &cover))
        return false;
    encode_go_on(thread);
    encode_count_graph();
    encode.demanded = true;
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
    if (!hot || encode.frozen || encode.resting)
        return;
    const uint64_t begin = encode_cpu_now();
    const bool looked = encode_look(hot - 1, most_sites());
    looked_ns += encode_cpu_now() - begin;
    if (looked)
        numbering_cover(&encode.numbering, &cover);
}
