// SPDX-License-Identifier: MIT
#ifndef CAIRN_ANALYZE_COMPARE_MODULE_MATCH_H
#define CAIRN_ANALYZE_COMPARE_MODULE_MATCH_H

// Which modules of two profiles are the same. The best match counts: the same build, the same path,
// the same file name, the same file name but for its version ("libx.so.1", "libx.so.2";
// "python3.11", "python3.12").

#include "analyze/index/hash_index.h"
#include "profile/profile.h"

// The modules of a profile by what they may have in common with others: the first that has it.
struct module_index {
    const struct profile *profile;
    struct hash_index by_parts;
};

void module_index_start(struct module_index *index, const struct profile *profile);
// Adds a module of the profile. After module_index_start(), all that it had then are in.
void module_index_add(struct module_index *index, unsigned module);
// The module that is the same as one of another profile; 0: none.
unsigned module_index_find(const struct module_index *index, const struct profile_module *module);
void module_index_free(struct module_index *index);

const char *module_file_name(const struct profile_module *module); // "": it has none

// Without build ids, the same file is taken to have stayed as it was.
bool module_same_build(const struct profile_module *one, const struct profile_module *other);

// By its name: "app", but not "libx.so", "libx.so.6" or "x.cpython-311.so".
bool module_is_program(const struct profile_module *module);
unsigned module_count_programs(const struct profile *profile);

// One line to be freed: these are different programs.
char *module_different_programs(const struct profile *one, const struct profile *other);

#endif
