// SPDX-License-Identifier: MIT
#include "base/likely.h"
#include "track/runtimes/java.h"
#include "track/runtimes/java_code.h"
#include "track/runtimes/java_layout.h"
#include "track/runtimes/java_method.h"
#include "track/runtimes/java_step.h"
#include "unwind/arch.h"
#include "unwind/stack.h"
#include <string.h>

#define WORD sizeof(uintptr_t)
#define SEARCHED 512  // words
#define MOST_PUSHED 4 // words, by what is done within an instruction of the machine's
#define BYTECODE_REGISTER 13

// Words of an interpreter's frame, from where the frame pointer leads.
enum { SENDER_SP = -1, METHOD = -3, BYTECODE = -8, CALLER_FP = 0, RETURN_ADDRESS = 1 };
_Static_assert(JAVA_INTERPRETED_WORDS == 2 - BYTECODE, "the lowest word that is looked at");

#define SAVED_FP -2 // words from the CFA: next to the return address

static bool load(struct unwind_cursor *cursor, uintptr_t base, int words, uintptr_t *value)
{
    return stack_load(cursor, base + (uintptr_t)(words * (intptr_t)WORD), value);
}

// fp_offset: of the word that fp was read from, as FRAME_BY_WORDS has it.
static enum unwind_leave leave_at(uintptr_t slot, uintptr_t pc, uintptr_t fp, int16_t fp_offset,
                                  struct frame_caller *caller)
{
    caller->slot = slot;
    caller->cfa = caller->sp = slot + WORD;
    caller->pc = pc;
    caller->fp = fp;
    caller->proven = caller->by_words = true;
    caller->fp_offset = fp_offset;
    return UNWIND_LEFT;
}

static bool begins_with(uintptr_t at, const char *bytes, size_t count)
{
    return memcmp((const void *)at, bytes, count) == 0;
}

// The interpreter makes return addresses by itself: code that takes the stack pointer of before the
// call out of the frame, or clears it after compiled code was given up.
static bool is_interpreter_return(const struct java_code *code, uintptr_t word)
{
    return code->kind == JAVA_INTERPRETED &&
           (begins_with(word, "\x48\x8b\x65\xf0", 4) || begins_with(word, "\x48\xc7\x45\xf0", 4));
}

// A word that code of the machine may return to.
static bool is_return(uintptr_t word)
{
    struct java_code code;
    return java_code_holds(word) && java_code_at(word, &code) &&
           (is_interpreter_return(&code, word) ||
            (word - code.begin >= ARCH_CALL_MOST &&
             arch_follows_call((const unsigned char *)code.begin, (const unsigned char *)word)) ||
            (code.kind == JAVA_COMPILED && java_code_is_abandoned(&code, word, &(uintptr_t){0})));
}

// The same where a return address must be: where an exception was thrown, its position is put there
// for the time of the search for a handler.
static bool is_return_or_throw(uintptr_t word)
{
    struct java_code code;
    return is_return(word) || (java_code_holds(word) && java_code_at(word, &code) &&
                               (code.kind == JAVA_INTERPRETED || java_code_lists(&code, word)));
}

// C code has called the machine's.
static bool is_foreign_return(uintptr_t word)
{
    return !java_code_holds(word) && word >> 47 == 0 && unwind_follows_call(word);
}

static enum unwind_leave search(struct unwind_cursor *cursor, struct frame_caller *caller)
{
    const uintptr_t sp = (cursor->sp + WORD - 1) & ~(WORD - 1);
    const bool from_stub = cursor->generated.function != 0; // C code may have called it
    uintptr_t word, fp, saved;
    for (int i = 0; i < SEARCHED && load(cursor, sp, i, &word); i++) {
        if (!is_return(word) && !(from_stub && is_foreign_return(word)))
            continue;
        const uintptr_t slot = sp + (unsigned)i * WORD;
        fp = cursor->bp;
        if (i > 0 && load(cursor, slot, -1, &saved) && saved > slot && saved % WORD == 0 &&
            stack_in_region(cursor, saved))
            fp = saved;
        leave_at(slot, word, fp, 0, caller);
        caller->proven = caller->by_words = false;
        return UNWIND_LEFT;
    }
    return UNWIND_LOST;
}

// A frame with a chain: the saved frame pointer, and above it the return address.
static enum unwind_leave leave_by_chain(struct unwind_cursor *cursor, struct frame_caller *caller)
{
    const uintptr_t fp = cursor->bp;
    uintptr_t saved, ra;
    if (fp < cursor->sp || fp % WORD || !load(cursor, fp, CALLER_FP, &saved) ||
        !load(cursor, fp, RETURN_ADDRESS, &ra))
        return UNWIND_LOST;
    return leave_at(fp + WORD, ra, saved, SAVED_FP, caller);
}

