// SPDX-License-Identifier: MIT
#include "patch/lock.h"
#include "patch/stub.h"

static enum stub_phase phase_at(const struct stub *stub, unsigned offset)
{
    if (stub->half_add && offset == stub->half_add)
        return PHASE_HALF_ADD;
    if (offset < stub->added)
        return PHASE_BEFORE;
    if (!stub->end) // a tail jump
        return PHASE_ADDED;
    if (stub->half_sub && offset == stub->half_sub)
        return PHASE_HALF_SUB;
    return offset < stub->behind ? PHASE_ADDED : PHASE_BEHIND;
}

// Which instruction of the program is about to be executed. Of several before the call, the first:
// none of them moves the stack pointer.
static uintptr_t program_pc(const struct stub *stub, unsigned offset)
{
    const struct site *site = stub->site;
    if (offset < stub->begin)
        return site_start(site);
    if (!stub->end || offset <= stub->call)
        return site->address;
    if (offset >= stub->end)
        return site_start(site) + site->span;
    uintptr_t pc = site->address + site->length;
    for (unsigned i = site->lead + site->length; i < JUMP_BYTES; i++)
        if (stub->moved[i] && offset >= stub->moved[i])
            pc = site_start(site) + i;
    return pc;
}

bool sites_locate(uintptr_t pc, struct stub_place *place)
{
    struct stub *stub = region_stub_at(pc);
    struct site *site = stub ? NULL : index_find(&patch_sites, pc);
    if (site && (uintptr_t)atomic_load(&site->hop) == pc) {
        // On its way from the site to the stub.
        *place = (struct stub_place){.stub = atomic_load(&site->shelter), .site = site};
        place->pc = site_start(site);
        return place->stub != NULL;
    }
    if (!stub || stub->is_free || !stub->site)
        return false;
    const unsigned offset = (unsigned)(pc - stub->code);
    *place = (struct stub_place){
        .stub = stub,
        .site = stub->site,
        .pc = program_pc(stub, offset),
        .phase = stub->kind == STUB_DELTA ? phase_at(stub, offset) : PHASE_BEFORE,
        .pushed = stub->popped && offset == stub->popped,
    };
    return true;
}

uintptr_t sites_true_pc(uintptr_t pc)
{
    struct stub_place place;
    return sites_locate(pc, &place) ? place.pc : pc;
}

uint64_t stub_correct(const struct stub_place *place, uint64_t number)
{
    const uint64_t delta = (uint64_t)place->stub->delta, half = UINT32_MAX;
    switch (place->phase) {
    case PHASE_BEFORE:
    case PHASE_BEHIND:
        break;
    case PHASE_HALF_ADD: // the carry is in the flags
        return (number & ~half) | ((number - delta) & half);
    case PHASE_ADDED:
        return number - delta;
    case PHASE_HALF_SUB: // put the lower half back first
        return ((number & ~half) | ((number + delta) & half)) - delta;
    }
    return number;
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
        // The unwinder goes on with that very frame.
        if (i + 1 < count && (uintptr_t)address[i + 1] == place.pc)
            i++;
    }
    return left;
}
