// SPDX-License-Identifier: MIT
#include "symbol_fixture.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[64];

int fixture_setup(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/cairn-symbol-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    setenv("SOURCES", SYMBOL_TEST_SOURCES, 1);
    setenv("LC_ALL", "C", 1);
    unsetenv("DEBUGINFOD_URLS");
    unsetenv("CAIRN_DEBUG_PATH");
    return 0;
}

int fixture_teardown(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command) == 0 ? 0 : -1;
}

const char *fixture_path(const char *name)
{
    static char buffers[8][256];
    static unsigned next;
    char *buffer = buffers[next++ % 8];
    snprintf(buffer, sizeof buffers[0], "%s/%s", folder, name);
    return buffer;
}

const char *fixture_source(const char *name)
{
    static char buffer[1024];
    snprintf(buffer, sizeof buffer, "%s/%s", SYMBOL_TEST_SOURCES, name);
    return buffer;
}

bool fixture_has(const char *program)
{
    char command[256];
    snprintf(command, sizeof command, "command -v %s >/dev/null 2>&1", program);
    return system(command) == 0;
}

static void format_command(char *command, size_t bytes, const char *format, va_list arguments)
{
    int length = snprintf(command, bytes, "cd '%s' && ", folder);
    vsnprintf(command + length, bytes - (size_t)length, format, arguments);
}

void fixture_run(const char *format, ...)
{
    char command[2048];
    va_list arguments;
    va_start(arguments, format);
    format_command(command, sizeof command, format, arguments);
    va_end(arguments);
    if (system(command) != 0)
        fail_msg("failed: %s", command);
}

const char *fixture_output(const char *format, ...)
{
    static char line[1024];
    char command[2048];
    va_list arguments;
    va_start(arguments, format);
    format_command(command, sizeof command, format, arguments);
    va_end(arguments);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    if (!fgets(line, sizeof line, pipe))
        line[0] = '\0';
    pclose(pipe);
    line[strcspn(line, "\n")] = '\0';
    return line;
}

uint64_t fixture_base(const char *file)
{
    const char *text = fixture_output("readelf -lW %s | awk '$1==\"LOAD\"{print $3; exit}'", file);
    assert_true(*text);
    return strtoull(text, NULL, 16) & ~UINT64_C(4095);
}

uint64_t fixture_offset(const char *file, const char *symbol)
{
    const char *text = fixture_output("nm %s | awk '$3==\"%s\"{print $1; exit}'", file, symbol);
    if (!*text)
        fail_msg("no symbol %s in %s", symbol, file);
    uint64_t address = strtoull(text, NULL, 16);
    return address - fixture_base(file);
}

unsigned fixture_line(const char *source, const char *name)
{
    FILE *file = fopen(fixture_source(source), "r");
    assert_non_null(file);
    char mark[64], line[512];
    snprintf(mark, sizeof mark, "// at %s\n", name);
    unsigned number = 0, found = 0;
    while (fgets(line, sizeof line, file)) {
        number++;
        if (strstr(line, mark))
            found = number;
    }
    fclose(file);
    assert_int_not_equal(found, 0);
    return found;
}

void fixture_open(struct fixture *fixture, const char *path, enum fixture_lines lines)
{
    memset(fixture, 0, sizeof *fixture);
    fixture->modules[MODULE_VDSO].path = "[vdso]";
    fixture->modules[FIXTURE_MODULE].path = (char *)path;
    fixture->process.pid = (uint32_t)getpid();
    fixture->profile = (struct profile){
        .module_count = FIXTURE_MODULE + 1,
        .modules = fixture->modules,
        .process_count = 1,
        .processes = &fixture->process,
    };
    struct symbols_options options = {.inlines = lines == WITH_LINES};
    fixture->symbols = symbols_new(&fixture->profile, &options);
    assert_non_null(fixture->symbols);
}

void fixture_close(struct fixture *fixture)
{
    symbols_free(fixture->symbols);
    fixture->symbols = NULL;
}

const struct symbol *fixture_at(struct fixture *fixture, uint64_t offset)
{
    const struct symbol *symbol =
        symbols_at(fixture->symbols, 0, place_make(FIXTURE_MODULE, offset));
    assert_non_null(symbol);
    assert_true(symbol->count >= 1);
    for (unsigned i = 0; i < symbol->count; i++)
        assert_non_null(symbol->frames[i].function);
    return symbol;
}

const char *fixture_name(struct fixture *fixture, uint64_t offset)
{
    const struct symbol *symbol = fixture_at(fixture, offset);
    return symbol->frames[symbol->count - 1].function;
}

bool fixture_has_note(struct fixture *fixture, const char *part)
{
    const char *note;
    for (unsigned i = 0; (note = symbols_note(fixture->symbols, i)); i++)
        if (strstr(note, part))
            return true;
    return false;
}

unsigned fixture_notes(struct fixture *fixture)
{
    unsigned count = 0;
    while (symbols_note(fixture->symbols, count))
        count++;
    return count;
}
