// SPDX-License-Identifier: MIT
// Libraries that go. Nobody knows before dlclose() which ones will be unloaded by it, and by the
// time it has returned others may be in their place. So before the first one all sites of libraries
// that were loaded later run their original code again, and are forgotten.

#include "base/unseen.h"
#include "track/encode_parts.h"

#define CHANGES 256
static struct site_change changes[CHANGES] UNSEEN;

static void apply(size_t count)
{
    // If it fails, the code is as it is; what its stubs do is right.
    if (count)
        sites_apply(changes, count, encode_company());
}

// All of them, or those of libraries that were loaded later, which are forgotten. True if there
// were some.
static bool restore_sites(bool all)
{
    struct encode_site *site;
    size_t count = 0;
    bool any = false;
    for (uint32_t i = 0; (site = encode_site_number(i)); i++) {
        if (site->dead || (!site->loaded && !all) || encode_is_fixed(site))
            continue;
        any = true;
        site->dead = site->loaded;
        if (!atomic_load_explicit(&site->site->stub, memory_order_relaxed))
            continue;
        changes[count++] = (struct site_change){site->site, NULL};
        if (count == CHANGES) {
            apply(count);
            count = 0;
        }
    }
    apply(count);
    return any;
}

// Under the lock.
static void give_up_loaded(struct encode_thread *thread, const void *frame)
{
    encode.unloads = true;
    // Return addresses have to be moved to what the new encoding leads sites to.
    const bool walked = encode_walk_from_ours(thread, frame);
    if (!restore_sites(false))
        return;
    encode_open_loaded();
    if (encode.stopped)
        return;
    if (!walked || !encode_renumber(thread))
        encode.failed = true;
}

void encode_before_unload(const void *frame)
{
    struct encode_thread *thread = encode_current;
    uint64_t mask;
    if (!encode.started)
        return;
    if (!encode.unloads && thread && encode_lock(thread, &mask)) {
        give_up_loaded(thread, frame);
        encode_unlock(thread, &mask);
    } else if (!encode.unloads) {
        encode.unloads = encode.failed = true;
    }
    sites_abandon_loaded();
}

void encode_after_unload(void)
{
    if (encode.started)
        sites_abandon_loaded();
}

void encode_stop(struct encode_thread *thread)
{
    if (encode.stopped || !encode_may_move(thread) || thread->has_hook)
        return;
    encode.stopped = encode.failed = true;
    restore_sites(true);
    sites_flush();
    encode_move_returns(thread);
    encode_replay(thread, 0);
}
