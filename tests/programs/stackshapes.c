// SPDX-License-Identifier: MIT
// Frames whose size or place only the running program knows: alloca, arrays of variable length,
// locals that are aligned beyond the stack's own alignment, stacks realigned on entry.

#include "common.h"
#include <alloca.h>
#include <stdarg.h>

static volatile uint64_t sink;

NOIPA int shape_leaf(int value)
{
    sink += burn((uint64_t)value, 10);
    NO_TAIL_CALL();
    return value + 1;
}

NOIPA int with_alloca(int depth, int value)
{
    char *memory = alloca((size_t)(value % 257 + 1));
    memset(memory, value, (size_t)(value % 257 + 1));
    int result = depth ? with_alloca(depth - 1, value + 7) : shape_leaf(value);
    CHECK(memory[value % 257] == (char)value);
    return result + memory[0];
}

NOIPA int with_array(int depth, int value)
{
    int numbers[value % 50 + 1];
    for (int i = 0; i <= value % 50; i++)
        numbers[i] = value + i;
    int result = depth ? with_array(depth - 1, value + 3) : shape_leaf(value);
    CHECK(numbers[value % 50] == value + value % 50);
    return result + numbers[0];
}

NOIPA void must_be_aligned(const void *memory, uintptr_t alignment)
{
    CHECK((uintptr_t)memory % alignment == 0);
    NO_TAIL_CALL();
}

NOIPA int with_alignment(int depth, int value)
{
    _Alignas(64) char cell[64];
    _Alignas(256) char page[256];
    memset(cell, value, sizeof cell);
    memset(page, value + 1, sizeof page);
    must_be_aligned(cell, 64);
    must_be_aligned(page, 256);
    int result = depth ? with_alignment(depth - 1, value + 5) : shape_leaf(value);
    CHECK(cell[63] == (char)value && page[255] == (char)(value + 1));
    return result + cell[0];
}

// Realigned and of variable size at once, with arguments on the stack: needs a pointer to them.
NOIPA int with_both(int a, int b, int c, int d, int e, int f, int depth, int value)
{
    _Alignas(128) char cell[128];
    char *memory = alloca((size_t)(value % 100 + 1));
    memset(cell, a, sizeof cell);
    memset(memory, b, (size_t)(value % 100 + 1));
    must_be_aligned(cell, 128);
    int result = depth ? with_both(b, c, d, e, f, a, depth - 1, value + 1) : shape_leaf(value);
    CHECK(cell[127] == (char)a && memory[value % 100] == (char)b);
    return result + c + d + e + f + value;
}

__attribute__((force_align_arg_pointer)) NOIPA int with_realigned_entry(int depth, int value)
{
    int result = depth ? with_realigned_entry(depth - 1, value + 1) : shape_leaf(value);
    NO_TAIL_CALL();
    return result + 1;
}

NOIPA int with_variable_arguments(int count, ...)
{
    va_list list;
    va_start(list, count);
    int sum = 0;
    for (int i = 0; i < count; i++)
        sum += va_arg(list, int);
    va_end(list);
    return sum + shape_leaf(sum);
}

NOIPA int all_shapes(int i)
{
    int sum = with_alloca(10, i);
    sum += with_array(10, i);
    sum += with_alignment(10, i);
    sum += with_both(1, 2, 3, 4, 5, 6, 10, i);
    sum += with_realigned_entry(10, i);
    sum += with_variable_arguments(9, 1, 2, 3, 4, 5, 6, 7, 8, i);
    NO_TAIL_CALL();
    return sum;
}

int main(void)
{
    long sum = 0;
    for (int i = 0; i < 1500; i++)
        sum += all_shapes(i);
    printf("shapes %ld\n", sum);
    return 0;
}
