// SPDX-License-Identifier: MIT
// Arguments in every register that can carry one, through functions that are hooked: all must
// arrive. Every function is called from two places, the first time each and again, so that all ways
// through the hook are taken.

#include "common.h"
#include <complex.h>
#include <immintrin.h>
#include <stdarg.h>

#ifdef __clang__ // it would find out what all the arguments are
#undef NOIPA
#define NOIPA __attribute__((noinline, optnone))
#endif

struct large {
    int64_t words[9];
};

NOIPA static int integers(int a, long b, short c, char d, unsigned e, uint64_t f, int g, int h)
{
    return a == 1 && b == -2 && c == 3 && d == -4 && e == 5 && f == UINT64_C(6) << 40 && g == 7 &&
           h == 8;
}

NOIPA static int doubles(double a, double b, double c, double d, double e, double f, double g,
                         double h, double i)
{
    return a == 1 && b == 2 && c == 3 && d == 4 && e == 5 && f == 6 && g == 7 && h == 8 && i == 9;
}

NOIPA static long double extended(long double a, long double b)
{
    return a / b;
}

NOIPA static double _Complex complexes(double _Complex a, float _Complex b)
{
    return a * b;
}

NOIPA static struct large structures(struct large a, int b)
{
    a.words[8] += b;
    return a;
}

NOIPA static int variable(int count, ...)
{
    va_list rest;
    double sum = 0;
    va_start(rest, count);
    for (int i = 0; i < count; i++)
        sum += i % 2 ? va_arg(rest, double) : va_arg(rest, int);
    va_end(rest);
    return sum == count * (count + 1) / 2;
}

NOIPA static __int128 wide(__int128 a, __int128 b)
{
    return a + b;
}

#ifndef __clang__
// The static chain: %r10 leads to the frame of the enclosing function.
NOIPA static int nested(int start)
{
    int sum = start;
    NOIPA int add(int amount)
    {
        return sum += amount;
    }
    add(1);
    add(2);
    return add(3) == start + 6;
}
#endif

NOIPA __attribute__((target("avx"))) static int avx(__m256d a, __m256d b, __m256i c)
{
    const __m256d sum = _mm256_add_pd(a, b);
    return sum[0] == 11 && sum[1] == 22 && sum[2] == 33 && sum[3] == 44 && c[0] == 5 && c[3] == 8;
}

NOIPA __attribute__((target("avx512f"))) static int avx512(__m512i a, __m512i b)
{
    const __m512i sum = _mm512_add_epi64(a, b);
    for (int i = 0; i < 8; i++)
        if (sum[i] != i * 11 + 3)
            return 0;
    return 1;
}

// A mask register carries an argument only if the compiler finds it does; here it is live across
// the call.
NOIPA __attribute__((target("avx512f"))) static int masked(__mmask16 mask, __m512i a)
{
    return _mm512_mask_reduce_add_epi32(mask, a) == 0x5555;
}

__attribute__((target("avx"))) static void check_avx(void)
{
    for (int i = 0; i < 3; i++)
        CHECK(avx(_mm256_setr_pd(1, 2, 3, 4), _mm256_setr_pd(10, 20, 30, 40),
                  _mm256_setr_epi64x(5, 6, 7, 8)));
}

__attribute__((target("avx512f"))) static void check_avx512(void)
{
    for (int i = 0; i < 3; i++) {
        CHECK(avx512(_mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7),
                     _mm512_setr_epi64(3, 13, 23, 33, 43, 53, 63, 73)));
        CHECK(masked(0x5555, _mm512_setr_epi32(1, 0, 4, 0, 16, 0, 64, 0, 256, 0, 1024, 0, 4096, 0,
                                               16384, 0)));
    }
}

NOIPA static void check_all(void)
{
    struct large large = {{1, 2, 3, 4, 5, 6, 7, 8, 9}};
    CHECK(integers(1, -2, 3, -4, 5, UINT64_C(6) << 40, 7, 8));
    CHECK(doubles(1, 2, 3, 4, 5, 6, 7, 8, 9));
    CHECK(extended(1.0L, 3.0L) == 1.0L / 3.0L);
    CHECK(complexes(1 + 2 * I, 3 + 4 * I) == -5 + 10 * I);
    large = structures(large, 91);
    CHECK(large.words[0] == 1 && large.words[8] == 100);
    CHECK(variable(8, 1, 2.0, 3, 4.0, 5, 6.0, 7, 8.0));
    CHECK(variable(2, 1, 2.0));
    CHECK(wide((__int128)1 << 100, 5) == ((__int128)1 << 100) + 5);
#ifndef __clang__
    CHECK(nested(36));
#endif
}

int main(void)
{
    __builtin_cpu_init();
    for (int i = 0; i < 3; i++)
        check_all();
    if (__builtin_cpu_supports("avx"))
        check_avx();
    if (__builtin_cpu_supports("avx512f"))
        check_avx512();
    puts("all arguments arrived");
    return 0;
}
