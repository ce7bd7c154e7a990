// SPDX-License-Identifier: MIT
#ifndef CAIRN_AGENT_API_ITEM_H
#define CAIRN_AGENT_API_ITEM_H

// From edges, which are places, to the addresses and files that the program gets.

#include "live/live.h"
#include "tree/tree.h"
#include <cairn.h>

#define API_MOST_FRAMES 256 // that an item tells

// The modules that were met, by their number. Valid until it is closed.
struct api_modules {
    const struct live_module **by_id;
};

// 0 or -errno. In normal context.
int api_modules_open(struct api_modules *modules);
void api_modules_close(struct api_modules *modules);

struct cairn_frame api_frame(const struct api_modules *modules, const struct edge *edge);

#endif
