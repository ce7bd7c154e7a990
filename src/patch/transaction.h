// SPDX-License-Identifier: MIT
#ifndef CAIRN_PATCH_TRANSACTION_H
#define CAIRN_PATCH_TRANSACTION_H

// The one way to change code at call sites, for one thread at a time:
//
//   patch_begin()    functions can be asked for, sites found, stubs made, detours planned
//   patch_add()      a site is to lead to a stub, or to run its original code
//   patch_commit()   writes it all in order of address, a page by one system call
//   patch_end()      others may begin; what was not committed is not done
//
// A transaction makes system calls of its own and calls nothing in the program that could be
// patched. It keeps errno, and modules stay mapped meanwhile (loadmap_enter). Look-ups need none:
// they are signal-safe.

#include "patch/functions/dl_notify.h"
#include "patch/sites.h"
#include "patch/write/edits.h"

// 0, or -EDEADLK: this thread is in one, and was interrupted; other errors as lock_take() has them.
int patch_begin(void);
void patch_end(void);

// NULL: its original code. 0 or -ENOMEM. A site is changed once in a commit.
int patch_add(struct site *site, struct stub *stub);

// Writes the stubs that were made, then leads each site to its stub. On an error some of the
// changes may have been made, and none is left half-made. -EAGAIN: among threads, while
// traps_hold().
int patch_commit(enum threading threading);

// dl_watch() in a transaction of its own.
int patch_watch_loader(void (*changed)(enum dl_event event));

// In a forked child, whose parent's threads do not exist: nobody is in a transaction.
void patch_after_fork(void);

#endif
