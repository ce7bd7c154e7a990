// SPDX-License-Identifier: MIT
#include "base/likely.h"
#include "unwind/arch.h"
#include "unwind/fde.h"
#include "unwind/go.h"
#include "unwind/recipe.h"
#include "unwind/slow_steps.h"
#include "unwind/stack.h"
#include <string.h>

#define SWITCHES_MOST 128
#define EXPECTED 12 // return addresses that are looked for before a walk

enum unwind_standing (*unwind_truth)(uintptr_t *pc, uintptr_t *sp, bool *interrupted);
const struct unwind_runtime *_Atomic unwind_runtime;

// False: it is not known to be code, or not for long.
static __attribute__((noinline)) bool make_and_remember(struct recipe_set *set, uintptr_t pc,
                                                        bool interrupted,
                                                        union unwind_recipe *recipe)
{
    recipe_make(pc, interrupted, recipe);
    if (recipe->kind >= RECIPE_ANONYMOUS)
        return false;
    recipe_remember(set, pc + 1, recipe);
    return true;
}

static inline __attribute__((always_inline)) void
describe(struct unwind_cursor *cursor, uintptr_t pc, place_t function, bool interrupted)
{
    const union unwind_recipe *recipe = &cursor->recipe;
    struct unwind_frame *frame = &cursor->frame;
    frame->pc = pc;
    frame->place = function + (uint64_t)recipe_distance(recipe) + !interrupted;
    frame->function = function;
    frame->flags =
        (uint16_t)((recipe_detail(recipe) & DETAIL_FLAGS) | (interrupted ? FRAME_INTERRUPTED : 0));
    if (!LIKELY(recipe_kind(recipe) <= RECIPE_SIGNAL))
        frame->function = place_make(place_module(function), PLACE_OFFSET_UNKNOWN);
}

// Makes pc the cursor's frame.
static void settle(struct unwind_cursor *cursor, uintptr_t pc, bool interrupted)
{
    uintptr_t lookup = pc - !interrupted;
    struct recipe_set *set =
        interrupted ? recipe_set_of_instruction(lookup + 1) : recipe_set_of_call(lookup + 1);
    if (!recipe_recall(set, lookup + 1, &cursor->recipe))
        make_and_remember(set, lookup, interrupted, &cursor->recipe);
    describe(cursor, pc, cursor->recipe.function, interrupted);
}

// Sets what unwind_step() relies on from here on.
static void set_limit(struct unwind_cursor *cursor)
{
    if (!stack_in_region(cursor, cursor->sp) && stack_holds(&cursor->bounds, cursor->sp))
        stack_set_region(cursor, cursor->bounds);
    cursor->limit = stack_in_region(cursor, cursor->sp) ? cursor->region + cursor->reach + 7 : 0;
}

static void note_standing(struct unwind_cursor *cursor, bool at_call)
{
    if (at_call)
        cursor->frame.flags |= FRAME_AT_CALL;
}

static void begin(struct unwind_cursor *cursor, struct unwind_bounds bounds, uint32_t known,
                  bool interrupted)
{
    static const struct unwind_frame blank;
    const bool at_call =
        find_truth(&cursor->registers[ARCH_RA], &cursor->registers[ARCH_SP], &interrupted);
    cursor->sp = cursor->registers[ARCH_SP];
    cursor->bp = cursor->registers[ARCH_FP];
    cursor->bounds = bounds;
    stack_set_region(cursor, bounds);
    cursor->switches = cursor->guesses = 0;
    cursor->scanned = false;
    set_limit(cursor);
    cursor->corrected_slot = cursor->corrected_pc = 0;
    cursor->frame = cursor->left = blank;
    settle(cursor, cursor->registers[ARCH_RA], interrupted);
    note_standing(cursor, at_call);
    cursor->known = known;
    cursor->base_interrupted = interrupted;
    cursor->base_at_call = at_call;
    // Being executed, so it is code, whatever is known of it.
    if (cursor->recipe.kind == RECIPE_NO_CODE)
        cursor->recipe.kind = RECIPE_ANONYMOUS;
}

void unwind_expect(const void *ucontext)
{
    uintptr_t pc = *(const uintptr_t *)((const char *)ucontext + arch_context_offset(ARCH_RA));
    __builtin_prefetch(recipe_set_of_instruction(pc + 1));
    fde_expect(pc);
}

