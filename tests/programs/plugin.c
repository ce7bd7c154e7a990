// SPDX-License-Identifier: MIT
// A library that is loaded, used and unloaded. Built under several names, each with frames of
// another size, so that unwinding one with another's tables goes wrong.

#include "common.h"

#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)
#define NAMED(function) JOIN(PLUGIN, function)

typedef uint64_t (*plugin_callback)(uint64_t value);

static NOIPA uint64_t NAMED(inner)(uint64_t value, plugin_callback callback)
{
    volatile char frame[PLUGIN_FRAME];
    memset((char *)frame, (int)value, sizeof frame);
    uint64_t result = burn(value, 20) + callback(value);
    CHECK(frame[PLUGIN_FRAME - 1] == (char)value);
    return result;
}

static NOIPA uint64_t NAMED(outer)(uint64_t value, plugin_callback callback)
{
    volatile char frame[PLUGIN_FRAME * 3];
    frame[0] = (char)value;
    uint64_t result = NAMED(inner)(value, callback);
    CHECK(frame[0] == (char)value);
    return result;
}

__attribute__((visibility("default"))) uint64_t plugin_run(uint64_t value, plugin_callback callback)
{
    uint64_t result = NAMED(outer)(value, callback);
    NO_TAIL_CALL();
    return result;
}
