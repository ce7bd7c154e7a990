// SPDX-License-Identifier: MIT
#ifndef CAIRN_TRACK_WALK_UNMARKABLE_H
#define CAIRN_TRACK_WALK_UNMARKABLE_H

// Frames whose return address is read, kept or returned through twice: they never carry the marker.

#include "base/place.h"
#include "loadmap/loadmap.h"
#include <stdbool.h>

// Finds the functions. Not signal-safe; once, after loadmap_start().
void unmarkable_start(void);

// A module was found; unwinders (which ask for their own return address) are recognised by what
// they export. Signal-safe.
void unmarkable_note_module(const struct module_info *module);

// A function that may return elsewhere was met: an unwinder that is linked into the program.
// Signal-safe.
void unmarkable_note_unwinder(place_t function);

// A function of libcairn.so itself. Signal-safe.
bool unmarkable_is_agent(place_t function);

// True if a frame of this function, called from site, must not be marked. Signal-safe.
bool unmarkable_is(place_t function, place_t site);

// The same by what the code of the function says: it loads its own return address, or is not to be
// examined. `pc` is an address in it. Signal-safe.
bool unmarkable_by_code(place_t function, uintptr_t pc);

// The same for callers that must not ask the loader: true where the function has not been examined,
// and its module may be unloaded.
bool unmarkable_by_code_that_stays(place_t function, uintptr_t pc);

// Will be asked of this function: asks the processor to have at hand what is known. Signal-safe.
void unmarkable_expect(place_t function);

#endif
