// SPDX-License-Identifier: MIT
// A program that settles: it recurs through a pointer all the time, and goes on to call, now and
// then, functions that it has met late. It takes two snapshots of itself, after each of which it
// does the same.
//
//   steady FIRST SECOND

#include "common.h"
#include <cairn.h>

enum { ROUNDS = 3000, DEPTH = 40, LATE = 3 };

typedef uint64_t (*function)(uint64_t value, unsigned depth);
static function volatile recursive;

NOIPA uint64_t low(uint64_t value)
{
    value = burn(value, 1);
    NO_TAIL_CALL();
    return value;
}

NOIPA uint64_t recur(uint64_t value, unsigned depth)
{
    value += depth ? recursive(value, depth - 1) : low(value);
    NO_TAIL_CALL();
    return value;
}

#define LATE_FUNCTION(name)                                                                        \
    NOIPA uint64_t name(uint64_t value, unsigned depth)                                            \
    {                                                                                              \
        value = low(value + depth);                                                                \
        NO_TAIL_CALL();                                                                            \
        return value;                                                                              \
    }
LATE_FUNCTION(late_one)
LATE_FUNCTION(late_two)
LATE_FUNCTION(late_three)
static function volatile late[LATE] = {late_one, late_two, late_three};

NOIPA uint64_t work(uint64_t value, unsigned round)
{
    for (unsigned i = 0; i < 20; i++)
        value = recursive(value, DEPTH);
    if (round >= ROUNDS)
        value = late[round % LATE](value, round);
    NO_TAIL_CALL();
    return value;
}

int main(int count, char **words)
{
    uint64_t value = 1;
    recursive = recur;
    CHECK(count == 3);
    for (unsigned part = 1; part <= 3; part++) {
        for (unsigned round = 0; round < ROUNDS; round++)
            value = work(value, part == 1 ? round : ROUNDS + round);
        const int written = part == 1 ? 0 : cairn_snapshot(words[part - 1]);
        CHECK(!written || written == CAIRN_ABSENT);
    }
    printf("%llu\n", (unsigned long long)value);
    return 0;
}