void unwind_expect_stack(const void *ucontext, uintptr_t low, uintptr_t high)
{
    uintptr_t word[EXPECTED + 1];
    uintptr_t pc = *(const uintptr_t *)((const char *)ucontext + arch_context_offset(ARCH_RA));
    bool known = recipe_is_known(recipe_set_of_instruction(pc + 1), pc + 1);
    unsigned count = 0;
    if (!known)
        fde_expect_entries(pc);
    // No branch on what a word is: that cannot be guessed.
    const struct loadmap_guess guess = loadmap_guess();
    for (; low < high && count < EXPECTED; low += 8) {
        word[count] = *(const stack_word *)low;
        count += loadmap_guesses(&guess, word[count]);
    }
    for (unsigned i = 0; i < count; i++)
        __builtin_prefetch(recipe_set_of_call(word[i]));
    if (!known)
        fde_expect_program(pc);
}

void unwind_start(struct unwind_cursor *cursor, const void *ucontext, struct unwind_bounds bounds)
{
    arch_context_registers(ucontext, cursor->registers);
    begin(cursor, bounds, ARCH_ALL_KNOWN, true);
}

void unwind_start_here(struct unwind_cursor *cursor, const struct caller_registers *caller,
                       struct unwind_bounds bounds)
{
    cursor->registers[ARCH_RA] = caller->pc;
    cursor->registers[ARCH_SP] = caller->sp;
    cursor->registers[ARCH_FP] = caller->bp;
    begin(cursor, bounds, 1u << ARCH_SP | 1u << ARCH_FP | 1u << ARCH_RA, false);
}

void unwind_correct(struct unwind_cursor *cursor, uintptr_t pc)
{
    bool interrupted = cursor->frame.flags & FRAME_INTERRUPTED;
    cursor->corrected_slot = cursor->left.ra_slot;
    cursor->corrected_pc = pc;
    if (full_cfi_is_current(cursor))
        cursor->registers[ARCH_RA] = pc;
    settle(cursor, pc, interrupted);
}

static inline __attribute__((always_inline)) void leave(struct unwind_cursor *cursor, uintptr_t cfa,
                                                        uintptr_t sp, uintptr_t fp, uintptr_t slot)
{
    // Field by field: a copy of the whole would load eight bytes of which four were just stored
    // (flags), and wait for them.
    const struct unwind_frame *frame = &cursor->frame;
    struct unwind_frame *left = &cursor->left;
    left->pc = frame->pc;
    left->place = frame->place;
    left->function = frame->function;
    left->flags = frame->flags;
    left->cfa = cfa;
    left->ra_slot = slot;
    left->bp = fp;
    cursor->sp = sp;
    cursor->bp = fp;
}

static inline __attribute__((always_inline)) void note_words(struct unwind_cursor *cursor,
                                                             int16_t fp_offset)
{
    cursor->left.flags |= FRAME_BY_WORDS;
    cursor->left.fp_offset = fp_offset;
}

static enum unwind_result end(enum verdict *verdict, enum verdict reason)
{
    *verdict = reason;
    return UNWIND_END;
}

// Stacks grow down, so a caller is above. If it is not, it is on another stack, of which there are
// not many. At the same height: the end of a longjmp, or a frame of no size.
static bool goes_up(struct unwind_cursor *cursor, uintptr_t sp)
{
    if (sp > cursor->sp)
        return true;
    bool level = sp == cursor->sp &&
                 (cursor->recipe.kind == RECIPE_FULL || cursor->recipe.detail & FRAME_SIGNAL);
    if (!level && stack_holds(&cursor->bounds, sp) && stack_holds(&cursor->bounds, cursor->sp))
        return false;
    return cursor->switches++ < SWITCHES_MOST;
}

// The pc of the frame that the cursor came to may be no code.
static enum unwind_result check_arrival(struct unwind_cursor *cursor, enum verdict *verdict)
{
    bool interrupted = cursor->frame.flags & FRAME_INTERRUPTED;
    if (cursor->recipe.kind == RECIPE_UNLOADING)
        return end(verdict, VERDICT_UNLOADING);
    if (cursor->recipe.kind == RECIPE_NO_CODE) {
        // Generated code that the load map has not met yet?
        if (!interrupted && !unwind_is_generated(cursor->frame.pc) &&
            !guess_follows_call_anywhere(cursor->frame.pc))
            return end(verdict, VERDICT_BAD_PC);
        cursor->recipe.kind = RECIPE_ANONYMOUS;
    }
    return UNWIND_OK;
}

