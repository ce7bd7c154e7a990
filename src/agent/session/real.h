// SPDX-License-Identifier: MIT
#ifndef CAIRN_AGENT_SESSION_REAL_H
#define CAIRN_AGENT_SESSION_REAL_H

// The functions behind those that the agent interposes.

#include <dlfcn.h>

// The next definition of `name`, looked up on first use (a library's constructor may call before
// ours ran). Relaxed: two threads that race store the same address.
#define REAL(name)                                                                                 \
    ({                                                                                             \
        static __typeof__(&name) real_function;                                                    \
        __typeof__(&name) found = __atomic_load_n(&real_function, __ATOMIC_RELAXED);               \
        if (!found) {                                                                              \
            found = (__typeof__(&name))dlsym(RTLD_NEXT, #name);                                    \
            __atomic_store_n(&real_function, found, __ATOMIC_RELAXED);                             \
        }                                                                                          \
        found;                                                                                     \
    })

#endif
