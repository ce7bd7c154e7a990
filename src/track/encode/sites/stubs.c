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

enum { CHAINS_MOST = 16 }; // that are made for a site to fit an encoding: they are never freed

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

static struct stub_arm arms[STUB_ARMS] GC_HIDDEN; // of the one that is made. Under the lock.
static struct encode_target *chosen[STUB_ARMS] GC_HIDDEN;

// A chain that cannot be replaced must not know what may go.
static bool fits_chain(const struct encode_site *site, const struct encode_target *target)
{
    return !target->gone && !(target->loaded && site->pinned);
}

// The hottest targets, from hot to cold.
static unsigned choose(const struct encode_site *site)
{
    struct encode_targets *targets = site->targets;
    unsigned count = 0;
    for (uint32_t i = 0; i < targets->count; i++) {
        struct encode_target *one = &targets->one[i];
        unsigned at = count;
        if (!fits_chain(site, one))
            continue;
        for (; at > 0 && heat_of(one) > heat_of(chosen[at - 1]); at--)
            if (at < STUB_ARMS)
                chosen[at] = chosen[at - 1];
        if (at < STUB_ARMS)
            chosen[at] = one;
        if (count < STUB_ARMS)
            count++;
    }
    return count;
}

// Whether a chain knows a target that is gone: another function may be there now.
static bool is_stale(const struct encode_targets *targets)
{
    for (uint32_t i = 0; i < targets->count; i++)
        if (targets->one[i].in_chain && targets->one[i].gone)
            return true;
    return false;
}

// Whether what the chain does not know is worth a new one.
static bool is_better(const struct encode_site *site)
{
    const struct encode_targets *targets = site->targets;
    uint64_t inside = 0, outside = 0;
    uint32_t known = 0;
    for (uint32_t i = 0; i < targets->count; i++) {
        const struct encode_target *one = &targets->one[i];
        if (!fits_chain(site, one))
            continue;
        *(one->in_chain ? &inside : &outside) += heat_of(one) + 1;
        known += one->in_chain;
    }
    if (is_stale(targets)) // if nothing else is called, what is gone may come back
        return inside + outside > 0;
    return known < STUB_ARMS ? outside > 0 : outside > inside;
}

// Which targets are to be in the chain: those that can be.
static void fill_chain(struct encode_site *site)
{
    struct encode_targets *targets = site->targets;
    const bool tail = site->site->kind == SITE_TAIL_INDIRECT;
    const unsigned count = choose(site);
    for (uint32_t i = 0; i < targets->count; i++)
        targets->one[i].in_chain = false;
    for (unsigned i = 0; i < count; i++) {
        struct encode_target *one = chosen[i];
        if (!tail && !one->arm)
            one->arm = adding_stub(site, one->edge, one->target);
        one->in_chain = tail || one->arm;
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
    for (uint32_t i = 0; i < targets->count; i++) {
        struct graph_edge *edge = graph_edge(&encode.graph, targets->one[i].edge);
        if (edge->kind != EDGE_INDIRECT || targets->one[i].gone)
            continue;
        if (targets->one[i].in_chain && encode_may_number(targets->one[i].edge))
            edge->flags &= (uint8_t)~EDGE_UNENCODED;
        else
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
            return targets->chains < CHAINS_MOST;
    return false;
}

static struct stub *plain_stub(struct encode_site *site, struct encode_target *one)
{
    const struct stub_plan plan = {.kind = STUB_PLAIN, .target = one->target};
    if (!one->plain && stub_make(site->site, &plan, &one->plain))
        one->plain = NULL;
    return one->plain;
}

// The last ones that are made for a site are right for any encoding.
static void make_chain(struct encode_site *site, const struct numbering *numbering)
{
    struct encode_targets *targets = site->targets;
    const bool plainly = targets->chains < CHAINS_MOST;
    unsigned count = choose(site), made = 0;
    for (unsigned i = 0; i < count; i++) {
        struct encode_target *one = chosen[i];
        one->led_plain = false;
        if (!one->in_chain)
            continue;
        if (one->arm && plainly && encode_next_word(numbering, one->edge) == 0)
            one->led_plain = plain_stub(site, one) != NULL;
        arms[made++] = (struct stub_arm){one->target, one->led_plain ? one->plain : one->arm};
    }
    const struct stub_plan plan = {
        .kind = STUB_CHAIN, .arms = arms, .arm_count = made, .otherwise = site->hook};
    targets->chain = NULL;
    if (made == 0 || stub_make(site->site, &plan, &targets->chain))
        targets->chain = NULL;
    targets->chains++;
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
        if (site->targets && site->targets->chains < CHAINS_MOST && !encode_is_fixed(site) &&
            is_better(site))
            fill_chain(site);
    const bool written = !sites_flush();
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
    if (encode_next_word(numbering, site->edge) == 0 && !site->pinned)
        return NULL;
    if (!site->adding)
        site->adding = adding_stub(site, site->edge, 0);
    return site->adding ? site->adding : site->hook;
}
