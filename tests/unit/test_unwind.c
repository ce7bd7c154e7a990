// SPDX-License-Identifier: MIT
// Walks out of every kind of frame, from a signal handler, beside libgcc's.

#include "loadmap/loadmap.h"
#include "unwind/fde.h"
#include "unwind/shortcut.h"
#include "unwind_support.h"
#include <alloca.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unwind.h>
// after those above
#include <cmocka.h>

#define NOINLINE __attribute__((noinline, noclone))

static struct walk ours, reference;
static struct unwind_bounds bounds;
static int failures, walks;

static void compare_walks(const void *context)
{
    walk_ours(&ours, context, bounds);
    walk_reference(&reference, interrupted_pc(context));
    walks++;
    if (walk_difference(&ours, &reference) >= 0 || ours.verdict != VERDICT_COMPLETE) {
        failures++;
        walk_print("ours", &ours);
        walk_print("libgcc", &reference);
    }
}

static void on_signal(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)info;
    compare_walks(context);
}

static void install(int number, void (*handler)(int, siginfo_t *, void *), int flags)
{
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags};
    assert_int_equal(sigaction(number, &action, NULL), 0);
}

static int prepare(void **state)
{
    (void)state;
    bounds = own_bounds();
    failures = walks = 0;
    install(SIGUSR1, on_signal, 0);
    return 0;
}

static void expect_walks(int count)
{
    assert_int_equal(walks, count);
    assert_int_equal(failures, 0);
}

static NOINLINE void with_alloca(size_t bytes)
{
    volatile char *space = alloca(bytes);
    space[0] = 1;
    raise(SIGUSR1);
    space[bytes - 1] = space[0];
}

static void test_walks_leave_frames_of_variable_size(void **state)
{
    (void)state;
    for (size_t bytes = 1; bytes < 5000; bytes += 777)
        with_alloca(bytes);
    expect_walks(7);
}

// A stack that is realigned, whose size is not known either: the compiler keeps the old stack
// pointer in a register that it saves (CFA by an expression, frame pointer saved by one).
static NOINLINE void realigned(size_t bytes)
{
    _Alignas(64) volatile char wide[64];
    volatile char *space = alloca(bytes);
    wide[0] = 1;
    space[0] = wide[0];
    if (bytes > 100)
        realigned(bytes / 2);
    raise(SIGUSR1);
    space[bytes - 1] = wide[0];
}

static void test_walks_leave_realigned_frames(void **state)
{
    (void)state;
    realigned(1000);
    expect_walks(5);
}

// The table of a function whose prologue is more than 64 KB away from its beginning takes four bytes
// to say so.
__asm__(".text\n"
        ".type far_prologue, @function\n"
        "far_prologue:\n"
        "    .cfi_startproc\n"
        "    jmp 1f\n"
        "    .skip 70000, 0x90\n"
        "    .cfi_escape 0x2e, 0\n" // no shortcut for plain tables
        "1:  push %rbx\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    .cfi_offset %rbx, -16\n"
        "    call *%rdi\n"
        "    pop %rbx\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    ret\n"
        "    .cfi_endproc\n"
        ".size far_prologue, . - far_prologue\n");
void far_prologue(void (*call)(void));

static void raise_signal(void)
{
    raise(SIGUSR1);
}

static void test_prologue_far_from_the_beginning(void **state)
{
    (void)state;
    far_prologue(raise_signal);
    expect_walks(1);
}

static __attribute__((noinline, noclone, optimize("omit-frame-pointer"))) int recurse(int depth)
{
    if (depth == 0) {
        raise(SIGUSR1);
        return 1;
    }
    int below = recurse(depth - 1);
    __asm__ volatile("" : "+r"(below)); // not a loop, not unrolled
    return below;
}

static void test_walks_leave_deep_recursion(void **state)
{
    (void)state;
    recurse(1000);
    expect_walks(1);
    assert_true(ours.count > 1000);
}

static int compare_and_raise(const void *left, const void *right)
{
    raise(SIGUSR1);
    return *(const int *)left - *(const int *)right;
}

static void test_through_libc(void **state)
{
    (void)state;
    int number[4] = {3, 1, 4, 1};
    qsort(number, 4, sizeof number[0], compare_and_raise);
    assert_true(walks >= 4);
    assert_int_equal(failures, 0);
}

static void test_cfa_and_flags(void **state)
{
    (void)state;
    recurse(3);
    expect_walks(1);
    assert_true(ours.flags[0] & FRAME_INTERRUPTED);
    for (unsigned i = 0; i < ours.count; i++)
        assert_true(ours.flags[i] & FRAME_CFI);
    for (unsigned i = 1; i + 1 < ours.count; i++)
        assert_true(ours.cfa[i] > ours.cfa[i - 1]);
    // recurse(0) to recurse(3) are one function, named by its first instruction.
    unsigned same = 0;
    for (unsigned i = 0; i + 1 < ours.count; i++)
        if (ours.function[i] == ours.function[i + 1])
            same++;
    assert_true(same >= 3);
    for (unsigned i = 0; i < ours.count; i++) {
        assert_int_equal(place_module(ours.function[i]), place_module(ours.place[i]));
        assert_true(place_offset(ours.function[i]) <= place_offset(ours.place[i]));
    }
}

