// SPDX-License-Identifier: MIT
// Damaged tables of Go programs: nothing is read outside of them, and every search ends.

#include "base/gotable.h"
#include <string.h>

static volatile size_t sum; // of what was found: so that the compiler leaves nothing out

static void ask(const struct gotable *table, uint64_t pc)
{
    struct gotable_function function;
    int32_t value;
    if (!gotable_find(table, pc, &function))
        return;
    const char *name = gotable_name(table, function.name);
    sum += name ? strlen(name) : 0;
    sum += gotable_is_named(table, function.name, "main.second");
    const uint32_t lists[] = {function.stack_list, function.line_list, function.inline_list,
                              function.file_list};
    for (unsigned i = 0; i < 4; i++)
        if (gotable_value(table, &function, lists[i], pc, &value)) {
            const char *file = gotable_file(table, &function, value);
            sum += file ? strlen(file) : 0;
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gotable table;
    if (!gotable_open(&table, data, size))
        return 0;
    for (uint64_t pc = 0; pc < 0x1100; pc += 5)
        ask(&table, pc);
    for (unsigned bit = 0; bit < 64; bit++)
        ask(&table, UINT64_C(0x9e3779b97f4a7c15) >> bit);
    return 0;
}
