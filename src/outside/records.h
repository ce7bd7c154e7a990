// SPDX-License-Identifier: MIT
#ifndef CAIRN_OUTSIDE_RECORDS_H
#define CAIRN_OUTSIDE_RECORDS_H

// The records that the kernel writes into the ring of a perf event (perf_event_open(2)). Every
// number in a record is checked against its length before it is followed.

#include "unwind/unwind.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct perf_event_attr;

enum record_kind {
    RECORD_OTHER,  // nothing to know
    RECORD_SAMPLE, // a tick of the clock
    RECORD_MAP,    // code was mapped
    RECORD_NAME,   // a thread has a name; `is_exec`: by a new program
    RECORD_FORK,   // a thread or process was made
    RECORD_EXIT,   // a thread has ended
    RECORD_LOST,   // `lost` records found no room
};

// The registers that a sample has, in the program.
enum record_registers {
    RECORD_NO_REGISTERS, // a thread of the kernel, or one that has no memory any more
    RECORD_NARROW,       // of a program for 32 bits
    RECORD_WIDE,
};

#define RECORD_NAME_BYTES 16

// Pointers lead into the record.
struct perf_record {
    enum record_kind kind;
    uint32_t pid, tid;
    uint32_t parent_pid, parent_tid; // of a fork
    uint64_t time_ns;                // CLOCK_MONOTONIC
    // of a sample
    const uint64_t *chain; // the kernel's part, youngest first; has marks between addresses
    size_t chain_count;
    enum record_registers has_registers;
    uintptr_t registers[UNWIND_REGISTERS]; // by their DWARF numbers
    const unsigned char *stack;            // from the stack pointer up
    size_t stack_bytes, stack_room;        // copied, and asked for
    // of a mapping
    uint64_t start, bytes, offset, inode;
    uint32_t device_major, device_minor;
    const char *path;
    // of a name
    char name[RECORD_NAME_BYTES];
    bool is_exec;
    uint64_t lost;
};

#define RECORD_MOST 65536 // bytes: the kernel has 16 bits for the length
#define RECORD_HEAD 8
#define RECORD_TYPE_SAMPLE 9 // PERF_RECORD_SAMPLE

// Sets what an event is to record, with so many bytes of the stack.
void records_ask(struct perf_event_attr *attributes, uint32_t stack_bytes);

// Of the words of a sample at least this many are there, and they say whose it is and when.
enum { RECORD_SAMPLE_PID = 16, RECORD_SAMPLE_TIME = 24, RECORD_SAMPLE_LEAST = 32 };

// Takes apart a record of so many bytes, aligned to eight. False: it is damaged.
bool record_read(struct perf_record *record, const void *bytes, size_t size);

// An address of the kernel, or of anything; false: a mark.
static inline bool record_is_address(uint64_t word)
{
    return word < (uint64_t)-4095;
}

#endif
