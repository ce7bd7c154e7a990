// SPDX-License-Identifier: MIT
// The header in C++, and a callback that is a lambda.

#include <cairn.h>
#include <cstdio>

static volatile unsigned long value = 1;

__attribute__((noinline)) void busy()
{
    for (int i = 0; i < 100000000; i++)
        value = value * 3 + 1;
}

int main()
{
    cairn_start("rate=2000", nullptr, 0);
    busy();
    uint64_t own = 0;
    cairn_hottest(
        CAIRN_FUNCTIONS, 1,
        [](const cairn_item *item, void *context) {
            *static_cast<uint64_t *>(context) = item->value;
            return 0;
        },
        &own);
    struct cairn_totals totals;
    cairn_totals(&totals);
    std::printf("%s\n", own * 2 > totals.value && own ? "busy" : own ? "odd" : "nothing");
}
