// SPDX-License-Identifier: MIT
#ifndef CAIRN_ANALYZE_COMPARE_COMPARE_MODULES_H
#define CAIRN_ANALYZE_COMPARE_COMPARE_MODULES_H

// Which modules of two profiles are the same.

#include "analyze/compare/compare.h"
#include "profile/profile.h"

struct common_modules {
    const char **names; // by number, for functions
    unsigned count;
    unsigned same_builds; // files that both profiles have in the same build
    unsigned by_names;    // files that are lined up by names, as their builds differ
};

struct module_map {
    uint32_t *number; // by module of the profile: the common one
    bool *same_build; // by module: the other profile has the same build, so places are the same
};

// Numbers the modules of both. -1 and *error if the profiles are of different programs: each ran
// programs, and none of one is among those of the other.
int module_maps_new(struct common_modules *common, struct module_map maps[2],
                    const struct profile *exact, const struct profile *approx, char **error);
void module_map_free(struct module_map *map);

#endif
