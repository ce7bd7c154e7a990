// SPDX-License-Identifier: MIT
#ifndef CAIRN_UNWIND_UNWIND_H
#define CAIRN_UNWIND_UNWIND_H

// From a frame to its caller. Everything here is safe in a signal handler: no allocation, no lock,
// no load that can fault.
//
//   struct unwind_cursor c;
//   unwind_start(&c, registers of the interrupted code, stack bounds);
//   do use(c.frame); while ((v = unwind_step(&c)) == UNWIND_OK);
//
// `frame` describes the frame that the cursor stands in; a step goes to its caller. The first time
// that a pc is met its FDE is interpreted, and the result (a recipe) is kept in a cache keyed by pc
// and load-map generation; warm, a step is a few loads. Shared by all threads without a lock
// (recipe.h).
//
// Only rsp and rbp are followed at every step. For a rule on another register, a second, slower
// cursor over all registers that a call preserves catches up with the first. It starts where the
// first did, and never goes the same way twice.

#include "base/place.h"
#include "base/verdict.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// DWARF numbers of the registers a cursor may know (x86-64: 0..15, 7 = rsp, 6 = rbp; 16 = return
// address).
#define UNWIND_REGISTERS 17

struct unwind_bounds {
    uintptr_t low, high; // the thread's own stack; loads within are direct, others are fault-safe
};

enum {
    FRAME_CFI = 1,    // found through an FDE, or another table
    FRAME_SIGNAL = 2, // a signal trampoline: its caller was interrupted, not calling
    FRAME_EH_RETURN =
        4, // a function that may return elsewhere (an unwinder at work): saves rax or rdx
    FRAME_INTERRUPTED = 8, // pc is an interrupted instruction (leaf, or caller of a trampoline),
                           // not a return address
    FRAME_AT_CALL = 16,    // of these, a call or a jump to another function that is led elsewhere:
                           // what lay below its stack pointer is overwritten
    FRAME_GUESSED = 64,    // its caller was guessed: by a frame pointer, or a search of the stack
    FRAME_RUNTIME = 128,   // generated code that its runtime knows: cursor.generated says more
    FRAME_BY_WORDS = 32,   // left by what pc, sp and bp were, the word at ra_slot, and that at
                           // cfa + fp_offset words (0: no other), and nothing else
};

struct unwind_frame {
    uintptr_t pc;
    place_t place; // of pc
    place_t
        function;  // of the function's first instruction, offset PLACE_OFFSET_UNKNOWN if not known
    uintptr_t cfa; // set by unwind_step for the frame it leaves: see below
    uintptr_t
        ra_slot;  // address of the slot that holds the return address (0: none, e.g. signal frame)
    uintptr_t bp; // the caller's
    uint16_t flags;
    int16_t fp_offset; // of FRAME_BY_WORDS
};

// A frame of a runtime's generated code, as the runtime sees it (unwind_runtime).
struct unwind_generated {
    uintptr_t pc;           // where it goes on
    place_t function, line; // what it stands for, if it is one function of the runtime; 0: ask
    bool interrupted;       // pc is an interrupted instruction
    bool interpreted;       // left and named by more words than FRAME_BY_WORDS has
};

// How to leave the frame of one pc; the content of the cache.
union unwind_recipe {
    struct {
        place_t function; // where the function begins; without a table, the place of the pc itself
        int32_t cfa_offset;  // of kind RECIPE_LOADED: two signed halves, inner and outer
        int32_t distance;    // of the pc from the function's first instruction
        int16_t fp_offset;   // of the saved frame pointer, in words; 0: not saved
        uint8_t kind;        // enum recipe_kind
        uint8_t detail;      // see recipe.h
        uint32_t generation; // 0: holds for ever
    };
    uint64_t word[3];
};

struct unwind_cursor {
    struct unwind_frame frame; // where the cursor stands; cfa and ra_slot are not yet known
    struct unwind_frame left;  // the frame that the last step left: complete, cfa and ra_slot too
    uintptr_t sp, bp;
    // A return address was searched for on the stack: it may belong to a call that is over.
    bool scanned;
    struct unwind_generated generated; // of the last frame with FRAME_RUNTIME
    // private to the unwinder from here
    uintptr_t limit;            // end of the stack that sp is on, 0 if that is not known
    union unwind_recipe recipe; // of frame.pc; its first word is not always kept
    // Words that begin in [region, region + reach) are loaded directly: bounds, the alternate
    // stack, probed pages.
    uintptr_t region, reach;
    struct unwind_bounds bounds;
    // Moves to another stack, and signal frames: bounded, as nothing else makes an end.
    unsigned switches;
    unsigned guesses; // frames left without a table
    uint32_t
        known; // which of `registers` are; they hold for the frame that [sp] and [ra] of them name
    bool base_interrupted, base_at_call;
    uintptr_t corrected_slot, corrected_pc;
    uintptr_t registers[UNWIND_REGISTERS];
};

// A call that comes back to pc, with these values of the stack and the frame pointer.
struct caller_registers {
    uintptr_t pc, sp, bp;
};

