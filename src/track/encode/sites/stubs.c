// SPDX-License-Identifier: MIT
// What a site leads to.
//
//   direct call      its edge is not met: the hook, which pushes. It is: the original code if there
//                    is nothing to do, else a stub that adds the edge's word, or pushes
//   indirect call    a chain that leads each known target to such a stub of its own, or to one
//                    that only calls, if its word is 0; others to the hook
//   indirect jump    a chain that lets known targets pass: they need not be met again

#include "track/encode/sites/stubs.h"
#include "base/gc_hidden.h"
#include "track/encode/sites/call_graph.h"
#include "track/encode/sites/libraries.h"
#include "track/encode/sites/open_functions.h"
#include "track/encode/threads/epoch.h"
#include "track/encode/threads/hooks.h"

// Chains are never freed. So often may each target of a site be in one; a site that goes on meeting
// new targets goes on getting chains.
enum { CHAINS_MOST = 16 };

static int32_t from_thread(const void *variable)
{
    return (int32_t)((intptr_t)variable - (intptr_t)__builtin_thread_pointer());
}

// The stub that adds what the edge's word says. NULL: no memory.
static struct stub *adding_stub(struct encode_site *site, uint32_t edge, uintptr_t target)
{
    const struct stub_plan plan = {.kind = STUB_TABLE,
                                   .before = encode_before_table,
                                   .after = encode_after_table,
                                   .tls_number = from_thread(&encode_state.context.id),
                                   .tls_table = from_thread(&encode_state.words),
                                   .index = edge,
                                   .target = target};
    struct stub *stub;
    return edge < ENCODE_EDGES && !stub_make(site->site, &plan, &stub) ? stub : NULL;
}

static struct encode_targets *spare; // of a site that was unloaded

void encode_free_targets(struct encode_targets *targets)
{
    if (!targets)
        return;
    targets->next = spare;
    spare = targets;
}

// Room for another target. False: no memory.
static bool make_room(struct encode_site *site)
{
    const struct encode_targets *old = site->targets;
    const uint32_t count = old ? old->count : 0;
    uint32_t room = count ? 2 * count : 2;
    if (old && count < old->room)
        return true;
    struct encode_targets *more = old ? NULL : spare;
    if (more) {
        spare = more->next;
        room = more->room;
    } else {
        more = pool_alloc(&encode.pool, sizeof *more + room * sizeof more->one[0]);
    }
    if (!more)
        return false;
    *more = (struct encode_targets){0};
    if (old)
        *more = *old;
    more->room = room;
    for (uint32_t i = 0; i < count; i++)
        more->one[i] = old->one[i];
    site->targets = more;
    return true;
}

void encode_add_target(struct encode_site *site, uintptr_t target, uint32_t edge)
{
    const struct encode_targets *known = site->targets;
    const uint32_t count = known ? known->count : 0;
    for (uint32_t i = 0; i < count; i++)
        if (known->one[i].target == target && known->one[i].edge == edge) {
            site->targets->one[i].gone = false;
            return;
        }
    const struct encode_target fresh = {
        .target = target, .edge = edge, .loaded = encode_is_watched(target)};
    for (uint32_t i = 0; i < count; i++)
        if (known->one[i].gone && !known->one[i].in_chain) {
            site->targets->one[i] = fresh;
            return;
        }
    if (make_room(site))
        site->targets->one[site->targets->count++] = fresh;
}

bool encode_drop_targets(struct encode_site *site, bool (*is_gone)(uintptr_t target))
{
    struct encode_targets *targets = site->targets;
    bool lost = false;
    for (uint32_t i = 0; targets && i < targets->count; i++) {
        struct encode_target *one = &targets->one[i];
        one->gone |= one->loaded && is_gone(one->target);
        lost |= one->gone && one->in_chain;
    }
    return lost;
}

struct stub *encode_arm_of(const struct encode_site *site, uint32_t edge)
{
    const struct encode_targets *targets = site->targets;
    for (uint32_t i = 0; targets && i < targets->count; i++)
        if (targets->one[i].edge == edge)
            return targets->one[i].in_chain ? targets->one[i].arm : NULL;
    return NULL;
}

