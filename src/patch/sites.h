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
//   apply    sites_apply()   any number of sites at once, with threads running in that code
//   look up  sites_locate()  from any address in a stub to its site, and what it has done so far
//
// A site may have several stubs; sites_apply() says which one it leads to. A stub stays as it is
// until its library is unloaded: threads may run in it, or return to it, at any time.
//
// Everything that changes something takes one lock, and says -EDEADLK rather than wait for the very
// thread that it has interrupted. It makes system calls of its own and calls nothing in the program
// that could be patched. All else is signal-safe and takes no lock.

#include "unwind/unwind.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JUMP_BYTES 5       // of the jump over a site
#define SHORT_JUMP_BYTES 2 // or over one that is followed by what cannot move

enum site_kind {
    SITE_CALL,
    SITE_CALL_INDIRECT,
    SITE_TAIL, // a jump to the start of another function
    SITE_TAIL_INDIRECT,
    SITE_KINDS,
};

enum site_form {
    FORM_JUMP,      // five bytes or more, with what comes before it perhaps: a jump
    FORM_BORROWED,  // shorter: the jump covers neighbours too, which move into the stub
    FORM_NEAR,      // and its neighbours cannot move: two bytes, to an island in the padding nearby
    FORM_DISPLACED, // or in the middle of a long instruction nearby, which has moved away
    FORM_TRAP,      // and there is none: int3, a signal each time it is reached
    SITE_FORMS,
};

// Why a call or jump is not among the sites of its function.
enum site_stays {
    STAYS_NAMED,    // its target returns twice, or asks the loader who called: setjmp, dlsym, ...
    STAYS_READS,    // its target reads its own return address, which would be the stub's
    STAYS_MIDDLE,   // not to the start of a function: reads the pc, a thunk, a part of a function
    STAYS_UNKNOWN,  // no table covers the target
    STAYS_PREFIXED, // padded by prefixes for the linker to rewrite (thread-local storage)
    STAYS_CONDITIONAL, // a conditional jump to another function
    STAYS_SHORT,       // a jump of two bytes to another function
    STAYS_TABLE,       // an indirect jump that may stay in its function
    STAYS_UNDECODED,   // its function holds what is no code, or is too large: counted once
    STAYS,
};

struct stub;
struct displacement;

// Filled by sites_find(). Only `stub` and what follows change later, under the lock.
struct site {
    uintptr_t address;
    uintptr_t function; // the first instruction of the function it is in
    // Direct: the function called, behind a PLT entry too; 0 if that is not bound yet, or indirect.
    uintptr_t target;
    uintptr_t slot; // the word of the GOT that it goes through, or 0
    uintptr_t room; // of the short forms: where there is room for its island
    uint8_t kind;   // enum site_kind
    uint8_t form;   // enum site_form
    uint8_t length; // of the call or jump
    uint8_t lead;   // bytes of neighbours before it that move with it: the jump begins there
    uint8_t span;   // bytes that the stub stands for: neighbours before, the call, those behind
    uint8_t starts; // bit i: an instruction begins i bytes into the span; among the bytes replaced
    uint8_t
        thunk; // 0, or one more than the register whose target a retpoline goes to: it is indirect
    unsigned char original[JUMP_BYTES]; // from the start of the span
    struct stub *_Atomic stub;          // that it leads to now; NULL: the original code
    struct stub *_Atomic shelter;       // where a thread goes that meets a trap here
    unsigned char *_Atomic island;      // its island, once that is written
    struct displacement *displacement;  // FORM_DISPLACED (displace.h)
    // The tracker's data about it. The tracker writes it, before the site leads anywhere; handlers
    // read it.
    void *_Atomic known;
};

// Where the jump is written.
static inline uintptr_t site_start(const struct site *site)
{
    return site->address - site->lead;
}

struct site_list {
    struct site *site; // in order of address
    unsigned count;
};

struct site_counts {
    uint64_t functions, sites[SITE_KINDS], forms[SITE_FORMS], stays[STAYS];
    // If not NULL, called for each that stays (for a function that is not decoded: with its begin).
    void (*stayed)(uintptr_t address, enum site_stays why);
};

