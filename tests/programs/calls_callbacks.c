// SPDX-License-Identifier: MIT
// Called back by libc, which knows as little as we do whom it works for: whoever asks tells. With
// an argument, a handler comes in between all the time.

#include "calls.h"
#include <dirent.h>
#include <setjmp.h>

static volatile int sink;

NOIPA static void leaf(void)
{
    sink++;
}

NOIPA static void interrupts(int signal)
{
    TRUTH(anybody, interrupts);
    CALL(interrupts, leaf);
    (void)signal;
}

static struct true_edge *asked_by;

#define ASK(from, back, work)                                                                      \
    ({                                                                                             \
        static struct true_edge edge = {#from, #back, 0, 0};                                       \
        struct true_edge *before = asked_by;                                                       \
        asked_by = &edge;                                                                          \
        work;                                                                                      \
        asked_by = before;                                                                         \
    })

NOIPA static int orders(const void *left, const void *right)
{
    count_truth(asked_by);
    CALL(orders, leaf);
    return *(const int *)left - *(const int *)right;
}

static inline __attribute__((always_inline)) void mix(int *numbers, int count)
{
    for (int i = 0; i < count; i++)
        numbers[i] = i * 37 % (count + 1);
}

// Wherever on the stack: the room that qsort() takes there depends on the count, too.
NOIPA static void near_by(int count)
{
    int numbers[200];
    mix(numbers, count);
    ASK(near_by, orders, qsort(numbers, (size_t)count, sizeof *numbers, orders));
}

NOIPA static void far_away(int count, int bytes)
{
    volatile char *room = __builtin_alloca((size_t)bytes);
    int numbers[200];
    room[0] = 1;
    mix(numbers, count);
    ASK(far_away, orders, qsort(numbers, (size_t)count, sizeof *numbers, orders));
    CALL(far_away, near_by, count);
}

NOIPA static void searches(int count)
{
    int numbers[200];
    mix(numbers, count);
    ASK(searches, orders, {
        qsort(numbers, (size_t)count, sizeof *numbers, orders);
        for (int i = 0; i < count; i++)
            CHECK(bsearch(&numbers[i], numbers, (size_t)count, sizeof *numbers, orders));
        qsort(numbers, (size_t)count / 2, sizeof *numbers, orders);
    });
}

// Sorts in the middle of a sort.
NOIPA static int nests(const void *left, const void *right)
{
    count_truth(asked_by);
    CALL(nests, near_by, 3);
    CALL(nests, searches, 2);
    return *(const int *)left - *(const int *)right;
}

static jmp_buf sorted_enough;
static int patience;

NOIPA static int loses_patience(const void *left, const void *right)
{
    count_truth(asked_by);
    if (--patience <= 0)
        longjmp(sorted_enough, 1);
    return *(const int *)left - *(const int *)right;
}

NOIPA static void sorts_a_while(int count)
{
    int numbers[200];
    mix(numbers, count);
    patience = count;
    if (setjmp(sorted_enough) == 0)
        ASK(sorts_a_while, loses_patience,
            qsort(numbers, (size_t)count, sizeof *numbers, loses_patience));
    asked_by = NULL;
    mix(numbers, count);
    ASK(sorts_a_while, nests, qsort(numbers, (size_t)count / 8, sizeof *numbers, nests));
}

// Here it is libc that calls qsort().

NOIPA static int chooses(const struct dirent *entry)
{
    TRUTH(lists, chooses);
    return entry->d_name[0] != '.';
}

NOIPA static int compares(const struct dirent **left, const struct dirent **right)
{
    count_truth(asked_by);
    return strcmp((*left)->d_name, (*right)->d_name);
}

NOIPA static void lists(int bytes)
{
    volatile char *room = __builtin_alloca((size_t)bytes);
    struct dirent **entries;
    int count = 0;
    room[0] = 1;
    ASK(lists, compares, count = scandir("/dev", &entries, chooses, compares));
    CHECK(count > 0);
    ASK(lists, compares,
        qsort(entries, (size_t)count, sizeof *entries,
              (int (*)(const void *, const void *))compares));
    while (count-- > 0)
        free(entries[count]);
    free(entries);
}

int main(int argc, char **argv)
{
    (void)argv;
    int rounds = argc > 1 ? 1200 : 120;
    if (argc > 1)
        interrupt_each(200, interrupts);
    for (int round = 0; round < rounds; round++) {
        int i = round % 120;
        CALL(main, near_by, 3 + i);
        CALL(main, far_away, 120 - i, 16 * (i + 1));
        CALL(main, searches, 2 + i);
        CALL(main, sorts_a_while, 8 + i % 40);
        if (i % 4 == 0)
            CALL(main, lists, 16 * (i + 1));
    }
    interrupt_each(0, interrupts);
    tell_truth();
    return 0;
}
