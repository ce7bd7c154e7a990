// SPDX-License-Identifier: MIT
#ifndef CAIRN_PATCH_FUNCTIONS_DL_NOTIFY_H
#define CAIRN_PATCH_FUNCTIONS_DL_NOTIFY_H

// Notices when libraries come and go. The loader calls an empty function for debuggers to put a
// breakpoint on (r_brk of struct r_debug); it becomes a jump to ours. dlopen itself cannot be
// wrapped: the loader looks at who calls it.

#include <link.h>
#include <stdbool.h>

enum dl_event {
    LOADER_ADDED,   // libraries were mapped; their constructors have not run
    LOADER_REMOVES, // some are about to be unmapped, after their destructors: which is not known
    LOADER_REMOVED, // they were; nothing was mapped since. Follows LOADER_REMOVES, in its thread
};

// `changed` is called in normal context, under the loader's lock, also if libc loads or unloads for
// itself. 0 or -errno; -ENOTSUP: the function does not look as it should (a debugger is at it,
// perhaps). In a transaction: see patch_watch_loader().
int dl_watch(void (*changed)(enum dl_event event));

bool dl_is_watched(void);

// On LOADER_ADDED: calls `each` for the libraries that have come since the last time, perhaps for
// others, too. So n libraries take n calls, where dl_iterate_phdr(), which has no other beginning
// than the first, would take n each time.
void dl_each_new(int (*each)(struct dl_phdr_info *info, size_t size, void *context), void *context);

#endif
