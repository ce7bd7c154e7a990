// SPDX-License-Identifier: MIT
#ifndef CAIRN_PATCH_STUBS_SITE_H
#define CAIRN_PATCH_STUBS_SITE_H

// A call site, and the plan of a stub for it. patch/sites.h says what is done with them.

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

// Filled by sites_find(). Only `stub` and what follows change later, in transactions.
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

enum stub_kind {
    STUB_PLAIN, // the call as it is
    STUB_HOOK,  // calls a hook before it, and another one behind it if there is one
    STUB_TABLE, // of a call: adds a word to a thread-local number before it, and takes that off
                // behind it; each thread has a pointer to its table of words
    STUB_CHAIN, // of an indirect site: leads to another stub of the site, by the target
};

#define STUB_ARMS 512 // most of a chain; others may be linked behind it

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
    // all others lead to, or another chain, which knows more. Nothing ever returns to a chain, so a
    // site can be led from one to another at any time.
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

#endif