static void describe_stub(struct unwind_cursor *cursor, uintptr_t name)
{
    struct runtime_frame frame;
    if (!java_stub_frame(name, &frame))
        return;
    cursor->generated.function = frame.function;
    cursor->generated.line = frame.line;
}

// The method that an interpreter's frame stands for. While it is interrupted, its position is in a
// register.
static bool describe_interpreted(struct unwind_cursor *cursor)
{
    struct unwind_generated *generated = &cursor->generated;
    struct runtime_frame frame;
    uintptr_t method, bytecode;
    if (!load(cursor, cursor->bp, METHOD, &method) ||
        !load(cursor, cursor->bp, BYTECODE, &bytecode))
        return false;
    const bool known = generated->interrupted && cursor->known >> BYTECODE_REGISTER & 1;
    if (!(known && java_method_frame_at(method, cursor->registers[BYTECODE_REGISTER], &frame)) &&
        !java_method_frame_at(method, bytecode, &frame) && !java_method_frame(method, 0, &frame))
        return false;
    generated->function = frame.function;
    generated->line = frame.line;
    return true;
}

// The stack pointer of the caller is kept apart: the interpreter makes room above its frame.
static enum unwind_leave step_interpreted(struct unwind_cursor *cursor,
                                          const struct java_code *code, struct frame_caller *caller)
{
    const uintptr_t fp = cursor->bp;
    uintptr_t sp;
    if (fp % WORD || fp < cursor->sp || !stack_in_region(cursor, fp) ||
        !load(cursor, fp, SENDER_SP, &sp) || sp <= fp + WORD || sp % WORD ||
        !stack_in_region(cursor, sp) || !describe_interpreted(cursor) ||
        leave_by_chain(cursor, caller) != UNWIND_LEFT) {
        describe_stub(cursor, java_code_name(code));
        return search(cursor, caller);
    }
    caller->sp = sp;
    cursor->generated.interpreted = true;
    return UNWIND_LEFT;
}

uintptr_t java_interpreted_words(uintptr_t cfa)
{
    const stack_word *frame = (const stack_word *)(cfa + SAVED_FP * (intptr_t)WORD);
    const uintptr_t words[] = {frame[CALLER_FP], frame[SENDER_SP], frame[METHOD], frame[BYTECODE]};
    uint64_t all = 0;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        all = runtime_hash(all, words[i]);
    return all;
}

static bool follows(const struct java_code *code, uintptr_t pc, const char *bytes, size_t count,
                    size_t distance)
{
    return pc - code->begin >= distance && begins_with(pc - distance, bytes, count);
}

// How many words lie between the stack pointer and the return address, where the frame is not there
// yet or no longer; -1: it is there. *saved: the caller's frame pointer is the lower one.
static int words_of_edge(const struct java_code *code, uintptr_t pc, bool *saved)
{
    const unsigned char first = *(const unsigned char *)pc;
    *saved = false;
    if ((code->kind != JAVA_STUB && pc <= java_code_entry(code)) || first == 0x55 || first == 0xc3)
        return 0; // push %rbp, ret
    if (code->end - pc < 7)
        return -1;
    const bool reserves = begins_with(pc, "\x48\x83\xec", 3) || begins_with(pc, "\x48\x81\xec", 3);
    const bool sets = begins_with(pc, "\x48\x8b\xec", 3) || begins_with(pc, "\x48\x89\xe5", 3);
    const bool pushed = follows(code, pc, "\x55", 1, 1) ||
                        follows(code, pc, "\x55\x48\x8b\xec", 4, 4) ||
                        follows(code, pc, "\x55\x48\x89\xe5", 4, 4);
    if (first == 0x5d || ((reserves || sets) && pushed)) { // pop %rbp, or what follows the push
        *saved = true;
        return 1;
    }
    // Far below the stack; and the question before a return whether all threads shall stop.
    const bool touches = begins_with(pc, "\x89\x84\x24", 3) && *(const signed char *)(pc + 6) < 0;
    const bool polls = begins_with(pc, "\x49\x3b\xa7", 3) || begins_with(pc, "\x49\x3b\x67", 3);
    const bool polled =
        begins_with(pc, "\x0f\x87", 2) &&
        (follows(code, pc, "\x49\x3b\xa7", 3, 7) || follows(code, pc, "\x49\x3b\x67", 3, 4));
    return reserves || touches || polls || polled ? 0 : -1;
}

// mov %rbp, at the frame that was just made
static bool saves_frame_pointer(uintptr_t at)
{
    return begins_with(at, "\x48\x89\x6c\x24", 4) || begins_with(at, "\x48\x89\xac\x24", 4);
}

