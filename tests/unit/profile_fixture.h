// SPDX-License-Identifier: MIT
#ifndef CAIRN_TESTS_PROFILE_FIXTURE_H
#define CAIRN_TESTS_PROFILE_FIXTURE_H

// A profile with some of everything, and what is asked of those that were written and read again.

#include "profile/chunks/chunk.h"
#include "profile/profile.h"
#include <stdbool.h>

// Three processes with a tree each, two modules, a note.
struct profile *sample_profile(void);

// All that is in a file is the same in both.
void assert_same(const struct profile *a, const struct profile *b);

// As a file has it.
struct bytes encoded(const struct profile *profile);

// One of the notes has these words.
bool says(const struct profile *profile, const char *words);

#endif
