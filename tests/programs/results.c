// SPDX-License-Identifier: MIT
// Values of every class that the calling convention knows, returned through frames that were
// sampled.

#include "common.h"
#include <complex.h>
#include <immintrin.h>

enum { ROUNDS = 1500, DEPTH = 4 };

struct pair {
    uint64_t first, second;
};

struct mixed {
    double real;
    uint64_t whole;
};

struct large {
    uint64_t words[9];
};

static volatile uint64_t sink;

NOIPA void result_work(int value)
{
    sink += burn((uint64_t)value, 10);
    NO_TAIL_CALL();
}

// One function for each type: returns a known value from a few frames down.
#define RETURNS(name, type, attributes, value)                                                     \
    attributes NOIPA type name(int depth, int i)                                                   \
    {                                                                                              \
        if (depth > 0) {                                                                           \
            type below = name(depth - 1, i);                                                       \
            NO_TAIL_CALL();                                                                        \
            return below;                                                                          \
        }                                                                                          \
        type result = value;                                                                       \
        result_work(i);                                                                            \
        return result;                                                                             \
    }

RETURNS(give_integer, uint64_t, , (uint64_t)i * 0x9e3779b97f4a7c15u)
RETURNS(give_int128, unsigned __int128, , ((unsigned __int128)(uint64_t)i << 64) + ~(uint64_t)i)
RETURNS(give_double, double, , i / 3.0)
RETURNS(give_long_double, long double, , i / 3.0L)
RETURNS(give_complex, double complex, , i / 3.0 + I * (i / 7.0))
RETURNS(give_long_complex, long double complex, , i / 3.0L + I * (i / 7.0L))
RETURNS(give_pair, struct pair, , ((struct pair){(uint64_t)i, ~(uint64_t)i}))
RETURNS(give_mixed, struct mixed, , ((struct mixed){i / 3.0, (uint64_t)i * 3}))
RETURNS(give_xmm, __m128i, , _mm_set_epi32(i, ~i, i * 3, i * 7))

#define AVX2 __attribute__((target("avx2")))
#define AVX512 __attribute__((target("avx512f")))

RETURNS(give_ymm, __m256i, AVX2, _mm256_set_epi32(i, ~i, i * 3, i * 7, i + 1, i + 2, i + 3, i + 4))
RETURNS(give_zmm, __m512i, AVX512,
        _mm512_set_epi64(i, ~i, i * 3, i * 7, i + 1, i + 2, i + 3, (long long)i << 40))

NOIPA struct large give_large(int depth, int i)
{
    struct large result;
    if (depth > 0) {
        result = give_large(depth - 1, i);
        NO_TAIL_CALL();
        return result;
    }
    for (int word = 0; word < 9; word++)
        result.words[word] = (uint64_t)i * (uint64_t)word;
    result_work(i);
    return result;
}

NOIPA void check_scalars(int i)
{
    CHECK(give_integer(DEPTH, i) == (uint64_t)i * 0x9e3779b97f4a7c15u);
    CHECK(give_int128(DEPTH, i) == ((unsigned __int128)(uint64_t)i << 64) + ~(uint64_t)i);
    CHECK(give_double(DEPTH, i) == i / 3.0);
    CHECK(give_long_double(DEPTH, i) == i / 3.0L);
    CHECK(give_complex(DEPTH, i) == i / 3.0 + I * (i / 7.0));
    CHECK(give_long_complex(DEPTH, i) == i / 3.0L + I * (i / 7.0L));
    NO_TAIL_CALL();
}

NOIPA void check_structs(int i)
{
    struct pair pair = give_pair(DEPTH, i);
    CHECK(pair.first == (uint64_t)i && pair.second == ~(uint64_t)i);
    struct mixed mixed = give_mixed(DEPTH, i);
    CHECK(mixed.real == i / 3.0 && mixed.whole == (uint64_t)i * 3);
    struct large large = give_large(DEPTH, i);
    for (int word = 0; word < 9; word++)
        CHECK(large.words[word] == (uint64_t)i * (uint64_t)word);
    __m128i got = give_xmm(DEPTH, i), expected = _mm_set_epi32(i, ~i, i * 3, i * 7);
    CHECK(memcmp(&got, &expected, sizeof got) == 0);
    NO_TAIL_CALL();
}

AVX2 NOIPA void check_ymm(int i)
{
    __m256i got = give_ymm(DEPTH, i);
    __m256i expected = _mm256_set_epi32(i, ~i, i * 3, i * 7, i + 1, i + 2, i + 3, i + 4);
    CHECK(memcmp(&got, &expected, sizeof got) == 0);
    NO_TAIL_CALL();
}

AVX512 NOIPA void check_zmm(int i)
{
    __m512i got = give_zmm(DEPTH, i);
    __m512i expected =
        _mm512_set_epi64(i, ~i, i * 3, i * 7, i + 1, i + 2, i + 3, (long long)i << 40);
    CHECK(memcmp(&got, &expected, sizeof got) == 0);
    NO_TAIL_CALL();
}

int main(void)
{
    int avx2 = __builtin_cpu_supports("avx2"), avx512 = __builtin_cpu_supports("avx512f");
    for (int i = 0; i < ROUNDS; i++) {
        check_scalars(i);
        check_structs(i);
        if (avx2)
            check_ymm(i);
        if (avx512)
            check_zmm(i);
    }
    printf("results: scalars, structs%s%s\n", avx2 ? ", ymm" : "", avx512 ? ", zmm" : "");
    return 0;
}
