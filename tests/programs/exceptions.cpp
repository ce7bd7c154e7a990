// SPDX-License-Identifier: MIT
// C++ exceptions thrown through frames that have been sampled, in every shape that unwinders know.

#include "common.h"
#include <exception>
#include <pthread.h>
#include <stdexcept>
#include <string>
#include <unwind.h>

namespace
{

const int rounds = 1200;
uint64_t sink;

struct problem : std::runtime_error {
    explicit problem(int value)
        : std::runtime_error("problem " + std::to_string(value)), value(value)
    {
    }
    int value;
};

} // namespace

// Twenty units on average, never in step with a clock: a loop that takes as long as the time between
// two samples is hit in the same place each time.
static unsigned units(int value)
{
    return 10 + ((unsigned)value * 2654435761u >> 16) % 21;
}

NOIPA int thrower(int value)
{
    sink += burn(value, units(value));
    throw problem(value);
}

// Deep enough for the marker to sit anywhere between the throw and the catch.
NOIPA int descend(int depth, int value)
{
    int result = depth == 0 ? thrower(value) : descend(depth - 1, value);
    NO_TAIL_CALL();
    return result + 1;
}

NOIPA void landed(int value)
{
    sink += burn(value, units(value));
    NO_TAIL_CALL();
}

NOIPA int catcher(int value)
{
    try {
        return descend(value % 30, value);
    } catch (const problem &caught) {
        landed(caught.value);
        return caught.value;
    }
}

static int run_plain()
{
    long sum = 0;
    for (int i = 0; i < 2 * rounds; i++)
        sum += catcher(i);
    printf("plain %ld\n", sum);
    return 0;
}

NOIPA int nested_catcher(int depth, int value)
{
    try {
        return descend(5, value + depth);
    } catch (const problem &caught) {
        int inner = depth == 0 ? 0 : nested_catcher(depth - 1, value);
        landed(value);
        CHECK(caught.value == value + depth);
        CHECK(std::string(caught.what()) == "problem " + std::to_string(value + depth));
        return caught.value + inner;
    }
}

static int run_nested()
{
    long sum = 0;
    for (int i = 0; i < rounds; i++)
        sum += nested_catcher(2, i);
    printf("nested %ld\n", sum);
    return 0;
}

NOIPA int rethrower(int value)
{
    try {
        return descend(4, value);
    } catch (problem &caught) {
        landed(value);
        caught.value++;
        throw;
    }
}

NOIPA int pointer_rethrower(int value)
{
    std::exception_ptr kept;
    try {
        rethrower(value);
    } catch (...) {
        kept = std::current_exception();
    }
    landed(value);
    std::rethrow_exception(kept);
}

static int run_rethrow()
{
    long sum = 0;
    for (int i = 0; i < rounds; i++) {
        try {
            sum += i % 2 ? rethrower(i) : pointer_rethrower(i);
        } catch (const problem &caught) {
            sum += caught.value;
        }
    }
    printf("rethrow %ld\n", sum);
    return 0;
}

NOIPA void cleanup_work(int value)
{
    sink += burn(value, 15);
    NO_TAIL_CALL();
}

// Its destructor works for long while the exception is in flight, and throws and catches on its
// own.
struct guard {
    explicit guard(int value, int *count) : value(value), count(count)
    {
    }
    NOIPA ~guard();
    int value;
    int *count;
};

guard::~guard()
{
    cleanup_work(value);
    if (value % 3 == 0) {
        try {
            thrower(value);
        } catch (const problem &caught) {
            cleanup_work(caught.value);
        }
    }
    ++*count;
}

NOIPA int guarded(int depth, int value, int *count)
{
    guard here(depth, count);
    int result = depth == 0 ? descend(3, value) : guarded(depth - 1, value, count);
    NO_TAIL_CALL();
    return result;
}

static int run_destructors()
{
    long sum = 0;
    int count = 0;
    for (int i = 0; i < rounds / 4; i++) {
        try {
            sum += guarded(8, i, &count);
        } catch (const problem &caught) {
            sum += caught.value;
        }
    }
    printf("destructors %ld %d\n", sum, count);
    return 0;
}

