// SPDX-License-Identifier: MIT
// Every form of call in running code: found, led through stubs of every kind, and back.
#include "patch/functions/functions.h"
#include "patch/functions/jump_table.h"
#include "patch/x86_64/decode.h"
#include "patch/x86_64/return_load.h"
#include "sites_forms.h"
#include "sites_support.h"
#include "unwind/cfi.h"
#include <dlfcn.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include <cmocka.h>

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
    assert_int_equal(sites_of((const void *)form_thunk).site[0].thunk, 1); // %rax
    assert_int_equal(sites_of((const void *)form_direct).site[0].thunk, 0);
}

static void expect_stays(const void *function, enum site_stays why, unsigned count)
{
    struct site_counts counts = {0};
    struct site_list list;
    assert_int_equal(find_sites((uintptr_t)function, &list, &counts), 0);
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
    void *const asks = dlsym(RTLD_DEFAULT, "dlsym"), *const again = dlsym(RTLD_DEFAULT, "_setjmp");
    enum site_stays why;
    assert_int_equal(patch_begin(), 0);
    assert_true(functions_must_stay((uintptr_t)asks, &why));
    assert_true(functions_must_stay((uintptr_t)again, &why));
    assert_false(functions_must_stay((uintptr_t)callee, &why));
    patch_end();
}

static void test_room_for_two(void **state)
{
    (void)state;
    const struct site_list list = sites_of((const void *)form_two);
    assert_int_equal(list.count, 2);
    assert_int_equal(list.site[1].form, FORM_BORROWED);
}

static void test_bad_places(void **state)
{
    (void)state;
    struct site_list list;
    const uintptr_t loader = getauxval(AT_BASE);
    void *resolve = dlsym(RTLD_DEFAULT, "__tls_get_addr"); // lives in the loader
    assert_true((uintptr_t)resolve > loader);
    assert_int_equal(find_sites((uintptr_t)resolve, &list, NULL), -EPERM);
    assert_int_equal(find_sites((uintptr_t)&test_bad_places, &list, NULL), -EPERM);
    assert_int_equal(find_sites((uintptr_t)&number, &list, NULL), -ENOENT);
    assert_int_equal(find_sites(16, &list, NULL), -ENOENT);
}

// ---- the program does what it did

static void try_plan(const struct stub_plan *plan)
{
    for (size_t i = 0; i < FORMS; i++) {
        const struct form *form = &forms[i];
        if (is_tail(form) && plan->kind == STUB_TABLE)
            continue;
        const struct site *site = sites_of((const void *)form->function).site;
        const void *start = (const void *)site_start(site);
        unsigned char before[INSTRUCTION_MOST + JUMP_BYTES], after[sizeof before];
        long expected[ARGUMENTS];
        memcpy(before, start, site->span);
        for (size_t k = 0; k < ARGUMENTS; k++)
            expected[k] = form->function(arguments[k]);
        assert_int_equal(patch((const void *)form->function, plan), form->sites);
        memcpy(after, start, site->span);
        assert_memory_not_equal(before, after, site->span);
        const uint64_t hooks = hook_calls;
        number = 1000;
        for (size_t k = 0; k < ARGUMENTS; k++)
            if (form->function(arguments[k]) != expected[k])
                fail_msg("%s(%ld) changed", form->name, arguments[k]);
        assert_int_equal(number, 1000);
        if (plan->kind == STUB_HOOK)
            assert_true(hook_calls >= hooks + ARGUMENTS);
        unpatch((const void *)form->function);
        memcpy(after, start, site->span);
        assert_memory_equal(before, after, site->span);
    }
}

static void test_every_form_and_stub(void **state)
{
    (void)state;
    const struct stub_plan plans[] = {plain_plan(), adding_plan(17), adding_plan(0),
                                      adding_plan(INT64_C(0x123456789abcdef)), hook_plan()};
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++)
        try_plan(&plans[i]);
}

// Decoded from the first instruction to the last.
static bool loads_return(const struct module_ref *module, const struct cfi_function *function)
{
    struct return_search search = return_search_begin(module, false);
    struct instruction in;
    for (uintptr_t pc = function->start; pc < function->end; pc += in.length)
        if (!decode((const unsigned char *)pc, function->end - pc, &in) ||
            return_search_step(&search, pc, &in))
            return true;
    return false;
}

