// SPDX-License-Identifier: MIT
#ifndef CAIRN_SYMBOL_FILES_DEBUG_FILE_H
#define CAIRN_SYMBOL_FILES_DEBUG_FILE_H

// Finds the file in which a distribution keeps the symbols and the DWARF of a stripped program.

#include "symbol/files/object.h"

// By build id below /usr/lib/debug (and $CAIRN_DEBUG_PATH, a list of folders, before it). True if
// found: *debug is then open.
bool debugfile_by_id(struct object *debug, const uint8_t *build_id, unsigned bytes);
// By the name and checksum in .gnu_debuglink: beside the program, in .debug/, and in
// /usr/lib/debug.
bool debugfile_by_link(struct object *debug, const struct object *main);

// Writes 2 * bytes hex digits and a NUL.
void debugfile_hex(const uint8_t *build_id, unsigned bytes, char *text);

#endif
