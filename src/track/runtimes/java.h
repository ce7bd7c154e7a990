// SPDX-License-Identifier: MIT
#ifndef CAIRN_TRACK_RUNTIMES_JAVA_H
#define CAIRN_TRACK_RUNTIMES_JAVA_H

// Frames of Java methods, as HotSpot runs them: interpreted, compiled, and inlined into compiled
// ones.
//
//   stack of the machine    start_thread ─ … ─ call_stub ─ interpreter ─ compiled ─ native ─ read()
//   path                    start_thread … call_stub  run     work › step      readBytes  read()
//
// The machine tells in its own memory what code a return address belongs to, how large that code's
// frames are, and which methods a position stands in. So its frames are left as exactly as others
// are by unwind tables, and nothing in the program is asked or changed: no thread, no event, no
// agent in the machine.

#include "loadmap/loadmap.h"
#include "track/runtimes/java_code.h"
#include "track/runtimes/runtime_names.h"
#include "unwind/unwind.h"

// A module was met. If it is a Java virtual machine, its frames are left and named from now on, as
// soon as it runs; `note` hears if they cannot be. Signal-safe, like all below.
void java_note_module(const struct module_info *module, void (*note)(const char *text));

// Whether a machine runs whose frames are known.
bool java_is_running(void);

// Whether the pc is in the machine's own code, and that is HotSpot, of any version. It asks for all
// unwind tables to learn its own file name, and unwinds without them: neither the return addresses
// of C code nor their tables are read.
bool java_is_hotspot(uintptr_t pc);

// The methods of a frame that the cursor has left, or in which it stands, if it is of the machine's
// (FRAME_RUNTIME): from the youngest on.
struct java_frames {
    struct java_scopes scopes;
    struct runtime_frame single; // function 0: none
};

// Of an interpreter's frame on the thread's own stack: the words that it is left and named by, beside
// its return address, as one number. They are JAVA_INTERPRETED_WORDS below its CFA, or less.
#define JAVA_INTERPRETED_WORDS 10
uintptr_t java_interpreted_words(uintptr_t cfa);

struct java_frames java_frames(const struct unwind_cursor *cursor);
bool java_next(struct java_frames *frames, struct runtime_frame *frame);

#endif
