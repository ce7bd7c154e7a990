// SPDX-License-Identifier: MIT
#ifndef CAIRN_INJECT_SYMBOLS_H
#define CAIRN_INJECT_SYMBOLS_H

#include <stdbool.h>
#include <stdint.h>

// The addresses of symbols that a library shows, from its begin; 0 for those that it does not have.
// False: it cannot be read.
bool symbols_find(const char *path, const char *const *names, uint64_t *found, unsigned count);

#endif
