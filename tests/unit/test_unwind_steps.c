// SPDX-License-Identifier: MIT
// Every instruction of real library code, stepped through by the processor's trap flag: at each,
// our walk must be that of libgcc, frame by frame, and complete.

#include "loadmap/loadmap.h"
#include "unwind/common_cfi.h"
#include "unwind/recipe.h"
#include "unwind_support.h"
#include <locale.h>
#include <math.h>
#include <regex.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <ucontext.h>
#include <wchar.h>
// after those above
#include <cmocka.h>

#define TRAP_FLAG 0x100
#define SEEN 65536
#define VISITS 3

static struct unwind_bounds bounds;
static struct walk ours, reference;
static volatile sig_atomic_t stepping;
static unsigned long steps, compared, different, incomplete;
static struct {
    uintptr_t pc;
    unsigned visits;
} seen[SEEN];

static int is_worth_comparing(uintptr_t pc)
{
    unsigned at = (unsigned)(pc * 0x9e3779b97f4a7c15u >> 48);
    if (seen[at].pc != pc) {
        seen[at].pc = pc;
        seen[at].visits = 0;
    }
    return seen[at].visits++ < VISITS;
}

static void on_trap(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)info;
    ucontext_t *interrupted = context;
    if (!stepping) {
        interrupted->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
        return;
    }
    interrupted->uc_mcontext.gregs[REG_EFL] |= TRAP_FLAG;
    steps++;
    uintptr_t pc = interrupted_pc(context);
    if (!is_worth_comparing(pc))
        return;
    compared++;
    walk_ours(&ours, context, bounds);
    walk_reference(&reference, pc);
    if (ours.verdict != VERDICT_COMPLETE)
        incomplete++;
    if (walk_difference(&ours, &reference) >= 0) {
        if (different++ < 3) {
            walk_print("ours", &ours);
            walk_print("libgcc", &reference);
        }
    } else if (ours.verdict != VERDICT_COMPLETE && incomplete < 3) {
        walk_print("incomplete", &ours);
    }
}

static void step_through(void (*work)(void))
{
    steps = compared = different = incomplete = 0;
    stepping = 1;
    raise(SIGTRAP);
    work();
    stepping = 0;
    fprintf(stderr, "%lu steps, %lu compared\n", steps, compared);
    assert_true(compared > 100);
    assert_int_equal(different, 0);
    assert_int_equal(incomplete, 0);
}

static int compare_numbers(const void *left, const void *right)
{
    return *(const int *)left - *(const int *)right;
}

static void sort_numbers(void)
{
    int number[40];
    for (int i = 0; i < 40; i++)
        number[i] = i * 7919 % 101;
    qsort(number, 40, sizeof number[0], compare_numbers);
}

static void print_numbers(void)
{
    char text[200];
    wchar_t wide[100];
    snprintf(text, sizeof text, "%d %s %g %-10.3f %lc %p", 42, "stones", 1.25e10, 2.0, L'x', text);
    swprintf(wide, 100, L"%d %ls %e", 42, L"path", 3.5);
}

static void match_expression(void)
{
    regex_t expression;
    regmatch_t match[3];
    if (regcomp(&expression, "^(a|b)+c[0-9]*\\.x$", REG_EXTENDED) == 0) {
        regexec(&expression, "abac123.x", 3, match, 0);
        regfree(&expression);
    }
}

// Called nowhere else, so that the loader's resolver is part of what is stepped through.
static void bind_lazily(void)
{
    volatile double x = 0.5;
    x = tgamma(x) + erf(x) + jn(3, x);
    struct tm time = {.tm_year = 100, .tm_mon = 3, .tm_mday = 5};
    char text[64];
    mktime(&time);
    strftime(text, sizeof text, "%A %c", &time);
    strtod("12345.678e-10", NULL);
    wcstol(L"123", NULL, 10);
}

