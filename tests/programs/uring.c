// SPDX-License-Identifier: MIT
// Waits for completions of io_uring, of which no signal of the program's ends one.
//
//   uring inline|libc ROUNDS [handler]    exits with 77 where there is no io_uring
//
// Prints how many waits failed with EINTR. `handler`: the program has a handler, which never runs.

#include "common.h"
#include <errno.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static int ring, ends[2];
static bool by_libc;
static _Atomic long begun;
static _Atomic unsigned *submitted, *completed, *taken, *indices;
static unsigned mask;
static struct io_uring_sqe *requests;

static void *map(size_t bytes, off_t offset)
{
    void *memory =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, offset);
    CHECK(memory != MAP_FAILED);
    return memory;
}

static void set_up(void)
{
    struct io_uring_params parameters = {0};
    ring = (int)syscall(SYS_io_uring_setup, 8, &parameters);
    if (ring < 0)
        _Exit(77);
    char *queue =
        map(parameters.sq_off.array + parameters.sq_entries * sizeof(unsigned), IORING_OFF_SQ_RING);
    char *results =
        map(parameters.cq_off.cqes + parameters.cq_entries * sizeof(struct io_uring_cqe),
            IORING_OFF_CQ_RING);
    requests = map(parameters.sq_entries * sizeof *requests, IORING_OFF_SQES);
    submitted = (_Atomic unsigned *)(queue + parameters.sq_off.tail);
    indices = (_Atomic unsigned *)(queue + parameters.sq_off.array);
    memcpy(&mask, queue + parameters.sq_off.ring_mask, sizeof mask);
    taken = (_Atomic unsigned *)(results + parameters.cq_off.head);
    completed = (_Atomic unsigned *)(results + parameters.cq_off.tail);
}

// 0 or more, or -errno.
static long enter(unsigned submit, unsigned wait)
{
    const unsigned flags = wait ? IORING_ENTER_GETEVENTS : 0;
    if (by_libc) {
        const long result = syscall(SYS_io_uring_enter, ring, submit, wait, flags, NULL, 8);
        return result < 0 ? -errno : result;
    }
    // As libraries have it.
    register long fourth __asm__("r10") = flags;
    register long fifth __asm__("r8") = 0;
    register long sixth __asm__("r9") = 8;
    long result;
    __asm__ volatile("mov %1, %%eax\n\tsyscall"
                     : "=&a"(result)
                     : "i"(SYS_io_uring_enter), "D"((long)ring), "S"((long)submit), "d"((long)wait),
                       "r"(fourth), "r"(fifth), "r"(sixth)
                     : "rcx", "r11", "memory");
    return result;
}

static void request_byte(char *byte)
{
    const unsigned tail = atomic_load(submitted);
    requests[tail & mask] = (struct io_uring_sqe){.opcode = IORING_OP_READ,
                                                  .fd = ends[0],
                                                  .addr = (uintptr_t)byte,
                                                  .len = 1,
                                                  .off = UINT64_MAX};
    indices[tail & mask] = tail & mask;
    atomic_store(submitted, tail + 1);
    CHECK(enter(1, 0) == 1);
}

static void *write_bytes(void *argument)
{
    const long rounds = *(const long *)argument;
    for (long round = 1; round <= rounds; round++) {
        while (atomic_load(&begun) < round)
            ;
        burn((uint64_t)round, 5);
        CHECK(write(ends[1], "", 1) == 1);
    }
    return NULL;
}

static void on_signal(int signal)
{
    (void)signal;
}

int main(int argc, char **argv)
{
    CHECK(argc >= 3);
    by_libc = !strcmp(argv[1], "libc");
    long rounds = atol(argv[2]), interrupted = 0;
    if (argc > 3)
        CHECK(signal(SIGUSR1, on_signal) != SIG_ERR);
    set_up();
    pthread_t writer;
    CHECK(pipe(ends) == 0 && pthread_create(&writer, NULL, write_bytes, &rounds) == 0);
    for (long round = 1; round <= rounds; round++) {
        char byte;
        request_byte(&byte);
        atomic_store(&begun, round);
        while (atomic_load(completed) == atomic_load(taken)) {
            const long result = enter(0, 1);
            CHECK(result >= 0 || result == -EINTR);
            interrupted += result < 0;
        }
        atomic_fetch_add(taken, 1);
    }
    CHECK(pthread_join(writer, NULL) == 0);
    printf("%ld interrupted\n", interrupted);
    return 0;
}
