// SPDX-License-Identifier: MIT
// Spends CPU time in system calls and beside them, and measures it itself. Prints "NAME
// NANOSECONDS" for each kind, and what the kernel says of user and system time.

#include "common.h"
#include <fcntl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CPU_NS 1500000000 // enough for samples of the kernel's tick, on fast machines too
#define BYTES 262144

static char buffer[BYTES];
static volatile uint64_t sink;
static uint64_t spent[4];

NOIPA void does_read(int zero)
{
    CHECK(read(zero, buffer, BYTES) == BYTES);
    NO_TAIL_CALL();
}

NOIPA void does_getrandom(void)
{
    CHECK(getrandom(buffer, BYTES / 8, 0) == BYTES / 8);
    NO_TAIL_CALL();
}

// The number is in a register: no code says which it is.
NOIPA void does_some(long number)
{
    CHECK(syscall(number, buffer, BYTES / 8, 0) == BYTES / 8);
    NO_TAIL_CALL();
}

NOIPA void does_nothing(void)
{
    sink += burn(sink, 20);
    NO_TAIL_CALL();
}

static uint64_t lap(uint64_t *last)
{
    const uint64_t now = thread_cpu_ns(), passed = now - *last;
    *last = now;
    return passed;
}

static unsigned long long nanoseconds(struct timeval time)
{
    return (unsigned long long)time.tv_sec * 1000000000 + (unsigned long long)time.tv_usec * 1000;
}

int main(void)
{
    static const char *const names[] = {"read", "getrandom", "some", "nothing"};
    const int zero = open("/dev/zero", O_RDONLY);
    CHECK(zero >= 0);
    uint64_t last = thread_cpu_ns();
    while (last < CPU_NS) {
        for (unsigned j = 0; j < 4; j++)
            does_read(zero);
        spent[0] += lap(&last);
        does_getrandom();
        spent[1] += lap(&last);
        does_some(SYS_getrandom);
        spent[2] += lap(&last);
        does_nothing();
        spent[3] += lap(&last);
    }
    for (unsigned i = 0; i < 4; i++)
        printf("%s %llu\n", names[i], (unsigned long long)spent[i]);
    struct rusage used;
    CHECK(!getrusage(RUSAGE_SELF, &used));
    printf("user %llu\n", nanoseconds(used.ru_utime));
    printf("system %llu\n", nanoseconds(used.ru_stime));
    return 0;
}
