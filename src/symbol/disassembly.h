// SPDX-License-Identifier: MIT
#ifndef CAIRN_SYMBOL_DISASSEMBLY_H
#define CAIRN_SYMBOL_DISASSEMBLY_H

// The instructions of a function, read from the file that was recorded.

#include "profile/profile.h"

enum { DISASSEMBLY_TEXT = 128 };

struct disassembled {
    uint64_t offset; // of a place
    unsigned length;
    uint64_t target; // of a direct call or jump: an offset in the same module; 0: none
    bool calls;
    char text[DISASSEMBLY_TEXT]; // as the GNU tools write it
};

struct disassembly {
    uint64_t base; // addresses in the file are offsets and this
    uint64_t begin, end;
    struct disassembled *instructions; // in the order of their addresses
    size_t count;
};

// The function that begins at an offset of the module; it reaches as far as the unwind tables say,
// or, where they say nothing, to `least`. 0, or -1 and one line in *error, to be freed.
int disassemble(struct disassembly *code, const struct profile_module *module, uint64_t begin,
                uint64_t least, char **error);
void disassembly_free(struct disassembly *code);

#endif
