// SPDX-License-Identifier: MIT
#ifndef CAIRN_LOADMAP_LOADMAP_H
#define CAIRN_LOADMAP_LOADMAP_H

// Which module is mapped where. Never asks the loader from a signal handler. A pc that is not in
// the table is looked up with _dl_find_object (documented async-signal-safe; glibc 2.35). If that
// is missing, /proc/self/maps is read by plain system calls. A module that is found joins the
// table.
//
// A library that is unloaded and loaded again, anywhere, keeps its module id (same path and build
// id).
//
// The table is kept twice. A writer (under a lock) changes one copy while readers use the other, so
// a signal handler that interrupts a writer on its own thread still finds a whole table.
//
// Modules found by loadmap_start are taken to stay for good (a program's start-up libraries are
// never unloaded); all others are `permanent = false`, and are refused while a thread is inside
// dlclose.

#include "base/place.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Which runtime's tables describe return addresses. A runtime with tables of its own looks up each
// return address on the stack, to collect garbage or to move the stack: so no slot may be changed.
enum module_runtime {
    RUNTIME_NONE, // unwind tables alone
    RUNTIME_GO,
    RUNTIME_OCAML,
};

// The module at a pc, as a walk needs it; a copy, valid while a loadmap_enter() is open.
struct module_ref {
    unsigned id;                        // place_t module
    uint16_t permanent;                 // never unloaded: knowledge about its pcs holds for ever
    uint8_t runtime;                    // enum module_runtime
    uint8_t unwinds;                    // an unwinder
    uint8_t remembers;                  // one that remembers tables: libunwind
    uintptr_t base;                     // place offset = pc - base
    uintptr_t start, end;               // extent in memory; may have holes that cannot be read
    const unsigned char *eh_frame_hdr;  // NULL if it has none
    uintptr_t tables_start, tables_end; // the readable segment that holds eh_frame_hdr
    uintptr_t code_start, code_end;     // the executable segment
};

// A module that was met for the first time, or loaded elsewhere, as the agent publishes it.
struct module_info {
    unsigned id;
    const char *path; // "[vdso]" for the kernel's
    uintptr_t base;
    size_t bytes;
    enum module_runtime runtime;
    bool unwinds;   // an unwinder
    bool remembers; // one that remembers tables
    unsigned build_id_bytes;
    const unsigned char *build_id;
};

// Fills the table with what is loaded now. Not signal-safe. `found` is called for each module, then
// and later, in a signal handler too; it must not block. Returns 0 or -errno.
int loadmap_start(void (*found)(const struct module_info *module));

// In a forked child: forget who was inside the map (those threads do not exist here).
void loadmap_after_fork(void);

// Brackets around everything that reads a module's memory (unwind tables, code). Signal-safe,
// nests.
void loadmap_enter(void);
void loadmap_leave(void);

// The module at pc. Call between enter and leave. False: not code of any file (id is
// MODULE_ANONYMOUS if pc is in executable memory of no file, MODULE_NONE if it is not known to be
// code at all), or *unloading is set: it may vanish. Signal-safe.
bool loadmap_find(uintptr_t pc, struct module_ref *module, bool *unloading);

// The same for an address that is perhaps no code, such as a word met on a stack: only cheap
// answers, of the table or of the loader; never reads /proc. Signal-safe.
bool loadmap_peek(uintptr_t pc, struct module_ref *module);

// Whether pc was found to be in executable memory of no file lately, and no library has taken its
// place. False: ask. Signal-safe.
bool loadmap_is_generated(uintptr_t pc);

// Facts about memory without a file are valid for a turn, some thousand questions: nothing reports
// their change. Signal-safe.
#define LOADMAP_TURN 4096
extern _Atomic uint32_t loadmap_questions // written by loadmap alone
    __attribute__((visibility("hidden")));
static inline uint32_t loadmap_turn(void)
{
    return atomic_load_explicit(&loadmap_questions, memory_order_relaxed) / LOADMAP_TURN;
}

// Whether an address is code, likely: within what is known of modules and generated code, or
// between them. For words that mostly are none; much cheaper. Signal-safe.
bool loadmap_is_likely(uintptr_t address);

// The place of an address; code of no file has places of its own. Signal-safe.
place_t loadmap_place(uintptr_t address);

// Around dlclose, in normal context. before() waits until no walk is inside a table.
void loadmap_before_unload(void);
void loadmap_after_unload(void);

// Changes whenever a pc of a module that is not permanent may mean something else than before:
// cached knowledge about such pcs carries it. Never 0. Signal-safe.
extern _Atomic uint32_t loadmap_generation_count // written by loadmap alone
    __attribute__((visibility("hidden")));
static inline uint32_t loadmap_generation(void)
{
    return atomic_load_explicit(&loadmap_generation_count, memory_order_acquire);
}

// Two stretches of memory that hold the code of almost all modules (a program lies far from its
// libraries), and more. Written under the lock; read without it for guesses.
struct loadmap_hull {
    _Atomic uintptr_t start, bytes;
};
extern struct loadmap_hull loadmap_hulls[2] __attribute__((visibility("hidden")));

// The same as plain numbers, for many questions. Signal-safe, and without a branch.
struct loadmap_guess {
    uintptr_t start[2], bytes[2];
};

static inline struct loadmap_guess loadmap_guess(void)
{
    struct loadmap_guess guess;
    for (unsigned i = 0; i < 2; i++) {
        guess.start[i] = atomic_load_explicit(&loadmap_hulls[i].start, memory_order_relaxed);
        guess.bytes[i] = atomic_load_explicit(&loadmap_hulls[i].bytes, memory_order_relaxed);
    }
    return guess;
}

// True for a return address, likely.
static inline bool loadmap_guesses(const struct loadmap_guess *guess, uintptr_t address)
{
    return (address - guess->start[0] < guess->bytes[0]) |
           (address - guess->start[1] < guess->bytes[1]);
}

static inline bool loadmap_may_be_code(uintptr_t address)
{
    const struct loadmap_guess guess = loadmap_guess();
    return loadmap_guesses(&guess, address);
}

// True if the eight bytes at address (aligned to 8) can be read. Signal-safe: a system call that
// does nothing else. Keeps errno.
bool loadmap_readable(uintptr_t address);

#endif
