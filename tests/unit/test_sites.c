// SPDX-License-Identifier: MIT
// Every form of call in running code: found, led through stubs of every kind, and back.
#include "sites_support.h"
#include <dlfcn.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

void set_probe(long (*function)(long));
long callee(long);
long form_direct(long);
long form_bnd(long);
long form_stack(long);
long form_plt(long);
long form_got(long);
long form_register(long);
long form_extended(long);
long form_notrack(long);
long form_memory(long);
long form_memory_near(long);
long form_memory_stack(long);
long form_memory_far(long);
long form_memory_indexed(long);
long form_memory_rip(long);
long form_then_rip(long);
long form_then_branch(long);
long form_then_jump(long);
long form_then_return(long);
long form_reached(long);
long form_pair(long);
long form_probe(long);
long form_lead_long(long);
long form_lead_short(long);
long form_lead_several(long);
long form_probe_far(long);
long form_thunk(long);
long form_tail(long);
long form_tail_plt(long);
long form_tail_rip(long);
long form_tail_register(long);
long form_tail_memory(long);
long stays_switch(long), stays_next(long), stays_reads(long), stays_prefixed(long);
long stays_cold(long), cold_part(long), stays_named(long), thunk_rax(long), jump_to_probe(long);

static const struct form {
    const char *name;
    long (*function)(long);
    enum site_kind kind;
    enum site_form form; // of the first
    unsigned sites;
} forms[] = {
    {"direct", form_direct, SITE_CALL, FORM_JUMP, 1},
    {"bnd", form_bnd, SITE_CALL, FORM_JUMP, 1},
    {"stack", form_stack, SITE_CALL, FORM_JUMP, 1},
    {"plt", form_plt, SITE_CALL, FORM_JUMP, 1},
    {"got", form_got, SITE_CALL_INDIRECT, FORM_JUMP, 1},
    {"register", form_register, SITE_CALL_INDIRECT, FORM_BORROWED, 1},
    {"extended", form_extended, SITE_CALL_INDIRECT, FORM_BORROWED, 1},
    {"notrack", form_notrack, SITE_CALL_INDIRECT, FORM_BORROWED, 1},
    {"memory", form_memory, SITE_CALL_INDIRECT, FORM_BORROWED, 1},
    {"memory_near", form_memory_near, SITE_CALL_INDIRECT, FORM_BORROWED, 1},
    {"memory_stack", form_memory_stack, SITE_CALL_INDIRECT, FORM_BORROWED, 1},
    {"memory_far", form_memory_far, SITE_CALL_INDIRECT, FORM_JUMP, 1},
    {"memory_indexed", form_memory_indexed, SITE_CALL_INDIRECT, FORM_BORROWED, 1},
    {"memory_rip", form_memory_rip, SITE_CALL_INDIRECT, FORM_JUMP, 1},
    {"then_rip", form_then_rip, SITE_CALL_INDIRECT, FORM_BORROWED, 1},
    {"then_branch", form_then_branch, SITE_CALL_INDIRECT, FORM_BORROWED, 1},
    {"then_jump", form_then_jump, SITE_CALL_INDIRECT, FORM_BORROWED, 1},
    {"then_return", form_then_return, SITE_CALL_INDIRECT, FORM_BORROWED, 1},
    {"reached", form_reached, SITE_CALL_INDIRECT, FORM_TRAP, 1},
    {"pair", form_pair, SITE_CALL_INDIRECT, FORM_TRAP, 2},
    {"lead_long", form_lead_long, SITE_CALL_INDIRECT, FORM_JUMP, 2},
    {"lead_short", form_lead_short, SITE_CALL_INDIRECT, FORM_BORROWED, 2},
    {"lead_several", form_lead_several, SITE_CALL_INDIRECT, FORM_BORROWED, 2},
    {"probe", form_probe, SITE_CALL_INDIRECT, FORM_BORROWED, 1},
    {"probe_far", form_probe_far, SITE_CALL, FORM_JUMP, 1},
    {"thunk", form_thunk, SITE_CALL, FORM_JUMP, 1},
    {"tail", form_tail, SITE_TAIL, FORM_JUMP, 1},
    {"tail_plt", form_tail_plt, SITE_TAIL, FORM_JUMP, 1},
    {"tail_rip", form_tail_rip, SITE_TAIL_INDIRECT, FORM_JUMP, 1},
    {"tail_register", form_tail_register, SITE_TAIL_INDIRECT, FORM_JUMP, 1},
    {"tail_memory", form_tail_memory, SITE_TAIL_INDIRECT, FORM_JUMP, 1},
};
#define FORMS (sizeof forms / sizeof *forms)

