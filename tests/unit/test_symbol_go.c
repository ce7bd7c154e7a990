// SPDX-License-Identifier: MIT
// Go's own table of functions and lines: each layout, made by hand, and that of a real program.
#include "symbol_fixture.h"
// The fixture has what cmocka wants first.
#include "base/gotable.h"
#include "make_gotable.h"
#include "symbol/files/object.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void assert_first(const struct gotable *table, uint64_t start)
{
    struct gotable_function function;
    int32_t value;
    assert_true(gotable_find(table, start + 12, &function));
    assert_true(function.start == start && function.end == start + MADE_SECOND);
    assert_string_equal(gotable_name(table, function.name), "main.first");
    assert_true(gotable_is_named(table, function.name, "main.first"));
    assert_false(gotable_is_named(table, function.name, "main.firs"));
    assert_false(gotable_is_named(table, function.name, "main.first1"));
    assert_int_equal(function.flags, 0);
    assert_true(gotable_value(table, &function, function.stack_list, start + 4, &value));
    assert_int_equal(value, 0);
    assert_true(gotable_value(table, &function, function.stack_list, start + 5, &value));
    assert_int_equal(value, 24);
    assert_true(gotable_value(table, &function, function.line_list, start + 8, &value));
    assert_int_equal(value, 10);
    assert_true(gotable_value(table, &function, function.line_list, start + 63, &value));
    assert_int_equal(value, 11);
    assert_false(gotable_value(table, &function, function.line_list, start + 64, &value));
    assert_true(gotable_value(table, &function, function.file_list, start, &value));
    assert_string_equal(gotable_file(table, &function, value), "a.go");
}

static void assert_second(const struct gotable *table, uint64_t start)
{
    struct gotable_function function;
    int32_t value;
    assert_true(gotable_find(table, start, &function));
    assert_true(function.start == start);
    assert_string_equal(gotable_name(table, function.name), "main.second");
    assert_int_equal(function.flags, table->layout == GOTABLE_1_2 ? 0 : GOTABLE_TOP);
    assert_true(gotable_value(table, &function, function.line_list, start + 15, &value));
    assert_int_equal(value, 300);
    assert_true(gotable_value(table, &function, function.file_list, start, &value));
    assert_string_equal(gotable_file(table, &function, value), "b.go");
    assert_null(gotable_file(table, &function, -1));
}

static void every_layout_is_read(void **state)
{
    (void)state;
    for (enum gotable_layout layout = GOTABLE_1_2; layout <= GOTABLE_1_20; layout++) {
        unsigned char bytes[MADE_BYTES];
        struct gotable table;
        struct gotable_function function;
        size_t size = make_gotable(layout, bytes);
        assert_true(gotable_open(&table, bytes, size));
        assert_int_equal(table.layout, layout);
        assert_true(table.text == (layout >= GOTABLE_1_18 ? MADE_TEXT : 0));
        uint64_t start = MADE_TEXT - table.text;
        assert_first(&table, start);
        assert_second(&table, start + MADE_SECOND);
        assert_false(gotable_find(&table, start + MADE_END, &function));
        assert_false(gotable_find(&table, start - 1, &function));
        bytes[1] = 0;
        assert_false(gotable_open(&table, bytes, size));
    }
}

static const char *const programs[] = {"/usr/bin/gron", "/usr/bin/fzf", "/usr/bin/age",
                                       "/usr/bin/hey"};

// The table of a program, read without what is to be tested; the offset of a place of a function.
static uint64_t offset_of(const char *path, const char *name)
{
    struct object object;
    GElf_Shdr header;
    assert_int_equal(object_open(&object, path), 0);
    Elf_Scn *section = object_section(&object, ".gopclntab", &header);
    Elf_Data *data = section ? elf_rawdata(section, NULL) : NULL;
    struct gotable table;
    uint64_t found = 0;
    if (data && gotable_open(&table, data->d_buf, data->d_size) && table.text) {
        struct gotable_function function = {0};
        for (uint64_t pc = 0; !found && gotable_find(&table, pc, &function); pc = function.end)
            if (strcmp(gotable_name(&table, function.name), name) == 0)
                found = table.text + function.start - object.base;
    }
    object_close(&object);
    return found;
}

static void real_programs_have_names_and_lines(void **state)
{
    (void)state;
    unsigned met = 0;
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        uint64_t offset = access(programs[i], R_OK) == 0 ? offset_of(programs[i], "main.main") : 0;
        if (!offset)
            continue;
        struct fixture fixture;
        fixture_open(&fixture, programs[i], WITH_LINES);
        const struct symbol *symbol = fixture_at(&fixture, offset + 1);
        const struct symbol_frame *frame = &symbol->frames[symbol->count - 1];
        assert_string_equal(frame->function, "main.main");
        assert_true(symbol->function == place_make(FIXTURE_MODULE, offset));
        assert_non_null(frame->file);
        assert_string_equal(frame->file + strlen(frame->file) - 3, ".go");
        assert_true(frame->line > 0);
        assert_true(symbols_quality(fixture.symbols, FIXTURE_MODULE) >= SYMBOLS_OWN);
        assert_int_equal(fixture_notes(&fixture), 0);
        uint64_t exit = offset_of(programs[i], "runtime.goexit");
        assert_string_equal(fixture_name(&fixture, exit + 1), "runtime.goexit");
        fixture_close(&fixture);
        met++;
    }
    if (!met)
        skip();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_layout_is_read),
        cmocka_unit_test(real_programs_have_names_and_lines),
    };
    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