static void *thread_body(void *argument)
{
    long sum = 0;
    int count = 0;
    for (int i = 0; i < rounds / 4; i++) {
        sum += catcher(i);
        try {
            sum += guarded(3, i, &count);
        } catch (const problem &caught) {
            sum += caught.value;
        }
    }
    *static_cast<long *>(argument) = sum + count;
    return nullptr;
}

static int run_threads()
{
    pthread_t threads[4];
    long sums[4];
    for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&threads[i], nullptr, thread_body, &sums[i]) == 0);
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], nullptr);
        CHECK(sums[i] == sums[0]);
    }
    printf("threads %ld\n", sums[0]);
    return 0;
}

// Exceptions that leave through frames of the C library.
NOIPA int comparer(const void *left, const void *right)
{
    int a = *static_cast<const int *>(left), b = *static_cast<const int *>(right);
    sink += burn(a, 2);
    if (a == 13 || b == 13)
        thrower(a + b);
    return a - b;
}

NOIPA int through_qsort(int value)
{
    int numbers[16];
    for (int i = 0; i < 16; i++)
        numbers[i] = (i * 5 + value) % 16;
    try {
        qsort(numbers, 16, sizeof numbers[0], comparer);
    } catch (const problem &) {
        landed(value);
        return 1;
    }
    return 0;
}

// Exceptions that are none of C++'s own: another runtime's, and a forced unwinding.
NOIPA void foreign_thrower(_Unwind_Exception *exception, int value)
{
    sink += burn(value, 20);
    _Unwind_RaiseException(exception);
    CHECK(!"raised");
}

NOIPA int foreign_catcher(int value, int *count)
{
    _Unwind_Exception exception{};
    exception.exception_class = 0x636169726e746573;
    try {
        guard here(1, count);
        foreign_thrower(&exception, value);
    } catch (...) {
        landed(value);
        return 1;
    }
    return 0;
}

struct forced {
    _Unwind_Exception exception;
    void *buffer[5];
    int steps;
};

static _Unwind_Reason_Code stop(int, _Unwind_Action actions, _Unwind_Exception_Class,
                                _Unwind_Exception *, _Unwind_Context *context, void *argument)
{
    auto *state = static_cast<forced *>(argument);
    state->steps++;
    uintptr_t target = reinterpret_cast<uintptr_t>(state->buffer[4]);
    if (_Unwind_GetCFA(context) > target || (actions & _UA_END_OF_STACK))
        __builtin_longjmp(state->buffer, 1);
    return _URC_NO_REASON;
}

NOIPA void forced_thrower(forced *state, int depth, int *count)
{
    guard here(1, count);
    if (depth > 0) {
        forced_thrower(state, depth - 1, count);
    } else {
        sink += burn(depth, 20);
        _Unwind_ForcedUnwind(&state->exception, stop, state);
        CHECK(!"forced");
    }
    NO_TAIL_CALL();
}

NOIPA int forced_catcher(int *count)
{
    forced state{};
    state.buffer[4] = __builtin_frame_address(0);
    if (__builtin_setjmp(state.buffer) == 0)
        forced_thrower(&state, 6, count);
    return 1;
}

static int run_foreign()
{
    int sorts = 0, raised = 0, unwound = 0, count = 0;
    for (int i = 0; i < rounds / 2; i++) {
        sorts += through_qsort(i);
        raised += foreign_catcher(i, &count);
        unwound += i % 4 == 0 ? forced_catcher(&count) : 0;
    }
    printf("foreign %d %d %d %d\n", sorts, raised, unwound, count);
    return 0;
}

// Nobody catches it: std::terminate ends the program with SIGABRT.
static int run_uncaught()
{
    for (int i = 0; i < rounds; i++)
        catcher(i);
    descend(3, 7);
    return 0;
}

int main(int argc, char **argv)
{
    static const mode modes[] = {{"plain", run_plain},      {"nested", run_nested},
                                 {"rethrow", run_rethrow},  {"destructors", run_destructors},
                                 {"threads", run_threads},  {"foreign", run_foreign},
                                 {"uncaught", run_uncaught}};
    return RUN_MODE(modes);
}
