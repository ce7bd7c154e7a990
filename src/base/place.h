// SPDX-License-Identifier: MIT
#ifndef CAIRN_BASE_PLACE_H
#define CAIRN_BASE_PLACE_H

// A place is an address that means the same in every run: 16 bits of module, 48 bits of offset from
// the module's lowest loaded address. Loading a library elsewhere, or again, does not change it.

#include <stdint.h>

typedef uint64_t place_t;

enum {
    MODULE_NONE = 0,      // no place at all
    MODULE_ANONYMOUS = 1, // code that belongs to no file (JIT): the offset is the address itself
    MODULE_VDSO = 2,      // the kernel's own shared object
    MODULE_FIRST_FILE = 3,
    // In the memory of a recording; in a profile they are the files PLACE_FILES and so on.
    MODULE_FILES = 65531,  // files that are read and written: offsets are hashes
    MODULE_JAVA = 65532,   // methods that a Java virtual machine runs: offsets are hashes
    MODULE_PYTHON = 65533, // functions that an interpreter of Python runs: offsets are hashes
    MODULE_KERNEL = 65534,
    MODULE_LIMIT = 65535,
};

#define PLACE_FILES "[file]"
#define PLACE_JAVA "[java]"
#define PLACE_PYTHON "[python]"
#define PLACE_KERNEL "[kernel]"
// Offsets below this stand for system calls, by their number + 1; 0: by a number that is not known.
// All others are addresses, less the bits that all addresses of the kernel have.
#define PLACE_CALLS 4096

#define PLACE_OFFSET_BITS 48
// The offset of a function whose first instruction is not known (no FDE); its module is.
#define PLACE_OFFSET_UNKNOWN ((UINT64_C(1) << PLACE_OFFSET_BITS) - 1)
// A place that exists but is not known: of a call, for instance, that lies above the end of a cut
// sample.
#define PLACE_UNKNOWN ((place_t)MODULE_NONE << PLACE_OFFSET_BITS | PLACE_OFFSET_UNKNOWN)
// Frames of a profile that are no functions of the program (docs/format.md).
#define PLACE_STARTUP (PLACE_UNKNOWN - 1)        // from exec to the agent's first sample
#define PLACE_EXIT (PLACE_UNKNOWN - 2)           // after the process' last instruction
#define PLACE_STARTUP_KERNEL (PLACE_UNKNOWN - 3) // the kernel's part of the start-up

static inline place_t place_make(unsigned module, uint64_t offset)
{
    return (place_t)module << PLACE_OFFSET_BITS | (offset & PLACE_OFFSET_UNKNOWN);
}

static inline place_t place_of_system_call(long number)
{
    return place_make(MODULE_KERNEL,
                      number >= 0 && number < PLACE_CALLS - 1 ? (uint64_t)number + 1 : 0);
}

static inline unsigned place_module(place_t place)
{
    return (unsigned)(place >> PLACE_OFFSET_BITS);
}

static inline uint64_t place_offset(place_t place)
{
    return place & PLACE_OFFSET_UNKNOWN;
}

#endif
