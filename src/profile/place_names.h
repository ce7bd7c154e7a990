// SPDX-License-Identifier: MIT
#ifndef CAIRN_PROFILE_PLACE_NAMES_H
#define CAIRN_PROFILE_PLACE_NAMES_H

// The names of places in profiles that were imported: their chunk, and finding one.

#include "profile/loader.h"
#include "profile/write_records.h"

void place_names_put(struct batch *batch, const struct profile_place *place);
bool place_names_take(struct loader *loader, struct cursor *cursor);

// Puts them in order, and drops all but the first of the same place.
void place_names_sort(struct profile *profile);

// NULL: it has the name that its module gives it.
static inline const struct profile_place *place_names_find(const struct profile *profile,
                                                           place_t place)
{
    unsigned low = 0, high = profile->place_count;
    while (low < high) {
        const unsigned middle = low + (high - low) / 2;
        if (profile->places[middle].place < place)
            low = middle + 1;
        else
            high = middle;
    }
    return low < profile->place_count && profile->places[low].place == place ? &profile->places[low]
                                                                             : NULL;
}

// A copy under another place. False: out of memory.
bool place_names_add(struct profile *profile, const struct profile_place *place, place_t as,
                     place_t begin);

void place_names_free(struct profile_place *place);

#endif
