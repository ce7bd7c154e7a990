// SPDX-License-Identifier: MIT
// Threads in stubs: what their addresses mean, and what may change meanwhile.
#include "loadmap/loadmap.h"
#include "patch/functions/displace.h"
#include "patch/functions/dl_notify.h"
#include "patch/write/traps.h"
#include "sites_forms.h"
#include "sites_support.h"
#include "unwind/unwind.h"
#include <dlfcn.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

// ---- what an address in a stub means

static unsigned seen_before, seen_added, wrong_numbers, wrong_places;
static const struct form *stepped;

// In, or on the way to, what has made room for the site.
static bool is_displaced(const struct stub_place *place)
{
    const struct displacement *displacement = place->site->displacement;
    return displacement && (place->pc == displacement->victim ||
                            place->pc == displacement->victim + displacement->length);
}

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
    }
    *(place.added ? &seen_added : &seen_before) += 1;
    const uint64_t added = place.added ? (uint64_t)numbers[place.index] : 0;
    wrong_numbers += number - added != UINT64_C(0xfffffffe);
    const uintptr_t start = site_start(place.site);
    wrong_places +=
        place.site->function != (uintptr_t)stepped->function ||
        !(is_displaced(&place) || (place.pc >= start && place.pc <= start + place.site->span));
}

