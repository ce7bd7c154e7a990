// SPDX-License-Identifier: MIT
// C++ for the tests of src/symbol: namespaces, templates, what is inlined and what has no linkage name.
volatile int sink;

namespace shapes
{
namespace
{
struct Hidden {
    int side;
    __attribute__((always_inline)) int twice() const
    {
        __asm__ volatile(".globl mark_twice\nmark_twice: nop"); // at twice
        return side * 2;
    }
};
} // namespace

template <typename T> struct Box {
    T value;
    __attribute__((noinline)) T area(const T &factor) const
    {
        Hidden hidden{static_cast<int>(value)};
        sink = hidden.twice(); // at area
        return value * factor;
    }
};
} // namespace shapes

int main(int argc, char **)
{
    shapes::Box<long> box{argc};
    return static_cast<int>(box.area(3)) == 4711;
}
