// SPDX-License-Identifier: MIT

// The cost of a function's lines and instructions, and the source that goes with them.

#include "analyze/annotate/annotate.h"
#include "analyze/annotate/code_lines.h"
#include "analyze/annotate/source_file.h"
#include "analyze_fixture.h"
#include "base/memory.h"
#include <setjmp.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { INSTRUCTION_BYTES = 8 };

// Code in which all instructions are of eight bytes.
int disassemble(struct disassembly *code, const struct profile_module *module, uint64_t begin,
                uint64_t least, char **error)
{
    (void)module, (void)least, (void)error;
    *code = (struct disassembly){.begin = begin, .end = begin + FUNCTION_BYTES};
    code->count = FUNCTION_BYTES / INSTRUCTION_BYTES;
    code->instructions = memory_array(code->count, sizeof *code->instructions);
    for (size_t i = 0; i < code->count; i++)
        code->instructions[i] = (struct disassembled){
            .offset = begin + i * INSTRUCTION_BYTES, .length = INSTRUCTION_BYTES, .text = "nop"};
    return 0;
}

void disassembly_free(struct disassembly *code)
{
    free(code->instructions);
}

static struct annotated annotated_function(const char *name)
{
    struct annotated annotated;
    char *error = NULL;
    const struct annotate_options options = {.function = name, .code = true};
    if (annotate(&annotated, fixture_analysis(), &options, &error) < 0)
        fail_msg("%s", error);
    return annotated;
}

static void assert_line(const struct annotated *annotated, size_t number, unsigned line,
                        uint64_t self, uint64_t total)
{
    assert_true(number < annotated->line_count);
    assert_int_equal(annotated->lines[number].line, line);
    assert_int_equal(annotated->lines[number].self, self);
    assert_int_equal(annotated->lines[number].total, total);
}

static void lines_have_their_own_cost_and_that_of_their_calls(void **state)
{
    (void)state;
    fixture_start();
    fixture_figure1();
    struct annotated annotated = annotated_function("main");
    assert_int_equal(annotated.self, 1);
    assert_int_equal(annotated.total, 100);
    assert_int_equal(annotated.line_count, 3);
    assert_line(&annotated, 0, 11, 0, 42); // calls a
    assert_line(&annotated, 1, 12, 0, 57); // calls b
    assert_line(&annotated, 2, 13, 1, 1);
    annotated_free(&annotated);
    annotated = annotated_function("c"); // in all its contexts
    assert_int_equal(annotated.line_count, 2);
    assert_line(&annotated, 0, 41, 90, 90);
    assert_line(&annotated, 1, 42, 4, 4);
    annotated_free(&annotated);
    fixture_end();
}

static void instructions_have_what_their_lines_have(void **state)
{
    (void)state;
    struct analysis *analysis = fixture_start();
    fixture_figure1();
    struct annotated annotated = annotated_function("main");
    assert_int_equal(annotated.code_count, 1);
    assert_int_equal(annotated.code[0].begin, 0x1000);
    struct code_lines code;
    char *error = NULL;
    assert_int_equal(code_lines_open(&code, analysis, &annotated.code[0], &error), 0);
    // Return addresses are 0x11 and 0x21: the calls before them end there.
    assert_int_equal(code.lines[0x10 / INSTRUCTION_BYTES].total, 42);
    assert_int_equal(code.lines[0x20 / INSTRUCTION_BYTES].total, 57);
    assert_int_equal(code.lines[0x30 / INSTRUCTION_BYTES].self, 1);
    assert_int_equal(code.lines[0x30 / INSTRUCTION_BYTES].line, 13);
    uint64_t total = 0;
    for (size_t i = 0; i < code.code.count; i++)
        total += code.lines[i].total;
    assert_int_equal(total, 100);
    code_lines_close(&code);
    annotated_free(&annotated);
    fixture_end();
}