static const long arguments[] = {0, 1, 5, -7, 1000000007};
#define ARGUMENTS (sizeof arguments / sizeof *arguments)

static bool is_tail(const struct form *form)
{
    return form->kind == SITE_TAIL || form->kind == SITE_TAIL_INDIRECT;
}

// All of its sites are.
static bool is_indirect(const struct form *form)
{
    const bool first = form->kind == SITE_CALL_INDIRECT || form->kind == SITE_TAIL_INDIRECT;
    return first && strncmp(form->name, "lead", 4) != 0;
}

static struct site_list sites_of(const void *function)
{
    struct site_list list;
    assert_int_equal(sites_find((uintptr_t)function, &list, NULL), 0);
    return list;
}

static void test_forms_are_found(void **state)
{
    (void)state;
    for (size_t i = 0; i < FORMS; i++) {
        const struct site_list list = sites_of((const void *)forms[i].function);
        if (list.count != forms[i].sites || list.site[0].kind != forms[i].kind ||
            list.site[0].form != forms[i].form)
            fail_msg("%s: %u sites, kind %d, form %d", forms[i].name, list.count,
                     list.count ? list.site[0].kind : -1, list.count ? list.site[0].form : -1);
        assert_ptr_equal((void *)list.site[0].function, (void *)forms[i].function);
        assert_ptr_equal(sites_at(list.site[0].address), list.site);
        assert_ptr_equal(sites_before(list.site[0].address + list.site[0].length), list.site);
    }
    assert_ptr_equal((void *)sites_of((const void *)form_direct).site[0].target, (void *)callee);
    assert_true(sites_of((const void *)form_plt).site[0].slot != 0);
    assert_true(sites_of((const void *)form_thunk).site[0].thunk);
    assert_false(sites_of((const void *)form_direct).site[0].thunk);
}

static void expect_stays(const void *function, enum site_stays why, unsigned count)
{
    struct site_counts counts = {0};
    struct site_list list;
    assert_int_equal(sites_find((uintptr_t)function, &list, &counts), 0);
    assert_int_equal(list.count, 0);
    for (unsigned i = 0; i < STAYS; i++)
        assert_int_equal(counts.stays[i], i == why ? count : 0);
    assert_int_equal(counts.functions, 1);
}

static void test_what_stays(void **state)
{
    (void)state;
    expect_stays((const void *)stays_switch, STAYS_TABLE, 1);
    expect_stays((const void *)stays_next, STAYS_MIDDLE, 1);
    expect_stays((const void *)thunk_rax, STAYS_MIDDLE, 1);
    expect_stays((const void *)stays_reads, STAYS_READS, 2);
    expect_stays((const void *)stays_named, STAYS_NAMED, 1);
    expect_stays((const void *)stays_prefixed, STAYS_PREFIXED, 1);
    expect_stays((const void *)stays_cold, STAYS_CONDITIONAL, 0);
    expect_stays((const void *)cold_part, STAYS_CONDITIONAL, 0);
    assert_true(sites_must_stay((uintptr_t)dlsym(RTLD_DEFAULT, "dlsym")));
    assert_true(sites_must_stay((uintptr_t)dlsym(RTLD_DEFAULT, "_setjmp")));
    assert_false(sites_must_stay((uintptr_t)callee));
}

