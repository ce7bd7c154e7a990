// SPDX-License-Identifier: MIT
#ifndef CAIRN_PATCH_ENTRIES_ENTRY_CODE_H
#define CAIRN_PATCH_ENTRIES_ENTRY_CODE_H

// The code of an entry that is off: a no-op of five bytes, or of six.

enum { ENTRY_BYTES = 5, LONG_NO_OP_BYTES = ENTRY_BYTES + 1 };

extern const unsigned char entries_no_op[ENTRY_BYTES] __attribute__((visibility("hidden")));
extern const unsigned char entries_long_no_op[LONG_NO_OP_BYTES]
    __attribute__((visibility("hidden")));

#endif