static struct walk outer;
static int signal_frames;

static void on_nested(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)info;
    compare_walks(context);
    if (walks == 1)
        outer = ours;
    for (unsigned i = 0; i < ours.count; i++)
        signal_frames += !!(ours.flags[i] & FRAME_SIGNAL);
}

static void on_first(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)info;
    (void)context;
    raise(SIGUSR2);
}

static void test_signal_in_signal(void **state)
{
    (void)state;
    signal_frames = 0;
    install(SIGUSR1, on_first, 0);
    install(SIGUSR2, on_nested, 0);
    recurse(3);
    expect_walks(1);
    assert_int_equal(signal_frames, 1);
    // What was interrupted is an instruction; its lookup must not be that of a call.
    for (unsigned i = 0; i + 1 < outer.count; i++)
        if (outer.flags[i] & FRAME_SIGNAL)
            assert_true(outer.flags[i + 1] & FRAME_INTERRUPTED);
}

static void test_alternate_stack(void **state)
{
    (void)state;
    static char space[65536];
    stack_t stack = {.ss_sp = space, .ss_size = sizeof space}, off = {.ss_flags = SS_DISABLE};
    assert_int_equal(sigaltstack(&stack, NULL), 0);
    signal_frames = 0;
    install(SIGUSR1, on_first, SA_ONSTACK);
    install(SIGUSR2, on_nested, SA_ONSTACK);
    recurse(5);
    assert_int_equal(sigaltstack(&off, NULL), 0);
    expect_walks(1);
    assert_int_equal(signal_frames, 1);
}

static void *thread_body(void *argument)
{
    bounds = own_bounds();
    recurse(10);
    return argument;
}

static void test_thread_root(void **state)
{
    (void)state;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, thread_body, NULL), 0);
    pthread_join(thread, NULL);
    expect_walks(1);
}

// A coroutine's stack is not the thread's: loads go through pages that were asked about.
static ucontext_t main_context, coroutine_context;

static void coroutine(void)
{
    recurse(300);
    swapcontext(&coroutine_context, &main_context);
}

static void on_coroutine(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)info;
    walk_ours(&ours, context, bounds);
    walks++;
}

