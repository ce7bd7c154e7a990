// SPDX-License-Identifier: MIT
// Walks out of code that somebody leads calls through: what lay below the stack pointer at the call
// is overwritten by then, and return addresses may be his.

#include "loadmap/loadmap.h"
#include "unwind_support.h"
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <ucontext.h>

#include <cmocka.h>

// A function that has restored its frame pointer, and is about to jump to another one. Tables still
// say that it lies where it was saved, below the stack pointer. Once more by a rule that
// takes another way through the unwinder. Their caller, with a frame pointer; where all begins; and
// code that no table tells of.
__asm__(
    ".text\n"
    "hands_on:\n"
    "    .cfi_startproc\n"
    "    push %rbp\n"
    "    .cfi_def_cfa_offset 16\n"
    "    .cfi_offset %rbp, -16\n"
    "    mov %rsp, %rbp\n"
    "    .cfi_def_cfa_register %rbp\n"
    "    pop %rbp\n"
    "    .cfi_def_cfa %rsp, 8\n"
    "hands_on_jump:\n"
    "    jmp *%rax\n"
    "    .cfi_endproc\n"
    "hands_on_oddly:\n"
    "    .cfi_startproc\n"
    "    .cfi_escape 0x14, 0x07, 0x00\n" // the stack pointer is CFA + 0: as if nothing were said
    "    .cfi_offset %rbp, -16\n"
    "    nop\n"
    "hands_on_oddly_jump:\n"
    "    jmp *%rax\n"
    "    .cfi_endproc\n"
    "keeper:\n"
    "    .cfi_startproc\n"
    "    .cfi_def_cfa %rbp, 16\n"
    "    .cfi_offset %rbp, -16\n"
    "    call hands_on\n"
    "keeper_return:\n"
    "    ret\n"
    "    .cfi_endproc\n"
    "beginning:\n"
    "    .cfi_startproc\n"
    "    .cfi_undefined %rip\n"
    "    call keeper\n"
    "beginning_return:\n"
    "    ret\n"
    "    .cfi_endproc\n"
    "untold:\n"
    "    nop\n"
    "    nop\n"
    "    ret\n"
    "    call untold\n");

extern const char hands_on_jump[], hands_on_oddly_jump[], keeper_return[], beginning_return[],
    untold[];

static uintptr_t stack[64];
#define TOP (stack + 10)   // where the function that hands on has its return address
#define FRAME (stack + 20) // its caller's frame pointer

// Addresses where nothing is: one that stands for a jump, and one for where all begins.
#define STUB UINT64_C(0x100000)
#define STUB_RETURN UINT64_C(0x100040)

static struct {
    const char *jump;
    enum unwind_standing standing;
} moved;

static enum unwind_standing truth(uintptr_t *pc, uintptr_t *sp, bool *interrupted)
{
    (void)sp;
    if (*pc == STUB) {
        *pc = (uintptr_t)moved.jump;
        *interrupted = true;
        return moved.standing;
    }
    if (*pc != STUB_RETURN)
        return UNWIND_AS_IT_IS;
    *pc = (uintptr_t)beginning_return;
    return UNWIND_ELSEWHERE;
}

static struct walk walk;

static void walk_from(const void *pc, const uintptr_t *frame)
{
    ucontext_t context;
    memset(&context, 0, sizeof context);
    context.uc_mcontext.gregs[REG_RIP] = (greg_t)pc;
    context.uc_mcontext.gregs[REG_RSP] = (greg_t)TOP;
    context.uc_mcontext.gregs[REG_RBP] = (greg_t)frame;
    walk_ours(&walk, &context, (struct unwind_bounds){(uintptr_t)stack, (uintptr_t)(stack + 64)});
    assert_int_equal(walk.verdict, VERDICT_COMPLETE);
}

static void assert_walk(const void *pc, const uintptr_t *frame, const char *first)
{
    walk_from(pc, frame);
    assert_int_equal(walk.count, 3);
    assert_int_equal(walk.pc[0], (uintptr_t)first);
    assert_int_equal(walk.pc[1], (uintptr_t)keeper_return);
    assert_int_equal(walk.pc[2], (uintptr_t)beginning_return);
}

static int prepare(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 64; i++)
        stack[i] = (uintptr_t)untold; // what a hook leaves there: addresses of code
    TOP[0] = (uintptr_t)keeper_return;
    FRAME[0] = 0;
    FRAME[1] = (uintptr_t)beginning_return;
    unwind_truth = truth;
    return 0;
}

static const char *const jumps[] = {hands_on_jump, hands_on_oddly_jump};

static void at_a_jump_registers_are_restored(void **state)
{
    (void)state;
    moved.standing = UNWIND_AT_CALL;
    for (unsigned i = 0; i < 2; i++) {
        moved.jump = jumps[i];
        assert_walk((const void *)STUB, FRAME, jumps[i]);
    }
}

// Functions that call nobody may keep registers below the stack pointer, and nobody has been there.
static void before_it_they_are_where_they_were_saved(void **state)
{
    (void)state;
    TOP[-1] = (uintptr_t)FRAME;
    moved.standing = UNWIND_ELSEWHERE;
    for (unsigned i = 0; i < 2; i++) {
        moved.jump = jumps[i];
        assert_walk((const void *)STUB, stack, jumps[i]);
        assert_walk(jumps[i], stack, jumps[i]);
    }
}

static void return_addresses_in_stubs_are_code_after_a_guess(void **state)
{
    (void)state;
    FRAME[1] = STUB_RETURN;
    assert_walk(untold, FRAME, untold);
}

// Interrupted in code without a table, whose caller was led there: only the truth knows the address
// that it returns to.
static void out_of_untold_code_into_what_is_led_elsewhere(void **state)
{
    (void)state;
    TOP[0] = STUB_RETURN;
    FRAME[1] = 0; // nothing else to be found
    walk_from(untold, NULL);
    assert_int_equal(walk.count, 2);
    assert_int_equal(walk.pc[0], (uintptr_t)untold);
    assert_int_equal(walk.pc[1], (uintptr_t)beginning_return);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(at_a_jump_registers_are_restored, prepare),
        cmocka_unit_test_setup(before_it_they_are_where_they_were_saved, prepare),
        cmocka_unit_test_setup(return_addresses_in_stubs_are_code_after_a_guess, prepare),
        cmocka_unit_test_setup(out_of_untold_code_into_what_is_led_elsewhere, prepare),
    };
    loadmap_start(NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
