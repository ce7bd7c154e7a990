// SPDX-License-Identifier: MIT
#ifndef CAIRN_TRACK_ENCODE_SITES_LIBRARIES_H
#define CAIRN_TRACK_ENCODE_SITES_LIBRARIES_H

// Libraries that come and go, and the end of all encoding.

#include "track/encode/threads/threads.h"

void encode_watch_loader(void); // once, before there is a site
// Whether the address is in a library that was loaded later, and the loader will tell before it is
// unloaded. Under the lock.
bool encode_is_watched(uintptr_t address);
// All sites run their original code, for good, and contexts are walked. The stack was walked. Under
// the lock.
void encode_stop(struct encode_thread *thread);

#endif
