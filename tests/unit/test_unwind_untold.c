// SPDX-License-Identifier: MIT
// Walks where no table tells the way: through generated code, and out of garbage.

#include "loadmap/loadmap.h"
#include "unwind_support.h"
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <cmocka.h>

#define NOINLINE __attribute__((noinline, noclone))

static struct walk ours;
static struct unwind_bounds bounds;
static int walks;

static void on_signal(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)info;
    walk_ours(&ours, context, bounds);
    walks++;
}

static void install(int number, void (*handler)(int, siginfo_t *, void *))
{
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    assert_int_equal(sigaction(number, &action, NULL), 0);
}

static int prepare(void **state)
{
    (void)state;
    bounds = own_bounds();
    return 0;
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
    install(SIGUSR1, on_signal);
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
    install(SIGTRAP, on_step);
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

static void test_follows_call(void **state)
{
    (void)state;
    assert_true(unwind_follows_call((uintptr_t)__builtin_return_address(0)));
    assert_false(unwind_follows_call((uintptr_t)test_follows_call));
    assert_false(unwind_follows_call((uintptr_t)&walks));
    assert_false(unwind_follows_call(0));
    assert_false(unwind_follows_call(1));
    assert_false(unwind_follows_call(UINTPTR_MAX));
    assert_false(unwind_follows_call((uintptr_t)state));
}

// Nothing sane to be found: the walk must end, not crash, and not say that it is complete.
static void test_a_walk_through_garbage_ends(void **state)
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_generated_code, prepare),
        cmocka_unit_test_setup(test_generated_leaf, prepare),
        cmocka_unit_test_setup(test_follows_call, prepare),
        cmocka_unit_test_setup(test_a_walk_through_garbage_ends, prepare),
        cmocka_unit_test_setup(test_outside_of_everything, prepare),
    };
    loadmap_start(NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