static enum unwind_result move(struct unwind_cursor *cursor, struct frame_caller *caller,
                               enum verdict *verdict)
{
    caller->at_call |= find_truth(&caller->pc, &caller->sp, &caller->interrupted);
    if (!goes_up(cursor, caller->sp))
        return end(verdict, VERDICT_BAD_STACK);
    bool by_table = cursor->frame.flags & FRAME_CFI;
    leave(cursor, caller->cfa, caller->sp, caller->fp, caller->slot);
    if (caller->by_words)
        note_words(cursor, caller->fp_offset);
    set_limit(cursor);
    // Some coroutine libraries end their stacks with a null return address; so does zeroed memory
    // at the end of a guess.
    if (caller->pc == 0)
        return end(verdict, by_table && cursor->guesses == 0 ? VERDICT_COMPLETE : VERDICT_BAD_PC);
    settle(cursor, caller->pc, caller->interrupted);
    note_standing(cursor, caller->at_call);
    return check_arrival(cursor, verdict);
}

static bool register_value(struct unwind_cursor *cursor, unsigned reg, uintptr_t *value)
{
    if (reg == ARCH_SP || reg == ARCH_FP) {
        *value = reg == ARCH_SP ? cursor->sp : cursor->bp;
        return true;
    }
    full_cfi_catch_up(cursor);
    *value = cursor->registers[reg];
    return cursor->known >> reg & 1;
}

// All that a cached recipe can say, with every load checked.
static bool follow_recipe(struct unwind_cursor *cursor, struct frame_caller *caller,
                          enum verdict *verdict)
{
    const union unwind_recipe *recipe = &cursor->recipe;
    uintptr_t value, where = 0;
    *verdict = VERDICT_BAD_CFI;
    if (!register_value(cursor, recipe->detail >> DETAIL_REGISTER_SHIFT, &value))
        return false;
    *verdict = VERDICT_BAD_STACK;
    if (recipe->kind == RECIPE_LOADED) {
        int16_t inner = (int16_t)recipe->cfa_offset;
        if (!stack_load(cursor, value + (uintptr_t)(intptr_t)inner, &value))
            return false;
        caller->cfa = value + (uintptr_t)(intptr_t)(recipe->cfa_offset >> 16);
    } else {
        caller->cfa = value + (uintptr_t)(intptr_t)recipe->cfa_offset;
    }
    caller->slot = caller->cfa + (uintptr_t)(intptr_t)ARCH_RA_OFFSET;
    // After a guess the frame pointer may be anything: it is not followed.
    if (cursor->guesses != 0 && !stack_in_region(cursor, caller->slot))
        return false;
    caller->fp = cursor->bp;
    if (recipe->detail & DETAIL_FP_AT_FP)
        where = cursor->bp + (uintptr_t)(recipe->fp_offset * 8L);
    else if (recipe->fp_offset)
        where = caller->cfa + (uintptr_t)(recipe->fp_offset * 8L);
    if (cursor->frame.flags & FRAME_AT_CALL && where < cursor->sp)
        where = 0;
    if (where && !stack_load(cursor, where, &caller->fp))
        return false;
    caller->by_words = recipe->kind <= RECIPE_FP && !where == !recipe->fp_offset;
    caller->fp_offset = recipe->fp_offset;
    caller->sp = caller->cfa;
    caller->interrupted = recipe->detail & FRAME_SIGNAL;
    return stack_load(cursor, caller->slot, &caller->pc);
}

static enum unwind_result step_signal(struct unwind_cursor *cursor, enum verdict *verdict)
{
    uintptr_t context = cursor->sp, values[UNWIND_REGISTERS];
    if (cursor->switches++ >= SWITCHES_MOST)
        return end(verdict, VERDICT_BAD_STACK);
    for (unsigned i = 0; i < UNWIND_REGISTERS; i++)
        if (!stack_load(cursor, context + arch_context_offset(i), &values[i]))
            return end(verdict, VERDICT_BAD_STACK);
    bool interrupted = true;
    const bool at_call = find_truth(&values[ARCH_RA], &values[ARCH_SP], &interrupted);
    leave(cursor, values[ARCH_SP], values[ARCH_SP], values[ARCH_FP], 0);
    set_limit(cursor);
    settle(cursor, values[ARCH_RA], true);
    note_standing(cursor, at_call);
    memcpy(cursor->registers, values, sizeof values);
    full_cfi_restart(cursor, ARCH_ALL_KNOWN);
    return check_arrival(cursor, verdict);
}