static void test_bad_places(void **state)
{
    (void)state;
    struct site_list list;
    const uintptr_t loader = getauxval(AT_BASE);
    void *resolve = dlsym(RTLD_DEFAULT, "__tls_get_addr"); // lives in the loader
    assert_true((uintptr_t)resolve > loader);
    assert_int_equal(sites_find((uintptr_t)resolve, &list, NULL), -EPERM);
    assert_int_equal(sites_find((uintptr_t)&test_bad_places, &list, NULL), -EPERM);
    assert_int_equal(sites_find((uintptr_t)&number, &list, NULL), -ENOENT);
    assert_int_equal(sites_find(16, &list, NULL), -ENOENT);
}

// ---- the program does what it did

static void try_plan(const struct stub_plan *plan)
{
    for (size_t i = 0; i < FORMS; i++) {
        const struct form *form = &forms[i];
        unsigned char before[32], after[32];
        long expected[ARGUMENTS];
        memcpy(before, (const void *)form->function, sizeof before);
        for (size_t k = 0; k < ARGUMENTS; k++)
            expected[k] = form->function(arguments[k]);
        assert_int_equal(patch((const void *)form->function, plan), form->sites);
        memcpy(after, (const void *)form->function, sizeof after);
        assert_memory_not_equal(before, after, sizeof before);
        const uint64_t hooks = hook_calls;
        number = 1000;
        for (size_t k = 0; k < ARGUMENTS; k++)
            if (form->function(arguments[k]) != expected[k])
                fail_msg("%s(%ld) changed", form->name, arguments[k]);
        const uint64_t tails = is_tail(form) && plan->kind == STUB_DELTA ? ARGUMENTS : 0;
        assert_int_equal(number, 1000 + tails * (uint64_t)plan->delta);
        if (plan->kind == STUB_HOOK)
            assert_true(hook_calls >= hooks + ARGUMENTS);
        unpatch((const void *)form->function);
        memcpy(after, (const void *)form->function, sizeof after);
        assert_memory_equal(before, after, sizeof before);
    }
}

static void test_every_form_and_stub(void **state)
{
    (void)state;
    const struct stub_plan plans[] = {plain_plan(),
                                      delta_plan(17),
                                      delta_plan(-3),
                                      delta_plan(INT64_C(0x123456789abcdef)),
                                      wide_plan(INT64_C(0xffffffff)),
                                      wide_plan(1),
                                      hook_plan()};
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++)
        try_plan(&plans[i]);
}

static void test_hooks_are_told_the_target(void **state)
{
    (void)state;
    const struct stub_plan plan = hook_plan();
    for (size_t i = 0; i < FORMS; i++) {
        if (!is_indirect(&forms[i]))
            continue;
        patch((const void *)forms[i].function, &plan);
        told_target = 0;
        forms[i].function(3);
        const void *expected =
            forms[i].function == form_got ? dlsym(RTLD_DEFAULT, "llabs") : (void *)callee;
        assert_ptr_equal((void *)told_target, expected);
        unpatch((const void *)forms[i].function);
    }
}

static long other_target(long argument)
{
    return argument + 77;
}

static void test_chains(void **state)
{
    (void)state;
    // Near and far, met and not met.
    const struct stub_arm arms[] = {{(uintptr_t)other_target, 3},
                                    {(uintptr_t)callee, 5},
                                    {(uintptr_t)dlsym(RTLD_DEFAULT, "llabs"), INT64_C(1) << 40},
                                    {(uintptr_t)callee + (UINT64_C(1) << 32), 9}};
    const struct stub_plan known = chain_plan(arms, 4), unknown = chain_plan(arms, 1);
    for (size_t i = 0; i < FORMS; i++) {
        const struct form *form = &forms[i];
        if (!is_indirect(form))
            continue;
        const long expected = form->function(4);
        const bool is_tail_jump = is_tail(form);
        patch((const void *)form->function, &known);
        uint64_t hooks = hook_calls;
        number = 100;
        assert_int_equal(form->function(4), expected);
        assert_int_equal(number, is_tail_jump ? 105 : 100);
        assert_int_equal(hook_calls, hooks);
        patch((const void *)form->function, &unknown);
        told_target = 0;
        number = 100;
        assert_int_equal(form->function(4), expected);
        assert_int_equal(number, 100);
        assert_int_equal(hook_calls - hooks, is_tail_jump ? 1 : 2 * form->sites);
        assert_true(told_target != 0);
        unpatch((const void *)form->function);
    }
}

