// SPDX-License-Identifier: MIT
// A small pipeline in three builds: as it was; with `lookup` slower (SLOWER per cent of the old
// work); and with `report` called more often (OFTEN times). argv[1]: rounds, 150 by default.

#include "common.h"

#ifndef SLOWER
#define SLOWER 100
#endif
#ifndef OFTEN
#define OFTEN 1
#endif

enum { ITEMS = 512 };

static uint32_t items[ITEMS];
static volatile uint64_t sink;

NOIPA void work(unsigned steps)
{
    uint64_t value = steps | 1;
    for (unsigned i = 0; i < steps; i++) {
        value ^= value << 13;
        value ^= value >> 7;
        value ^= value << 17;
    }
    sink += value;
}

NOIPA uint32_t hash(uint32_t key, unsigned rounds)
{
    for (unsigned i = 0; i < rounds; i++)
        key = (key ^ key >> 15) * 0x2c1b3c6d + i;
    return key;
}

NOIPA void parse(uint32_t *state)
{
    for (unsigned i = 0; i < ITEMS; i++)
        items[i] = hash(next_random(state), 120);
    NO_TAIL_CALL();
}

NOIPA int compare(const void *one, const void *other)
{
    const uint32_t a = *(const uint32_t *)one, b = *(const uint32_t *)other;
    return a < b ? -1 : a > b;
}

NOIPA void sort_items(void)
{
    for (unsigned i = 0; i < 12; i++) {
        for (unsigned j = 0; j < ITEMS; j++)
            items[j] = items[j] * 2654435761u + j;
        qsort(items, ITEMS, sizeof *items, compare);
    }
    NO_TAIL_CALL();
}

NOIPA uint32_t lookup(uint32_t key)
{
    uint32_t found = 0;
    for (unsigned i = 0; i < 20 * SLOWER; i++)
        found += items[(key + i * 7) % ITEMS] ^ i;
    return found;
}

NOIPA void match(void)
{
    for (unsigned i = 0; i < ITEMS; i++)
        sink += lookup(items[i]);
    NO_TAIL_CALL();
}

NOIPA void format(unsigned item)
{
    work(300 + item % 7);
    sink += hash(item, 200);
}

NOIPA void report(void)
{
    for (unsigned i = 0; i < 600; i++)
        format(i);
    NO_TAIL_CALL();
}

NOIPA void encode_block(void)
{
    work(200000);
    NO_TAIL_CALL();
}

int main(int argc, char **argv)
{
    const unsigned rounds = argc > 1 ? (unsigned)atoi(argv[1]) : 150;
    uint32_t state = 7;
    for (unsigned i = 0; i < rounds; i++) {
        parse(&state);
        sort_items();
        match();
        encode_block();
        for (unsigned j = 0; j < OFTEN; j++)
            report();
    }
    return sink == 1;
}
