// SPDX-License-Identifier: MIT
#ifndef CAIRN_PATCH_SITES_H
#define CAIRN_PATCH_SITES_H

// Call sites in running code: finding them, leading them through stubs, and back. docs/patching.md
// explains how and why.
//
//      the program                       its stub, within 2 GB
//   f:   ...                          ┌─► [distance to the site]
//        call g      jmp stub ────────┘   add  word, %fs:id
//        mov %eax,…                       call g           the return address lies here
//        ...      ◄────────────────────── sub  word, %fs:id ; jmp back
//
//   find     sites_find()    the sites of one function, decoded once
//   prepare  stub_make()     a stub for a site, by plan; not reached by anybody yet
//   change   patch_add()     which stub a site leads to
//            patch_commit()  any number of sites at once, with threads running in that code
//   look up  sites_locate()  from any address in a stub to its site, and what it has done so far
//
// A site may have several stubs. A stub stays as it is until its library is unloaded: threads may
// run in it, or return to it, at any time.
//
// All that finds, makes or changes something is called in a transaction (transaction.h). All else
// is signal-safe and takes no lock.

#include "patch/stubs/site.h"
#include "unwind/unwind.h"

// Whether code can be rewritten here. Once, in normal context, after loadmap_start(). -ENOSYS: the
// kernel cannot make other threads see new code (membarrier); -EACCES or another: memory cannot be
// written through /proc/self/mem, or not be executable.
int sites_start(void);

// The sites of the function at pc; adds to `counts` when it is seen for the first time (NULL: not
// counted). -ENOENT: no table covers it; -EPERM: code that is never patched (the loader, ours).
int sites_find(uintptr_t pc, struct site_list *list, struct site_counts *counts);

// Calls `each` with the first address of each function of the module at `address`; stops when it
// returns other than 0, and returns that. -ENOTSUP: its table has no index.
int sites_functions(uintptr_t address, int (*each)(uintptr_t function, void *context),
                    void *context);

// A new stub. *stub is set. -ENOMEM: no memory within reach. -ENOTSUP: this cannot be done for it
// (an instruction that reaches too far, a chain that is too long).
int stub_make(struct site *site, const struct stub_plan *plan, struct stub **stub);

// A library has been unloaded: forgets its functions, sites and stubs. In normal context.
void sites_forget(uintptr_t start, uintptr_t end);

// A thread has met a trap (pc behind it, as in the signal's context): returns where it continues.
// 0: not our trap. Signal-safe.
uintptr_t sites_trapped(uintptr_t pc);

struct stub_place {
    struct stub *stub;
    struct site *site;
    uintptr_t pc;     // where the thread is as if nothing were patched
    uintptr_t target; // that a chain has led to; 0: none
    bool hooked;      // the call has hooks around it
    bool by_table;    // it adds the word at `index`
    bool added;       // and it is added where the thread is
    uint32_t index;
    bool returns; // the very address that the call returns to
    bool pushed;  // the stack pointer is one word lower than it would be
};

// The meaning of an address in a stub: that of an interrupted instruction, or a return address
// (then place->pc is the one it stands for). False: not in a stub. Signal-safe.
bool sites_locate(uintptr_t pc, struct stub_place *place);

// The state that the program would have at a pc in a stub, be it a return address or a thread's:
// for unwind_truth. Signal-safe.
enum unwind_standing sites_truth(uintptr_t *pc, uintptr_t *sp, bool *interrupted);

// The address without stubs. Signal-safe.
uintptr_t sites_true_pc(uintptr_t pc);

// The return address that calls from this stub leave; 0 for tail jumps, and of a STUB_CHAIN.
uintptr_t stub_return_address(const struct stub *stub);

// The site at an address, if it was found before; a site's return address leads to it, too.
struct site *sites_at(uintptr_t address);
struct site *sites_before(uintptr_t return_address);

// Replaces what a foreign unwinder has read from the stack (stubs are frames to it) by what it
// would have read; returns how many are left.
size_t sites_clean_backtrace(void **address, size_t count);

bool sites_exist(void);     // there is a stub, or was one. Signal-safe.
uint64_t sites_bytes(void); // of memory for all this

#endif
