// SPDX-License-Identifier: MIT
#ifndef CAIRN_TRACK_RUNTIMES_JAVA_METHOD_H
#define CAIRN_TRACK_RUNTIMES_JAVA_METHOD_H

// A method of a Java virtual machine: its class, name and file, and the line of a position in its
// bytecode. The class may be unloaded while it is read: each load is checked.

#include "track/runtimes/runtime_names.h"
#include <stdbool.h>
#include <stdint.h>

// The places of a method, and of the line of a position in it (below 0: where it begins). Tells
// their names when they are new. False: it is no method. Signal-safe, like the others.
bool java_method_frame(uintptr_t method, int32_t position, struct runtime_frame *frame);

// The same where the interpreter has the address of the bytecode. False as well if that is none of
// the method's.
bool java_method_frame_at(uintptr_t method, uintptr_t bytecode, struct runtime_frame *frame);

// The place of generated code that is no method's, by its name.
bool java_stub_frame(uintptr_t name, struct runtime_frame *frame);

// The line of a position by a compressed table, of which `readable` bytes can be read. 0: it has
// none. For tests, too.
uint32_t java_line(const unsigned char *table, size_t readable, uint32_t position);

#endif
