// SPDX-License-Identifier: MIT
// One indirect call with 1,296 targets, each called as often as any other.
//
//   many_targets ROUNDS

#include "common.h"

static volatile uint64_t sink;

NOIPA void deepest(void)
{
    for (unsigned i = 0; i < 20; i++)
        sink += i;
}

static void (*volatile through)(void) = deepest;

// Not a leaf, so the targets need numbers.
NOIPA void below(void)
{
    through();
    NO_TAIL_CALL();
}

// clang-format off
#define EACH6(what, p) what(p##0) what(p##1) what(p##2) what(p##3) what(p##4) what(p##5)
#define EACH36(what, p) \
    EACH6(what, p##0) EACH6(what, p##1) EACH6(what, p##2) \
    EACH6(what, p##3) EACH6(what, p##4) EACH6(what, p##5)
#define EACH216(what, p) \
    EACH36(what, p##0) EACH36(what, p##1) EACH36(what, p##2) \
    EACH36(what, p##3) EACH36(what, p##4) EACH36(what, p##5)
#define EACH1296(what, p) \
    EACH216(what, p##0) EACH216(what, p##1) EACH216(what, p##2) \
    EACH216(what, p##3) EACH216(what, p##4) EACH216(what, p##5)

#define TARGET(name) static NOIPA void name(void) { below(); NO_TAIL_CALL(); }
#define NAME(name) name,
// clang-format on

EACH1296(TARGET, target_)
static void (*const targets[])(void) = {EACH1296(NAME, target_)};
enum { TARGETS = sizeof targets / sizeof *targets };

NOIPA void call_all(void)
{
    for (unsigned i = 0; i < TARGETS; i++)
        targets[i]();
}

int main(int argc, char **argv)
{
    const unsigned long rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 1;
    for (unsigned long i = 0; i < rounds; i++)
        call_all();
    printf("%lu calls\n", rounds * TARGETS);
    return 0;
}
