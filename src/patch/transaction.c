// SPDX-License-Identifier: MIT
#include "patch/transaction.h"
#include "base/lock.h"
#include "loadmap/loadmap.h"
#include "patch/rewrite.h"
#include "patch/write/growing_list.h"
#include "patch/write/traps.h"
#include <errno.h>

static struct lock lock;
static int saved_errno;             // under the lock
static struct growing_list changes; // struct site_change

int patch_begin(void)
{
    const int before = errno;
    const int error = lock_take(&lock);
    if (error)
        return error;
    saved_errno = before;
    loadmap_enter();
    return 0;
}

static void drop_all(void)
{
    growing_list_clear(&changes);
    edits_drop();
}

void patch_end(void)
{
    drop_all();
    loadmap_leave();
    errno = saved_errno;
    lock_release(&lock);
}

void patch_after_fork(void)
{
    // The lock's holder does not exist here. At worst it has left unused memory behind, and traps
    // that lead where they should.
    traps_end();
    drop_all();
    lock_break(&lock);
}

int patch_watch_loader(void (*changed)(enum dl_event event))
{
    int error = patch_begin();
    if (error)
        return error;
    error = dl_watch(changed);
    patch_end();
    return error;
}

int patch_add(struct site *site, struct stub *stub)
{
    if (atomic_load_explicit(&site->stub, memory_order_relaxed) == stub)
        return 0;
    struct site_change *change = growing_list_add(&changes, sizeof *change);
    if (!change)
        return -ENOMEM;
    *change = (struct site_change){site, stub};
    return 0;
}

int patch_commit(enum threading threading)
{
    const struct site_change *change = (const struct site_change *)changes.start;
    const size_t count = changes.used / sizeof *change;
    int error = edits_flush();
    for (size_t i = 0; i < count && !error; i++)
        error = rewrite_site(&change[i], threading);
    if (!error)
        error = edits_commit(threading);
    for (size_t i = 0; i < count && !error; i++)
        atomic_store_explicit(&change[i].site->stub, change[i].stub, memory_order_release);
    drop_all();
    return error;
}
