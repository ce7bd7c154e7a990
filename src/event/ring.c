// SPDX-License-Identifier: MIT
#include "event/ring.h"
#include <asm/perf_regs.h>
#include <linux/perf_event.h>
#include <time.h>

#define WORD sizeof(uint64_t)

// No reader waits for it.
static void ask_for_silence(struct perf_event_attr *attributes)
{
    attributes->watermark = 1;
    attributes->wakeup_watermark = RING_BYTES;
}

void ring_ask(struct perf_event_attr *attributes)
{
    ask_for_silence(attributes);
    attributes->sample_type = PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_REGS_USER;
    attributes->sample_regs_user = UINT64_C(1) << PERF_REG_X86_IP;
    attributes->exclude_callchain_user = 1;
    attributes->sample_max_stack = RING_FRAMES;
}

void ring_ask_count(struct perf_event_attr *attributes)
{
    ask_for_silence(attributes);
    attributes->sample_type = PERF_SAMPLE_READ;
    attributes->read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
}

static uint64_t word_at(const struct ring *ring, uint64_t at)
{
    const char *data = (const char *)ring->page + RING_BYTES;
    return *(const volatile uint64_t *)(data + (at & (RING_BYTES - 1)));
}

struct ring ring_begin(void *page)
{
    const struct perf_event_mmap_page *head = page;
    // Acquire: the kernel has written what lies before.
    struct ring ring = {page, head->data_tail, __atomic_load_n(&head->data_head, __ATOMIC_ACQUIRE)};
    if (ring.end - ring.at > RING_BYTES || ring.at % WORD || ring.end % WORD)
        ring.at = ring.end;
    return ring;
}

// The record's words: head, number of addresses, addresses, register's ABI, register.
static bool read_sample(const struct ring *ring, uint64_t at, uint64_t words,
                        struct ring_sample *sample)
{
    const uint64_t count = words > 1 ? word_at(ring, at + WORD) : 0;
    if (words < 3 || count > words - 3)
        return false;
    sample->count = 0;
    for (uint64_t i = 0; i < count && sample->count < RING_FRAMES; i++) {
        const uint64_t address = word_at(ring, at + (2 + i) * WORD);
        if (address < PERF_CONTEXT_MAX) // others say whose addresses follow
            sample->address[sample->count++] = address;
    }
    const bool known = word_at(ring, at + (2 + count) * WORD) != PERF_SAMPLE_REGS_ABI_NONE;
    if (!known || count + 4 > words)
        return false;
    sample->pc = word_at(ring, at + (3 + count) * WORD);
    return true;
}

void ring_ask_switches(struct perf_event_attr *attributes)
{
    ask_for_silence(attributes);
    attributes->sample_type = PERF_SAMPLE_TIME;
    attributes->sample_id_all = 1;
    attributes->context_switch = 1;
    attributes->use_clockid = 1;
    attributes->clockid = CLOCK_MONOTONIC;
}

// The place and the words of the next record of that type; 0: there is none.
static uint64_t next_record(struct ring *ring, uint32_t type, uint64_t *words)
{
    while (ring->at < ring->end) {
        // struct perf_event_header in one word: type, misc, size.
        const uint64_t head = word_at(ring, ring->at), at = ring->at, bytes = head >> 48;
        if (bytes < WORD || bytes % WORD || bytes > ring->end - at)
            break;
        ring->at += bytes;
        *words = bytes / WORD;
        if ((uint32_t)head == type)
            return at + WORD; // behind its head
    }
    return 0;
}

bool ring_next(struct ring *ring, struct ring_sample *sample)
{
    uint64_t words;
    for (uint64_t at; (at = next_record(ring, PERF_RECORD_SAMPLE, &words));)
        if (read_sample(ring, at - WORD, words, sample))
            return true;
    return false;
}

bool ring_newest_count(void *page, struct ring_count *count)
{
    struct ring ring = ring_begin(page);
    uint64_t words;
    bool any = false;
    for (uint64_t at; (at = next_record(&ring, PERF_RECORD_SAMPLE, &words));) {
        if (words < 4)
            continue;
        *count = (struct ring_count){word_at(&ring, at), word_at(&ring, at + WORD),
                                     word_at(&ring, at + 2 * WORD)};
        any = true;
    }
    if (any)
        ring_finish(&ring);
    return any;
}

bool ring_next_switch(struct ring *ring, struct ring_switch *change)
{
    uint64_t words;
    const uint64_t at = next_record(ring, PERF_RECORD_SWITCH, &words);
    if (!at || words < 2)
        return false;
    const uint64_t misc = word_at(ring, at - WORD) >> 32 & UINT16_MAX;
    *change = (struct ring_switch){.ns = word_at(ring, at),
                                   .is_out = misc & PERF_RECORD_MISC_SWITCH_OUT,
                                   .is_preempted = misc & PERF_RECORD_MISC_SWITCH_OUT_PREEMPT};
    return true;
}

void ring_finish(const struct ring *ring)
{
    struct perf_event_mmap_page *head = ring->page;
    // Release: it was read before the kernel writes there again.
    __atomic_store_n(&head->data_tail, ring->end, __ATOMIC_RELEASE);
}
