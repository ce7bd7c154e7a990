// SPDX-License-Identifier: MIT
#ifndef CAIRN_TRACK_ENCODE_SITES_CALL_GRAPH_H
#define CAIRN_TRACK_ENCODE_SITES_CALL_GRAPH_H

// Functions, sites and edges as they are met. All under the lock but where it says otherwise.

#include "patch/transaction.h"
#include "track/encode/sites/stubs.h"
#include "track/encode/tracker.h"

int encode_graph_start(void);
// The function at an address, with its sites led to hooks; GRAPH_NONE: no memory.
uint32_t encode_instrument(uintptr_t address);
// The edge of a call, or the silent one of a jump, that goes to `target` now; GRAPH_NONE: no memory.
uint32_t encode_edge(struct encode_site *site, uintptr_t target);
// A function may go there silently; `behind` the instruction that does it. A target of 0 is not
// known.
void encode_add_silent(uint32_t from, uintptr_t behind, uintptr_t target, enum edge_kind kind);
void encode_count_graph(void);

struct encode_site *encode_site_of(const struct site *site); // signal-safe
struct encode_site *encode_site_number(uint32_t number);     // NULL: no more. Some are unloaded
void encode_drop_site(uint32_t number);                      // it was unloaded
// Whether the site must stay as it is.
static inline bool encode_is_fixed(const struct encode_site *site)
{
    return site->in_libc && encode.threaded;
}

// Whether functions there take part: their calls are followed. Signal-safe.
bool encode_takes_part(uintptr_t address);
// Whether it is in the library that exceptions are thrown by. Signal-safe.
bool encode_is_in_unwinder(uintptr_t address);
// Whether others may run while code is rewritten.
enum threading encode_threading(void);

#endif
