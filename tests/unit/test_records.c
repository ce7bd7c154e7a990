// SPDX-License-Identifier: MIT
// Records of the kernel's rings: all of their fields, and none beyond their end.

#include "outside/records.h"
#include <linux/perf_event.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#define STACK_WORDS 4

struct sample {
    struct perf_event_header header;
    uint64_t address;
    uint32_t pid, tid;
    uint64_t time, frames, chain[2], abi, registers[UNWIND_REGISTERS];
    uint64_t room, stack[STACK_WORDS], copied;
};

static struct sample make_sample(void)
{
    struct sample sample = {
        .header = {.type = PERF_RECORD_SAMPLE, .size = sizeof sample},
        .pid = 7,
        .tid = 8,
        .time = 99,
        .frames = 2,
        .chain = {PERF_CONTEXT_KERNEL, 0xffffffff81000000},
        .abi = PERF_SAMPLE_REGS_ABI_64,
        .room = sizeof sample.stack,
        .stack = {11, 12, 13, 14},
        .copied = 24,
    };
    for (unsigned i = 0; i < UNWIND_REGISTERS; i++)
        sample.registers[i] = 100 + i;
    return sample;
}

static void test_sample(void **state)
{
    (void)state;
    const struct sample sample = make_sample();
    struct perf_record record;
    assert_true(record_read(&record, &sample, sizeof sample));
    assert_int_equal(record.kind, RECORD_SAMPLE);
    assert_int_equal(record.pid, 7);
    assert_int_equal(record.tid, 8);
    assert_int_equal(record.time_ns, 99);
    assert_int_equal(record.chain_count, 2);
    assert_false(record_is_address(record.chain[0]));
    assert_true(record_is_address(record.chain[1]));
    assert_int_equal(record.has_registers, RECORD_WIDE);
    // The kernel has ax, bx, cx, dx, si, di, bp, sp, ip; DWARF has ax, dx, cx, bx, ..., ip last.
    assert_int_equal(record.registers[0], 100);
    assert_int_equal(record.registers[3], 101);
    assert_int_equal(record.registers[6], 106);
    assert_int_equal(record.registers[7], 107);
    assert_int_equal(record.registers[16], 108);
    assert_int_equal(record.registers[15], 116);
    assert_int_equal(record.stack_bytes, 24);
    assert_int_equal(record.stack_room, 32);
    assert_memory_equal(record.stack, sample.stack, sizeof sample.stack);
}

// A thread of the kernel: neither registers nor a stack.
static void test_sample_without_registers(void **state)
{
    (void)state;
    struct {
        struct perf_event_header header;
        uint64_t address, task, time, frames, abi, room;
    } sample = {.header = {.type = PERF_RECORD_SAMPLE, .size = sizeof sample}};
    struct perf_record record;
    assert_true(record_read(&record, &sample, sizeof sample));
    assert_int_equal(record.has_registers, RECORD_NO_REGISTERS);
    assert_int_equal(record.stack_bytes, 0);
}

static void test_numbers_that_lead_out(void **state)
{
    (void)state;
    struct perf_record record;
    struct sample sample = make_sample();
    for (size_t size = 0; size < sizeof sample; size += 8) { // cut anywhere
        sample.header.size = (uint16_t)size;
        assert_false(record_read(&record, &sample, size));
    }
    sample = make_sample();
    sample.frames = UINT64_MAX / 8;
    assert_false(record_read(&record, &sample, sizeof sample));
    sample = make_sample();
    sample.room = UINT64_MAX - 7;
    assert_false(record_read(&record, &sample, sizeof sample));
    sample = make_sample();
    sample.copied = sample.room + 8;
    assert_false(record_read(&record, &sample, sizeof sample));
    sample = make_sample();
    assert_false(record_read(&record, &sample, sizeof sample - 8)); // not its own length
}

static void test_mapping(void **state)
{
    (void)state;
    struct {
        struct perf_event_header header;
        uint32_t pid, tid;
        uint64_t start, bytes, offset;
        uint32_t major, minor;
        uint64_t inode, generation;
        uint32_t protection, flags;
        char path[16];
        uint32_t whose[2];
        uint64_t time;
    } mapping = {.header = {.type = PERF_RECORD_MMAP2, .size = sizeof mapping},
                 .pid = 7,
                 .tid = 8,
                 .start = 0x400000,
                 .bytes = 0x1000,
                 .offset = 0x2000,
                 .major = 8,
                 .minor = 1,
                 .inode = 4711,
                 .path = "/bin/true",
                 .time = 99};
    struct perf_record record;
    assert_true(record_read(&record, &mapping, sizeof mapping));
    assert_int_equal(record.kind, RECORD_MAP);
    assert_int_equal(record.start, 0x400000);
    assert_int_equal(record.inode, 4711);
    assert_int_equal(record.time_ns, 99);
    assert_string_equal(record.path, "/bin/true");
    memset(mapping.path, 'x', sizeof mapping.path); // a name without an end
    assert_false(record_read(&record, &mapping, sizeof mapping));
    memset(mapping.path, 0, sizeof mapping.path);
    mapping.bytes = UINT64_MAX; // round the end of the address space
    assert_false(record_read(&record, &mapping, sizeof mapping));
}

static void test_loss_is_that_of_a_process(void **state)
{
    (void)state;
    struct {
        struct perf_event_header header;
        uint64_t event, lost;
        uint32_t pid, tid;
        uint64_t time;
    } loss = {.header = {.type = PERF_RECORD_LOST, .size = sizeof loss}, .lost = 5, .pid = 7};
    struct perf_record record;
    assert_true(record_read(&record, &loss, sizeof loss));
    assert_int_equal(record.kind, RECORD_LOST);
    assert_int_equal(record.lost, 5);
    assert_int_equal(record.pid, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sample),
        cmocka_unit_test(test_sample_without_registers),
        cmocka_unit_test(test_numbers_that_lead_out),
        cmocka_unit_test(test_mapping),
        cmocka_unit_test(test_loss_is_that_of_a_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
