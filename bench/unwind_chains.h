// SPDX-License-Identifier: MIT
// Many functions that differ: 100 chains of 40, each with frames of its own sizes. Included twice,
// into files that are compiled with and without frame pointers.

#include "unwind_micro.h"

#define TWICE(macro, n, next)                                                                      \
    macro(n, 0, n##_1) macro(n, 1, n##_2) macro(n, 2, n##_3) macro(n, 3, n##_4) macro(n, 4, n##_5) \
        macro(n, 5, n##_6) macro(n, 6, n##_7) macro(n, 7, n##_8) macro(n, 8, n##_9)                \
            macro(n, 9, next)

#define DECLARE_LINK(prefix, index, next) static void link##prefix##_##index(bottom_function);
#define DECLARE_TEN(prefix, next) TWICE(DECLARE_LINK, prefix, next)

// Work after the call, so that it is no tail call; a frame whose size depends on the function.
#define DEFINE_LINK(prefix, index, next)                                                           \
    static __attribute__((noinline)) void link##prefix##_##index(bottom_function bottom)           \
    {                                                                                              \
        volatile char space[16 + 8 * ((sizeof #prefix #index + index * 3) % 11)];                  \
        __asm__ volatile("" : : "i"(__COUNTER__));                                                 \
        space[0] = index;                                                                          \
        link##next(bottom);                                                                        \
        space[1] = space[0];                                                                       \
    }

#define CHAIN(c)                                                                                   \
    static __attribute__((noinline)) void linkE##c(bottom_function bottom)                         \
    {                                                                                              \
        bottom();                                                                                  \
        __asm__ volatile("");                                                                      \
    }                                                                                              \
    TWICE(DECLARE_LINK, A##c, B##c##_0)                                                            \
    TWICE(DECLARE_LINK, B##c, C##c##_0)                                                            \
    TWICE(DECLARE_LINK, C##c, D##c##_0)                                                            \
    TWICE(DECLARE_LINK, D##c, E##c)                                                                \
    TWICE(DEFINE_LINK, A##c, B##c##_0)                                                             \
    TWICE(DEFINE_LINK, B##c, C##c##_0)                                                             \
    TWICE(DEFINE_LINK, C##c, D##c##_0)                                                             \
    TWICE(DEFINE_LINK, D##c, E##c)

#define TEN_CHAINS(c)                                                                              \
    CHAIN(c##0)                                                                                    \
    CHAIN(c##1)                                                                                    \
    CHAIN(c##2)                                                                                    \
    CHAIN(c##3) CHAIN(c##4) CHAIN(c##5) CHAIN(c##6) CHAIN(c##7) CHAIN(c##8) CHAIN(c##9)
TEN_CHAINS(0)
TEN_CHAINS(1)
TEN_CHAINS(2)
TEN_CHAINS(3)
TEN_CHAINS(4)
TEN_CHAINS(5)
TEN_CHAINS(6)
TEN_CHAINS(7)
TEN_CHAINS(8)
TEN_CHAINS(9)

#define NAME_TEN(c)                                                                                \
    linkA##c##0_0, linkA##c##1_0, linkA##c##2_0, linkA##c##3_0, linkA##c##4_0, linkA##c##5_0,      \
        linkA##c##6_0, linkA##c##7_0, linkA##c##8_0, linkA##c##9_0,
const chain_function CHAINS_NAME[CHAINS] = {NAME_TEN(0) NAME_TEN(1) NAME_TEN(2) NAME_TEN(
    3) NAME_TEN(4) NAME_TEN(5) NAME_TEN(6) NAME_TEN(7) NAME_TEN(8) NAME_TEN(9)};
