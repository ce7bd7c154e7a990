// SPDX-License-Identifier: MIT

// Libraries that go while they are looked at.

#include "loadmap_fixture.h"
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

static void test_a_library_that_is_being_closed_is_not_found(void **state)
{
    (void)state;
    struct module_ref module;
    bool unloading;
    void *library = dlopen(LIBRARY_ONE, RTLD_NOW);
    uintptr_t pc = (uintptr_t)dlsym(library, "loadmap_number");
    assert_true(find(pc, &module));
    loadmap_before_unload();
    loadmap_enter();
    assert_false(loadmap_find(pc, &module, &unloading));
    assert_true(unloading);
    assert_true(loadmap_find((uintptr_t)qsort, &module, &unloading));
    assert_false(unloading);
    loadmap_leave();
    loadmap_after_unload();
    assert_true(find(pc, &module)); // dlclose did not unload after all
    close_library(library);
}

static _Atomic int unloader_done;

static void *unload(void *library)
{
    close_library(library);
    unloader_done = 1;
    return NULL;
}

static void test_unload_waits(void **state)
{
    (void)state;
    pthread_t thread;
    void *library = dlopen(LIBRARY_ONE, RTLD_NOW);
    loadmap_enter();
    loadmap_enter(); // nests
    pthread_create(&thread, NULL, unload, library);
    loadmap_leave();
    usleep(50000);
    assert_int_equal(unloader_done, 0);
    loadmap_leave();
    pthread_join(thread, NULL);
    assert_int_equal(unloader_done, 1);
}

// Two threads are sampled while they load, use and unload libraries that take each other's place.
// Each walk that comes through a library must name it, by its own id.
static unsigned library_id[3];
static __thread struct unwind_bounds thread_bounds __attribute__((tls_model("initial-exec")));
static __thread int expected __attribute__((tls_model("initial-exec")));
static _Atomic unsigned long stress_walks, stress_wrong, stress_incomplete, stress_unloading;

static void on_stress(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)info;
    struct unwind_cursor cursor;
    enum verdict verdict;
    unsigned seen = 0;
    unwind_start(&cursor, context, thread_bounds);
    do {
        unsigned module = place_module(cursor.frame.place);
        if (module == library_id[1] || module == library_id[2])
            seen = module;
    } while (unwind_step(&cursor, &verdict) == UNWIND_OK);
    stress_walks++;
    if (verdict == VERDICT_UNLOADING)
        stress_unloading++;
    else if (verdict != VERDICT_COMPLETE)
        stress_incomplete++;
    else if (expected && seen != library_id[expected])
        stress_wrong++;
}

static int work(void *argument)
{
    volatile int sum = 0;
    for (int i = 0; i < 20000; i++)
        sum += i;
    expected = *(int *)argument; // from here on the library's frame is above us for sure
    raise(SIGUSR1);
    for (int i = 0; i < 20000; i++)
        sum += i;
    expected = 0;
    return 0;
}

static _Atomic int stop;

static void *stress(void *argument)
{
    int which = (int)(intptr_t)argument;
    thread_bounds = own_bounds();
    while (!stop) {
        void *library = dlopen(which == 1 ? LIBRARY_ONE : LIBRARY_TWO, RTLD_NOW);
        if (!library)
            continue;
        int (*call)(int (*)(void *), void *) =
            (int (*)(int (*)(void *), void *))dlsym(library, "loadmap_call");
        call(work, &which);
        close_library(library);
        which = 3 - which;
    }
    return NULL;
}

static void test_no_walk_names_a_library_that_took_the_place_of_another(void **state)
{
    (void)state;
    const char *path[] = {NULL, LIBRARY_ONE, LIBRARY_TWO};
    for (int i = 1; i <= 2; i++) {
        struct module_ref module;
        void *library = dlopen(path[i], RTLD_NOW);
        assert_true(find((uintptr_t)dlsym(library, "loadmap_number"), &module));
        library_id[i] = module.id;
        close_library(library);
    }
    struct sigaction action = {.sa_sigaction = on_stress, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigaction(SIGUSR1, &action, NULL);
    pthread_t thread[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&thread[i], NULL, stress, (void *)(intptr_t)(i + 1));
    for (int i = 0; i < 3000; i++) {
        usleep(300);
        pthread_kill(thread[i % 2], SIGUSR1);
    }
    stop = 1;
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    print_message("%lu walks, %lu while unloading, %lu incomplete, %lu wrong\n", stress_walks,
                  stress_unloading, stress_incomplete, stress_wrong);
    assert_true(stress_walks > 1000);
    assert_int_equal(stress_wrong, 0);
#ifndef LOADMAP_WITHOUT_FIND_OBJECT
    assert_true(stress_incomplete * 1000 <= stress_walks);
#endif
}

static void test_after_fork(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        loadmap_enter();
        pid_t child = fork();
        if (child == 0) {
            struct module_ref module;
            loadmap_after_fork();
            void *library = dlopen(LIBRARY_ONE, RTLD_NOW);
            bool good = find((uintptr_t)qsort, &module) &&
                        find((uintptr_t)dlsym(library, "loadmap_number"), &module);
            close_library(library);
            _exit(good ? 0 : 1);
        }
        loadmap_leave();
        int status;
        waitpid(child, &status, 0);
        assert_int_equal(status, 0);
    }
}

int main(void)
{
    now_read = clock_that_runs_away;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_library_that_is_being_closed_is_not_found),
        cmocka_unit_test(test_unload_waits),
        cmocka_unit_test(test_after_fork),
        cmocka_unit_test(test_no_walk_names_a_library_that_took_the_place_of_another),
    };
    if (loadmap_start(on_found) != 0)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
