// SPDX-License-Identifier: MIT
#ifndef CAIRN_SYMBOL_DWARF_LINE_CACHE_H
#define CAIRN_SYMBOL_DWARF_LINE_CACHE_H

// The lines and inlined functions of a large file, kept from one run of the tool to the next: one
// file for each build id, in the folder cairn of the user's cache ($XDG_CACHE_HOME, ~/.cache).
//
// Entries hold for the very file and tool that they were made with, by size and time. Files of
// other users, and damaged ones, are not used. The least recently used files are removed when the
// folder grows too large. With CAIRN_CACHE=off there is no cache.

#include "symbol/dwarf/lines.h"

struct linecache;

// NULL if nothing is to be cached: the file has no build id, or reading it takes no time.
struct linecache *linecache_open(const struct object *object, struct text_pool *pool);
// Answers the query if its offset is known.
bool linecache_find(const struct linecache *cache, struct lines_query *query);
void linecache_add(struct linecache *cache, const struct lines_query *query);
// Writes what was added, if anything was. A cache that cannot be written is no error.
void linecache_save(struct linecache *cache);
void linecache_close(struct linecache *cache);

#endif
