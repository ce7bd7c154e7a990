// SPDX-License-Identifier: MIT
// Files that are about to be executed: which of them can have the agent preloaded.

#include "agent/session/can_preload.h"
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[] = "/tmp/cairn-target-XXXXXX";
static char *old_path;

static const char *in_folder(const char *name)
{
    static char paths[4][128];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static const char *make_file(const char *name, const void *data, size_t bytes)
{
    const char *path = in_folder(name);
    const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0755);
    assert_true(file >= 0);
    assert_int_equal(write(file, data, bytes), (ssize_t)bytes);
    close(file);
    return path;
}

struct program {
    Elf64_Ehdr head;
    Elf64_Phdr segments[2];
    char loader[64];
};

static const char *make_program(const char *name, unsigned char class, uint16_t machine,
                                const char *loader)
{
    struct program program = {
        .head = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, class, ELFDATA2LSB, EV_CURRENT},
                 .e_type = ET_EXEC,
                 .e_machine = machine,
                 .e_phoff = offsetof(struct program, segments),
                 .e_phentsize = sizeof(Elf64_Phdr),
                 .e_phnum = loader ? 2 : 1},
        .segments = {{.p_type = PT_LOAD},
                     {.p_type = PT_INTERP, .p_offset = offsetof(struct program, loader)}},
    };
    if (loader) {
        strcpy(program.loader, loader);
        program.segments[1].p_filesz = strlen(loader) + 1;
    }
    return make_file(name, &program, sizeof program);
}

static const char *make_script(const char *name, const char *interpreter)
{
    char text[256];
    snprintf(text, sizeof text, "#! %s -x\necho\n", interpreter);
    return make_file(name, text, strlen(text));
}

static int make_folder(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    old_path = getenv("PATH") ? strdup(getenv("PATH")) : NULL;
    make_program("glibc", ELFCLASS64, EM_X86_64, "/lib64/ld-linux-x86-64.so.2");
    make_program("static", ELFCLASS64, EM_X86_64, NULL);
    make_program("musl", ELFCLASS64, EM_X86_64, "/lib/ld-musl-x86_64.so.1");
    make_program("narrow", ELFCLASS32, EM_386, "/lib/ld-linux.so.2");
    make_program("x32", ELFCLASS32, EM_X86_64, "/libx32/ld-linux-x32.so.2");
    make_program("other", ELFCLASS64, EM_AARCH64, "/lib/ld-linux-aarch64.so.1");
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    char command[64];
    if (old_path)
        setenv("PATH", old_path, 1);
    free(old_path);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

static void the_agent_is_preloaded_where_it_can_work(void **state)
{
    (void)state;
    assert_true(preload_takes_agent(in_folder("glibc")));
    assert_true(preload_takes_agent(in_folder("static")));
    assert_false(preload_takes_agent(in_folder("musl")));
    assert_false(preload_takes_agent(in_folder("narrow")));
    assert_false(preload_takes_agent(in_folder("x32")));
    assert_false(preload_takes_agent(in_folder("other")));
    assert_true(preload_takes_agent("/bin/sh"));
    assert_false(preload_takes_agent("/proc/self/exe")); // is built with AddressSanitizer
}

static void scripts_are_their_interpreters(void **state)
{
    (void)state;
    assert_true(preload_takes_agent(make_script("good", in_folder("glibc"))));
    assert_false(preload_takes_agent(make_script("bad", in_folder("narrow"))));
    assert_false(preload_takes_agent(make_script("worse", in_folder("bad"))));
    assert_true(preload_takes_agent(make_script("itself", in_folder("itself"))));
    assert_true(preload_takes_agent(make_file("empty", "", 0)));
    assert_true(preload_takes_agent(make_file("nobody", "#!", 2)));
    assert_true(preload_takes_agent(make_file("blank", "#! \n", 4)));
}

static void what_is_not_known_is_fine_and_errno_stays(void **state)
{
    (void)state;
    errno = 77;
    assert_true(preload_takes_agent(in_folder("missing")));
    assert_true(preload_takes_agent(folder));
    assert_int_equal(mkfifo(in_folder("pipe"), 0755), 0); // nobody writes to it
    errno = 77;
    assert_true(preload_takes_agent(in_folder("pipe")));
    assert_true(preload_takes_agent(NULL));
    assert_true(preload_takes_agent((const char *)1));
    assert_true(preload_at_takes_agent(-1, NULL));
    assert_true(preload_in_path_takes_agent("no-such-program"));
    assert_int_equal(errno, 77);
}

// All that the kernel looks at may lie.
static void damaged_programs(void **state)
{
    (void)state;
    struct program program;
    const int file = open(in_folder("musl"), O_RDONLY);
    assert_int_equal(read(file, &program, sizeof program), sizeof program);
    close(file);
    for (size_t bytes = 0; bytes < sizeof program; bytes += 7)
        preload_takes_agent(make_file("cut", &program, bytes));
    program.head.e_phoff = UINT64_MAX - 3;
    assert_true(preload_takes_agent(make_file("far", &program, sizeof program)));
    program.head.e_phoff = offsetof(struct program, segments);
    program.segments[1].p_filesz = UINT64_MAX;
    assert_false(preload_takes_agent(make_file("long", &program, sizeof program)));
    program.segments[1].p_offset = UINT64_MAX;
    assert_true(preload_takes_agent(make_file("beyond", &program, sizeof program)));
}

static void open_files_and_folders(void **state)
{
    (void)state;
    const int file = open(in_folder("musl"), O_RDONLY), place = open(folder, O_PATH);
    assert_false(preload_at_takes_agent(file, NULL));
    assert_false(preload_at_takes_agent(file, ""));
    assert_false(preload_at_takes_agent(place, "narrow"));
    assert_true(preload_at_takes_agent(place, "glibc"));
    close(file);
    close(place);
}

static void names_are_looked_for_in_path(void **state)
{
    (void)state;
    char path[256];
    snprintf(path, sizeof path, "/nowhere::%s", folder);
    setenv("PATH", path, 1);
    assert_false(preload_in_path_takes_agent("musl"));
    assert_true(preload_in_path_takes_agent("glibc"));
    assert_false(preload_in_path_takes_agent(in_folder("narrow")));
    chmod(in_folder("narrow"), 0644); // not to be run: execvpe() goes on to the next folder
    if (geteuid())
        assert_true(preload_in_path_takes_agent("narrow"));
    assert_int_equal(chdir(folder), 0);
    setenv("PATH", "", 1);
    assert_false(preload_in_path_takes_agent("musl"));
    assert_int_equal(chdir("/"), 0);
    unsetenv("PATH");
    assert_true(preload_in_path_takes_agent("sh"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_agent_is_preloaded_where_it_can_work),
        cmocka_unit_test(scripts_are_their_interpreters),
        cmocka_unit_test(what_is_not_known_is_fine_and_errno_stays),
        cmocka_unit_test(damaged_programs),
        cmocka_unit_test(open_files_and_folders),
        cmocka_unit_test(names_are_looked_for_in_path),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
