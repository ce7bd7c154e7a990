// SPDX-License-Identifier: MIT
#include "patch/rewrite.h"
#include "patch/functions/displace.h"
#include "patch/stubs/stub.h"
#include "patch/x86_64/relocate.h"
#include <errno.h>

static size_t bytes_replaced(const struct site *site)
{
    switch (site->form) {
    case FORM_TRAP:
        return 1;
    case FORM_NEAR:
    case FORM_DISPLACED:
        return SHORT_JUMP_BYTES;
    }
    return JUMP_BYTES;
}

// The site's jump of two bytes will lead into the middle of it.
static int lead_away(const struct displacement *displacement, enum threading threading)
{
    const uintptr_t victim = displacement->victim;
    const size_t bytes = displace_bytes(displacement);
    if (displace_is_done(displacement))
        return 0;
    const int error = displace_open_door(displacement);
    if (error)
        return error;
    // Alone, by itself: a signal's handler may run between two pieces of what is written.
    return threading == THREADS_NONE ? edits_write_now(victim, displacement->code, bytes)
                                     : edits_add(victim, displacement->code, bytes, 0);
}

static int lead_island(struct site *site, const unsigned char jump[JUMP_BYTES])
{
    if (atomic_load(&site->island))
        return edits_add(site->room, jump, JUMP_BYTES, 0);
    // No thread can be there yet.
    int error = edits_write_now(site->room, jump, JUMP_BYTES);
    error = error ? error : index_put(&patch_sites, site->room, site);
    if (!error)
        atomic_store(&site->island, (unsigned char *)site->room);
    return error;
}

// The jump from a short site to its stub is made of two, or three.
static int lead_by_island(struct site *site, uintptr_t entry, enum threading threading)
{
    unsigned char jump[JUMP_BYTES];
    if (!relocate_jump(jump, site->room, entry))
        return -ERANGE;
    const int error = lead_island(site, jump);
    if (error || atomic_load(&site->stub))
        return error;
    if (site->form == FORM_BORROWED) {
        relocate_jump(jump, site_start(site), site->room);
        return edits_add(site_start(site), jump, JUMP_BYTES, site->starts);
    }
    const bool displaced = site->form == FORM_DISPLACED;
    const int failed = displaced ? lead_away(site->displacement, threading) : 0;
    const uintptr_t to = displaced ? displace_inside(site->displacement) : site->room;
    const uintptr_t end = site->address + SHORT_JUMP_BYTES;
    const unsigned char near[SHORT_JUMP_BYTES] = {0xeb, (unsigned char)(to - end)};
    return failed ? failed : edits_add(site->address, near, sizeof near, 0);
}

int rewrite_site(const struct site_change *change, enum threading threading)
{
    static const unsigned char trap = 0xcc;
    struct site *site = change->site;
    unsigned char jump[JUMP_BYTES];
    if (!change->stub)
        return edits_add(site_start(site), site->original, bytes_replaced(site), site->starts);
    if (change->stub->site != site || change->stub->is_free)
        return -EINVAL;
    // Before the first trap is written.
    atomic_store_explicit(&site->shelter, change->stub, memory_order_release);
    const uintptr_t entry = change->stub->code + STUB_ENTRY;
    if (site->form == FORM_TRAP)
        return edits_add(site_start(site), &trap, sizeof trap, 0);
    if (site->form != FORM_JUMP)
        return lead_by_island(site, entry, threading);
    if (!relocate_jump(jump, site_start(site), entry))
        return -ERANGE;
    return edits_add(site_start(site), jump, JUMP_BYTES, 0);
}

uintptr_t sites_trapped(uintptr_t pc)
{
    const uintptr_t address = pc - 1;
    for (unsigned i = 0; i < JUMP_BYTES; i++) {
        struct site *site = index_find(&patch_sites, address - i);
        if (!site)
            continue;
        const struct displacement *displacement = i == 0 ? site->displacement : NULL;
        const struct stub *displaced = displacement && displacement->victim == address
                                           ? atomic_load(&displacement->stub)
                                           : NULL;
        if (displaced)
            return displaced->code + STUB_ENTRY;
        const bool by_island = i == 0 && (uintptr_t)atomic_load(&site->island) == address;
        const bool at_start = site_start(site) == address - i;
        if (!by_island && !(at_start && (i == 0 || site->starts >> i & 1)))
            continue;
        struct stub *shelter = atomic_load_explicit(&site->shelter, memory_order_acquire);
        // A chain has no place for who comes back from the call.
        while (i && shelter && shelter->otherwise)
            shelter = shelter->otherwise;
        if (shelter)
            return shelter->code + (i ? shelter->moved[i] : STUB_ENTRY);
    }
    return 0;
}