static void use_memory(void)
{
    void *block[20];
    for (int i = 0; i < 20; i++)
        block[i] = malloc((size_t)1 << i);
    for (int i = 0; i < 20; i++)
        block[i] = realloc(block[i], 3000);
    for (int i = 0; i < 20; i++)
        free(block[i]);
    setlocale(LC_ALL, "C.UTF-8");
    setlocale(LC_ALL, "C");
}

static void jump_far(void)
{
    jmp_buf place;
    if (setjmp(place) == 0)
        longjmp(place, 1);
    clock_gettime(CLOCK_MONOTONIC, &(struct timespec){0});
    getenv("HOME");
}

static void throw_nothing(void)
{
    // The unwinder itself, stepped through.
    walk_reference(&(struct walk){.count = 0}, 1);
}

#define STEP_TEST(work)                                                                            \
    static void test_##work(void **state)                                                          \
    {                                                                                              \
        (void)state;                                                                               \
        step_through(work);                                                                        \
    }
STEP_TEST(bind_lazily)
STEP_TEST(sort_numbers)
STEP_TEST(print_numbers)
STEP_TEST(match_expression)
STEP_TEST(use_memory)
STEP_TEST(jump_far)
STEP_TEST(throw_nothing)

// The recipes that the short way makes say what the tables say, all over a library.
static void test_plain_recipes(void **state)
{
    (void)state;
    struct module_ref module;
    bool unloading;
    size_t made = 0, found = 0;
    loadmap_enter();
    assert_true(loadmap_find((uintptr_t)qsort, &module, &unloading));
    for (unsigned round = 0; round < 2; round++) // the first has the short cut built
        for (uintptr_t pc = module.code_start; pc < module.code_end; pc += 7) {
            struct cfi_function function;
            struct cfi_row row;
            union unwind_recipe recipe;
            enum cfi_result result = round ? cfi_find(&module, pc, &function, &row)
                                           : cfi_find_caller(&module, pc, &function, &row);
            const struct shortcut *shortcut = shortcut_at(pc);
            found += round && result == CFI_OK;
            if (!round || !shortcut || !common_cfi_recipe(shortcut, pc, &recipe))
                continue;
            made++;
            assert_int_equal(result, CFI_OK);
            assert_int_equal(recipe.function, place_make(module.id, function.start - module.base));
            assert_int_equal(recipe.distance, pc - function.start);
            assert_false(row.cfa_is_expression);
            assert_int_equal(recipe.cfa_offset, row.cfa_offset);
            assert_int_equal(recipe.detail, FRAME_CFI | row.cfa_register << DETAIL_REGISTER_SHIFT);
            assert_int_equal(recipe.kind, row.cfa_register == ARCH_SP   ? RECIPE_SP
                                          : row.cfa_register == ARCH_FP ? RECIPE_FP
                                                                        : RECIPE_REGISTER);
            const struct rule fp = row.rule[ARCH_FP_SLOT], ra = row.rule[ARCH_RA_SLOT];
            assert_int_equal(ra.kind, RULE_OFFSET);
            assert_int_equal(ra.value, ARCH_RA_OFFSET);
            assert_int_equal(recipe.fp_offset * 8, fp.kind == RULE_OFFSET ? fp.value : 0);
            assert_true(fp.kind == RULE_OFFSET || fp.kind == RULE_SAME);
            assert_false(row.saves_result || function.signal);
        }
    loadmap_leave();
    assert_true(made > found / 10 * 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bind_lazily),   cmocka_unit_test(test_sort_numbers),
        cmocka_unit_test(test_print_numbers), cmocka_unit_test(test_match_expression),
        cmocka_unit_test(test_use_memory),    cmocka_unit_test(test_jump_far),
        cmocka_unit_test(test_throw_nothing), cmocka_unit_test(test_plain_recipes),
    };
    loadmap_start(NULL);
    bounds = own_bounds();
    struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
    sigaction(SIGTRAP, &action, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
