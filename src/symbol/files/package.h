// SPDX-License-Identifier: MIT
#ifndef CAIRN_SYMBOL_FILES_PACKAGE_H
#define CAIRN_SYMBOL_FILES_PACKAGE_H

#include <stddef.h>

// The Debian packages that own files: names[i] becomes the package of paths[i] (to be freed), or
// stays NULL. Reads the lists of dpkg itself, once for all: starting dpkg for each would take
// longer than the report.
void package_owners(const char *const *paths, char **names, size_t count);

#endif