static void test_loads_of_return_addresses(void **state)
{
    (void)state;
    struct module_ref module;
    bool unloading;
    unsigned all = 0, loading = 0, suspected = 0;
    loadmap_enter();
    assert_true(loadmap_find((uintptr_t)where_am_i, &module, &unloading));
    assert_true(return_may_be_loaded(&module, (uintptr_t)where_am_i, SIZE_MAX));
    assert_true(return_may_be_loaded(&module, (uintptr_t)where_with_frame, SIZE_MAX));
    assert_false(return_may_be_loaded(&module, (uintptr_t)stays_reads, SIZE_MAX));
    assert_true(return_may_be_loaded(&module, (uintptr_t)stays_reads, 4));
    // All functions of libc: what the code says, the bytes say, and of others few.
    assert_true(loadmap_find((uintptr_t)dlsym(RTLD_NEXT, "qsort"), &module, &unloading));
    struct cfi_function function;
    struct cfi_row row;
    for (uintptr_t pc = module.code_start; pc < module.code_end; pc++) {
        if (cfi_find_caller(&module, pc, &function, &row) != CFI_OK || function.start != pc)
            continue;
        const bool loads = loads_return(&module, &function);
        const bool may_load = return_may_be_loaded(&module, pc, SIZE_MAX);
        assert_true(may_load || !loads);
        all++, loading += loads, suspected += may_load;
        pc = function.end - 1;
    }
    loadmap_leave();
    assert_true(all > 2000 && loading > 5);
    assert_true(suspected - loading < all / 20);
}

// What a table says at the time of the call is added, and what it says then is taken off.
static const int64_t small[] = {0, 0, INT64_MIN, INT64_C(0x7123456789abcdef)};