static void test_walks_end_at_a_coroutines_begin(void **state)
{
    (void)state;
    install(SIGUSR1, on_coroutine, 0);
    size_t bytes = 65536;
    char *stack = mmap(NULL, bytes + 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_int_equal(mprotect(stack + 4096, bytes, PROT_READ | PROT_WRITE), 0);
    getcontext(&coroutine_context);
    coroutine_context.uc_stack.ss_sp = stack + 4096;
    coroutine_context.uc_stack.ss_size = bytes;
    coroutine_context.uc_link = &main_context;
    makecontext(&coroutine_context, coroutine, 0);
    swapcontext(&main_context, &coroutine_context);
    munmap(stack, bytes + 8192);
    assert_int_equal(walks, 1);
    assert_true(ours.count > 300);
    if (ours.verdict != VERDICT_COMPLETE)
        walk_print("coroutine", &ours);
    assert_int_equal(ours.verdict, VERDICT_COMPLETE);
}

// No unwind table covers the bytes before it.
void not_begun(void);
__asm__(".text\n"
        ".p2align 5\n"
        ".skip 32, 0x90\n"
        ".type not_begun, @function\n"
        "not_begun:\n"
        ".cfi_startproc\n"
        "ret\n"
        ".cfi_endproc\n"
        ".size not_begun, .-not_begun\n");

// makecontext() plants the first instruction of a function as a return address. What lies before
// that is another function.
static void test_functions_that_have_not_begun_are_named_by_themselves(void **state)
{
    (void)state;
    struct unwind_cursor cursor;
    enum verdict verdict = VERDICT_BAD_STACK;
    uintptr_t words[8] = {0};
    const uintptr_t sp = (uintptr_t)words;
    const struct caller_registers caller = {.pc = (uintptr_t)not_begun, .sp = sp};
    unwind_start_here(&cursor, &caller, (struct unwind_bounds){sp, sp + sizeof words});
    assert_int_equal(unwind_step(&cursor, &verdict), UNWIND_END);
    assert_int_equal(verdict, VERDICT_COMPLETE);
    assert_true(cursor.frame.function == loadmap_place((uintptr_t)not_begun));
}

// Functions are found by halving at first, then by a short cut that the searches have built: the
// same functions, of a library with thousands of them.
static void test_the_short_cut_finds_the_same_functions(void **state)
{
    (void)state;
    struct module_ref module;
    struct cfi_function function;
    struct cfi_row row;
    bool unloading;
    loadmap_enter();
    assert_true(loadmap_find((uintptr_t)qsort, &module, &unloading));
    const size_t step = 1021, most = (module.code_end - module.code_start) / step;
    uintptr_t *start = calloc(most, sizeof *start);
    size_t found = 0;
    assert_null(shortcut_at(module.code_start));
    for (size_t i = 0; i < most; i++)
        if (cfi_find(&module, module.code_start + i * step, &function, &row) == CFI_OK) {
            start[i] = function.start;
            found++;
        }
    assert_true(found > most / 2);
    for (size_t i = 0; i < most; i++) {
        uintptr_t pc = module.code_start + i * step;
        assert_non_null(shortcut_at(pc));
        bool again = cfi_find(&module, pc, &function, &row) == CFI_OK;
        assert_int_equal(again ? function.start : 0, start[i]);
        fde_expect_entries(pc);
        fde_expect_program(pc);
    }
    loadmap_leave();
    free(start);
}

// The marker's way of use: the word in the slot is not the truth, the caller tells what is.
static void test_a_corrected_walk_goes_the_true_way(void **state)
{
    (void)state;
    struct unwind_cursor plain, corrected;
    enum verdict one = VERDICT_BUSY, other = VERDICT_BUSY;
    ucontext_t context;
    getcontext(&context);
    unwind_start(&plain, &context, bounds);
    unwind_start(&corrected, &context, bounds);
    for (;;) {
        enum unwind_result first = unwind_step(&plain, &one);
        enum unwind_result second = unwind_step(&corrected, &other);
        assert_int_equal(first, second);
        if (first == UNWIND_END)
            break;
        uintptr_t truth = corrected.frame.pc;
        unwind_correct(&corrected, (uintptr_t)prepare + 1);
        assert_int_equal(corrected.frame.pc, (uintptr_t)prepare + 1);
        unwind_correct(&corrected, truth);
        assert_int_equal(corrected.frame.pc, plain.frame.pc);
        assert_int_equal(corrected.frame.place, plain.frame.place);
        assert_int_equal(*(uintptr_t *)plain.left.ra_slot, plain.frame.pc);
    }
    assert_int_equal(one, VERDICT_COMPLETE);
    assert_int_equal(other, VERDICT_COMPLETE);
}

// An unwinder at work returns to somewhere else; its frames say so.
static jmp_buf out;
static struct walk unwinding;

static _Unwind_Reason_Code stop_and_raise(int version, _Unwind_Action actions,
                                          _Unwind_Exception_Class class,
                                          struct _Unwind_Exception *exception,
                                          struct _Unwind_Context *context, void *argument)
{
    (void)version, (void)actions, (void)class, (void)exception, (void)context, (void)argument;
    raise(SIGUSR1);
    unwinding = ours;
    longjmp(out, 1);
}

static void test_unwinder_at_work(void **state)
{
    (void)state;
    static struct _Unwind_Exception exception;
    if (setjmp(out) == 0)
        _Unwind_ForcedUnwind(&exception, stop_and_raise, NULL);
    expect_walks(1);
    unsigned marked = 0;
    for (unsigned i = 0; i < unwinding.count; i++)
        marked += !!(unwinding.flags[i] & FRAME_EH_RETURN);
    assert_int_equal(marked, 1);
    recurse(2);
    for (unsigned i = 0; i < ours.count; i++)
        assert_false(ours.flags[i] & FRAME_EH_RETURN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_short_cut_finds_the_same_functions),
        cmocka_unit_test_setup(test_walks_leave_frames_of_variable_size, prepare),
        cmocka_unit_test_setup(test_walks_leave_realigned_frames, prepare),
        cmocka_unit_test_setup(test_prologue_far_from_the_beginning, prepare),
        cmocka_unit_test_setup(test_walks_leave_deep_recursion, prepare),
        cmocka_unit_test_setup(test_through_libc, prepare),
        cmocka_unit_test_setup(test_cfa_and_flags, prepare),
        cmocka_unit_test_setup(test_signal_in_signal, prepare),
        cmocka_unit_test_setup(test_alternate_stack, prepare),
        cmocka_unit_test_setup(test_thread_root, prepare),
        cmocka_unit_test_setup(test_walks_end_at_a_coroutines_begin, prepare),
        cmocka_unit_test(test_functions_that_have_not_begun_are_named_by_themselves),
        cmocka_unit_test_setup(test_a_corrected_walk_goes_the_true_way, prepare),
        cmocka_unit_test_setup(test_unwinder_at_work, prepare),
    };
    loadmap_start(NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
