// SPDX-License-Identifier: MIT
// The ways to make a thread.

#include "agent/session/real.h"
#include "agent/thread/thread.h"
#include "track/calls/calls.h"
#include <pthread.h>
#include <threads.h>

// The thread's descriptor lies at the top of its stack, also if the program allocated that.
static struct unwind_bounds thread_stack(const struct thread *thread)
{
    uintptr_t high = (uintptr_t)pthread_self();
    return (struct unwind_bounds){.low = high - thread->stack_bytes, .high = high};
}

// It will find its return address where ours is.
#define NOTE_ROOT(start)                                                                           \
    calls_enter_root((uintptr_t)(start), (uintptr_t *)__builtin_frame_address(0) + 1,              \
                     *(uintptr_t *)__builtin_frame_address(0))

// The start routine of every thread. Ends in a jump to the program's own, so no frame of ours stays
// on the stack.
__attribute__((optimize("O2"))) static void *thread_entry(void *argument)
{
    struct thread *thread = argument;
    void *(*start)(void *) = thread->start;
    argument = thread->argument;
    thread_enter(thread, thread_stack(thread));
    NOTE_ROOT(start);
    return start(argument);
}

// The same, if nothing else reports its end.
static void *noticed_entry(void *argument)
{
    return thread_end_after(thread_entry, argument);
}

static size_t stack_bytes_of(const pthread_attr_t *attributes)
{
    size_t bytes = 0;
    if (attributes && !pthread_attr_getstacksize(attributes, &bytes) && bytes)
        return bytes;
    pthread_attr_t defaults;
    if (!pthread_getattr_default_np(&defaults)) {
        pthread_attr_getstacksize(&defaults, &bytes);
        pthread_attr_destroy(&defaults);
    }
    return bytes ? bytes : 8 << 20;
}

static void prepare_thread(struct thread *thread, void *(*start)(void *), void *argument,
                           const pthread_attr_t *attributes, const void *frame)
{
    const struct caller_registers caller = unwind_caller_of(frame);
    thread->creator = thread_creation(&caller);
    thread->start = start;
    thread->argument = argument;
    thread->stack_bytes = stack_bytes_of(attributes);
    thread->hidden = thread_self ? thread_self->hidden : 0;
}

INTERPOSED __attribute__((optimize("no-omit-frame-pointer"))) int
pthread_create(pthread_t *id, const pthread_attr_t *attributes, void *(*start)(void *),
               void *argument)
{
    struct thread *thread = agent.armed ? thread_take() : NULL;
    if (!thread)
        return REAL(pthread_create)(id, attributes, start, argument);
    prepare_thread(thread, start, argument, attributes, __builtin_frame_address(0));
    tracker_expect_threads();
    int error = REAL(pthread_create)(
        id, attributes, thread_end_is_noticed() ? thread_entry : noticed_entry, thread);
    if (error)
        thread_give(thread);
    return error;
}

// C11's threads, which libc makes without asking pthread_create.
__attribute__((optimize("O2"))) static int c11_thread_entry(void *argument)
{
    struct thread *thread = argument;
    thrd_start_t start = (thrd_start_t)(void *)thread->start;
    argument = thread->argument;
    thread_enter(thread, thread_stack(thread));
    NOTE_ROOT(start);
    return start(argument);
}

static void *c11_entry(void *argument)
{
    return (void *)(intptr_t)c11_thread_entry(argument);
}

static int noticed_c11_entry(void *argument)
{
    return (int)(intptr_t)thread_end_after(c11_entry, argument);
}

INTERPOSED __attribute__((optimize("no-omit-frame-pointer"))) int
thrd_create(thrd_t *id, thrd_start_t start, void *argument)
{
    struct thread *thread = agent.armed ? thread_take() : NULL;
    if (!thread)
        return REAL(thrd_create)(id, start, argument);
    prepare_thread(thread, (void *)start, argument, NULL, __builtin_frame_address(0));
    tracker_expect_threads();
    int error = REAL(thrd_create)(
        id, thread_end_is_noticed() ? c11_thread_entry : noticed_c11_entry, thread);
    if (error != thrd_success)
        thread_give(thread);
    return error;
}
