// SPDX-License-Identifier: MIT
#ifndef CAIRN_TRACK_ENCODE_SITES_STUBS_H
#define CAIRN_TRACK_ENCODE_SITES_STUBS_H

// Call sites, and what they lead to (stubs.c). All under the lock.

#include "encode/numbering.h"
#include "patch/sites.h"

struct encode_target { // of an indirect call or jump
    uintptr_t target;
    uint32_t edge;
    bool in_chain;
    bool written;             // the code of its arm
    bool loaded, gone;        // in a library that was loaded later, and was unloaded
    bool led_plain;           // the chain leads to the latter
    struct stub *arm, *plain; // of a call: with its word, and for as long as that is 0
};

struct encode_targets {
    struct encode_targets *next; // of those that are free
    struct stub *chain;
    bool grown;       // targets are to be in it that are not
    uint64_t chained; // targets of all chains that were made
    uint32_t count, room;
    struct encode_target one[];
};

struct encode_site {
    struct site *site; // NULL: it was unloaded, and another one may take this place
    struct stub *hook;
    struct stub *adding;            // of a direct call, once it is needed
    struct encode_targets *targets; // of an indirect one, once it was met
    uint32_t edge;                  // of a direct call, once it was made; GRAPH_NONE
    uint32_t caller;                // the function that it is in
    bool in_libc; // of libc, which is not rewritten once there are threads: it always has a stub
};

void encode_add_target(struct encode_site *site, uintptr_t target, uint32_t edge);
void encode_free_targets(struct encode_targets *targets); // of a site that is no more; or NULL
// Forgets targets that are gone; what leads to a library that was loaded again is known anew. True:
// the site must not lead to where it did.
bool encode_drop_targets(struct encode_site *site, bool (*is_gone)(uintptr_t target));
// Before the edges are numbered: which targets of indirect calls can have numbers.
void encode_choose_targets(void);
// The stub for an edge of an indirect call; NULL: it has none.
struct stub *encode_arm_of(const struct encode_site *site, uint32_t edge);
// The stub that a site leads to by an encoding; NULL: its original code. Before it is published, of
// sites that do something in it; then of those that do nothing.
enum encode_phase { ENCODE_BEFORE, ENCODE_AFTER };
struct stub *encode_stub_for(struct encode_site *site, const struct numbering *numbering,
                             enum encode_phase phase);

#endif
