// SPDX-License-Identifier: MIT
#ifndef CAIRN_OUTSIDE_LOAD_MAP_H
#define CAIRN_OUTSIDE_LOAD_MAP_H

// The load map of the unwinder in the tool (loadmap/loadmap.h): the mirrors, and the generated code
// of one process.

struct space;

// From here on, the generated code is that of this process. NULL: there is none.
void load_map_of(const struct space *space);

#endif
