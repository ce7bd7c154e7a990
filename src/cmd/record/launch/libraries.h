// SPDX-License-Identifier: MIT
#ifndef CAIRN_CMD_RECORD_LAUNCH_LIBRARIES_H
#define CAIRN_CMD_RECORD_LAUNCH_LIBRARIES_H

// Which libraries a program is loaded with.

#include <stdbool.h>

// Returns whether to go on.
typedef bool library_visitor(void *context, const char *path);

// Asks the program's loader, which alone knows all the places where it looks. The program itself is
// not run.
void each_library(const char *loader, const char *path, library_visitor *visit, void *context);

#endif
