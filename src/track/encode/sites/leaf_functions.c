// SPDX-License-Identifier: MIT
#include "track/encode/sites/leaf_functions.h"
#include "loadmap/loadmap.h"
#include "patch/functions/functions.h"
#include "patch/functions/leaf_code.h"
#include "patch/functions/leaf_functions.h"
#include "track/encode/tracker.h"

static struct series places = {.size = sizeof(place_t)};
static struct lookup places_lookup;
static uint32_t place_count;

bool encode_is_leaf(place_t function)
{
    uint32_t index;
    for (struct lookup_cursor at = lookup_start(&places_lookup, lookup_hash(function, 0));
         lookup_next(&at, &index);)
        if (*(const place_t *)series_at(&places, index) == function)
            return true;
    return false;
}

// Once a function is half noted, none is known: there is no memory, and samples there are walked.
static bool failed;

static void note(uintptr_t function, void *context)
{
    (void)context;
    const place_t place = loadmap_place(function);
    if (encode_is_leaf(place)) // of a library that was loaded again
        return;
    if (failed || !series_reach(&places, &encode.pool, place_count)) {
        failed = true;
        return;
    }
    *(place_t *)series_at(&places, place_count) = place;
    failed = !lookup_add(&places_lookup, &encode.pool, lookup_hash(place, 0), place_count);
    place_count++;
}

bool encode_calls_leaf(uintptr_t target)
{
    if (leaf_code_is(target))
        return true;
    return target && !failed && leaf_function_is(target, note, NULL) && !failed;
}

void encode_note_linkage(uintptr_t entry)
{
    struct patch_function *section = functions_at(entry);
    if (!section || section->told)
        return;
    section->told = true;
    note(section->start, NULL);
}
