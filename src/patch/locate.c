// SPDX-License-Identifier: MIT
#include "patch/functions/displace.h"
#include "patch/sites.h"
#include "patch/stubs/stub.h"

// Whether a thread in a stub has added. It adds right before it restores the register, and in a
// hook, if it calls one.
static bool has_added(const struct stub *stub, unsigned offset)
{
    if (offset >= stub->aside)
        return offset >= stub->aside + ASIDE_CALL &&
               offset < stub->aside + ASIDE_BYTES + ASIDE_CALL;
    return offset >= stub->call.popped && offset < stub->restored;
}

// Aside from the others are the hooks before the call, and behind it.
static unsigned where_it_stands(const struct stub *stub, unsigned offset)
{
    if (!stub->aside || offset < stub->aside)
        return offset;
    return offset < stub->aside + ASIDE_BYTES ? stub->pushed : stub->saved;
}

// Which instruction of the program is about to be executed. Of several before the call, the first:
// none of them moves the stack pointer.
static uintptr_t program_pc(const struct stub *stub, const struct stub_call *call, unsigned offset)
{
    const struct site *site = stub->site;
    if (offset < stub->begin)
        return site_start(site);
    if (!stub->end || offset <= call->call)
        return site->address;
    if (offset >= stub->end)
        return site_start(site) + site->span;
    uintptr_t pc = site->address + site->length;
    for (unsigned i = site->lead + site->length; i < JUMP_BYTES; i++)
        if (stub->moved[i] && offset >= stub->moved[i])
            pc = site_start(site) + i;
    return pc;
}

// At a jump between a site and its stub, or between an instruction that has made room for a site
// and its new place.
static bool locate_on_way(struct site *site, uintptr_t pc, struct stub_place *place)
{
    const struct displacement *displacement = site->displacement;
    struct stub *displaced = displacement ? atomic_load(&displacement->stub) : NULL;
    *place = (struct stub_place){.stub = atomic_load(&site->shelter), .site = site};
    place->pc = site_start(site);
    if ((uintptr_t)atomic_load(&site->island) == pc)
        return place->stub != NULL;
    if (!displaced)
        return false;
    if (displace_inside(displacement) == pc)
        return place->stub != NULL;
    place->stub = displaced;
    place->pc = displacement->victim;
    return (uintptr_t)atomic_load(&displacement->door) == pc;
}

static void locate_displaced(struct stub *stub, unsigned offset, struct stub_place *place)
{
    const struct displacement *displacement = stub->site->displacement;
    *place = (struct stub_place){.stub = stub, .site = stub->site};
    place->pc = displacement->victim + (offset < stub->end ? 0 : displacement->length);
}

bool sites_locate(uintptr_t pc, struct stub_place *place)
{
    struct stub *stub = region_stub_at(pc);
    struct site *site = stub ? NULL : index_find(&patch_sites, pc);
    if (site)
        return locate_on_way(site, pc, place);
    if (!stub || stub->is_free || !stub->site)
        return false;
    if (stub->displaced) {
        locate_displaced(stub, (unsigned)(pc - stub->code), place);
        return true;
    }
    const unsigned offset = (unsigned)(pc - stub->code);
    const struct stub_call *call = &stub->call;
    *place = (struct stub_place){
        .stub = stub,
        .site = stub->site,
        .pc = program_pc(stub, call, where_it_stands(stub, offset)),
        .target = call->target,
        .hooked = stub->kind == STUB_HOOK,
        .by_table = stub->kind == STUB_TABLE,
        .added = stub->kind == STUB_TABLE && has_added(stub, offset),
        .index = stub->index,
        .returns = stub->end && offset == call->back,
        .pushed =
            (stub->pushed && offset >= stub->pushed && (offset <= call->popped || !call->popped)) ||
            (stub->saved && offset >= stub->saved && offset <= stub->restored) ||
            (stub->aside && offset >= stub->aside),
    };
    return true;
}

bool sites_exist(void)
{
    return region_number(0) != NULL;
}

uintptr_t sites_true_pc(uintptr_t pc)
{
    struct stub_place place;
    return sites_locate(pc, &place) ? place.pc : pc;
}

uintptr_t stub_return_address(const struct stub *stub)
{
    return stub->end ? stub->code + stub->call.back : 0;
}

size_t sites_clean_backtrace(void **address, size_t count)
{
    size_t left = 0;
    for (size_t i = 0; i < count; i++) {
        struct stub_place place;
        if (!sites_locate((uintptr_t)address[i], &place)) {
            address[left++] = address[i];
            continue;
        }
        address[left++] = (void *)place.pc;
        // The unwinder continues with that very frame.
        const uintptr_t next = i + 1 < count ? (uintptr_t)address[i + 1] : 0;
        if (next == place.pc ||
            (place.stub->displaced && next == place.site->displacement->victim + 1))
            i++;
    }
    return left;
}

enum unwind_standing sites_truth(uintptr_t *pc, uintptr_t *sp, bool *interrupted)
{
    struct stub_place place;
    if (!sites_locate(*pc, &place))
        return UNWIND_AS_IT_IS;
    *pc = place.pc;
    if (place.pushed)
        *sp += sizeof *sp;
    if (place.pc != place.site->address)
        return UNWIND_ELSEWHERE;
    *interrupted = true; // in the hook before the call
    return UNWIND_AT_CALL;
}
