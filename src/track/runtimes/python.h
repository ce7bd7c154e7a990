// SPDX-License-Identifier: MIT
#ifndef CAIRN_TRACK_RUNTIMES_PYTHON_H
#define CAIRN_TRACK_RUNTIMES_PYTHON_H

// The Python functions that CPython runs, as frames between those of C.
//
// CPython's evaluation function has a record on its stack, which leads to the frames of the Python
// functions that it runs. Calls from Python to Python stay within one evaluation:
//
//   C stack        main ─ … ─ evaluate ─────────────── … ─ evaluate ────── list_sort
//                             │ record ◄──────────────────── │ record ◄── thread state
//   Python frames             └─► <module> ─► f ─► g          └─► key
//   path           main … evaluate <module> f g       … evaluate key       list_sort
//
// So a record tells which frame of C is an evaluation: the one that it lies in. Only versions whose
// structs are known are read (python_version), and each load is checked.

#include "track/runtimes/runtime_names.h"
#include "unwind/unwind.h"

// Looks for an interpreter in the process. In normal context. False: there is one of a version that
// is not known, and its functions have no frames.
bool python_start(void);

extern bool python_is_known; // set once, before threads are sampled

// The record of the youngest evaluation of the calling thread at or above a stack pointer; 0: none.
// Signal-safe, like all below.
uintptr_t python_record(uintptr_t sp);
// The next older one.
uintptr_t python_older_record(uintptr_t record);

// The frames of an evaluation, from the youngest on.
struct python_frames {
    uintptr_t next; // 0: there is no more
    uintptr_t page; // that was found to be readable
    uint32_t left;
};

// The words that say which frames the evaluations between two stack pointers have, and where these
// stand. Returns how many; `most`: there are too many. While words of the stack show that the
// records are there, and the words before one are the same, it can be read in normal context.
size_t python_words(uintptr_t sp, uintptr_t end, struct unwind_word *words, size_t most);

struct python_frames python_frames(uintptr_t record);
bool python_next(struct python_frames *frames, struct runtime_frame *frame);

#endif
