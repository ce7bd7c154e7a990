// SPDX-License-Identifier: MIT
// Sites without room, and the instructions that make some for them.
#include "patch/functions/displace.h"
#include "patch/stubs/stub.h"
#include "sites_forms.h"
#include "sites_support.h"
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const struct displacement *displacement_of(const struct form *form)
{
    return sites_of((const void *)form->function).site->displacement;
}

// ---- every instruction of the program is met once, and where it was

#define STEPS_MOST 4096
#define FUNCTION_MOST 512
static uintptr_t steps[STEPS_MOST], stepped_function;
static unsigned step_count, steps_on_way, steps_in_slot;

static void note_step(uintptr_t pc, uintptr_t sp)
{
    struct stub_place place;
    (void)sp;
    if (sites_locate(pc, &place)) {
        steps_in_slot += place.stub->displaced && pc - place.stub->code < UINT64_C(1) << 10;
        steps_on_way += pc - place.stub->code >= UINT64_C(1) << 10;
        pc = place.pc;
    }
    if (pc - stepped_function >= FUNCTION_MOST || step_count == STEPS_MOST)
        return;
    if (step_count == 0 || steps[step_count - 1] != pc)
        steps[step_count++] = pc;
}

static unsigned trace(const struct form *form, long argument, uintptr_t seen[STEPS_MOST])
{
    stepped_function = (uintptr_t)form->function;
    step_count = steps_on_way = steps_in_slot = 0;
    step_through(form->function, argument, note_step);
    memcpy(seen, steps, sizeof steps);
    return step_count;
}

static void test_every_step(void **state)
{
    (void)state;
    static uintptr_t before[STEPS_MOST], after[STEPS_MOST];
    const struct stub_plan plans[] = {plain_plan(), adding_plan(5), hook_plan()};
    for (size_t i = 0; i < FORMS; i++) {
        const struct form *form = &forms[i];
        for (unsigned k = 0; k < 2 && form->form == FORM_DISPLACED; k++) {
            const long argument = k ? -5 : 5; // past the site, or not
            // The first time, nothing is displaced yet.
            const unsigned count = trace(form, argument, before);
            assert_in_range(count, 100, STEPS_MOST - 1);
            for (size_t p = 0; p < sizeof plans / sizeof *plans; p++) {
                patch((const void *)form->function, &plans[p]);
                const unsigned patched = trace(form, argument, after);
                // From the site to its stub there are two jumps, to the new place there is one.
                assert_in_range(steps_on_way, k ? 1 : 3, 20);
                assert_in_range(steps_in_slot, 2, 20);
                if (patched != count || memcmp(before, after, count * sizeof *before))
                    fail_msg("%s: other steps", form->name);
                unpatch((const void *)form->function);
                assert_int_equal(trace(form, argument, after), count);
                assert_memory_equal(before, after, count * sizeof *before);
            }
        }
    }
}

// ---- where whoever meets a trap is sent

static void test_traps(void **state)
{
    (void)state;
    const struct stub_plan plan = adding_plan(5);
    for (size_t i = 0; i < FORMS; i++) {
        const struct form *form = &forms[i];
        if (form->form != FORM_DISPLACED)
            continue;
        const struct displacement *displacement = displacement_of(form);
        struct stub_place place;
        patch((const void *)form->function, &plan);
        assert_true(displace_is_done(displacement));
        assert_true(sites_locate(sites_trapped(displacement->victim + 1), &place));
        assert_ptr_equal((void *)place.pc, (void *)displacement->victim);
        assert_ptr_equal(place.stub, displacement->stub);
        for (unsigned k = 1; k < displacement->length; k++)
            assert_int_equal(sites_trapped(displacement->victim + k + 1), 0);
        unpatch((const void *)form->function);
        assert_true(displace_is_done(displacement)); // for good
        assert_ptr_equal((void *)sites_true_pc(sites_trapped(displacement->victim + 1)),
                         (void *)displacement->victim);
    }
}

// What unwinders are told of the new place: the distance at the start of its slot.
static void test_unwind_distance(void **state)
{
    (void)state;
    for (size_t i = 0; i < FORMS; i++) {
        if (forms[i].form != FORM_DISPLACED)
            continue;
        const struct displacement *displacement = displacement_of(&forms[i]);
        const uintptr_t slot = ((struct stub *)displacement->stub)->code;
        uint32_t distance;
        memcpy(&distance, (const void *)slot, sizeof distance);
        assert_ptr_equal((void *)(slot + distance - DISTANCE_BIAS),
                         (void *)(displacement->victim + 1));
    }
}

// ---- while other threads run there

static _Atomic bool stop;

static void *run(void *argument)
{
    uint64_t wrong = 0;
    (void)argument;
    while (!stop)
        for (long i = -3; i < 4; i++)
            wrong += form_displaced_raced(i) != i + 40;
    return (void *)wrong;
}

static void test_threads(void **state)
{
    (void)state;
    struct site *site = sites_of((const void *)form_displaced_raced).site;
    const struct stub_plan plans[2] = {plain_plan(), adding_plan(9)};
    struct stub *stubs[2];
    pthread_t threads[2];
    void *wrong;
    assert_int_equal(site->form, FORM_DISPLACED);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(make_stub(site, &plans[i], &stubs[i]), 0);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run, NULL), 0);
    for (unsigned i = 0; i < 2000; i++) {
        assert_int_equal(lead_site(site, i % 5 == 4 ? NULL : stubs[i % 2]), 0);
    }
    stop = true;
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(threads[i], &wrong), 0);
        assert_null(wrong);
    }
    unpatch((const void *)form_displaced_raced);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_step),
        cmocka_unit_test(test_traps),
        cmocka_unit_test(test_unwind_distance),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, support_set_up, NULL);
}
