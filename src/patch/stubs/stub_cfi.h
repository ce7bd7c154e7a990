// SPDX-License-Identifier: MIT
#ifndef CAIRN_PATCH_STUBS_STUB_CFI_H
#define CAIRN_PATCH_STUBS_STUB_CFI_H

// Unwind tables of stubs for foreign unwinders, so that exceptions, backtrace() and debuggers see
// the program's own frames behind them.
//
// For them a stub is a frame of size zero: every register is as it is, and the return address is
// computed, not loaded: the start of the slot (the address, masked) plus the distance found there.
// The second phase of an exception identifies the handler's frame by its CFA. If the stub's CFA
// were its stack pointer, the stub would be found first: so it is one byte more, an address that no
// other frame has.
//
// One that throws an exception asks each frame on its way what to do, by a function that stands in
// its table: that of a stub may be ours.
//
// Between its two phases return addresses must not be led to a stub, or away from one: the frame
// behind it has another CFA then, and the second phase would not know it.
//
// Unwinders in the process ask the loader which table covers an address: the agent answers for
// stubs (stub_cfi_find, stub_cfi_iterate). Debuggers outside read an object file in memory for each
// region, by the interface that is meant for compilers at run time.

#include "patch/stubs/stub.h"
#include <link.h>
#include <unwind.h>

typedef _Unwind_Reason_Code (*stub_cfi_asked)(int version, _Unwind_Action actions,
                                              _Unwind_Exception_Class kind,
                                              struct _Unwind_Exception *exception,
                                              struct _Unwind_Context *context);

// The address that an unwinder wants the table of (0: it wants all of them), and the frame address
// of the function that it has called for that.
typedef void stub_cfi_searched(uintptr_t pc, const uintptr_t *frame);

// From now on an exception that comes by a stub asks `asked`, and `searched` is called when an
// unwinder of the program wants the table of any code: in its thread, and normal context. Before
// there is a region.
void stub_cfi_ask(stub_cfi_asked asked, stub_cfi_searched *searched);
stub_cfi_searched stub_cfi_search; // an unwinder of the program does

// The table at the start of a region: .eh_frame_hdr, then .eh_frame.
void stub_cfi_make_table(const struct region *region, unsigned char head[REGION_HEAD]);

// Announces a published region to debuggers. In a transaction. Without memory, it is not announced.
void stub_cfi_show_debugger(const struct region *region);

// The answer of _dl_find_object() for an address in a stub. False: not in one. Signal-safe.
bool stub_cfi_find(uintptr_t pc, uintptr_t *start, uintptr_t *end, void **table);

// Calls back for each region as dl_iterate_phdr() does for each library.
int stub_cfi_iterate(int (*callback)(struct dl_phdr_info *, size_t, void *), void *context);

#endif
