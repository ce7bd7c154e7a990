// SPDX-License-Identifier: MIT
#ifndef CAIRN_PATCH_LOADER_H
#define CAIRN_PATCH_LOADER_H

// Being told when libraries come and go. The loader calls an empty function for debuggers to put a
// breakpoint on (r_brk of struct r_debug); it becomes a jump to ours. dlopen itself cannot be
// wrapped: the loader looks at who calls it.

#include <link.h>
#include <stdbool.h>

// `changed` is called in normal context, under the loader's lock: after new libraries were mapped,
// before they are relocated and before their constructors run; and after others were unmapped
// (`gone`). 0 or -errno; -ENOTSUP: the function does not look as it should (a debugger is at it,
// perhaps).
int loader_watch(void (*changed)(bool gone));

// In `changed`: calls `each` for the libraries that have come since the last time, perhaps for
// others, too. So n libraries take n calls, where dl_iterate_phdr(), which has no other beginning
// than the first, would take n each time.
void loader_each_new(int (*each)(struct dl_phdr_info *info, size_t size, void *context),
                     void *context);

#endif
