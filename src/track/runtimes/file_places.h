// SPDX-License-Identifier: MIT
#ifndef CAIRN_TRACK_RUNTIMES_FILE_PLACES_H
#define CAIRN_TRACK_RUNTIMES_FILE_PLACES_H

// The files that descriptors stand for, as places: the same path is the same place in every process.
//
//   descriptor ─► place          looked up once, until the descriptor is closed or opened anew
//   place ─► "/var/lib/app.db", "[pipe]", "[socket]"     a name beside the trees (runtime_names.h)
//
// A process names a limited number of files; more of them are "[other files]".

#include "base/place.h"

#define FILE_PLACES_DESCRIPTORS 4096 // higher ones have no place
#define FILE_PLACES_MOST 1024        // names

// 0: it is not known. Keeps errno.
place_t file_place(int descriptor);

// It stands for another file from now on, or for none. Returns it.
int file_place_forget(int descriptor);
void file_places_forget(unsigned first, unsigned last);

// Another recording begins in this process: all of them, and that names were told.
void file_places_forget_all(void);

#endif
