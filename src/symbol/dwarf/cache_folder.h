// SPDX-License-Identifier: MIT
#ifndef CAIRN_SYMBOL_DWARF_CACHE_FOLDER_H
#define CAIRN_SYMBOL_DWARF_CACHE_FOLDER_H

// The folder for what is cached: cairn in $XDG_CACHE_HOME, or in ~/.cache.

#include <stdbool.h>
#include <sys/stat.h>

// Where a file of that name would be. To be freed; NULL without a folder, or with CAIRN_CACHE=off.
char *cachefolder_path(const char *name);
// Makes the folder if there is none. 0 or -errno; -EPERM if others may write to it.
int cachefolder_make(void);
// Whether the user alone may have written it.
bool cachefolder_trusts(const struct stat *status);
// Removes the files that were not used for the longest time, until the folder is small enough.
void cachefolder_evict(void);

#endif
