// SPDX-License-Identifier: MIT
// Huge pages ahead of an arena that grows: what is there stays, what comes is zeroed, and where
// there are none, nothing is different.

#include "base/system/huge.h"
#include "track/walk/prefault.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#define BYTES ((size_t)24 << 20)
#define OFFSET 4096 // as behind the page of a session

static int make_file(void)
{
    int fd = memfd_create("huge", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)(BYTES + OFFSET)), 0);
    return fd;
}

static bool is_mapped(const void *page)
{
    unsigned char there;
    return mincore((void *)page, 4096, &there) == 0 || errno != ENOMEM;
}

static void test_places_agree(void **state)
{
    (void)state;
    int fd = make_file();
    for (unsigned i = 0; i < 4; i++) {
        char *memory = huge_map(BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, OFFSET);
        assert_true(memory != MAP_FAILED);
        assert_int_equal(((uintptr_t)memory - OFFSET) % HUGE_BYTES, 0);
        memory[BYTES - 1] = 1;
        assert_int_equal(munmap(memory, BYTES), 0);
        assert_false(is_mapped(memory)); // nor anything beside it that was taken to find the place
        assert_false(is_mapped(memory + BYTES));
    }
    close(fd);
}

static void test_what_is_there_stays(void **state)
{
    (void)state;
    int fd = make_file();
    unsigned char *memory = huge_map(BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, OFFSET);
    const uintptr_t page = ((uintptr_t)memory + HUGE_BYTES - 1) & -HUGE_BYTES;
    memset((void *)page, 7, 5000);
    errno = EDOM;
    if (!huge_make(page))
        print_message("no huge pages here\n");
    assert_int_equal(errno, EDOM);
    for (size_t i = 0; i < HUGE_BYTES; i++)
        assert_int_equal(((unsigned char *)page)[i], i < 5000 ? 7 : 0);
    munmap(memory, BYTES);
    close(fd);
}

// All pages that the range touches are there afterwards, and no others; what was there stays.
static void test_all_touched_pages_are_there_and_no_others(void **state)
{
    (void)state;
    unsigned char *memory =
        mmap(NULL, 8 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memory[3 * 4096] = 7;
    errno = EDOM;
    huge_fill((uintptr_t)memory + 2 * 4096 - 1, 3 * 4096 + 2);
    assert_int_equal(errno, EDOM);
    assert_int_equal(memory[3 * 4096], 7);
    unsigned char there[8];
    assert_int_equal(mincore(memory, 8 * 4096, there), 0);
    if (madvise(memory + 3 * 4096, 4096, 23)) // as MADV_POPULATE_WRITE is known since Linux 5.14
        print_message("pages cannot be had beforehand here\n");
    else
        for (unsigned i = 0; i < 8; i++)
            assert_int_equal(there[i] & 1, i >= 1 && i <= 5);
    munmap(memory, 8 * 4096);
}

// Each word that is handed out is zero, and has its number afterwards.
static void test_ahead_of_an_arena(void **state)
{
    (void)state;
    int fd = make_file();
    void *memory = huge_map(BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, OFFSET);
    struct arena arena;
    arena_init(&arena, memory, sizeof(struct arena_head), BYTES);
    arena_keep_back(&arena, BYTES / 8);
    const uint64_t first = prefault_next;
    uint64_t count = 0;
    for (ref_t ref; (ref = arena_alloc(&arena, 1000)); count++) {
        uint64_t *words = arena_at(&arena, ref);
        for (unsigned i = 0; i < 125; i++)
            assert_int_equal(words[i], 0);
        words[0] = words[124] = count + 1;
        prefault_look(&arena);
        if (count == 1000)
            assert_int_equal(prefault_next, first); // a small one gets none
    }
    // The last one does not fit, or there were none at all.
    assert_int_equal(prefault_next, UINT64_MAX);
    assert_true(count > 20000);
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t *words = (uint64_t *)((char *)memory + sizeof(struct arena_head)) + i * 125;
        assert_int_equal(words[0], i + 1);
        assert_int_equal(words[124], i + 1);
    }
    munmap(memory, BYTES);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_places_agree),
        cmocka_unit_test(test_what_is_there_stays),
        cmocka_unit_test(test_all_touched_pages_are_there_and_no_others),
        cmocka_unit_test(test_ahead_of_an_arena),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
