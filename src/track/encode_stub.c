// SPDX-License-Identifier: MIT
// What a site leads to by its edges' codes.
//
//   direct call      number 0: the original code; a number: it is added; else the hook
//   indirect call    a chain: some targets have an arm with their number, the others take the hook
//   indirect jump    a chain whose arms change nothing: known targets need not be met again
//
// Which targets have arms is decided before the edges are numbered: an edge without one pushes.

#include "track/encode_parts.h"

enum {
    TARGETS_MOST = 64, // of a site; what comes later pushes
    CHAINS_MOST = 8,   // that are made for a site: what returns to an old one is not known
};

// Room for another target. False: no memory.
static bool make_room(struct encode_site *site)
{
    const struct encode_targets *old = site->targets;
    const uint32_t count = old ? old->count : 0, room = count ? 2 * count : 2;
    if (old && count < old->room)
        return true;
    struct encode_targets *more =
        pool_alloc(&encode.pool, sizeof *more + room * sizeof more->one[0]);
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

void encode_know_target(struct encode_site *site, uintptr_t target, uint32_t edge)
{
    const struct encode_targets *known = site->targets;
    const uint32_t count = known ? known->count : 0;
    for (uint32_t i = 0; i < count; i++)
        if (known->one[i].target == target)
            return;
    if (count == TARGETS_MOST || !make_room(site))
        return;
    site->targets->one[site->targets->count++] =
        (struct encode_target){.target = target, .edge = edge};
}

static uint64_t heat_of(const struct encode_target *target)
{
    return graph_edge(&encode.graph, target->edge)->heat;
}

static bool has_arm(const struct encode_targets *targets, uintptr_t target)
{
    for (uint32_t i = 0; i < targets->arm_count; i++)
        if (targets->arm[i].target == target)
            return true;
    return false;
}

// Whether what has no arm is worth a new chain.
static bool is_better(const struct encode_targets *targets)
{
    uint64_t inside = 0, outside = 0;
    for (uint32_t i = 0; i < targets->count; i++)
        *(has_arm(targets, targets->one[i].target) ? &inside : &outside) +=
            heat_of(&targets->one[i]) + 1;
    return targets->arm_count < STUB_ARMS ? outside > 0 : outside > inside;
}

// The hottest targets, from hot to cold.
static void choose(struct encode_targets *targets)
{
    targets->arm_count = 0;
    for (uint32_t i = 0; i < targets->count; i++) {
        const struct encode_target one = targets->one[i];
        if (!encode_may_number(one.edge) && !encode_blinds(one.edge))
            continue;
        uint32_t at = targets->arm_count;
        for (; at > 0 && heat_of(&one) > heat_of(&targets->arm[at - 1]); at--)
            if (at < STUB_ARMS)
                targets->arm[at] = targets->arm[at - 1];
        if (at < STUB_ARMS)
            targets->arm[at] = one;
        if (targets->arm_count < STUB_ARMS)
            targets->arm_count++;
    }
}

// Decides which targets of a site have arms, and so which edges may have numbers.
static void choose_arms(struct encode_site *site)
{
    struct encode_targets *targets = site->targets;
    if (!targets)
        return;
    if (targets->chains < CHAINS_MOST && is_better(targets)) {
        choose(targets);
        targets->chain = NULL;
    }
    for (uint32_t i = 0; i < targets->count; i++) {
        struct graph_edge *edge = graph_edge(&encode.graph, targets->one[i].edge);
        if (edge->kind != EDGE_INDIRECT)
            continue;
        if (has_arm(targets, targets->one[i].target) && encode_may_number(targets->one[i].edge))
            edge->flags &= (uint8_t)~EDGE_UNENCODED;
        else
            edge->flags |= EDGE_UNENCODED;
    }
}

void encode_choose_arms(void)
{
    struct encode_site *site;
    for (uint32_t i = 0; (site = encode_site_number(i)); i++)
        choose_arms(site);
}

static struct stub_plan plan_number(int64_t number)
{
    return (struct stub_plan){.kind = STUB_DELTA,
                              .wide = number != (int32_t)number,
                              .delta = number,
                              .tls_number = (int32_t)((intptr_t)&encode_state.machine.id -
                                                      (intptr_t)__builtin_thread_pointer())};
}

static bool adds(const struct code *code)
{
    return code->action == ACTION_ADD && !code->save;
}

static struct stub *chain_for(struct encode_site *site)
{
    struct encode_targets *targets = site->targets;
    struct stub_arm arms[STUB_ARMS];
    struct stub_plan plan = plan_number(0);
    const bool tail = site->site->kind == SITE_TAIL_INDIRECT;
    if (!targets || targets->arm_count == 0)
        return site->hook;
    for (uint32_t i = 0; i < targets->arm_count; i++) {
        const struct code *code = numbering_code(&encode.numbering, targets->arm[i].edge);
        const bool blinds = !tail && encode_blinds(targets->arm[i].edge);
        arms[i] =
            (struct stub_arm){.target = targets->arm[i].target, .off = !adds(code) && !blinds};
        targets->arm[i].off = arms[i].off;
        if (!arms[i].off && !tail)
            arms[i].delta =
                blinds ? (int64_t)encode_blinding(encode.numbering.dictionary) : (int64_t)code->add;
    }
    plan.kind = STUB_CHAIN;
    plan.before = tail ? encode_before_tail : encode_push_indirect;
    plan.after = tail ? NULL : encode_after;
    plan.arms = arms;
    plan.arm_count = targets->arm_count;
    if (targets->chain && !stub_renew(targets->chain, &plan))
        return targets->chain;
    targets->chain = NULL;
    if (targets->chains < 2 * CHAINS_MOST && !stub_make(site->site, &plan, &targets->chain)) {
        targets->chains++;
        return targets->chain;
    }
    return site->hook;
}

static struct stub *number_for(struct encode_site *site, int64_t number)
{
    const struct stub_plan plan = plan_number(number);
    struct stub **stub = plan.wide ? &site->wide : &site->delta;
    if (*stub ? stub_renew(*stub, &plan) : stub_make(site->site, &plan, stub))
        return site->hook;
    return *stub;
}

struct stub *encode_stub_for(struct encode_site *site)
{
    if (encode_is_futile(site->caller))
        return NULL;
    if (site->targets)
        return chain_for(site);
    if (site->edge == GRAPH_NONE)
        return site->hook;
    const struct code *code = numbering_code(&encode.numbering, site->edge);
    if (encode_blinds(site->edge))
        return number_for(site, (int64_t)encode_blinding(encode.numbering.dictionary));
    if (!adds(code))
        return site->hook;
    return code->add == 0 ? NULL : number_for(site, (int64_t)code->add);
}