static uint64_t heat_of(const struct encode_target *target)
{
    return graph_edge(&encode.graph, target->edge)->heat;
}

// ---- chains

// A chain that cannot be replaced must not know what may go.
static bool fits_chain(const struct encode_site *site, const struct encode_target *target)
{
    return !target->gone && !(target->loaded && site->in_libc);
}

// From hot to cold, in place: most have their order from the last time.
static void sort_targets(struct encode_targets *targets)
{
    uint32_t gap = 1;
    while (gap < targets->count / 3)
        gap = 3 * gap + 1;
    for (; gap > 0; gap /= 3)
        for (uint32_t i = gap; i < targets->count; i++) {
            const struct encode_target moved = targets->one[i];
            const uint64_t heat = heat_of(&moved);
            uint32_t at = i;
            for (; at >= gap && heat_of(&targets->one[at - gap]) < heat; at -= gap)
                targets->one[at] = targets->one[at - gap];
            targets->one[at] = moved;
        }
}

// Whether there is memory for another chain, and for one after it.
static bool may_chain(const struct encode_targets *targets, uint32_t chains)
{
    return targets->chained + (uint64_t)chains * targets->count <=
           (uint64_t)CHAINS_MOST * targets->count;
}

// Whether a chain knows a target that is gone: another function may be there now.
static bool is_stale(const struct encode_targets *targets)
{
    for (uint32_t i = 0; i < targets->count; i++)
        if (targets->one[i].in_chain && targets->one[i].gone)
            return true;
    return false;
}

// Whether a new chain would know a target that the old one does not, or would not be stale. If all
// are gone, the same library may come back.
static bool is_better(const struct encode_site *site)
{
    const struct encode_targets *targets = site->targets;
    const bool stale = is_stale(targets);
    for (uint32_t i = 0; i < targets->count; i++)
        if (fits_chain(site, &targets->one[i]) && (stale || !targets->one[i].in_chain))
            return true;
    return false;
}

// Which targets are to be in the chain: those that can be.
static void fill_chain(struct encode_site *site)
{
    struct encode_targets *targets = site->targets;
    const bool tail = site->site->kind == SITE_TAIL_INDIRECT;
    for (uint32_t i = 0; i < targets->count; i++) {
        struct encode_target *one = &targets->one[i];
        const bool fits = fits_chain(site, one);
        if (fits && !tail && !one->arm)
            one->arm = adding_stub(site, one->edge, one->target);
        one->in_chain = fits && (tail || one->arm);
    }
    targets->grown = true;
}

// Before the edges are numbered: what is in no chain pushes. Return addresses may be led to arms
// from here on, whatever becomes of the encoding: without code, there is none.
static void settle_targets(struct encode_site *site, bool written)
{
    struct encode_targets *targets = site->targets;
    for (uint32_t i = 0; i < targets->count; i++) {
        struct encode_target *one = &targets->one[i];
        one->written |= written && one->arm;
        one->in_chain &= one->written || !one->arm;
    }
    const bool stale = is_stale(targets); // as before: the site stays with its hook
    for (uint32_t i = 0; i < targets->count; i++) {
        const struct encode_target *one = &targets->one[i];
        struct graph_edge *edge = graph_edge(&encode.graph, one->edge);
        if (edge->kind != EDGE_INDIRECT || one->gone)
            continue;
        edge->flags = one->in_chain && !stale ? 0 : EDGE_ARMLESS | EDGE_UNENCODED;
        if (!encode_may_number(one->edge))
            edge->flags |= EDGE_UNENCODED;
    }
}

// Whether a chain leads to where nothing is done only if nothing is to be done.
static bool is_right(const struct encode_targets *targets, const struct numbering *numbering)
{
    for (uint32_t i = 0; i < targets->count; i++)
        if (targets->one[i].led_plain && encode_next_word(numbering, targets->one[i].edge) != 0)
            return false;
    return targets->chain && !targets->grown;
}

