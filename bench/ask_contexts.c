// SPDX-License-Identifier: MIT
// What it costs to ask for the calling context, under `cairn record --track encode`: minimum of
// many runs, less an empty loop. With a number as argument, it writes that many lines with contexts
// instead, of some thousand paths, for `cairn decode`.
//
//   cairn record --track encode -- ask_contexts          ns a context, by entries on ccStack
//   cairn record --track encode -- ask_contexts LINES >log

#include <cairn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { RUNS = 60, TIMES = 20000, MOST = 16 };

#define APART __attribute__((noinline, noipa))

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static struct cairn_context last;
static char text[CAIRN_CONTEXT_TEXT];

static void use(struct cairn_context context)
{
    __asm__ volatile("" ::"r"(context.id), "r"(context.handle));
}

static void nothing(const char *what)
{
    __asm__ volatile("" ::"r"(what));
}

APART static void measure(const char *what)
{
    double asked = 1e9, written = 1e9;
    for (unsigned run = 0; run < RUNS; run++) {
        double then = now();
        for (unsigned i = 0; i < TIMES; i++)
            use(cairn_context());
        double spent = (now() - then) / TIMES;
        asked = spent < asked ? spent : asked;
        last = cairn_context();
        then = now();
        for (unsigned i = 0; i < TIMES; i++)
            cairn_context_text(last, text, sizeof text);
        spent = (now() - then) / TIMES;
        written = spent < written ? spent : written;
    }
    printf("%s: %.2f ns, as text %.1f ns more\n", what, asked, written);
}

// Recursion by ways of different numbers: each is an entry of its own.
APART static void recurse(unsigned left, void (*then)(const char *), const char *what);

APART static void by_one(unsigned left, void (*then)(const char *), const char *what)
{
    recurse(left, then, what);
    __asm__ volatile("");
}

APART static void by_other(unsigned left, void (*then)(const char *), const char *what)
{
    recurse(left, then, what);
    __asm__ volatile("");
}

APART static void recurse(unsigned left, void (*then)(const char *), const char *what)
{
    if (left == 0)
        then(what);
    else if (left % 2)
        by_one(left - 1, then, what);
    else
        by_other(left - 1, then, what);
    __asm__ volatile("");
}

// ---- a log of many paths: a bit of the number decides at each level

static void write_line(const char *number)
{
    printf("%s line %s\n", cairn_context_text(cairn_context(), text, sizeof text), number);
}

APART static void left(unsigned level, unsigned bits, const char *number);
APART static void right(unsigned level, unsigned bits, const char *number);

#define GO_ON                                                                                      \
    if (level == 0)                                                                                \
        write_line(number);                                                                        \
    else if (bits & 1)                                                                             \
        left(level - 1, bits >> 1, number);                                                        \
    else                                                                                           \
        right(level - 1, bits >> 1, number);                                                       \
    __asm__ volatile("");

APART static void left(unsigned level, unsigned bits, const char *number){GO_ON} APART
    static void right(unsigned level, unsigned bits, const char *number)
{
    GO_ON
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        for (long i = atol(argv[1]); i > 0; i--) {
            char number[24];
            snprintf(number, sizeof number, "%ld", i);
            (i & 1 ? left : right)(12, (unsigned)i % 4096, number);
        }
        return 0;
    }
    static const unsigned entries[] = {0, 1, 2, 4, 8, MOST};
    for (unsigned warm = 0; warm < 200000; warm++) // calls that are met, and encoded anew
        recurse(warm % MOST, nothing, NULL);
    for (unsigned i = 0; i < sizeof entries / sizeof *entries; i++) {
        char what[32];
        snprintf(what, sizeof what, "%u entries", entries[i]);
        recurse(entries[i], measure, what);
    }
    return 0;
}
