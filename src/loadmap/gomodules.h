// SPDX-License-Identifier: MIT
#ifndef CAIRN_LOADMAP_GOMODULES_H
#define CAIRN_LOADMAP_GOMODULES_H

// The tables that Go code carries for its own stack traces, as they are mapped: Go has no unwind
// tables.

#include "base/gotable.h"
#include "loadmap/loadmap.h"
#include <link.h>

// Looks for the table of a module that was there from the start, and so stays. Not signal-safe, one
// at a time.
void gomodules_add(const struct module_ref *module, uintptr_t bias, const ElfW(Phdr) * headers,
                   unsigned count);

// NULL if none was found. Addresses in it are relative to its text. Signal-safe.
const struct gotable *gomodules_find(const struct module_ref *module);

#endif