static void test_numbers_in_stubs(void **state)
{
    (void)state;
    const struct stub_plan plans[] = {adding_plan(INT64_C(0x1fffffff3)), adding_plan(5)};
    for (size_t p = 0; p < sizeof plans / sizeof *plans; p++) {
        seen_before = seen_added = 0;
        for (size_t i = 0; i < FORMS; i++) {
            if (forms[i].form == FORM_TRAP || is_tail(&forms[i]))
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
        assert_true(seen_before > FORMS && seen_added > FORMS);
    }
}

// Wherever a thread is in a stub with a table, its place and its stack pointer are told; and where
// hooks take the place of the addition, which of them has been called.
static unsigned table_steps, table_saved;
static uint64_t hooks_before_steps;

static void check_table_step(uintptr_t pc, uintptr_t sp)
{
    static uintptr_t site_sp;
    static const struct site *last;
    struct stub_place place;
    if (!sites_locate(pc, &place)) {
        last = NULL;
        return;
    }
    if (last != place.site)
        site_sp = sp + (place.pushed ? sizeof(uintptr_t) : 0);
    last = place.site;
    const bool before = place.pc == place.site->address;
    const bool behind = place.pc == place.site->address + place.site->length;
    if (before || behind)
        wrong_places += sp + (place.pushed ? sizeof(uintptr_t) : 0) != site_sp;
    table_steps++;
    table_saved += place.pushed;
    if (!place.by_table || numbers[place.index] >= 0)
        return;
    const uint64_t hooks = hook_calls - hooks_before_steps;
    wrong_numbers += place.added != hooks % 2;
    wrong_places += hooks == 0 && behind;
}

static void test_places_in_tables(void **state)
{
    (void)state;
    static const int64_t words[] = {5, INT64_MIN};
    numbers = words;
    for (uint32_t index = 0; index < 2; index++) {
        const struct stub_plan plan = table_plan(index);
        for (size_t i = 0; i < FORMS; i++) {
            const struct form *form = &forms[i];
            if (form->form == FORM_TRAP || is_tail(form))
                continue;
            wrong_numbers = wrong_places = table_steps = table_saved = 0;
            const long expected = form->function(9);
            patch((const void *)form->function, &plan);
            hooks_before_steps = hook_calls;
            assert_int_equal(step_through(form->function, 9, check_table_step), expected);
            if (wrong_numbers || wrong_places)
                fail_msg("%s: %u wrong numbers, %u places", form->name, wrong_numbers,
                         wrong_places);
            assert_in_range(table_saved, 10, table_steps - 3);
            unpatch((const void *)form->function);
            if (!is_indirect(form))
                continue;
            const struct chain_target targets[] = {
                {(uintptr_t)other_target, index},
                {(uintptr_t)callee, index},
                {(uintptr_t)dlsym(RTLD_DEFAULT, "llabs"), index}};
            patch_chain((const void *)form->function, targets, form->sites > 0 ? 3 : 0);
            hooks_before_steps = hook_calls;
            assert_int_equal(step_through(form->function, 9, check_table_step), expected);
            if (wrong_numbers || wrong_places)
                fail_msg("%s: %u wrong numbers, %u places in a chain", form->name, wrong_numbers,
                         wrong_places);
            unpatch((const void *)form->function);
        }
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
    const struct stub_plan plan = adding_plan(5);
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
    assert_ptr_equal((void *)stub_return_address(place.stub), (void *)probe_return);
    assert_int_equal(probe_number, 5);
    unpatch((const void *)form_probe);
    set_probe(callee);
}

// The number that the callee sees. Stubs of direct calls are copies of the one before, but for what
// they add.
static uint64_t number_below(const struct stub_plan *plan)
{
    const struct site *site = sites_of((const void *)form_probe_far).site;
    const long expected = form_probe_far(1);
    struct stub_place place;
    patch((const void *)form_probe_far, plan);
    number = 100;
    assert_int_equal(form_probe_far(1), expected);
    assert_int_equal(number, 100);
    assert_true(sites_locate(stub_return_address(atomic_load(&site->stub)), &place));
    assert_int_equal(place.index, plan->index);
    unpatch((const void *)form_probe_far);
    return probe_number;
}

static void test_copies(void **state)
{
    (void)state;
    static const int64_t words[] = {11, 0, 33, INT64_C(1) << 40};
    set_probe(note_call);
    numbers = words;
    for (uint32_t i = 0; i < 4; i++) {
        const struct stub_plan plan = table_plan(i);
        assert_int_equal(number_below(&plan), 100 + words[i]);
    }
    set_probe(callee);
}

// ---- our own unwinder, told of stubs

#define FRAMES_MOST 64
static uintptr_t walked[FRAMES_MOST];
static unsigned walked_count, walked_stubs;

__attribute__((noinline, optimize("no-omit-frame-pointer"))) static long walk_stack(long argument)
{
    const uintptr_t *frame = __builtin_frame_address(0);
    pthread_attr_t attributes;
    void *low;
    size_t bytes;
    pthread_getattr_np(pthread_self(), &attributes);
    pthread_attr_getstack(&attributes, &low, &bytes);
    pthread_attr_destroy(&attributes);
    const struct unwind_bounds bounds = {(uintptr_t)low, (uintptr_t)low + bytes};
    struct unwind_cursor cursor;
    enum verdict verdict;
    const struct caller_registers caller = unwind_caller_of(frame);
    unwind_start_here(&cursor, &caller, bounds);
    walked_count = walked_stubs = 0;
    do {
        struct stub_place place;
        if (sites_locate(cursor.frame.pc, &place)) {
            unwind_correct(&cursor, place.pc);
            walked_stubs++;
        }
        walked[walked_count++] = cursor.frame.pc;
    } while (walked_count < FRAMES_MOST && unwind_step(&cursor, &verdict) == UNWIND_OK);
    assert_int_equal(verdict, VERDICT_COMPLETE);
    return argument;
}

static void test_unwinding(void **state)
{
    (void)state;
    uintptr_t before[FRAMES_MOST];
    const struct stub_plan plan = hook_plan();
    set_probe(walk_stack);
    form_probe_far(1);
    const unsigned count = walked_count;
    memcpy(before, walked, sizeof before);
    assert_int_equal(walked_stubs, 0);
    assert_in_range(count, 6, FRAMES_MOST - 1);
    patch((const void *)form_probe_far, &plan);
    patch((const void *)jump_to_probe, &plan);
    form_probe_far(1);
    assert_int_equal(walked_stubs, 2);
    assert_int_equal(walked_count, count);
    // The caller of both differs: it is this function, at two places.
    before[2] = walked[2];
    assert_memory_equal(walked, before, count * sizeof *before);
    unpatch((const void *)jump_to_probe);
    unpatch((const void *)form_probe_far);
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

static long chain_meanwhile(long argument)
{
    const struct chain_target target = {(uintptr_t)callee, 0};
    patch_chain((const void *)form_probe, &target, 1);
    return argument;
}

static void test_changes_below_a_call(void **state)
{
    (void)state;
    const struct stub_plan plan = adding_plan(5), other = adding_plan(9);
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
    // From the original code, and from another stub, to a chain.
    static const int64_t words[] = {7};
    numbers = words;
    set_probe(chain_meanwhile);
    assert_int_equal(form_probe(5), 9);
    assert_int_equal(form_probe(6), 10);
    unpatch((const void *)form_probe);
    assert_int_equal(number, 0);
    set_probe(callee);
}

static void test_redirect(void **state)
{
    (void)state;
    struct site *site = sites_of((const void *)form_probe).site;
    const int64_t words[2] = {11, 22};
    const struct stub_plan plans[2] = {adding_plan(words[0]), adding_plan(words[1])};
    struct stub *stubs[2];
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(make_stub(site, &plans[i], &stubs[i]), 0);
    set_probe(note_call);
    number = 0;
    for (unsigned i = 0; i < 19; i++) {
        assert_int_equal(lead_site(site, i % 5 == 4 ? NULL : stubs[i % 2]), 0);
        form_probe(1);
        assert_int_equal(probe_number, i % 5 == 4 ? 0 : words[i % 2]);
        assert_int_equal(number, 0);
    }
    unpatch((const void *)form_probe);
    set_probe(callee);
}

// ---- processes and libraries that come and go

static void test_fork(void **state)
{
    (void)state;
    const struct stub_plan plan = adding_plan(5);
    patch((const void *)form_direct, &plan);
    pid_t child = fork();
    if (child == 0) {
        patch_after_fork();
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

static uintptr_t unloaded_start, unloaded_end;

static void on_change(enum dl_event event)
{
    if (event != LOADER_REMOVED)
        return;
    assert_int_equal(patch_begin(), 0);
    sites_forget(unloaded_start, unloaded_end);
    patch_end();
}

// Patches all that can be; the sum of the forms of their sites.
static unsigned patch_copy(void *library)
{
    const struct stub_plan plan = plain_plan();
    unsigned sum = 0;
    for (size_t i = 0; i < FORMS; i++) {
        char name[64];
        snprintf(name, sizeof name, "form_%s", forms[i].name);
        long (*function)(long) = (long (*)(long))dlsym(library, name);
        if (!function || forms[i].form == FORM_TRAP)
            continue;
        assert_ptr_not_equal(function, forms[i].function);
        const long expected = function(9);
        patch((const void *)function, &plan);
        assert_int_equal(function(9), expected);
        for (unsigned k = 0; k < sites_of((const void *)function).count; k++)
            sum = sum * SITE_FORMS + sites_of((const void *)function).site[k].form;
    }
    return sum;
}

// The same library comes again, to the same address: it finds as much room for the ways from its
// sites, and no more memory is used for it.
static void test_unloaded_library(void **state)
{
    (void)state;
    unsigned first = 0;
    uint64_t bytes = 0;
    assert_int_equal(patch_watch_loader(on_change), 0);
    for (unsigned i = 0; i < 200; i++) {
        void *library = dlopen(FORMS_COPY, RTLD_NOW | RTLD_LOCAL);
        assert_non_null(library);
        const unsigned sum = patch_copy(library);
        const uintptr_t at = (uintptr_t)dlsym(library, "form_direct");
        const uintptr_t site = sites_of((const void *)at).site->address;
        first = i ? first : sum;
        assert_int_equal(sum, first);
        struct module_ref copy;
        assert_int_equal(patch_begin(), 0);
        assert_true(loadmap_peek(at, &copy));
        patch_end();
        unloaded_start = copy.start;
        unloaded_end = copy.end;
        assert_int_equal(dlclose(library), 0);
        assert_null(sites_at(site));
        bytes = i > 1 ? bytes : sites_bytes();
    }
    assert_int_equal(sites_bytes(), bytes);
}

// ---- where it cannot be done

// From here on a system call fails. In a child.
static bool forbid(unsigned call, unsigned error)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
           !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

// What a child without the call gets from sites_start(), and whether its code stays as it was.
static int started_without(unsigned call, unsigned error)
{
    const pid_t child = fork();
    if (child == 0) {
        struct site *site = sites_of((const void *)form_direct).site;
        const struct stub_plan plan = plain_plan();
        struct stub *stub;
        unsigned char before[16];
        memcpy(before, (const void *)form_direct, sizeof before);
        if (make_stub(site, &plan, &stub) || !forbid(call, error))
            _exit(100);
        const int applied = lead_site(site, stub), result = sites_start();
        const bool same = !memcmp(before, (const void *)form_direct, sizeof before);
        _exit(same && applied == result && !site->stub && form_direct(1) == 6 ? -result : 101);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return -WEXITSTATUS(status);
}

static void test_where_it_is_forbidden(void **state)
{
    (void)state;
    assert_int_equal(started_without(SYS_membarrier, EINVAL), -ENOSYS);
    assert_int_equal(started_without(SYS_openat, EACCES), -EACCES);
    assert_int_equal(started_without(SYS_pwrite64, EIO), -EIO);
}

static void test_traps_that_nobody_could_bear(void **state)
{
    (void)state;
    struct site *site = sites_of((const void *)form_direct).site;
    const struct stub_plan plan = plain_plan();
    struct stub *stub;
    assert_int_equal(make_stub(site, &plan, &stub), 0);
    assert_true(traps_hold());
    assert_int_equal(lead_site(site, stub), -EAGAIN);
    assert_null(site->stub);
    assert_int_equal(form_direct(1), 6);
    traps_release();
    assert_int_equal(lead_site(site, stub), 0);
    assert_int_equal(form_direct(1), 6);
    unpatch((const void *)form_direct);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_in_stubs),
        cmocka_unit_test(test_places_in_tables),
        cmocka_unit_test(test_return_addresses),
        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_unwinding),
        cmocka_unit_test(test_changes_below_a_call),
        cmocka_unit_test(test_redirect),
        cmocka_unit_test(test_fork),
        cmocka_unit_test(test_unloaded_library),
        cmocka_unit_test(test_traps_that_nobody_could_bear),
        cmocka_unit_test(test_where_it_is_forbidden),
    };
    return cmocka_run_group_tests(tests, support_set_up, NULL);
}