// The caller of a function that has this frame (__builtin_frame_address()).
static inline struct caller_registers unwind_caller_of(const void *frame)
{
    const uintptr_t *words = frame;
    return (struct caller_registers){.pc = words[1], .sp = (uintptr_t)(words + 2), .bp = words[0]};
}

enum unwind_result { UNWIND_OK, UNWIND_END };

// There will be many walks: pages for what is remembered of them, all at once. Signal-safe.
void unwind_expect_many(void);

// Asks the processor to have at hand what a walk from the interrupted code will look at first.
// Costs nothing; a handler has other things to do meanwhile.
void unwind_expect(const void *ucontext);

// The same, later: the entries that the search for the interrupted code's table reads, and the
// recipes of words in [low, high) that look like return addresses. The words must be readable.
// After some program they are in no cache, and a walk would wait for one after the other.
void unwind_expect_stack(const void *ucontext, uintptr_t low, uintptr_t high);

// Starts at the code interrupted by a signal (ucontext is a ucontext_t *).
void unwind_start(struct unwind_cursor *cursor, const void *ucontext, struct unwind_bounds bounds);

// Starts at a caller (for events that the program causes itself).
void unwind_start_here(struct unwind_cursor *cursor, const struct caller_registers *caller,
                       struct unwind_bounds bounds);

// Goes to the caller. UNWIND_OK, or UNWIND_END with the reason in *verdict (VERDICT_COMPLETE at the
// root). The new frame.pc is the raw word in the slot: if it is a marker's stub, correct it by
// unwind_correct() before the next step.
enum unwind_result unwind_step(struct unwind_cursor *cursor, enum verdict *verdict);

// Goes up to `most` (at least 1) steps at once, as long as they are ordinary ones, and fills left[]
// with the frame that each of them left. Returns how many; 0 says nothing: make a step. Only the
// last one can have come to a frame that is not left by a fast recipe, such as a marker's stub.
size_t unwind_run(struct unwind_cursor *cursor, struct unwind_frame *left, size_t most);

// The words that a walk depends on. While pc and sp (and bp, if by_fp), these words of the stack
// and the load map are the same, a walk leads through the same frames.
struct unwind_word {
    uintptr_t place, value;
};

struct unwind_trail {
    struct unwind_word *words;
    size_t count, frames;
    bool by_fp, stopped;
};

// Walks from a caller as unwind_start_here() does, to the root or to the frame whose return
// address is at `stop`, and notes that: at most so many words. False: it meets something out of the
// ordinary, or that no walk has met before. All of it on the stack of the bounds. Signal-safe.
bool unwind_follow(struct unwind_trail *trail, size_t most, const struct caller_registers *caller,
                   struct unwind_bounds bounds, uintptr_t stop);

// Replaces the pc of the current frame (the true return address behind a marker).
void unwind_correct(struct unwind_cursor *cursor, uintptr_t pc);

// True if the instruction before `ra` is a call. Reads code safely: false if ra is not in a known
// module.
bool unwind_follows_call(uintptr_t ra);

// The same in two parts, for callers that must not ask the loader in the second one, since it
// changes vector registers. In a module that stays, the first says nothing and the second looks at
// the code; in others the first does.
bool unwind_may_follow_call(uintptr_t ra);
bool unwind_still_follows_call(uintptr_t ra);

// Where a thread is whose pc is in code that calls are led through. At a call or jump that is about
// to happen, the function has restored its saved registers. The places where they were saved, below
// the stack pointer, are not valid any more, though a table may still name them.
enum unwind_standing { UNWIND_AS_IT_IS, UNWIND_ELSEWHERE, UNWIND_AT_CALL };

// For trackers that lead calls through code of their own: gives the state that the program would
// have at a pc in it. Corrects pc and sp, sets *interrupted if pc is an instruction rather than a
// return address. UNWIND_AS_IT_IS: not his. Set once, before the first of that code runs; called in
// signal handlers.
extern enum unwind_standing (*unwind_truth)(uintptr_t *pc, uintptr_t *sp, bool *interrupted)
    __attribute__((visibility("hidden")));

// A runtime that knows the frames of the code that it generates.
struct frame_caller;
enum unwind_leave {
    UNWIND_FOREIGN, // it is none of its frames
    UNWIND_LEFT,
    UNWIND_LOST, // one of its frames, whose caller is not found
};
struct unwind_runtime {
    bool (*owns)(uintptr_t pc); // the pc is in such code, or may be
    enum unwind_leave (*leave)(struct unwind_cursor *cursor, struct frame_caller *caller);
};
// Set in a process that has one: release; acquired by walks.
extern const struct unwind_runtime *_Atomic unwind_runtime __attribute__((visibility("hidden")));

static inline bool unwind_is_generated(uintptr_t pc)
{
    const struct unwind_runtime *runtime =
        atomic_load_explicit(&unwind_runtime, memory_order_acquire);
    return runtime && runtime->owns(pc);
}

// Bytes of static and private memory that the unwinder uses.
uint64_t unwind_bytes(void);

#endif