static enum unwind_result step_guess(struct unwind_cursor *cursor, enum verdict *verdict,
                                     enum verdict reason)
{
    struct frame_caller caller = {0};
    if (cursor->recipe.kind == RECIPE_NO_TABLE && guess_is_root(cursor))
        return end(verdict, VERDICT_COMPLETE);
    if (cursor->recipe.kind == RECIPE_NO_TABLE && guess_is_planted(cursor)) {
        settle(cursor, cursor->frame.pc, true); // what lies before the function is another one
        return end(verdict, VERDICT_COMPLETE);
    }
    if (!guess_step(cursor, &caller))
        return end(verdict, reason);
    cursor->guesses++;
    if (!caller.proven)
        cursor->frame.flags |= FRAME_GUESSED;
    enum unwind_result result = move(cursor, &caller, verdict);
    full_cfi_restart(cursor, 1u << ARCH_SP | 1u << ARCH_FP | 1u << ARCH_RA);
    return result;
}

// Generated code: its runtime may know how to leave it.
static enum unwind_result step_generated(struct unwind_cursor *cursor, enum verdict *verdict)
{
    const struct unwind_runtime *runtime =
        atomic_load_explicit(&unwind_runtime, memory_order_acquire);
    struct frame_caller caller = {0};
    const enum unwind_leave how = runtime ? runtime->leave(cursor, &caller) : UNWIND_FOREIGN;
    if (how == UNWIND_FOREIGN)
        return step_guess(cursor, verdict, VERDICT_NO_CFI);
    if (how == UNWIND_LOST)
        return end(verdict, VERDICT_NO_CFI);
    if (!caller.proven)
        cursor->frame.flags |= FRAME_GUESSED;
    const enum unwind_result result = move(cursor, &caller, verdict);
    full_cfi_restart(cursor, 1u << ARCH_SP | 1u << ARCH_FP | 1u << ARCH_RA);
    return result;
}

// After a guess, the result of a table may be anything.
static bool leads_on(const struct unwind_cursor *cursor, struct frame_caller *caller)
{
    if (cursor->guesses == 0)
        return true;
    caller->at_call |= find_truth(&caller->pc, &caller->sp, &caller->interrupted);
    return caller->sp > cursor->sp && guess_is_code(caller->pc);
}

static __attribute__((noinline)) enum unwind_result step_slowly(struct unwind_cursor *cursor,
                                                                enum verdict *verdict)
{
    struct frame_caller caller = {0};
    bool found;
    switch (cursor->recipe.kind) {
    case RECIPE_ROOT:
        return end(verdict, VERDICT_COMPLETE);
    case RECIPE_SIGNAL:
        return step_signal(cursor, verdict);
    case RECIPE_UNLOADING:
        return end(verdict, VERDICT_UNLOADING);
    case RECIPE_ANONYMOUS:
        return step_generated(cursor, verdict);
    case RECIPE_NO_TABLE:
        return step_guess(cursor, verdict, VERDICT_NO_CFI);
    case RECIPE_BAD:
        return step_guess(cursor, verdict, VERDICT_BAD_CFI);
    case RECIPE_NO_CODE:
        return end(verdict, VERDICT_BAD_PC);
    case RECIPE_SWITCHED:
        // The words above it on this stack are not its caller's: no guess.
        return go_switch_step(cursor, &caller) ? move(cursor, &caller, verdict)
                                               : end(verdict, VERDICT_NO_CFI);
    case RECIPE_FULL:
        found = full_cfi_step(cursor, &caller, verdict);
        break;
    default:
        found = follow_recipe(cursor, &caller, verdict);
    }
    if (found && leads_on(cursor, &caller))
        return move(cursor, &caller, verdict);
    // A guess leaves the frame pointer as it was, which may be wrong: tables that build on it lead
    // nowhere.
    if (cursor->guesses != 0 && *verdict != VERDICT_COMPLETE)
        return step_guess(cursor, verdict, VERDICT_BAD_STACK);
    return UNWIND_END;
}

// The state that a step changes: where a walk is, and how it leaves that frame. In registers as
// long as the steps are ordinary ones.
struct stand {
    uintptr_t sp, fp, pc;
    place_t function;
    uint64_t second, third; // words of the recipe
};

static inline __attribute__((always_inline)) void stand_of(const struct unwind_cursor *cursor,
                                                           struct stand *stand)
{
    // Whole words: a part of a word that was stored a moment ago comes late.
    stand->sp = cursor->sp;
    stand->fp = cursor->bp;
    stand->pc = cursor->frame.pc;
    stand->function = cursor->frame.function;
    stand->second = cursor->recipe.word[1];
    stand->third = cursor->recipe.word[2];
}

