// SPDX-License-Identifier: MIT
// The names that a program gives to its threads: by pthread_setname_np(), or by prctl(), which
// interpose/syscall.c sees. A thread with another name has another tree: see thread_record.c.

#include "agent/session/real.h"
#include "agent/thread/thread.h"
#include <pthread.h>
#include <string.h>

void thread_set_name(struct thread *thread, const char *name)
{
    size_t length = strnlen(name, THREAD_NAME_BYTES - 1);
    memcpy(thread->name, name, length);
    memset(thread->name + length, 0, THREAD_NAME_BYTES - length);
    // Release: a sample that finds this finds the name.
    atomic_store_explicit(&thread->record_phase, PHASE_UNSURE, memory_order_release);
    if (thread == thread_self)
        thread_move_now();
}

INTERPOSED int pthread_setname_np(pthread_t handle, const char *name)
{
    const int error = REAL(pthread_setname_np)(handle, name);
    if (error || !agent.armed || agent_in_vfork_child())
        return error;
    if (thread_self && pthread_equal(handle, pthread_self()))
        thread_set_name(thread_self, name);
    else
        thread_list_set_name(handle, name);
    return error;
}