// Whether one would do nothing where this one adds 0.
static bool is_improvable(const struct encode_targets *targets, const struct numbering *numbering)
{
    for (uint32_t i = 0; i < targets->count; i++)
        if (targets->one[i].in_chain && targets->one[i].arm && !targets->one[i].led_plain &&
            encode_next_word(numbering, targets->one[i].edge) == 0)
            return may_chain(targets, 1);
    return false;
}

static struct stub *plain_stub(struct encode_site *site, struct encode_target *one)
{
    const struct stub_plan plan = {.kind = STUB_PLAIN, .target = one->target};
    if (!one->plain && stub_make(site->site, &plan, &one->plain))
        one->plain = NULL;
    return one->plain;
}

// A link of the chain: what it does not know, the link before knows, or at last the hook.
static struct stub *make_link(struct encode_site *site, const struct stub_arm *arms, unsigned count,
                              struct stub *before)
{
    const struct stub_plan plan = {
        .kind = STUB_CHAIN, .arms = arms, .arm_count = count, .otherwise = before};
    struct stub *link;
    return before && !stub_make(site->site, &plan, &link) ? link : NULL;
}

static struct stub_arm arm_for(struct encode_site *site, struct encode_target *one, bool plainly,
                               const struct numbering *numbering)
{
    one->led_plain =
        one->arm && plainly && encode_next_word(numbering, one->edge) == 0 && plain_stub(site, one);
    return (struct stub_arm){one->target, one->led_plain ? one->plain : one->arm};
}

// The last one that is made for a site is right for any encoding. The links with the coldest
// targets are made first, and looked at last.
static void make_chain(struct encode_site *site, const struct numbering *numbering)
{
    static struct stub_arm arms[STUB_ARMS] GC_HIDDEN; // under the lock
    struct encode_targets *targets = site->targets;
    const bool plainly = may_chain(targets, 2);
    struct stub *chain = site->hook;
    unsigned room = STUB_ARMS;
    sort_targets(targets);
    for (uint32_t i = targets->count; i-- > 0;) {
        struct encode_target *one = &targets->one[i];
        one->led_plain = false;
        if (!one->in_chain)
            continue;
        if (room == 0) {
            chain = make_link(site, arms, STUB_ARMS, chain);
            room = STUB_ARMS;
        }
        arms[--room] = arm_for(site, one, plainly, numbering);
        targets->chained++;
    }
    targets->chain =
        room < STUB_ARMS ? make_link(site, arms + room, STUB_ARMS - room, chain) : NULL;
    targets->grown = false;
}

// Between two chains, and in place of a stale one, the hook: it is right for any encoding.
static struct stub *chain_for(struct encode_site *site, const struct numbering *numbering,
                              enum encode_phase phase)
{
    struct encode_targets *targets = site->targets;
    const bool right = is_right(targets, numbering);
    if (is_stale(targets))
        return site->hook;
    if (phase == ENCODE_AFTER && (!right || is_improvable(targets, numbering)))
        make_chain(site, numbering);
    else if (!right && phase == ENCODE_BEFORE)
        return site->hook;
    return targets->chain ? targets->chain : site->hook;
}

void encode_choose_targets(void)
{
    struct encode_site *site;
    for (uint32_t i = 0; (site = encode_site_number(i)); i++)
        if (site->targets && may_chain(site->targets, 1) && !encode_is_fixed(site) &&
            is_better(site))
            fill_chain(site);
    const bool written = !patch_commit(encode_threading()); // of their code
    for (uint32_t i = 0; (site = encode_site_number(i)); i++)
        if (site->targets)
            settle_targets(site, written);
}

struct stub *encode_stub_for(struct encode_site *site, const struct numbering *numbering,
                             enum encode_phase phase)
{
    if (encode_is_outside(site->caller))
        return NULL;
    if (site->targets)
        return chain_for(site, numbering, phase);
    if (site->edge == GRAPH_NONE)
        return site->hook;
    if (encode_next_word(numbering, site->edge) == 0 && !site->in_libc)
        return NULL;
    if (!site->adding)
        site->adding = adding_stub(site, site->edge, 0);
    return site->adding ? site->adding : site->hook;
}