static void test_chain_by_target(void **state)
{
    (void)state;
    const struct stub_arm arms[] = {{(uintptr_t)other_target, 3}, {(uintptr_t)callee, 5}};
    const struct stub_plan plan = chain_plan(arms, 2);
    patch((const void *)form_probe, &plan);
    const uint64_t hooks = hook_calls;
    set_probe(other_target);
    assert_int_equal(form_probe(1), 82);
    set_probe(callee);
    assert_int_equal(form_probe(1), 8);
    assert_int_equal(hook_calls, hooks);
    set_probe(labs);
    assert_int_equal(form_probe(-1), 5);
    assert_int_equal(hook_calls, hooks + 2);
    assert_ptr_equal((void *)told_target, (void *)labs);
    set_probe(callee);
    // Of a direct call there is nothing to compare.
    struct stub *stub;
    assert_int_equal(stub_make(sites_of((const void *)form_direct).site, &plan, &stub), -ENOTSUP);
    unpatch((const void *)form_probe);
}

// ---- what an address in a stub means

static unsigned phases_seen[PHASE_BEHIND + 1], wrong_numbers, wrong_places, pushes_seen;
static const struct form *stepped;

static void check_step(uintptr_t pc, uintptr_t sp)
{
    static uintptr_t site_sp;
    static const struct site *last;
    struct stub_place place;
    if (!sites_locate(pc, &place)) {
        last = NULL;
        return;
    }
    if (last != place.site && !place.pushed)
        site_sp = sp; // its first instruction, or back from the call
    last = place.site;
    if (place.pc == place.site->address) {
        wrong_places += sp + (place.pushed ? sizeof(uintptr_t) : 0) != site_sp;
        pushes_seen += place.pushed;
    }
    phases_seen[place.phase]++;
    // Tail jumps that were made before this one have added theirs.
    wrong_numbers += stub_correct(&place, number) != UINT64_C(0xfffffffe);
    wrong_places += place.site->function != (uintptr_t)stepped->function ||
                    place.pc < site_start(place.site) ||
                    place.pc > site_start(place.site) + place.site->span;
}

static void test_numbers_in_stubs(void **state)
{
    (void)state;
    const struct stub_arm arms[] = {{(uintptr_t)other_target, 3}, {(uintptr_t)callee, 5}};
    struct stub_plan chain = chain_plan(arms, 2);
    chain.wide = true;
    const struct stub_plan plans[] = {wide_plan(INT64_C(0x1fffffff3)), wide_plan(5), delta_plan(77),
                                      wide_plan(-1), chain};
    for (size_t p = 0; p < sizeof plans / sizeof *plans; p++) {
        memset(phases_seen, 0, sizeof phases_seen);
        for (size_t i = 0; i < FORMS; i++) {
            const bool fits = plans[p].kind != STUB_CHAIN || is_indirect(&forms[i]);
            if (forms[i].form == FORM_TRAP || !fits)
                continue;
            stepped = &forms[i];
            number = 0;
            const long expected = forms[i].function(9);
            patch((const void *)forms[i].function, &plans[p]);
            number = UINT64_C(0xfffffffe); // so that a carry is on its way
            assert_int_equal(step_through(forms[i].function, 9, check_step), expected);
            if (wrong_numbers || wrong_places)
                fail_msg("%s: %u wrong numbers, %u places", forms[i].name, wrong_numbers,
                         wrong_places);
            unpatch((const void *)forms[i].function);
        }
        for (unsigned phase = 0; phase <= PHASE_BEHIND; phase++) {
            const bool half = phase == PHASE_HALF_ADD || phase == PHASE_HALF_SUB;
            assert_int_equal(phases_seen[phase] > 0, !half || plans[p].wide);
        }
        assert_int_equal(pushes_seen > 0, plans[p].kind == STUB_CHAIN);
    }
}

