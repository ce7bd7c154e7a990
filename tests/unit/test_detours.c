// SPDX-License-Identifier: MIT
// Calls of every form that come by a hook, and return to where they always did.
#include "loadmap/loadmap.h"
#include "patch/detour.h"
#include "patch/functions/functions.h"
#include "sites_forms.h"
#include "sites_support.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

// ---- hooks: every register and flag may be in use

static uint64_t direct_calls, indirect_calls, within_calls;
static uintptr_t told_back, told_function;

__attribute__((naked)) static void hook_direct(void)
{
    __asm__("pushfq\n\tlock incq %c0(%%rip)\n\tpopfq\n\t"
            "pushq (%%rsp)\n\tpopq %c1(%%rip)\n\tret" ::"i"(&direct_calls),
            "i"(&told_back));
}

__attribute__((naked)) static void hook_indirect(void)
{
    __asm__("pushfq\n\tlock incq %c0(%%rip)\n\tpopfq\n\t"
            "pushq 8(%%rsp)\n\tpopq %c1(%%rip)\n\tret" ::"i"(&indirect_calls),
            "i"(&told_function));
}

__attribute__((naked)) static void hook_within(void)
{
    __asm__("pushfq\n\tlock incq %c0(%%rip)\n\tpopfq\n\tret" ::"i"(&within_calls));
}

// ---- planning

static bool is_direct(const struct site *site)
{
    return (site->kind == SITE_CALL || site->kind == SITE_TAIL) && !site->thunk;
}

static int plan_site(const struct site *site)
{
    if (is_direct(site) && site->target)
        return detour_plan(site->address, site->target, site->target);
    if (is_direct(site))
        return detour_plan_slot(site->address, site->slot);
    if (site->thunk)
        return -ENOTSUP;
    const int error = detour_plan_indirect(site->address, DETOUR_INDIRECT);
    return error == -ENOTSUP && site->kind == SITE_TAIL_INDIRECT
               ? detour_plan_tail(site->address, site->function, functions_at(site->function)->end)
               : error;
}

// ---- where a thread is, at each step

static struct site_list stepped;
static uintptr_t site_sp;
static unsigned steps_in_detours, wrong_steps;

static const struct site *site_at(uintptr_t pc)
{
    for (unsigned i = 0; i < stepped.count; i++)
        if (stepped.site[i].address == pc)
            return &stepped.site[i];
    return NULL;
}

static void check_step(uintptr_t pc, uintptr_t sp)
{
    uintptr_t true_pc = pc, true_sp = sp;
    bool interrupted = false;
    if (site_at(pc))
        site_sp = sp;
    if (!detour_truth(&true_pc, &true_sp, &interrupted))
        return;
    steps_in_detours++;
    const struct site *site = site_at(true_pc);
    // In the function that is entered, or, of an indirect one, still at the site.
    const bool entered = !site && true_sp == sp;
    wrong_steps += !interrupted || !(entered || (site && true_sp == site_sp));
}

// ---- tests

static void check_form(const struct form *form, unsigned *done)
{
    long expected[ARGUMENTS];
    for (size_t i = 0; i < ARGUMENTS; i++)
        expected[i] = form->function(arguments[i]);
    stepped = sites_of((const void *)form->function);
    unsigned planned = 0;
    assert_int_equal(patch_begin(), 0);
    for (unsigned i = 0; i < stepped.count; i++) {
        const int error = plan_site(&stepped.site[i]);
        assert_true(error == 0 || error == -ENOTSUP);
        // Whatever is long enough can be led, unless its operand is on the stack.
        if (error && stepped.site[i].length >= 5 && !stepped.site[i].thunk)
            fail_msg("%s: not planned", form->name);
        planned += !error;
    }
    assert_int_equal(patch_commit(THREADS_NONE), 0);
    patch_end();
    for (size_t i = 0; i < ARGUMENTS; i++) {
        const uint64_t before = direct_calls + indirect_calls;
        if (form->function(arguments[i]) != expected[i])
            fail_msg("%s: returns something else", form->name);
        const uint64_t calls = direct_calls + indirect_calls - before;
        if (calls > planned || (planned && !calls))
            fail_msg("%s: %lu calls by %u detours", form->name, calls, planned);
    }
    steps_in_detours = wrong_steps = 0;
    assert_int_equal(step_through(form->function, arguments[0], check_step), expected[0]);
    if (wrong_steps || (planned && !steps_in_detours))
        fail_msg("%s: %u of %u steps are wrong", form->name, wrong_steps, steps_in_detours);
    for (unsigned i = 0; i < stepped.count; i++) {
        const struct site *site = &stepped.site[i];
        if (is_direct(site) && site->kind == SITE_CALL && site->length == 5)
            assert_true(detour_is_before(site->address + site->length));
    }
    *done += planned;
}