// Some of the machine's instructions become loops or calls, which push registers for a while.
static int beyond_pushed(struct unwind_cursor *cursor, int words)
{
    uintptr_t word;
    if (!load(cursor, cursor->sp, words, &word) || is_return_or_throw(word))
        return words;
    for (int i = 0; i <= MOST_PUSHED && load(cursor, cursor->sp, words + i, &word); i++)
        if (is_return(word))
            return words + i;
    return words;
}

// Code whose frame has a known size.
static enum unwind_leave step_sized(struct unwind_cursor *cursor, const struct java_code *code,
                                    struct frame_caller *caller)
{
    const struct unwind_generated *generated = &cursor->generated;
    const uintptr_t sp = cursor->sp;
    uintptr_t ra, fp = cursor->bp;
    int words = code->frame_words ? (int)code->frame_words - 1 : 0;
    bool saved = words > 0;
    if (generated->interrupted) {
        bool saved_at_edge;
        const int edge = words_of_edge(code, generated->pc, &saved_at_edge);
        if (edge >= 0)
            words = edge;
        if (edge >= 0 || saves_frame_pointer(generated->pc))
            saved = saved_at_edge;
    }
    const int known = words;
    if (words > 0)
        words = beyond_pushed(cursor, words);
    if (!load(cursor, sp, words, &ra) || !is_return_or_throw(ra) ||
        (saved && !load(cursor, sp, words - 1, &fp)))
        return search(cursor, caller);
    leave_at(sp + (uintptr_t)words * WORD, ra, fp, saved ? SAVED_FP : 0, caller);
    caller->by_words = words == known;
    return UNWIND_LEFT;
}

static enum unwind_leave step_compiled(struct unwind_cursor *cursor, const struct java_code *code,
                                       struct frame_caller *caller)
{
    struct unwind_generated *generated = &cursor->generated;
    uintptr_t offset, original;
    const bool abandoned =
        !generated->interrupted && java_code_is_abandoned(code, generated->pc, &offset);
    if (abandoned && stack_load(cursor, cursor->sp + offset, &original) &&
        original >= code->begin && original < code->end)
        generated->pc = original;
    const enum unwind_leave how = step_sized(cursor, code, caller);
    caller->by_words &= !abandoned; // named by one more
    return how;
}

// A stub that begins with a link of the chain of frame pointers.
static bool is_chained(const struct java_code *code, uintptr_t pc)
{
    return code->end - code->begin > 4 && pc - code->begin >= 4 &&
           (begins_with(code->begin, "\x55\x48\x8b\xec", 4) ||
            begins_with(code->begin, "\x55\x48\x89\xe5", 4));
}

static enum unwind_leave step_stub(struct unwind_cursor *cursor, const struct java_code *code,
                                   struct frame_caller *caller)
{
    const struct unwind_generated *generated = &cursor->generated;
    const uintptr_t pc = generated->pc;
    uintptr_t top, ra;
    // Where C code calls Java: the chain is sure, and leads out of the machine's code.
    if (pc == *(const uintptr_t *)java_layout[JAVA_CALL_RETURN]) {
        describe_stub(cursor, (uintptr_t) "call_stub");
        return leave_by_chain(cursor, caller);
    }
    describe_stub(cursor, java_code_name(code));
    const bool chained = is_chained(code, pc) && *(const unsigned char *)pc != 0xc3;
    if (code->frame_words > 1 && !chained)
        return step_sized(cursor, code, caller);
    if (!chained && load(cursor, cursor->sp, 0, &top) && (is_return(top) || is_foreign_return(top)))
        return leave_at(cursor->sp, top, cursor->bp, 0, caller);
    if (load(cursor, cursor->bp, RETURN_ADDRESS, &ra) &&
        (is_return_or_throw(ra) || is_foreign_return(ra)) &&
        leave_by_chain(cursor, caller) == UNWIND_LEFT) {
        caller->by_words = chained; // or by what lies at the stack pointer
        return UNWIND_LEFT;
    }
    return search(cursor, caller);
}

enum unwind_leave java_leave(struct unwind_cursor *cursor, struct frame_caller *caller)
{
    struct java_code code;
    uintptr_t word;
    const bool interrupted = cursor->frame.flags & FRAME_INTERRUPTED;
    // Moves the region to the stack.
    if (!java_code_at(cursor->frame.pc, &code) ||
        !stack_load(cursor, cursor->sp & ~(WORD - 1), &word))
        return UNWIND_FOREIGN;
    cursor->generated =
        (struct unwind_generated){.pc = cursor->frame.pc, .interrupted = interrupted};
    cursor->frame.flags |= FRAME_RUNTIME;
    switch (code.kind) {
    case JAVA_INTERPRETED:
        return step_interpreted(cursor, &code, caller);
    case JAVA_COMPILED:
    case JAVA_NATIVE:
        return step_compiled(cursor, &code, caller);
    case JAVA_STUB:
        break;
    }
    return step_stub(cursor, &code, caller);
}
