// SPDX-License-Identifier: MIT
// A library that calls back, and calls in its constructor.

#include "common.h"

NOIPA static int plugin_starts(void)
{
    return 1;
}

__attribute__((constructor)) static void plugin_constructor(void)
{
    CHECK(plugin_starts() == 1);
}

int plugin_main(int (*function)(int), int value)
{
    int result = function(value);
    NO_TAIL_CALL();
    return result;
}
