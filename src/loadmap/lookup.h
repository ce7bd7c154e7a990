// SPDX-License-Identifier: MIT
#ifndef CAIRN_LOADMAP_LOOKUP_H
#define CAIRN_LOADMAP_LOOKUP_H

#include <stdbool.h>

// dlsym(RTLD_DEFAULT or RTLD_NEXT, name) for names that may not be there. After a search in vain
// the loader stores the reason, in memory of the program's malloc(). A program with its own
// malloc() (GNU Common Lisp) may not be ready for that before its main(). So it is looked for
// first. Not signal-safe.
void *lookup_symbol(void *handle, const char *name);

// The same for several names at once, NULL for those that are not there: all modules are looked at
// once. At most LOOKUP_MOST.
#define LOOKUP_MOST 64
void lookup_symbols(void *handle, const char *const *names, void **found, unsigned count);

// Whether the executable itself has such a function, and not just a way to that of a library.
bool lookup_in_executable(const char *name);

#endif
