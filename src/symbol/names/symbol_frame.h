// SPDX-License-Identifier: MIT
#ifndef CAIRN_SYMBOL_NAMES_SYMBOL_FRAME_H
#define CAIRN_SYMBOL_NAMES_SYMBOL_FRAME_H

// A function at a line, as people read it.
struct symbol_frame {
    const char *function; // demangled; "module+0x123" where nothing is known. Never NULL
    const char *file;     // NULL if not known
    unsigned line;        // 0 if not known
};

#endif
