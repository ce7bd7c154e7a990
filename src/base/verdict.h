// SPDX-License-Identifier: MIT
#ifndef CAIRN_BASE_VERDICT_H
#define CAIRN_BASE_VERDICT_H

// How a stack walk ended. The agent counts these, `cairn info` prints them.

enum verdict {
    VERDICT_COMPLETE,   // reached the root of the thread
    VERDICT_MARKER,     // met the marker: the rest is known
    VERDICT_NO_CFI,     // code without unwind tables, and the fallbacks found nothing sane
    VERDICT_BAD_CFI,    // tables that are damaged or use what we do not interpret
    VERDICT_BAD_STACK,  // the next frame would lie outside of the stack, or does not go up
    VERDICT_BAD_PC,     // a return address that is not code
    VERDICT_UNLOADING,  // the code's module was being unloaded
    VERDICT_BUSY,       // the sample fell into the agent itself
    VERDICT_DETACHED,   // as many frames as a bounded tree asks for, and none of them known
    VERDICT_GUESSED,    // reached the root or the marker, by a frame that no table tells of
    VERDICT_NOT_COPIED, // sampled from outside: deeper than the part of the stack that is copied
    VERDICT_COUNT,
};

static inline const char *verdict_name(enum verdict verdict)
{
    static const char *const names[VERDICT_COUNT] = {
        "complete",  "marker",   "no-unwind-table", "bad-unwind-table", "bad-stack",  "bad-pc",
        "unloading", "in-agent", "detached",        "guessed",          "not-copied",
    };
    return (unsigned)verdict < VERDICT_COUNT ? names[verdict] : "unknown";
}

#endif