static void test_every_form(void **state)
{
    (void)state;
    unsigned done = 0;
    for (size_t i = 0; i < FORMS; i++)
        if (forms[i].function != form_memory_rip)
            check_form(&forms[i], &done);
    assert_true(done > 10);
    assert_true(direct_calls && indirect_calls);
}

static void test_what_hooks_are_told(void **state)
{
    (void)state;
    told_back = told_function = 0;
    form_direct(1); // led by the test before
    assert_int_equal(detour_function(told_back), callee);
    form_memory_far(1);
    assert_int_equal(told_function, callee);
    assert_int_equal(detour_function((uintptr_t)form_direct), 0);
    assert_false(detour_is_before((uintptr_t)form_direct + 16));
}

// The one form that test_every_form() leaves out: detours are for good.
static void test_other_hook_within(void **state)
{
    (void)state;
    const struct site_list list = sites_of((const void *)form_memory_rip);
    const long expected = form_memory_rip(5);
    assert_int_equal(patch_begin(), 0);
    assert_int_equal(detour_plan_indirect(list.site[0].address, DETOUR_WITHIN), 0);
    assert_int_equal(within_calls, 0);
    assert_int_equal(patch_commit(THREADS_NONE), 0);
    patch_end();
    assert_int_equal(form_memory_rip(5), expected);
    assert_int_equal(within_calls, 1);
}

static void test_a_stub_keeps_the_bytes_that_a_detour_wants_too(void **state)
{
    (void)state;
    const struct site_list list = sites_of((const void *)form_shared_neighbour);
    const long expected = form_shared_neighbour(5);
    const struct stub_plan plan = plain_plan();
    struct stub *stub;
    assert_int_equal(list.count, 2);
    assert_int_equal(list.site[0].form, FORM_BORROWED);
    assert_int_equal(patch_begin(), 0);
    assert_int_equal(stub_make(&list.site[0], &plan, &stub), 0);
    assert_int_equal(plan_site(&list.site[1]), 0);
    assert_int_equal(patch_add(&list.site[0], stub), 0);
    assert_int_equal(patch_commit(THREADS_NONE), 0);
    patch_end();
    assert_int_equal(form_shared_neighbour(5), expected);
}

static void test_what_is_no_call(void **state)
{
    (void)state;
    assert_int_equal(patch_begin(), 0);
    assert_int_equal(detour_plan((uintptr_t)callee, (uintptr_t)callee, (uintptr_t)callee),
                     -ENOTSUP);
    assert_int_equal(detour_plan_indirect((uintptr_t)callee, DETOUR_INDIRECT), -ENOTSUP);
    uintptr_t pc = (uintptr_t)callee, sp = 16;
    bool interrupted = false;
    assert_false(detour_truth(&pc, &sp, &interrupted));
    assert_int_equal(patch_commit(THREADS_NONE), 0); // of nothing
    patch_end();
}

int main(void)
{
    support_start();
    detours_start(&(struct detour_hooks){
        .direct = hook_direct, .indirect = hook_indirect, .within = hook_within});
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_form),
        cmocka_unit_test(test_what_hooks_are_told),
        cmocka_unit_test(test_other_hook_within),
        cmocka_unit_test(test_a_stub_keeps_the_bytes_that_a_detour_wants_too),
        cmocka_unit_test(test_what_is_no_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