static void test_tables(void **state)
{
    (void)state;
    numbers = small;
    for (uint32_t index = 1; index < 4; index++) {
        const struct stub_plan plan = table_plan(index);
        for (size_t i = 0; i < FORMS; i++) {
            const struct form *form = &forms[i];
            if (is_tail(form))
                continue;
            const long expected = form->function(7);
            patch((const void *)form->function, &plan);
            const uint64_t hooks = hook_calls;
            number = 1000;
            assert_int_equal(form->function(7), expected);
            assert_int_equal(number, 1000);
            assert_int_equal(hook_calls > hooks, small[index] < 0);
            unpatch((const void *)form->function);
        }
    }
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

static void test_chains(void **state)
{
    (void)state;
    static const int64_t words[] = {3, 5, INT64_C(1) << 40, 9, INT64_MIN};
    // Near and far, met and not met.
    const struct chain_target targets[] = {
        {(uintptr_t)other_target, 0},
        {(uintptr_t)callee, 1},
        {(uintptr_t)dlsym(RTLD_DEFAULT, "llabs"), 2},
        {(uintptr_t)callee + (UINT64_C(1) << 32), 3},
    };
    numbers = words;
    for (size_t i = 0; i < FORMS; i++) {
        const struct form *form = &forms[i];
        if (!is_indirect(form))
            continue;
        const long expected = form->function(4);
        patch_chain((const void *)form->function, targets, 4);
        uint64_t hooks = hook_calls;
        number = 100;
        assert_int_equal(form->function(4), expected);
        assert_int_equal(number, 100);
        assert_int_equal(hook_calls, hooks);
        patch_chain((const void *)form->function, targets, 1);
        told_target = 0;
        assert_int_equal(form->function(4), expected);
        assert_int_equal(number, 100);
        assert_int_equal(hook_calls - hooks, is_tail(form) ? 1 : 2 * form->sites);
        assert_true(told_target != 0);
        unpatch((const void *)form->function);
    }
}

// A target whose word is for the hook, in a chain.
static void test_chain_with_a_hook(void **state)
{
    (void)state;
    static const int64_t words[] = {3, INT64_MIN};
    const struct chain_target targets[] = {{(uintptr_t)other_target, 0}, {(uintptr_t)callee, 1}};
    numbers = words;
    for (size_t i = 0; i < FORMS; i++) {
        const struct form *form = &forms[i];
        if (!is_indirect(form) || is_tail(form) || form->function == form_got)
            continue;
        const long expected = form->function(4);
        patch_chain((const void *)form->function, targets, 2);
        const uint64_t hooks = hook_calls;
        number = 100;
        assert_int_equal(form->function(4), expected);
        assert_int_equal(number, 100);
        assert_int_equal(hook_calls - hooks, 2 * form->sites);
        unpatch((const void *)form->function);
    }
}

// As many targets as there can be, the one that is called at every place among them.
static void test_long_chains(void **state)
{
    (void)state;
    struct chain_target targets[STUB_ARMS];
    static const int64_t words[] = {5, 1000};
    numbers = words;
    for (unsigned count = 1; count <= STUB_ARMS; count += count < 9 ? 4 : 31)
        for (unsigned place = 0; place <= count; place += count < 10 || place == count ? 1 : 3) {
            // From high to low, so that their order matters; at `place` == count it is not there.
            for (unsigned i = 0; i < count; i++)
                targets[i] = (struct chain_target){
                    (uintptr_t)callee + ((uintptr_t)place - i) * 4096 + (place == count ? 1 : 0),
                    i == place ? 0 : 1};
            assert_int_equal(patch_chain((const void *)form_probe, targets, count), 1);
            const uint64_t hooks = hook_calls;
            set_probe(callee);
            number = 100;
            assert_int_equal(form_probe(1), 8);
            assert_int_equal(number, 100);
            assert_int_equal(hook_calls - hooks, place == count ? 2 : 0);
            set_probe(other_target);
            assert_int_equal(form_probe(1), 82);
            assert_int_equal(number, 100);
            unpatch((const void *)form_probe);
        }
    set_probe(callee);
}

// More targets than are compared one after the other: whatever a look-up needs, an unknown target is
// called as the site says.
static void test_look_ups_in_every_form(void **state)
{
    (void)state;
    static const int64_t words[] = {3};
    struct chain_target targets[STUB_ARMS];
    for (unsigned i = 0; i < STUB_ARMS; i++)
        targets[i] = (struct chain_target){(uintptr_t)other_target + (i + 1) * 4096ul, 0};
    numbers = words;
    for (size_t i = 0; i < FORMS; i++) {
        const struct form *form = &forms[i];
        if (!is_indirect(form))
            continue;
        const long expected = form->function(4);
        patch_chain((const void *)form->function, targets, STUB_ARMS);
        const uint64_t hooks = hook_calls;
        number = 100;
        assert_int_equal(form->function(4), expected);
        assert_int_equal(number, 100);
        assert_int_equal(hook_calls - hooks, is_tail(form) ? 1 : 2 * form->sites);
        unpatch((const void *)form->function);
    }
}

static void test_chain_by_target(void **state)
{
    (void)state;
    static const int64_t words[] = {3, 5};
    const struct chain_target targets[] = {{(uintptr_t)other_target, 0}, {(uintptr_t)callee, 1}};
    numbers = words;
    patch_chain((const void *)form_probe, targets, 2);
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
    const struct stub_plan plan = {.kind = STUB_CHAIN};
    struct stub *stub;
    assert_int_equal(make_stub(sites_of((const void *)form_direct).site, &plan, &stub), -ENOTSUP);
    unpatch((const void *)form_probe);
}

static uintptr_t table_jumps[64];
static unsigned table_jump_count, parts_told;

static void note_table(uintptr_t address, enum site_stays why)
{
    if (why == STAYS_TABLE && table_jump_count < 64)
        table_jumps[table_jump_count++] = address;
}

static void note_part(uintptr_t part, void *context)
{
    (void)part;
    (void)context;
    parts_told++;
}

static int find_tables(uintptr_t function, void *context)
{
    struct site_counts counts = {.stayed = note_table};
    struct site_list list;
    (void)context;
    find_sites(function, &list, &counts);
    return table_jump_count == 64;
}

// libc has switches of all kinds.
static void test_jump_tables(void **state)
{
    (void)state;
    unsigned stay = 0;
    sites_functions((uintptr_t)labs, find_tables, NULL);
    assert_int_equal(patch_begin(), 0);
    for (unsigned i = 0; i < table_jump_count; i++)
        stay += jump_table_stays(table_jumps[i], note_part, NULL);
    assert_int_equal(table_jump_count, 64);
    assert_in_range(stay, 16, 64);
    // What is no jump goes nowhere.
    assert_false(jump_table_stays((uintptr_t)labs, note_part, NULL));
    patch_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_stays),
        cmocka_unit_test(test_loads_of_return_addresses),
        cmocka_unit_test(test_forms_are_found),
        cmocka_unit_test(test_room_for_two),
        cmocka_unit_test(test_bad_places),
        cmocka_unit_test(test_every_form_and_stub),
        cmocka_unit_test(test_tables),
        cmocka_unit_test(test_hooks_are_told_the_target),
        cmocka_unit_test(test_chains),
        cmocka_unit_test(test_chain_by_target),
        cmocka_unit_test(test_chain_with_a_hook),
        cmocka_unit_test(test_jump_tables),
        cmocka_unit_test(test_long_chains),
        cmocka_unit_test(test_look_ups_in_every_form),
    };
    return cmocka_run_group_tests(tests, support_set_up, NULL);
}
