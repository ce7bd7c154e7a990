// SPDX-License-Identifier: MIT
#include "loadmap/maps.h"
#include "loadmap/pages.h"
#include "loadmap_fixture.h"
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

// By their name libgcc_s is none of ours to know, and libc exports no unwinder.
static void test_unwinders_are_known_by_what_they_export(void **state)
{
    (void)state;
    struct module_ref module;
    void *library = dlopen("libgcc_s.so.1", RTLD_NOW);
    assert_non_null(library);
    assert_true(find_soon((uintptr_t)dlsym(library, "_Unwind_GetIP"), &module));
    assert_true(module.unwinds);
    assert_false(module.remembers);
    assert_true(find((uintptr_t)qsort, &module));
    assert_false(module.unwinds);
    close_library(library);
}

static void test_what_is_loaded(void **state)
{
    (void)state;
    struct module_ref module;
    Dl_info info;
    int at = find_announced("/libc.so.6");
    assert_true(at >= 0);
    assert_int_equal(announced[at].build_id_bytes, 20);
    assert_true(find((uintptr_t)qsort, &module));
    dladdr((void *)qsort, &info);
    assert_int_equal(module.base, (uintptr_t)info.dli_fbase);
    assert_int_equal(module.id, announced[at].id);
    assert_int_equal(module.base, announced[at].base);
    assert_true(module.permanent);
    assert_non_null(module.eh_frame_hdr);
    assert_true((uintptr_t)qsort >= module.code_start && (uintptr_t)qsort < module.code_end);
    assert_true((uintptr_t)module.eh_frame_hdr >= module.tables_start &&
                (uintptr_t)module.eh_frame_hdr < module.tables_end);
    char self[PATH_MAX] = "";
    assert_true(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    assert_true(find((uintptr_t)test_what_is_loaded, &module));
    assert_string_equal(announced[find_announced("test_loadmap")].path, self);
    assert_int_equal(announced[find_announced("test_loadmap")].id, module.id);
    for (unsigned i = 0; i < announcements; i++)
        for (unsigned j = 0; j < i; j++)
            assert_int_not_equal(announced[i].id, announced[j].id);
}

static void test_the_kernels_library_is_known(void **state)
{
    (void)state;
    struct module_ref module;
    uintptr_t vdso = getauxval(AT_SYSINFO_EHDR);
    if (!vdso)
        skip();
    assert_true(find(vdso + 0x900, &module));
    assert_int_equal(module.id, MODULE_VDSO);
    assert_int_equal(module.base, vdso);
    assert_non_null(module.eh_frame_hdr);
    assert_string_equal(announced[find_announced("vdso")].path, "[vdso]");
}

static void test_no_code(void **state)
{
    (void)state;
    struct module_ref module;
    void *heap = malloc(100);
    static const uintptr_t nowhere[] = {0, 1, 4096, UINTPTR_MAX, (uintptr_t)1 << 47};
    assert_false(find_soon((uintptr_t)heap, &module));
    assert_int_equal(module.id, MODULE_NONE);
    for (unsigned i = 0; i < 5; i++)
        assert_false(find_soon(nowhere[i], &module));
    free(heap);
}

static void test_anonymous_code(void **state)
{
    (void)state;
    struct module_ref module;
    void *code = mmap(NULL, 8192, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(code, MAP_FAILED);
    // A lookup may have been made a moment ago, and the next one is not yet due.
    for (int i = 0; i < 1000; i++) {
        assert_false(find_once((uintptr_t)code + 5, &module));
        if (module.id == MODULE_ANONYMOUS)
            break;
        usleep(10000);
    }
    assert_int_equal(module.id, MODULE_ANONYMOUS);
    assert_false(loadmap_peek((uintptr_t)code + 4097, &module));
    assert_int_equal(module.id, MODULE_ANONYMOUS);
    munmap(code, 8192);
}

// However long the thread was away while it read /proc/self/maps: only what that took counts.
static void test_being_away_is_no_cost(void **state)
{
    (void)state;
    struct module_ref module;
    away_each = UINT64_C(100000000000);
    void *code[2];
    for (int i = 0; i < 2; i++) {
        code[i] = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_ptr_not_equal(code[i], MAP_FAILED);
        assert_false(find_once((uintptr_t)code[i], &module));
        assert_int_equal(module.id, MODULE_ANONYMOUS);
    }
    away_each = 0;
    for (int i = 0; i < 2; i++)
        munmap(code[i], 4096);
}

// What was found out of a page is not asked for again and again, but a library that takes its place
// is found at once.
static void test_library_after_code(void **state)
{
    (void)state;
    struct module_ref module;
    void *library = dlopen(LIBRARY_ONE, RTLD_NOW);
    assert_non_null(library);
    const uintptr_t pc = (uintptr_t)dlsym(library, "loadmap_number"), page = pc & -4096ul;
    assert_true(find(pc, &module));
    close_library(library);
    void *code = mmap((void *)page, 4096, PROT_READ | PROT_EXEC,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
#ifdef LOADMAP_WITHOUT_FIND_OBJECT
    skip(); // the list of generated code is read anew when something is met that is in none
#endif
    if (code != (void *)page)
        skip();
    for (int i = 0; i < 1000 && (find_once(pc, &module) || module.id != MODULE_ANONYMOUS); i++)
        usleep(10000);
    assert_int_equal(module.id, MODULE_ANONYMOUS);
    assert_false(loadmap_peek(pc + 1, &module));
    assert_int_equal(module.id, MODULE_ANONYMOUS);
    munmap(code, 4096);
    library = dlopen(LIBRARY_ONE, RTLD_NOW);
    assert_non_null(library);
    if ((uintptr_t)dlsym(library, "loadmap_number") == pc)
        assert_true(find(pc, &module));
    else
        print_message("the library lies elsewhere now\n");
    assert_false(loadmap_is_generated(pc));
    close_library(library);
}

// And it is not believed for ever.
static void test_pages_are_asked_anew(void **state)
{
    (void)state;
    const uintptr_t page = (uintptr_t)1 << 40;
    assert_int_equal(pages_recall(page), PAGE_UNKNOWN);
    pages_remember(page, PAGE_EMPTY);
    assert_int_equal(pages_recall(page + 4095), PAGE_EMPTY);
    assert_int_equal(pages_recall(page + 4096), PAGE_UNKNOWN);
    for (unsigned i = 0; i < LOADMAP_TURN; i++)
        pages_recall(page + 4096);
    assert_int_equal(pages_recall(page), PAGE_UNKNOWN);
    pages_remember(page, PAGE_GENERATED);
    assert_int_equal(pages_recall(page), PAGE_GENERATED);
    loadmap_generation_count++; // a library is gone
    assert_int_equal(pages_recall(page), PAGE_UNKNOWN);
    pages_remember(UINTPTR_MAX, PAGE_EMPTY);
    assert_int_equal(pages_recall(UINTPTR_MAX), PAGE_UNKNOWN);
}

static void test_found_when_met(void **state)
{
    (void)state;
    struct module_ref module, again;
    unsigned before = announcements;
    void *library = dlopen(LIBRARY_ONE, RTLD_NOW);
    assert_non_null(library);
    assert_int_equal(announcements, before);
    uintptr_t pc = (uintptr_t)dlsym(library, "loadmap_number");
    assert_true(find(pc, &module));
    assert_int_equal(announcements, before + 1);
    assert_string_equal(announced[before].path, LIBRARY_ONE);
    assert_int_equal(announced[before].id, module.id);
    assert_true(announced[before].build_id_bytes > 0);
    assert_false(module.permanent);
    assert_non_null(module.eh_frame_hdr);
    assert_true(find(pc, &again));
    assert_int_equal(announcements, before + 1);
    uint32_t generation = loadmap_generation();
    close_library(library);
    assert_int_not_equal(loadmap_generation(), generation);
    assert_false(find_soon(pc, &again));
}

// The same address, another library; and the first again, which is not another one.
static void test_same_address(void **state)
{
    (void)state;
    const char *path[] = {LIBRARY_ONE, LIBRARY_TWO, LIBRARY_ONE, LIBRARY_TWO};
    unsigned id[4];
    uintptr_t address[4];
    for (int i = 0; i < 4; i++) {
        struct module_ref module;
        void *library = dlopen(path[i], RTLD_NOW);
        assert_non_null(library);
        address[i] = (uintptr_t)dlsym(library, "loadmap_number");
        assert_true(find(address[i], &module));
        id[i] = module.id;
        // Half of the time without a word to us, as libc does with its own.
#ifndef LOADMAP_WITHOUT_FIND_OBJECT
        if (i < 2) {
            dlclose(library);
            continue;
        }
#endif
        close_library(library);
    }
    assert_int_equal(id[0], id[2]);
    assert_int_equal(id[1], id[3]);
    assert_int_not_equal(id[0], id[1]);
    if (address[0] != address[1])
        print_message("libraries did not take each other's place here\n");
}

#ifdef LOADMAP_WITHOUT_FIND_OBJECT
static const bool loader_can_be_asked = false;
#else
static const bool loader_can_be_asked = true;
#endif

// Where no file can be opened, /proc/self/maps cannot be read: a library that was opened by a
// relative name is known without that, since a handler must not take as long as it takes.
static void test_relative_path(void **state)
{
    (void)state;
    struct rlimit limit, none;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = limit;
    none.rlim_cur = 0;
    struct module_ref module, same;
    char before[PATH_MAX];
    void *library = dlopen(LIBRARY_ONE, RTLD_NOW);
    uintptr_t pc = (uintptr_t)dlsym(library, "loadmap_number");
    assert_true(find(pc, &module));
    close_library(library);
    assert_non_null(getcwd(before, sizeof before));
    char folder[] = LIBRARY_ONE;
    char *name = strrchr(folder, '/');
    *name++ = 0;
    assert_int_equal(chdir(folder), 0);
    char relative[PATH_MAX];
    snprintf(relative, sizeof relative, "./%s", name);
    library = dlopen(relative, RTLD_NOW);
    assert_int_equal(chdir(before), 0);
    assert_non_null(library);
    pc = (uintptr_t)dlsym(library, "loadmap_number");
    assert_int_equal(setrlimit(RLIMIT_NOFILE, loader_can_be_asked ? &none : &limit), 0);
    const bool found = find(pc, &same);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_true(found);
    assert_int_equal(module.id, same.id);
    close_library(library);
}

static void test_maps_lines(void **state)
{
    (void)state;
    static struct maps_reader reader;
    static const char *const lines[] = {
        "55d0c0000000-55d0c0001000 r--p 00000000 fe:00 123                        /usr/bin/prog",
        "55d0c0001000-55d0c0002000 r-xp 00001000 fe:00 123                        /usr/bin/prog",
        "55d0c0003000-55d0c0004000 rw-p 00003000 fe:00 123                        /usr/bin/prog",
        "55d0c0004000-55d0c0005000 rw-p 00000000 00:00 0 ",
        "7f0000000000-7f0000010000 rwxp 00000000 00:00 0 ",
        "7f0000010000-7f0000020000 r-xp 00000000 00:01 99                         /memfd:jit",
        "7f0000100000-7f0000101000 r--p 00000000 fe:00 7    /opt/with space/lib x.so (deleted)",
        "7f0000101000-7f0000102000 r-xp 00001000 fe:00 7    /opt/with space/lib x.so (deleted)",
        "7f0000102000-7f0000103000 r-xp 00000000 fe:00 7    /opt/with space/lib x.so (deleted)",
        "nonsense",
        "7f",
        "7f0000200000-7f0000201000",
        "7f0000200000-7f0000201000 r-x",
        "",
        "7ffd00000000-7ffd00002000 r-xp 00000000 00:00 0                          [vdso]",
    };
    for (uintptr_t asked = 0; asked < 2; asked++) {
        uintptr_t address = asked ? 0x7f0000101800 : 0x55d0c0001004;
        maps_begin(&reader);
        for (unsigned i = 0; i < sizeof lines / sizeof lines[0]; i++)
            maps_line(&reader, address, lines[i]);
        maps_end(&reader, address);
        assert_string_equal(reader.path,
                            asked ? "/opt/with space/lib x.so (deleted)" : "/usr/bin/prog");
        assert_int_equal(reader.start, asked ? 0x7f0000100000 : 0x55d0c0000000);
        assert_int_equal(reader.end, asked ? 0x7f0000102000 : 0x55d0c0004000);
        assert_true(reader.executable);
        assert_int_equal(reader.ranges, 1);
        assert_int_equal(reader.range[0].start, 0x7f0000000000);
        assert_int_equal(reader.range[0].end, 0x7f0000020000);
    }
}

// V8 maps parts of the program's file a second time, amid the code that it generates.
static void test_maps_of_one_file_far_apart(void **state)
{
    (void)state;
    static struct maps_reader reader;
    static const char *const lines[] = {
        "00400000-00500000 r-xp 00000000 fe:00 123                        /usr/bin/node",
        "00500000-00600000 rw-p 00100000 fe:00 123                        /usr/bin/node",
        "7f0000000000-7f0000010000 rwxp 00000000 00:00 0 ",
        "7f0000010000-7f0000020000 r-xp 00042000 fe:00 123                /usr/bin/node",
    };
    const uintptr_t asked[] = {0x400010, 0x7f0000000010, 0x7f0000010010};
    const char *const path[] = {"/usr/bin/node", "", "/usr/bin/node"};
    const uintptr_t start[] = {0x400000, 0, 0x7f0000010000};
    for (size_t i = 0; i < 3; i++) {
        maps_begin(&reader);
        for (size_t line = 0; line < sizeof lines / sizeof *lines; line++)
            maps_line(&reader, asked[i], lines[line]);
        maps_end(&reader, asked[i]);
        assert_string_equal(reader.path, path[i]);
        assert_int_equal(reader.start, start[i]);
        if (i == 2)
            assert_int_equal(reader.offset, 0x42000);
    }
}

static void test_memory_that_cannot_be_read_is_known_without_a_fault(void **state)
{
    (void)state;
    char *pages = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_int_equal(mprotect(pages + 4096, 4096, PROT_NONE), 0);
    sigset_t before, after;
    sigprocmask(SIG_SETMASK, NULL, &before);
    assert_true(loadmap_readable((uintptr_t)pages));
    assert_true(loadmap_readable((uintptr_t)pages + 4088));
    assert_false(loadmap_readable((uintptr_t)pages + 4096));
    assert_false(loadmap_readable(0));
    assert_false(loadmap_readable((uintptr_t)1 << 63));
    sigprocmask(SIG_SETMASK, NULL, &after);
    assert_memory_equal(&before, &after, 8); // all that the kernel fills in
    munmap(pages, 8192);
}

int main(void)
{
    now_read = clock_that_runs_away;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_loaded),
        cmocka_unit_test(test_the_kernels_library_is_known),
        cmocka_unit_test(test_unwinders_are_known_by_what_they_export),
        cmocka_unit_test(test_no_code),
        cmocka_unit_test(test_anonymous_code),
        cmocka_unit_test(test_found_when_met),
        cmocka_unit_test(test_same_address),
        cmocka_unit_test(test_relative_path),
        cmocka_unit_test(test_maps_lines),
        cmocka_unit_test(test_maps_of_one_file_far_apart),
        cmocka_unit_test(test_memory_that_cannot_be_read_is_known_without_a_fault),
        cmocka_unit_test(test_being_away_is_no_cost),
        cmocka_unit_test(test_library_after_code),
        cmocka_unit_test(test_pages_are_asked_anew),
    };
    if (loadmap_start(on_found) != 0)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
