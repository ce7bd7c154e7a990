// SPDX-License-Identifier: MIT
// A function inside of a function, for the tests of src/symbol.
volatile int sink;

namespace geometry
{
__attribute__((noinline)) int measure(int x)
{
    auto square = [](int side) __attribute__((always_inline))
    {
        __asm__ volatile(".globl mark_lambda\nmark_lambda: nop"); // at lambda
        return side * side;
    };
    sink = x;
    return square(sink) + 1; // at measure
}
} // namespace geometry

int main(int argc, char **)
{
    return geometry::measure(argc) == 4711;
}
