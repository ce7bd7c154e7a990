// SPDX-License-Identifier: MIT
// Exceptions between functions that somebody asks for, because they take time, and functions that
// nobody does: thrown by the ones and caught by the others, with clean-ups on the way by either.

#include "common.h"
#include <pthread.h>
#include <stdexcept>
#include <unwind.h>

namespace
{

const int rounds = 1500;
thread_local uint64_t sink;

struct problem {
    int value;
};

} // namespace

NOIPA void busy(int value)
{
    sink += burn(value, 8);
    NO_TAIL_CALL();
}

// Called too seldom, and back too soon, to be sampled.
NOIPA int quick_thrower(int value)
{
    if (value % 3)
        throw problem{value};
    return value;
}

NOIPA int quick(int depth, int value)
{
    int result = depth ? quick(depth - 1, value) : quick_thrower(value);
    NO_TAIL_CALL();
    return result + 1;
}

struct quick_guard {
    int *count;
    NOIPA ~quick_guard()
    {
        ++*count;
    }
};

struct busy_guard {
    int *count;
    NOIPA ~busy_guard()
    {
        busy(++*count);
    }
};

NOIPA int busy_thrower(int value)
{
    busy(value);
    if (value % 3)
        throw problem{value};
    return value;
}

NOIPA int busy_descent(int depth, int value)
{
    int result = depth ? busy_descent(depth - 1, value) : busy_thrower(value);
    NO_TAIL_CALL();
    return result + 1;
}

// Nobody asks for what throws: the catcher's own calls of it are all that is taken back.
NOIPA int busy_catcher(int value, int *count)
{
    busy(value);
    try {
        quick_guard here{count};
        return quick(value % 7, value);
    } catch (const problem &caught) {
        busy(caught.value);
        return caught.value;
    }
}

static int run_quick_throws()
{
    long sum = 0;
    int count = 0;
    for (int i = 0; i < rounds; i++)
        sum += busy_catcher(i, &count);
    printf("quick throws %ld %d\n", sum, count);
    return 0;
}

// What throws is asked for when it is called from elsewhere; who catches it is not.
NOIPA int quick_catcher(int value, int *count)
{
    try {
        busy_guard here{count};
        return busy_descent(value % 7, value);
    } catch (const problem &caught) {
        return caught.value;
    }
}

NOIPA int busy_caller(int value)
{
    try {
        return busy_descent(value % 5, value);
    } catch (const problem &caught) {
        busy(caught.value);
        return -caught.value;
    }
}

static int run_quick_catches()
{
    long sum = 0;
    int count = 0;
    for (int i = 0; i < rounds; i++) {
        sum += busy_caller(i);
        sum += i % 4 ? 0 : quick_catcher(i, &count);
    }
    printf("quick catches %ld %d\n", sum, count);
    return 0;
}

// Through both in turns, from one catcher to the next.
NOIPA int tower(int height, int value, int *count)
{
    if (height == 0)
        return busy_catcher(value, count) + quick_catcher(value, count);
    try {
        busy_guard here{count};
        int result = height % 2 ? quick(3, value + height) : busy_descent(2, value + height);
        return result + tower(height - 1, value, count);
    } catch (const problem &caught) {
        int result = tower(height - 1, caught.value, count);
        if (height % 3 == 0 && value % 2)
            throw problem{result % 1000};
        return result;
    }
}

NOIPA long towers(int seed)
{
    long sum = 0;
    int count = 0;
    for (int i = 0; i < rounds / 8; i++) {
        try {
            sum += tower(6, i + seed, &count);
        } catch (const problem &caught) {
            sum += caught.value;
        }
    }
    return sum + count;
}

static int run_towers()
{
    printf("towers %ld\n", towers(0));
    return 0;
}

static void *thread_body(void *argument)
{
    long *sum = static_cast<long *>(argument);
    *sum = towers(static_cast<int>(*sum));
    return nullptr;
}

static int run_threads()
{
    pthread_t threads[3];
    long sums[3] = {0, 1, 2}, sum = towers(3);
    for (int i = 0; i < 3; i++)
        CHECK(pthread_create(&threads[i], nullptr, thread_body, &sums[i]) == 0);
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], nullptr);
        sum += sums[i];
    }
    printf("threads %ld\n", sum);
    return 0;
}

// What the unwinder lands in without a catch: clean-up handlers of a thread that is cancelled.
NOIPA void cleaned_up(void *argument)
{
    busy(*static_cast<int *>(argument));
}

NOIPA void until_cancelled(int depth)
{
    pthread_cleanup_push(cleaned_up, &depth);
    if (depth > 0)
        until_cancelled(depth - 1);
    for (;;) {
        busy(depth);
        pthread_testcancel();
    }
    pthread_cleanup_pop(0);
}

static void *cancelled_body(void *)
{
    until_cancelled(6);
    return nullptr;
}

static int run_cancelled()
{
    for (int i = 0; i < 40; i++) {
        pthread_t thread;
        void *result;
        CHECK(pthread_create(&thread, nullptr, cancelled_body, nullptr) == 0);
        busy(i);
        pthread_cancel(thread);
        pthread_join(thread, &result);
        CHECK(result == PTHREAD_CANCELED);
    }
    printf("cancelled\n");
    return 0;
}

int main(int argc, char **argv)
{
    static const mode modes[] = {{"quick-throws", run_quick_throws},
                                 {"quick-catches", run_quick_catches},
                                 {"towers", run_towers},
                                 {"threads", run_threads},
                                 {"cancelled", run_cancelled}};
    return RUN_MODE(modes);
}
