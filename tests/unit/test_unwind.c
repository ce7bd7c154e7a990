// SPDX-License-Identifier: MIT
// Walks out of every kind of frame, from a signal handler, beside libgcc's.

#include "loadmap/loadmap.h"
#include "unwind/fde.h"
#include "unwind/shortcut.h"
#include "unwind_support.h"
#include <alloca.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>
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

static void test_alloca(void **state)
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

static void test_realigned(void **state)
{
    (void)state;
    realigned(1000);
    expect_walks(5);
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

static void test_recursion(void **state)
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

static void test_coroutine(void **state)
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

// Code that no table covers: f calls back; with a frame pointer, or with eight words pushed.
static unsigned char *generated;
typedef void (*generated_function)(void (*callback)(void));

static const unsigned char with_frame_pointer[] = {
    0x55,                   // push %rbp
    0x48, 0x89, 0xe5,       // mov %rsp, %rbp
    0x48, 0x83, 0xec, 0x40, // sub $64, %rsp
    0xff, 0xd7,             // call *%rdi
    0xc9,                   // leave
    0xc3,                   // ret
};

static const unsigned char without_frame_pointer[] = {
    0x48, 0x83, 0xec, 0x48, // sub $72, %rsp
    0xff, 0xd7,             // call *%rdi
    0x48, 0x83, 0xc4, 0x48, // add $72, %rsp
    0xc3,                   // ret
};

static void raise_here(void)
{
    raise(SIGUSR1);
    __asm__ volatile("");
}

static NOINLINE void call_generated(const unsigned char *code, size_t bytes)
{
    memcpy(generated, code, bytes);
    ((generated_function)(uintptr_t)generated)(raise_here);
    __asm__ volatile("");
}

static void check_generated(const unsigned char *code, size_t bytes)
{
    walks = 0;
    call_generated(code, bytes);
    assert_int_equal(walks, 1);
    unsigned at = 0;
    while (at < ours.count &&
           !(ours.pc[at] > (uintptr_t)generated && ours.pc[at] < (uintptr_t)generated + 4096))
        at++;
    if (at == ours.count || ours.verdict != VERDICT_COMPLETE)
        walk_print("generated", &ours);
    assert_true(at < ours.count);
    assert_int_equal(place_module(ours.place[at]), MODULE_ANONYMOUS);
    assert_int_equal(place_offset(ours.place[at]), ours.pc[at]);
    assert_int_equal(place_offset(ours.function[at]), PLACE_OFFSET_UNKNOWN);
    assert_false(ours.flags[at] & FRAME_CFI);
    assert_int_equal(ours.verdict, VERDICT_COMPLETE);
}

static void test_generated_code(void **state)
{
    (void)state;
    install(SIGUSR1, on_coroutine, 0);
    generated =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(generated, MAP_FAILED);
    check_generated(with_frame_pointer, sizeof with_frame_pointer);
    check_generated(without_frame_pointer, sizeof without_frame_pointer);
    munmap(generated, 4096);
}

static struct walk stepped[16];
static unsigned step_count;
static volatile sig_atomic_t stepping;

static void on_step(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)info;
    ucontext_t *interrupted = context;
    uintptr_t pc = interrupted_pc(context);
    if (pc >= (uintptr_t)generated && pc < (uintptr_t)generated + 64 && step_count < 16)
        walk_ours(&stepped[step_count++], context, bounds);
    if (stepping)
        interrupted->uc_mcontext.gregs[REG_EFL] |= 0x100;
    else
        interrupted->uc_mcontext.gregs[REG_EFL] &= ~0x100;
}

static void do_nothing(void)
{
}

// Interrupted at each instruction of such code, its caller must be found.
static void test_generated_leaf(void **state)
{
    (void)state;
    install(SIGTRAP, on_step, 0);
    generated =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(generated, with_frame_pointer, sizeof with_frame_pointer);
    step_count = 0;
    stepping = 1;
    raise(SIGTRAP);
    ((generated_function)(uintptr_t)generated)(do_nothing);
    stepping = 0;
    assert_int_equal(step_count, 6);
    for (unsigned i = 0; i < step_count; i++) {
        if (stepped[i].verdict != VERDICT_COMPLETE || stepped[i].pc[1] != stepped[0].pc[1])
            walk_print("leaf", &stepped[i]);
        assert_int_equal(stepped[i].verdict, VERDICT_COMPLETE);
        assert_int_equal(stepped[i].pc[1], stepped[0].pc[1]);
    }
    munmap(generated, 4096);
}

