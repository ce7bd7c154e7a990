// SPDX-License-Identifier: MIT
#ifndef CAIRN_PATCH_STUBS_DETOUR_HOOKS_H
#define CAIRN_PATCH_STUBS_DETOUR_HOOKS_H

// The hooks that calls pass on their way (patch/detour.h).

// Hooks are called with everything as it is when the function is entered; they preserve all
// registers. Above the return address of `direct`, which lies in the detour, is that of the
// function; of `indirect`, the target lies between them. `within` is another hook for indirect
// ones.
struct detour_hooks {
    void (*direct)(void), (*indirect)(void), (*within)(void);
};

enum detour_hook { DETOUR_INDIRECT, DETOUR_WITHIN };

#endif
