// SPDX-License-Identifier: MIT
// Work for threads whose call sites are rewritten under them: recursion, virtual and indirect
// calls, tail calls, callbacks, exceptions, longjmp. patch_work(seed) always gives the same for a
// seed.

#include <algorithm>
#include <csetjmp>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#define NOIPA __attribute__((noipa))

namespace
{

struct shape {
    virtual ~shape() = default;
    virtual uint64_t area(uint64_t x) const = 0;
    virtual uint64_t twice(uint64_t x) const
    {
        return 2 * area(x);
    }
};

struct square : shape {
    NOIPA uint64_t area(uint64_t x) const override
    {
        return x * x;
    }
};

struct disc : shape {
    NOIPA uint64_t area(uint64_t x) const override
    {
        return 3 * x * x + 1;
    }
    NOIPA uint64_t twice(uint64_t x) const override
    {
        return area(x) + area(x + 1);
    }
};

NOIPA uint64_t fib(uint64_t n)
{
    return n < 2 ? n : fib(n - 1) + fib(n - 2);
}

NOIPA uint64_t mix(uint64_t x)
{
    x ^= x >> 31;
    return x * UINT64_C(0x9e3779b97f4a7c15);
}

NOIPA uint64_t tail(uint64_t x)
{
    return mix(x + 1);
}

NOIPA uint64_t even(uint64_t n);
NOIPA uint64_t odd(uint64_t n)
{
    return n == 0 ? 1 : even(n - 1);
}
NOIPA uint64_t even(uint64_t n)
{
    return n == 0 ? 2 : odd(n - 1);
}

uint64_t (*const table[])(uint64_t) = {mix, tail, fib, even};

NOIPA uint64_t by_table(uint64_t x)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < 4; i++)
        sum += table[(x + i) % 4](x % 12 + i) ^ i;
    return sum;
}

struct guard {
    uint64_t &sum;
    explicit guard(uint64_t &sum) : sum(sum)
    {
    }
    NOIPA ~guard()
    {
        sum = mix(sum);
    }
};

NOIPA uint64_t thrower(uint64_t depth, uint64_t x, uint64_t &sum)
{
    guard on_the_way(sum);
    if (depth == 0) {
        if (x % 2)
            throw std::runtime_error(std::to_string(x));
        throw x;
    }
    return thrower(depth - 1, x, sum) + 1;
}

NOIPA uint64_t catcher(uint64_t x)
{
    uint64_t sum = x;
    try {
        sum += thrower(x % 9, x, sum);
    } catch (const std::runtime_error &error) {
        sum += std::string(error.what()).size();
    } catch (uint64_t value) {
        sum += value;
    }
    return sum;
}

NOIPA void jumper(jmp_buf &environment, uint64_t depth, uint64_t x)
{
    if (depth == 0)
        longjmp(environment, (int)(x % 100) + 1);
    jumper(environment, depth - 1, x + 1);
    mix(x);
}

NOIPA uint64_t jumped(uint64_t x)
{
    jmp_buf environment;
    const int result = setjmp(environment);
    if (result)
        return mix((uint64_t)result);
    jumper(environment, x % 11, x);
    return 0;
}

int compare(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

NOIPA uint64_t sorted(uint64_t x)
{
    std::vector<uint64_t> values;
    for (uint64_t i = 0; i < 40; i++)
        values.push_back(mix(x + i));
    qsort(values.data(), values.size() / 2, sizeof values[0], compare);
    std::sort(values.begin() + 20, values.end(),
              [](uint64_t a, uint64_t b) { return mix(a) < mix(b); });
    uint64_t sum = 0;
    for (uint64_t value : values)
        sum = sum * 31 + value;
    return sum;
}

} // namespace

extern "C" __attribute__((visibility("default"))) uint64_t patch_work(uint64_t seed)
{
    static const square a_square;
    static const disc a_disc;
    const shape *shapes[] = {&a_square, &a_disc};
    uint64_t sum = seed;
    for (uint64_t i = 0; i < 20; i++) {
        const shape *one = shapes[(seed + i) % 2];
        sum += one->area(i) + one->twice(i + seed % 7);
        sum ^= by_table(seed + i);
        sum += fib(10) + tail(sum) + odd(i);
        sum += catcher(seed + i) + jumped(seed + i);
        sum ^= sorted(sum);
    }
    return sum;
}