// Functions are found by halving at first, then by a short cut that the searches have built: the
// same functions, of a library with thousands of them.
static void test_shortcut(void **state)
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

static void test_follows_call(void **state)
{
    (void)state;
    assert_true(unwind_follows_call((uintptr_t)__builtin_return_address(0)));
    assert_false(unwind_follows_call((uintptr_t)test_follows_call));
    assert_false(unwind_follows_call((uintptr_t)&failures));
    assert_false(unwind_follows_call(0));
    assert_false(unwind_follows_call(1));
    assert_false(unwind_follows_call(UINTPTR_MAX));
    assert_false(unwind_follows_call((uintptr_t)state));
}

// Nothing sane to be found: the walk must end, not crash, and not say that it is complete.
static void test_garbage(void **state)
{
    (void)state;
    static uintptr_t stack[4096];
    struct unwind_bounds garbage = {(uintptr_t)stack, (uintptr_t)(stack + 4096)};
    ucontext_t context;
    srandom(7);
    for (int round = 0; round < 2000; round++) {
        memset(&context, 0, sizeof context);
        for (int i = 0; i < 4096; i++)
            stack[i] = random() % 3 == 0   ? (uintptr_t)&stack[random() % 4096]
                       : random() % 2 == 0 ? (uintptr_t)random()
                                           : (uintptr_t)printf + (uintptr_t)random() % 500000;
        context.uc_mcontext.gregs[REG_RIP] =
            (greg_t)((uintptr_t)qsort + (uintptr_t)random() % 900000);
        context.uc_mcontext.gregs[REG_RSP] = (greg_t)&stack[random() % 4000];
        context.uc_mcontext.gregs[REG_RBP] =
            round % 3 ? (greg_t)&stack[random() % 4096] : (greg_t)random();
        struct unwind_bounds given = round % 5 ? garbage : (struct unwind_bounds){0, 0};
        walk_ours(&ours, &context, given);
        assert_true(ours.count < WALK_MOST);
    }
}

static void test_outside_of_everything(void **state)
{
    (void)state;
    ucontext_t context;
    static const uintptr_t addresses[] = {
        0, 1, 8, 4096, (uintptr_t)1 << 46, UINTPTR_MAX, UINTPTR_MAX - 7, (uintptr_t)1 << 63};
    for (unsigned i = 0; i < 8; i++)
        for (unsigned j = 0; j < 8; j++) {
            memset(&context, 0, sizeof context);
            context.uc_mcontext.gregs[REG_RIP] = (greg_t)addresses[i];
            context.uc_mcontext.gregs[REG_RSP] = (greg_t)addresses[j];
            context.uc_mcontext.gregs[REG_RBP] = (greg_t)addresses[(i + j) % 8];
            walk_ours(&ours, &context, bounds);
            assert_int_not_equal(ours.verdict, VERDICT_COMPLETE);
            context.uc_mcontext.gregs[REG_RIP] = (greg_t)(uintptr_t)qsort;
            walk_ours(&ours, &context, bounds);
            assert_int_not_equal(ours.verdict, VERDICT_COMPLETE);
        }
}

// The marker's way of use: the word in the slot is not the truth, the caller tells what is.
static void test_correct(void **state)
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
        unwind_correct(&corrected, (uintptr_t)do_nothing + 1);
        assert_int_equal(corrected.frame.pc, (uintptr_t)do_nothing + 1);
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
        cmocka_unit_test(test_shortcut),
        cmocka_unit_test_setup(test_alloca, prepare),
        cmocka_unit_test_setup(test_realigned, prepare),
        cmocka_unit_test_setup(test_recursion, prepare),
        cmocka_unit_test_setup(test_through_libc, prepare),
        cmocka_unit_test_setup(test_cfa_and_flags, prepare),
        cmocka_unit_test_setup(test_signal_in_signal, prepare),
        cmocka_unit_test_setup(test_alternate_stack, prepare),
        cmocka_unit_test_setup(test_thread_root, prepare),
        cmocka_unit_test_setup(test_coroutine, prepare),
        cmocka_unit_test_setup(test_generated_code, prepare),
        cmocka_unit_test_setup(test_generated_leaf, prepare),
        cmocka_unit_test_setup(test_follows_call, prepare),
        cmocka_unit_test_setup(test_garbage, prepare),
        cmocka_unit_test_setup(test_outside_of_everything, prepare),
        cmocka_unit_test_setup(test_correct, prepare),
        cmocka_unit_test_setup(test_unwinder_at_work, prepare),
    };
    loadmap_start(NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
