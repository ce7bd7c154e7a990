// SPDX-License-Identifier: MIT
// Runs another test program as a plugin: code that the loader could take away at any time.

#include "common.h"
#include <dlfcn.h>

int main(int argc, char **argv)
{
    void *plugin = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    CHECK(plugin);
    int (*run)(void) = (int (*)(void))(uintptr_t)dlsym(plugin, "plugin_main");
    CHECK(run);
    int status = run();
    NO_TAIL_CALL();
    return status;
}
