// SPDX-License-Identifier: MIT
#include "patch/functions/unpatchable.h"
#include "loadmap/lookup.h"
#include <dlfcn.h>
#include <string.h>

static const char *const names[] = {
    // come back to their return address a second time
    "setjmp",
    "_setjmp",
    "__sigsetjmp",
    "sigsetjmp",
    "savectx",
    "vfork",
    "__vfork",
    "getcontext",
    "swapcontext",
    "__getcontext",
    "__swapcontext",
    "clone",
    "__clone",
    // ask who calls
    "dlopen",
    "dlmopen",
    "dlsym",
    "dlvsym",
    "dlinfo",
    "__libc_dlopen_mode",
    "_dl_open",
    "mcount",
    "_mcount",
    "__mcount",
    "__fentry__",
    "__morestack",
    "__morestack_non_split",
    // follow a convention of their own
    "__tls_get_addr",
    "_dl_runtime_resolve",
};
#define NAMES (sizeof names / sizeof *names)

// Where they begin. Written once, before the first site is looked for.
static uintptr_t named[NAMES];

bool unpatchable_name(const char *name)
{
    // Of the many that are left, most are those of C++.
    if (!strchr("_sdvgcm", name[0]) || (name[0] == '_' && name[1] == 'Z'))
        return false;
    for (size_t i = 0; i < NAMES; i++)
        if (!strcmp(name, names[i]))
            return true;
    return false;
}

void unpatchable_start(void)
{
    for (size_t i = 0; i < NAMES; i++) {
        // The real ones, whatever the agent interposes.
        void *address = lookup_symbol(RTLD_NEXT, names[i]);
        named[i] = (uintptr_t)(address ? address : lookup_symbol(RTLD_DEFAULT, names[i]));
    }
}

bool unpatchable_is(uintptr_t address)
{
    for (size_t i = 0; i < NAMES; i++)
        if (named[i] == address)
            return true;
    return false;
}