// Steps to the caller if a few loads are enough: a recipe of a fast kind, the stack where it should
// be, and the caller in a module. False without a change if not. After a guess, only what was met
// before: the word may be anything.
static inline __attribute__((always_inline)) bool stand_up(struct stand *stand, uintptr_t limit,
                                                           const struct unwind_cursor *cursor)
{
    unsigned kind = stand->third >> 16 & 0xff;
    if (!LIKELY(kind <= RECIPE_FP))
        return false;
    // A branch, not a selection: guessed right, the next load need not wait for the kind.
    uintptr_t sp = stand->sp, fp = stand->fp, cfa = sp;
    if (kind == RECIPE_FP)
        __asm__("" : "=r"(cfa) : "0"(fp));
    cfa += (uintptr_t)(intptr_t)(int32_t)stand->second;
    // sp is on a stack that ends at the limit, so what is between them can be loaded.
    if (!LIKELY(cfa > sp + 7 && cfa <= limit))
        return false;
    int64_t fp_offset = (int16_t)stand->third;
    if (fp_offset) {
        uintptr_t where = cfa + (uintptr_t)(fp_offset * 8);
        if (!LIKELY(where >= sp && fp_offset < 0))
            return false;
        fp = *(const stack_word *)where;
    }
    uintptr_t ra = *(const stack_word *)(cfa + (uintptr_t)(intptr_t)ARCH_RA_OFFSET);
    union unwind_recipe recipe;
    struct recipe_set *set = recipe_set_of_call(ra);
    if (ra == 0 || (!LIKELY(recipe_recall(set, ra, &recipe)) &&
                    (cursor->guesses != 0 || !make_and_remember(set, ra - 1, false, &recipe))))
        return false;
    *stand = (struct stand){cfa, fp, ra, recipe.function, recipe.word[1], recipe.word[2]};
    return true;
}

// The cursor goes where stand_up went.
static inline __attribute__((always_inline)) void settle_at(struct unwind_cursor *cursor,
                                                            const struct stand *stand)
{
    cursor->sp = stand->sp;
    cursor->bp = stand->fp;
    cursor->recipe.word[1] = stand->second;
    cursor->recipe.word[2] = stand->third;
    describe(cursor, stand->pc, stand->function, false);
}

// No calls unless something is out of the ordinary.
enum unwind_result unwind_step(struct unwind_cursor *cursor, enum verdict *verdict)
{
    struct stand stand;
    stand_of(cursor, &stand);
    const int16_t fp_offset = (int16_t)stand.third;
    if (!LIKELY(stand_up(&stand, cursor->limit, cursor)))
        return step_slowly(cursor, verdict);
    leave(cursor, stand.sp, stand.sp, stand.fp, stand.sp + (uintptr_t)(intptr_t)ARCH_RA_OFFSET);
    note_words(cursor, fp_offset);
    settle_at(cursor, &stand);
    return UNWIND_OK;
}

size_t unwind_run(struct unwind_cursor *cursor, struct unwind_frame *left, size_t most)
{
    const uintptr_t limit = cursor->limit;
    struct unwind_frame *to = left, *const end = left + most;
    struct stand stand;
    stand_of(cursor, &stand);
    *to = cursor->frame;
    to->flags |= FRAME_BY_WORDS;
    to->fp_offset = (int16_t)stand.third;
    while (stand_up(&stand, limit, cursor)) {
        to->cfa = stand.sp;
        to->ra_slot = stand.sp + (uintptr_t)(intptr_t)ARCH_RA_OFFSET;
        to->bp = stand.fp;
        if (++to == end)
            break;
        // As describe() has it, but for recipes of any kind: if it is none of the fast ones, this
        // frame is not left here.
        to->pc = stand.pc;
        to->place = stand.function + (uint64_t)((int64_t)stand.second >> 32) + 1;
        to->function = stand.function;
        to->flags = (uint16_t)((stand.third >> 24 & DETAIL_FLAGS) | FRAME_BY_WORDS);
        to->fp_offset = (int16_t)stand.third;
    }
    if (to == left)
        return 0;
    cursor->left = to[-1];
    settle_at(cursor, &stand);
    return (size_t)(to - left);
}

uint64_t unwind_bytes(void)
{
    return sizeof recipe_sets + fde_bytes();
}