static uintptr_t probe_return;
static uint64_t probe_number;

static long note_call(long argument)
{
    probe_return = (uintptr_t)__builtin_return_address(0);
    probe_number = number;
    return argument;
}

static void test_return_addresses(void **state)
{
    (void)state;
    const struct stub_plan plan = delta_plan(5);
    const struct site *site = sites_of((const void *)form_probe).site;
    struct stub_place place;
    set_probe(note_call);
    number = 0;
    form_probe(1);
    assert_ptr_equal((void *)probe_return, (void *)(site->address + site->length));
    assert_false(sites_locate(probe_return, &place));
    patch((const void *)form_probe, &plan);
    form_probe(1);
    assert_true(sites_locate(probe_return, &place));
    assert_ptr_equal((void *)place.pc, (void *)(site->address + site->length));
    assert_ptr_equal((void *)sites_true_pc(probe_return), (void *)place.pc);
    assert_ptr_equal((void *)stub_return_address(place.stub, 0), (void *)probe_return);
    assert_int_equal(probe_number, 5);
    unpatch((const void *)form_probe);
    set_probe(callee);
}

// ---- changes while a call is under way

static const struct stub_plan *plan_meanwhile;

static long patch_meanwhile(long argument)
{
    patch((const void *)form_probe, plan_meanwhile);
    return argument;
}

static long unpatch_meanwhile(long argument)
{
    unpatch((const void *)form_probe);
    return argument;
}

static void test_changes_below_a_call(void **state)
{
    (void)state;
    const struct stub_plan plan = delta_plan(5), other = wide_plan(9);
    number = 0;
    // From the original code, whose next instruction is no longer there.
    const uint64_t traps = traps_met;
    plan_meanwhile = &plan;
    set_probe(patch_meanwhile);
    assert_int_equal(form_probe(1), 5);
    assert_int_equal(traps_met, traps + 1);
    assert_int_equal(number, 0);
    // From one stub to another, and from a stub to the original code.
    plan_meanwhile = &other;
    assert_int_equal(form_probe(2), 6);
    set_probe(unpatch_meanwhile);
    assert_int_equal(form_probe(3), 7);
    assert_int_equal(form_probe(4), 8);
    assert_int_equal(number, 0);
    set_probe(callee);
}

static void test_redirect(void **state)
{
    (void)state;
    struct site *site = sites_of((const void *)form_probe).site;
    const struct stub_plan plans[2] = {delta_plan(11), wide_plan(22)};
    struct stub *stubs[2];
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(stub_make(site, &plans[i], &stubs[i]), 0);
    set_probe(note_call);
    number = 0;
    for (unsigned i = 0; i < 19; i++) {
        struct site_change change = {site, i % 5 == 4 ? NULL : stubs[i % 2]};
        assert_int_equal(sites_apply(&change, 1, COMPANY_THREADS), 0);
        form_probe(1);
        assert_int_equal(probe_number, i % 5 == 4 ? 0 : plans[i % 2].delta);
        assert_int_equal(number, 0);
    }
    assert_int_equal(stub_free(site->stub), -EBUSY);
    unpatch((const void *)form_probe);
    const uint64_t bytes = sites_bytes();
    for (unsigned i = 0; i < 10000; i++) { // slots are used again
        for (unsigned k = 0; k < 2; k++)
            assert_int_equal(stub_free(stubs[k]), 0);
        for (unsigned k = 0; k < 2; k++)
            assert_int_equal(stub_make(site, &plans[k], &stubs[k]), 0);
    }
    assert_int_equal(sites_bytes(), bytes);
    set_probe(callee);
}