static void recursion_counts_once(void **state)
{
    (void)state;
    fixture_start();
    place_t main_ = fixture_function(PROGRAM, 0x1000, "main", 10);
    place_t again = fixture_function(PROGRAM, 0x1100, "again", 20);
    uint32_t frame = fixture_frame(fixture_tree(0, 100), 0, main_, 0);
    frame = fixture_frame(frame, main_ + 0x11, again, 0);
    for (unsigned i = 0; i < 5; i++) {
        fixture_statement(frame, again + 0x40, 2);
        frame = fixture_frame(frame, again + 0x21, again, 0);
    }
    fixture_statement(frame, again + 0x30, 10);
    struct annotated annotated = annotated_function("again");
    assert_int_equal(annotated.total, 20);
    assert_line(&annotated, 0, 22, 0, 18);
    assert_line(&annotated, 1, 23, 10, 10);
    assert_line(&annotated, 2, 24, 10, 10);
    uint64_t call = 0;
    for (size_t i = 0; i < annotated.code[0].count; i++)
        if (annotated.code[0].places[i].offset == 0x1120)
            call += annotated.code[0].places[i].total;
    assert_int_equal(call, 18);
    annotated_free(&annotated);
    fixture_end();
}

static void the_function_that_is_meant_is_found(void **state)
{
    (void)state;
    fixture_start();
    place_t main_ = fixture_function(PROGRAM, 0x1000, "main", 10);
    place_t one = fixture_function(PROGRAM, 0x1100, "sort(int)", 20);
    place_t other = fixture_function(LIBRARY, 0x1100, "sort(long)", 30);
    place_t third = fixture_function(LIBRARY, 0x1300, "resort", 40);
    uint32_t frame = fixture_frame(fixture_tree(0, 100), 0, main_, 0);
    const place_t places[] = {one, other, third};
    for (unsigned i = 0; i < 3; i++)
        fixture_statement(fixture_frame(frame, main_ + 0x11 + i * 0x10, places[i], 0),
                          places[i] + 0x10, 10 + i);
    struct annotated annotated = annotated_function("sort(int)");
    assert_int_equal(annotated.total, 10);
    assert_null(annotated.others);
    annotated_free(&annotated);
    annotated = annotated_function("sort"); // the most costly of that name
    assert_int_equal(annotated.total, 11);
    assert_non_null(strstr(annotated.others, "sort(int)"));
    assert_null(strstr(annotated.others, "resort"));
    annotated_free(&annotated);
    annotated = annotated_function("res.rt");
    assert_int_equal(annotated.total, 12);
    annotated_free(&annotated);
    char *error = NULL;
    const struct annotate_options options = {.function = "no_such"};
    assert_int_equal(annotate(&annotated, fixture_analysis(), &options, &error), -1);
    assert_non_null(strstr(error, "matches 'no_such'"));
    free(error);
    fixture_end();
}

static void sources_are_found_from_where_programs_are(void **state)
{
    (void)state;
    char folder[] = "/tmp/test-annotate-XXXXXX", path[128], program[128], pipe[128];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/x.c", folder);
    snprintf(program, sizeof program, "%s/build/bin/x", folder);
    snprintf(pipe, sizeof pipe, "%s/pipe", folder);
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    fputs("one\r\ntwo\nthree", out);
    fclose(out);
    assert_int_equal(mkfifo(pipe, 0600), 0);
    struct source_file file;
    assert_true(source_file_open(
        &file, &(struct source_search){.path = "x.c", .program = program, .lines = 3}));
    assert_int_equal(file.count, 3);
    assert_string_equal(file.lines[0], "one");
    assert_string_equal(file.lines[2], "three");
    source_file_close(&file);
    assert_true(source_file_open(
        &file, &(struct source_search){.path = "/build/elsewhere/x.c", .folder = folder}));
    source_file_close(&file);
    // A file that is too short is another one; a pipe would never end.
    assert_false(source_file_open(&file, &(struct source_search){.path = path, .lines = 4}));
    assert_false(source_file_open(&file, &(struct source_search){.path = pipe}));
    assert_false(source_file_open(&file, &(struct source_search){.path = "no/such/x.c"}));
    unlink(path);
    unlink(pipe);
    rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_have_their_own_cost_and_that_of_their_calls),
        cmocka_unit_test(instructions_have_what_their_lines_have),
        cmocka_unit_test(recursion_counts_once),
        cmocka_unit_test(the_function_that_is_meant_is_found),
        cmocka_unit_test(sources_are_found_from_where_programs_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
