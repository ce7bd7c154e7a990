// SPDX-License-Identifier: MIT
#ifndef CAIRN_TRACK_RUNTIMES_JAVA_LAYOUT_H
#define CAIRN_TRACK_RUNTIMES_JAVA_LAYOUT_H

// Where the Java virtual machine HotSpot has what. It describes its own structs, in tables that it
// exports for debuggers (gHotSpotVMStructs and others).

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum java_field {
    // Statics: the address.
    JAVA_VERSION,
    JAVA_CODE_LOW,
    JAVA_CODE_HIGH,
    JAVA_CODE_HEAPS,
    JAVA_CALL_RETURN,
    JAVA_INTERPRETER,
    JAVA_STATICS,
    // Others: bytes from the beginning of the struct.
    JAVA_INTERPRETER_CODE = JAVA_STATICS,
    JAVA_INTERPRETER_BYTES,
    JAVA_ARRAY_LENGTH,
    JAVA_ARRAY_DATA,
    JAVA_HEAP_MEMORY,
    JAVA_HEAP_SEGMENTS,
    JAVA_HEAP_SEGMENT_SHIFT,
    JAVA_SPACE_LOW,
    JAVA_SPACE_HIGH,
    JAVA_BLOB_NAME,
    JAVA_BLOB_FRAME_WORDS,
    JAVA_BLOB_CODE,
    JAVA_BLOB_CODE_END,
    JAVA_COMPILED_METHOD,
    JAVA_COMPILED_SCOPES,
    JAVA_COMPILED_DEOPT,
    JAVA_COMPILED_DEOPT_HANDLE,
    JAVA_COMPILED_ENTRY,
    JAVA_COMPILED_ORIGINAL_PC,
    JAVA_COMPILED_METADATA,
    JAVA_COMPILED_POSITIONS,
    JAVA_COMPILED_POSITIONS_END,
    JAVA_POSITION_PC,
    JAVA_POSITION_SCOPE,
    JAVA_METHOD_CONSTANT,
    JAVA_CONSTANT_POOL,
    JAVA_CONSTANT_FLAGS,
    JAVA_CONSTANT_CODE_BYTES,
    JAVA_CONSTANT_NAME,
    JAVA_CONSTANT_SIGNATURE,
    JAVA_POOL_HOLDER,
    JAVA_POOL_FILE,
    JAVA_CLASS_NAME,
    JAVA_CLASS_POOL,
    JAVA_SYMBOL_LENGTH,
    JAVA_SYMBOL_BODY,
    JAVA_FIELDS,
    // Sizes of structs.
    JAVA_BLOCK_BYTES = JAVA_FIELDS,
    JAVA_POSITION_BYTES,
    JAVA_CONSTANT_BYTES,
    JAVA_POOL_BYTES,
    JAVA_LAYOUT,
};

extern uintptr_t java_layout[JAVA_LAYOUT] __attribute__((visibility("hidden")));

// Fills java_layout from a module that is loaded. NULL, or what it lacks. Signal-safe.
const char *java_layout_read(uintptr_t base, size_t bytes);

// Whether the module is a Java virtual machine at all. Signal-safe.
bool java_layout_is_machine(uintptr_t base, size_t bytes);

// Whether it is HotSpot, of any version: it describes its structs. Signal-safe.
bool java_layout_is_hotspot(uintptr_t base, size_t bytes);

#endif
