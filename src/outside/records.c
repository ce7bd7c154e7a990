// SPDX-License-Identifier: MIT
#include "outside/records.h"
#include "unwind/arch.h"
#include <asm/perf_regs.h>
#include <linux/perf_event.h>
#include <string.h>
#include <time.h>

#define WORD sizeof(uint64_t)
#define TRAILER (2 * WORD) // behind each record but samples: whose it is, and when

// The registers of a program in the kernel's order, by their DWARF numbers.
static const unsigned char order[UNWIND_REGISTERS] = {0, 3, 2,  1,  4,  5,  6,  7, 16,
                                                      8, 9, 10, 11, 12, 13, 14, 15};
#define MASK (((UINT64_C(1) << (PERF_REG_X86_IP + 1)) - 1) | UINT64_C(0xff) << PERF_REG_X86_R8)

void records_ask(struct perf_event_attr *attributes, uint32_t stack_bytes)
{
    attributes->sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME |
                              PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_REGS_USER |
                              PERF_SAMPLE_STACK_USER;
    attributes->sample_regs_user = MASK;
    attributes->sample_stack_user = stack_bytes;
    attributes->exclude_callchain_user = 1;
    attributes->sample_id_all = 1;
    attributes->use_clockid = 1;
    attributes->clockid = CLOCK_MONOTONIC;
    attributes->mmap = 1;
    attributes->mmap2 = 1;
    attributes->comm = 1;
    attributes->comm_exec = 1;
    attributes->task = 1;
}

struct record_rest {
    const unsigned char *at;
    size_t left; // bytes
};

static bool take(struct record_rest *rest, void *to, size_t bytes)
{
    if (rest->left < bytes)
        return false;
    memcpy(to, rest->at, bytes);
    rest->at += bytes;
    rest->left -= bytes;
    return true;
}

static bool take_registers(struct record_rest *rest, struct perf_record *record)
{
    uint64_t abi, value;
    if (!take(rest, &abi, WORD))
        return false;
    record->has_registers = abi == PERF_SAMPLE_REGS_ABI_64   ? RECORD_WIDE
                            : abi == PERF_SAMPLE_REGS_ABI_32 ? RECORD_NARROW
                                                             : RECORD_NO_REGISTERS;
    for (unsigned i = 0; abi != PERF_SAMPLE_REGS_ABI_NONE && i < UNWIND_REGISTERS; i++) {
        if (!take(rest, &value, WORD))
            return false;
        record->registers[order[i]] = value;
    }
    return true;
}

// The kernel leaves room for all that was asked for, and says how much of that it could copy.
static bool take_stack(struct record_rest *rest, struct perf_record *record)
{
    uint64_t room, copied;
    if (!take(rest, &room, WORD))
        return false;
    if (room == 0)
        return true;
    if (room > rest->left || room % WORD)
        return false;
    record->stack = rest->at;
    rest->at += room;
    rest->left -= room;
    if (!take(rest, &copied, WORD) || copied > room)
        return false;
    record->stack_bytes = copied;
    record->stack_room = room;
    return true;
}

static bool read_sample(struct record_rest *rest, struct perf_record *record)
{
    uint64_t address, count;
    uint32_t task[2];
    if (!take(rest, &address, WORD) || !take(rest, task, sizeof task) ||
        !take(rest, &record->time_ns, WORD) || !take(rest, &count, WORD) ||
        count > rest->left / WORD)
        return false;
    record->pid = task[0];
    record->tid = task[1];
    record->chain = (const uint64_t *)rest->at;
    record->chain_count = count;
    rest->at += count * WORD;
    rest->left -= count * WORD;
    return take_registers(rest, record) && take_stack(rest, record);
}

static bool read_mapping(struct record_rest *rest, struct perf_record *record)
{
    struct {
        uint32_t pid, tid;
        uint64_t start, bytes, offset;
        uint32_t major, minor;
        uint64_t inode, generation;
        uint32_t protection, flags;
    } head;
    if (!take(rest, &head, sizeof head) || !memchr(rest->at, 0, rest->left))
        return false;
    record->pid = head.pid;
    record->tid = head.tid;
    record->start = head.start;
    record->bytes = head.bytes;
    record->offset = head.offset;
    record->inode = head.inode;
    record->device_major = head.major;
    record->device_minor = head.minor;
    record->path = (const char *)rest->at;
    return head.start + head.bytes >= head.start;
}

static bool read_name(struct record_rest *rest, struct perf_record *record)
{
    uint32_t task[2];
    if (!take(rest, task, sizeof task))
        return false;
    record->pid = task[0];
    record->tid = task[1];
    const size_t bytes = rest->left < sizeof record->name ? rest->left : sizeof record->name;
    memcpy(record->name, rest->at, bytes);
    record->name[sizeof record->name - 1] = 0;
    return true;
}

static bool read_task(struct record_rest *rest, struct perf_record *record)
{
    uint32_t task[4]; // pid, parent's pid, tid, parent's tid
    if (!take(rest, task, sizeof task))
        return false;
    record->pid = task[0];
    record->parent_pid = task[1];
    record->tid = task[2];
    record->parent_tid = task[3];
    return true;
}

static bool read_lost(struct record_rest *rest, struct perf_record *record)
{
    uint64_t event;
    return take(rest, &event, WORD) && take(rest, &record->lost, WORD);
}

static bool read_other(struct record_rest *rest, struct perf_record *record)
{
    (void)rest;
    (void)record;
    return true;
}

static const struct {
    uint32_t type;
    enum record_kind kind;
    bool (*read)(struct record_rest *rest, struct perf_record *record);
} kinds[] = {
    {PERF_RECORD_SAMPLE, RECORD_SAMPLE, read_sample}, {PERF_RECORD_MMAP2, RECORD_MAP, read_mapping},
    {PERF_RECORD_COMM, RECORD_NAME, read_name},       {PERF_RECORD_FORK, RECORD_FORK, read_task},
    {PERF_RECORD_EXIT, RECORD_EXIT, read_task},       {PERF_RECORD_LOST, RECORD_LOST, read_lost},
    {UINT32_MAX, RECORD_OTHER, read_other},
};

bool record_read(struct perf_record *record, const void *bytes, size_t size)
{
    struct perf_event_header header;
    struct record_rest rest = {bytes, size};
    *record = (struct perf_record){.kind = RECORD_OTHER};
    if (!take(&rest, &header, sizeof header) || header.size != size || size % WORD)
        return false;
    unsigned i = 0;
    while (kinds[i].type != header.type && kinds[i].type != UINT32_MAX)
        i++;
    record->kind = kinds[i].kind;
    record->is_exec = header.misc & PERF_RECORD_MISC_COMM_EXEC;
    if (record->kind == RECORD_SAMPLE)
        return read_sample(&rest, record);
    if (rest.left < TRAILER)
        return false;
    rest.left -= TRAILER;
    memcpy(&record->pid, rest.at + rest.left, sizeof record->pid);
    memcpy(&record->tid, rest.at + rest.left + sizeof record->pid, sizeof record->tid);
    memcpy(&record->time_ns, rest.at + rest.left + WORD, WORD);
    return kinds[i].read(&rest, record);
}
