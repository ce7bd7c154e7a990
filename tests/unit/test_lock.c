// SPDX-License-Identifier: MIT
// Nobody waits for a thread that does not exist, and for nobody for ever.

#include "base/lock.h"
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static struct lock lock;
static _Atomic bool held, may_release;

static void *hold(void *argument)
{
    assert_int_equal(lock_take(&lock), 0);
    held = true;
    while (!may_release)
        usleep(100);
    lock_release(&lock);
    return argument;
}

static pthread_t hold_in_another_thread(void)
{
    pthread_t thread;
    held = may_release = false;
    pthread_create(&thread, NULL, hold, NULL);
    while (!held)
        usleep(100);
    return thread;
}

static void end(pthread_t thread)
{
    may_release = true;
    pthread_join(thread, NULL);
}

static int status_of(pid_t child)
{
    int status = 0;
    assert_true(child > 0);
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void its_holder_does_not_wait_for_itself(void **state)
{
    (void)state;
    assert_int_equal(lock_take(&lock), 0);
    assert_true(lock_is_mine(&lock));
    assert_false(lock_try(&lock));
    assert_int_equal(lock_take(&lock), -EDEADLK);
    lock_release(&lock);
    assert_false(lock_is_mine(&lock));
    assert_true(lock_try(&lock));
    lock_release(&lock);
}

static void *release_soon(void *argument)
{
    usleep(20000);
    may_release = true;
    return argument;
}

static void a_waiter_gets_it_when_it_is_released(void **state)
{
    (void)state;
    pthread_t holder = hold_in_another_thread(), timer;
    pthread_create(&timer, NULL, release_soon, NULL);
    assert_int_equal(lock_take(&lock), 0);
    lock_release(&lock);
    pthread_join(timer, NULL);
    end(holder);
}

static void a_child_of_fork_knows_that_the_holder_is_not_there(void **state)
{
    (void)state;
    pthread_t thread = hold_in_another_thread();
    pid_t child = fork();
    if (child == 0) {
        lock_after_fork();
        const bool missed = lock_take(&lock) == -EOWNERDEAD;
        const bool broken = lock_break(&lock) && lock_take(&lock) == 0;
        _exit(missed && broken ? 7 : 0);
    }
    assert_int_equal(status_of(child), 7);
    end(thread);
}

static void a_child_that_nobody_tells_of_knows_it_too(void **state)
{
    (void)state;
    pthread_t thread = hold_in_another_thread();
    pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    if (child == 0)
        _exit(lock_take(&lock) == -EOWNERDEAD ? 7 : 0);
    assert_int_equal(status_of(child), 7);
    end(thread);
}

static void a_wait_ends_and_others_do_not_begin_one(void **state)
{
    (void)state;
    pthread_t thread = hold_in_another_thread();
    assert_int_equal(lock_take(&lock), -ETIMEDOUT);
    assert_int_equal(lock_take(&lock), -EOWNERDEAD);
    end(thread);
    assert_int_equal(lock_take(&lock), 0);
    lock_release(&lock);
}

static void a_wait_ends_when_it_is_told_to(void **state)
{
    (void)state;
    static const _Atomic bool stop = true;
    pthread_t thread = hold_in_another_thread();
    assert_int_equal(lock_take_unless(&lock, &stop), -ECANCELED);
    end(thread);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(its_holder_does_not_wait_for_itself),
        cmocka_unit_test(a_waiter_gets_it_when_it_is_released),
        cmocka_unit_test(a_child_of_fork_knows_that_the_holder_is_not_there),
        cmocka_unit_test(a_child_that_nobody_tells_of_knows_it_too),
        cmocka_unit_test(a_wait_ends_and_others_do_not_begin_one),
        cmocka_unit_test(a_wait_ends_when_it_is_told_to),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