static struct stub *renewed;

static long renew_meanwhile(long argument)
{
    note_call(argument);
    assert_int_equal(stub_renew(renewed, 1000), 0);
    number += 1000 - 1;
    return argument;
}

static void test_renewed_delta(void **state)
{
    (void)state;
    struct site *site = sites_of((const void *)form_probe_far).site;
    const struct stub_plan plan = wide_plan(1), narrow = delta_plan(1);
    struct stub *fixed;
    assert_int_equal(stub_make(site, &narrow, &fixed), 0);
    assert_int_equal(stub_renew(fixed, 2), -EINVAL);
    assert_int_equal(stub_make(site, &plan, &renewed), 0);
    struct site_change change = {site, renewed};
    assert_int_equal(sites_apply(&change, 1, COMPANY_NONE), 0);
    number = 0;
    set_probe(renew_meanwhile);
    form_probe_far(1);
    assert_int_equal(probe_number, 1);
    assert_int_equal(number, 0);
    set_probe(note_call);
    form_probe_far(1);
    assert_int_equal(probe_number, 1000);
    assert_int_equal(number, 0);
    unpatch((const void *)form_probe_far);
    set_probe(callee);
}

// ---- processes and libraries that come and go

static void test_fork(void **state)
{
    (void)state;
    const struct stub_plan plan = delta_plan(5);
    patch((const void *)form_direct, &plan);
    pid_t child = fork();
    if (child == 0) {
        sites_after_fork();
        number = 0;
        bool right = form_direct(1) == 6 && number == 0;
        patch((const void *)form_register, &plan);
        right = right && form_register(1) == 6 && number == 0;
        unpatch((const void *)form_direct);
        _exit(right && form_direct(1) == 6 ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(form_direct(1), 6);
    assert_null(sites_of((const void *)form_register).site->stub);
    unpatch((const void *)form_direct);
}

static void test_unloaded_library(void **state)
{
    (void)state;
    const struct stub_plan plan = delta_plan(5);
    for (unsigned i = 0; i < 20; i++) {
        void *library = dlopen(FORMS_COPY, RTLD_NOW | RTLD_LOCAL);
        assert_non_null(library);
        long (*direct)(long) = (long (*)(long))dlsym(library, "form_direct");
        long (*indirect)(long) = (long (*)(long))dlsym(library, "form_register");
        assert_ptr_not_equal(direct, form_direct);
        number = 0;
        patch((const void *)direct, &plan);
        patch((const void *)indirect, &plan);
        assert_int_equal(direct(1) + indirect(1), 12);
        assert_int_equal(number, 0);
        const uintptr_t at = (uintptr_t)direct;
        const uintptr_t site = sites_of((const void *)direct).site->address;
        assert_int_equal(dlclose(library), 0);
        sites_forget(at & ~(uintptr_t)0xffff, (at | 0xffff) + 1);
        assert_null(sites_at(site));
    }
}

static int start(void **state)
{
    (void)state;
    support_start();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_stays),
        cmocka_unit_test(test_forms_are_found),
        cmocka_unit_test(test_bad_places),
        cmocka_unit_test(test_every_form_and_stub),
        cmocka_unit_test(test_hooks_are_told_the_target),
        cmocka_unit_test(test_chains),
        cmocka_unit_test(test_chain_by_target),
        cmocka_unit_test(test_numbers_in_stubs),
        cmocka_unit_test(test_return_addresses),
        cmocka_unit_test(test_changes_below_a_call),
        cmocka_unit_test(test_redirect),
        cmocka_unit_test(test_renewed_delta),
        cmocka_unit_test(test_fork),
        cmocka_unit_test(test_unloaded_library),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