// Whether code can be rewritten here. Once, in normal context, after loadmap_start(). -ENOSYS: the
// kernel cannot make other threads see new code (membarrier); -EACCES or another: memory cannot be
// written through /proc/self/mem, or not be executable.
int sites_start(void);

// In a forked child, before anything else of this.
void sites_after_fork(void);

// The sites of the function at pc; adds to `counts` when it is seen for the first time (NULL: not
// counted). -ENOENT: no table covers it; -EPERM: code that is never patched (the loader, ours).
int sites_find(uintptr_t pc, struct site_list *list, struct site_counts *counts);

// Calls `each` with the first address of each function of the module at `address`; stops when it
// returns other than 0, and returns that. -ENOTSUP: its table has no index.
int sites_functions(uintptr_t address, int (*each)(uintptr_t function, void *context),
                    void *context);

// True if a call of this function must not go through a stub (see STAYS_NAMED, STAYS_READS): for
// targets of indirect calls, once they are known.
bool sites_must_stay(uintptr_t function);

enum stub_kind {
    STUB_PLAIN, // the call as it is
    STUB_HOOK,  // calls a hook before it, and another one behind it if there is one
    STUB_TABLE, // of a call: adds a word to a thread-local number before it, and takes that off
                // behind it; each thread has a pointer to its table of words
    STUB_CHAIN, // of an indirect site: leads to another stub of the site, by the target
};

#define STUB_ARMS 512 // most of a chain

struct stub_arm {
    uintptr_t target;
    struct stub *stub; // STUB_TABLE or STUB_PLAIN of it; of a jump, which needs none: NULL
};

// The code of a stub around its call (a tail jump has nothing behind it).
struct stub_plan {
    enum stub_kind kind;
    // STUB_HOOK; NULL: none. They are called with everything as it is at the site, but
    // for the return address, which names the stub: they preserve all registers.
    void (*before)(void), (*after)(void);
    // STUB_HOOK of an indirect site: `before` finds the target above its return address. (Not in
    // thread-local memory, where a signal's handler could leave another one meanwhile.)
    bool push_target;
    // STUB_CHAIN: the targets that it knows, and the STUB_HOOK of the site, with push_target, that
    // all others lead to. Nothing ever returns to a chain, so a site can be led from one to another
    // at any time.
    const struct stub_arm *arms;
    unsigned arm_count;
    struct stub *otherwise;
    // STUB_TABLE: where the number and the pointer to the table are, from the thread pointer (%fs),
    // and the word of it that is added before, and taken off behind. Of a negative word, `before`
    // and `after` are called instead, with the word in rax, of which the program's value lies above
    // the return address.
    int32_t tls_number, tls_table;
    uint32_t index;
    // STUB_TABLE or STUB_PLAIN of an indirect site: its target. Chains lead there.
    uintptr_t target;
};

// A new stub. *stub is set. -ENOMEM: no memory within reach. -ENOTSUP: this cannot be done for it
// (an instruction that reaches too far, a chain that is too long).
int stub_make(struct site *site, const struct stub_plan *plan, struct stub **stub);

// Writes what is to be written of stubs that are made, as sites_apply() does.
int sites_flush(void);

struct site_change {
    struct site *site;
    struct stub *stub; // NULL: back to the original code
};

enum company {
    COMPANY_NONE,    // no other thread runs in this process: one pass, no barrier
    COMPANY_THREADS, // threads may be anywhere
};

// Leads each site to its stub. The changes are put in order of address. On an error some of them
// may have been made, and none is left half-made. -EAGAIN: in company, while sites_hold_traps().
int sites_apply(struct site_change *changes, size_t count, enum company company);

// In company, rewriting passes through traps, and a thread that blocks SIGTRAP would be killed by
// one. Before it does: true, and no trap is written until sites_release_traps(). False: there are
// some, for the moment. Signal-safe.
bool sites_hold_traps(void);
void sites_release_traps(void);
// Holds them as soon as there are none, and for good.
void sites_end_traps(void);

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

// The state that the program would have at a pc in a stub, be it a return address or a thread's: for
// unwind_truth. Signal-safe.
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
