// SPDX-License-Identifier: MIT
#ifndef CAIRN_TESTS_COMPARE_FIXTURE_H
#define CAIRN_TESTS_COMPARE_FIXTURE_H

#include "analyze/compare/compare.h"
#include <math.h>

#define assert_near(value, expected)                                                               \
    do {                                                                                           \
        double near_value = (value), near_expected = (expected);                                   \
        if (!(fabs(near_value - near_expected) < 1e-6))                                            \
            fail_msg("%s is %.9g, not %.9g", #value, near_value, near_expected);                   \
    } while (0)

extern const struct compare_options usual_measures;

// Symbols for compared profiles: the function at an offset is named by its 256 bytes, and has a
// line for every 16. By default, code lies where its name says; a build in which it lies elsewhere
// moves it. (The second build is the one whose profile has a duration of 1.)
extern uint64_t moved_code[2];

#endif
