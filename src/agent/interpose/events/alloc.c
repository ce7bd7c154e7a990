// SPDX-License-Identifier: MIT
#include "agent/interpose/events/alloc.h"
#include "agent/thread/counted.h"
#include "base/system/agent_map.h"
#include "event/birth.h"
#include "event/clock.h"
#include "loadmap/lookup.h"
#include <errno.h>
#include <sys/mman.h>

#define TABLE_LEAST 4096

static struct {
    struct blocks blocks;
    size_t table_bytes;
    bool keeps; // trees are full: their statements have all values
    uint64_t period;
    unsigned shift; // of numbers of blocks in statements
} alloc;

__thread struct byte_sampler alloc_sampler;
uint8_t *alloc_filter;

// The block that the thread has allocated last, of those that are counted. Of sampled ones: where
// the sampler was then, which other blocks move.
static __thread struct {
    const void *block;
    uint64_t left;
} newest;

// Where there is one thread, one instruction is enough against the handlers of its signals.
static inline uint64_t add(uint64_t *value, uint64_t amount)
{
#ifdef __x86_64__
    if (LIKELY(__libc_single_threaded)) {
        uint64_t sum = amount;
        __asm__ volatile("xaddq %0, %1" : "+r"(sum), "+m"(*value) : : "cc", "memory");
        return sum + amount;
    }
#endif
    // Relaxed: sums, that order nothing.
    return __atomic_add_fetch(value, amount, __ATOMIC_RELAXED);
}

static inline uint64_t value_of(const struct node *node, enum live_alloc_value value)
{
    return __atomic_load_n(&node->value[value], __ATOMIC_RELAXED);
}

static inline struct live_alloc *totals(void)
{
    return &agent.process->alloc;
}

// The node is about to change: keeps its value at the last peak. Two threads that do so at once
// keep about the same.
static inline void save(struct node *node)
{
    const uint64_t stamp = atomic_load_explicit(&totals()->stamp, memory_order_relaxed);
    if (value_of(node, LIVE_SAVED_BLOCKS) >> 32 == stamp)
        return;
    const uint64_t bytes = value_of(node, LIVE_ALLOC_BYTES) - value_of(node, LIVE_FREED_BYTES),
                   blocks =
                       (value_of(node, LIVE_ALLOC_BLOCKS) - value_of(node, LIVE_FREED_BLOCKS)) >>
                       alloc.shift;
    __atomic_store_n(&node->value[LIVE_SAVED_BYTES], bytes, __ATOMIC_RELAXED);
    __atomic_store_n(&node->value[LIVE_SAVED_BLOCKS], stamp << 32 | (uint32_t)blocks,
                     __ATOMIC_RELAXED);
}

static inline void note_live(uint64_t size)
{
    struct live_alloc *all = totals();
    const uint64_t live = add((uint64_t *)&all->live, size);
    uint64_t peak = atomic_load_explicit(&all->peak, memory_order_relaxed);
    if (live <= peak)
        return;
    if (__libc_single_threaded) {
        atomic_store_explicit(&all->peak, live, memory_order_relaxed);
        atomic_store_explicit(&all->stamp,
                              atomic_load_explicit(&all->stamp, memory_order_relaxed) + 1,
                              memory_order_relaxed);
        return;
    }
    // Relaxed: nothing hangs on these but numbers that are approximate with several threads.
    while (live > peak)
        if (atomic_compare_exchange_weak_explicit(&all->peak, &peak, live, memory_order_relaxed,
                                                  memory_order_relaxed)) {
            atomic_fetch_add_explicit(&all->stamp, 1, memory_order_relaxed);
            return;
        }
}

// Where each block is counted, the weight is known to the compiler.
#define WITH_WEIGHT static inline __attribute__((always_inline))

WITH_WEIGHT void charge(ref_t ref, const struct block_weight *weight, uint32_t birth)
{
    struct node *node = arena_at(&agent.arena, ref);
    save(node);
    counted_add(&node->value[LIVE_ALLOC_BYTES], weight->bytes);
    counted_add(&node->value[LIVE_ALLOC_BLOCKS], weight->blocks);
    counted_add(&node->value[LIVE_BIRTHS], weight->bytes * birth_seconds(birth));
    if (weight->variance)
        counted_add(&node->value[LIVE_ALLOC_VARIANCE], weight->variance);
}

// Charges a block to the context that it is allocated in. Its node; 0: it has none for good.
WITH_WEIGHT ref_t attribute(struct thread *thread, const struct caller_registers *caller,
                            const struct block_weight *weight, uint32_t birth)
{
    const ref_t node = counted_locate(thread, caller, LIVE_EVENT_ALLOC, weight->bytes);
    if (!node)
        return 0;
    if (alloc.keeps) {
        charge(node, weight, birth);
        return node;
    }
    tree_charge(&agent.arena, thread->record->tree, node, weight->bytes);
    return 0;
}

// A block of this size, which stands for so much.
WITH_WEIGHT void note(enum counted_visit visit, const void *block, size_t size, const void *frame,
                      const struct block_weight *weight)
{
    const struct caller_registers caller = unwind_caller_of(frame);
    struct thread *thread = counted_thread(visit);
    // Relaxed: a number by itself.
    const uint32_t birth =
        atomic_load_explicit(&agent.session->birth, memory_order_relaxed) & BIRTH_MOST;
    ref_t node = 0;
    blocks_expect(&alloc.blocks, (uintptr_t)block);
    if (LIKELY(counted_begin(thread, frame))) {
        const int saved_errno = errno;
        node = attribute(thread, &caller, weight, birth);
        counted_end(thread, node);
        errno = saved_errno;
    }
    if (!node && alloc.keeps) {
        node = counted_without_context;
        charge(node, weight, birth);
        counted_add((uint64_t *)&totals()->rootless, 1);
    }
    note_live(weight->bytes);
    newest.block = block;
    const struct block_facts facts = {.size = size, .birth = birth, .node = node};
    if (blocks_add(&alloc.blocks, (uintptr_t)block, &facts))
        return;
    counted_add((uint64_t *)&totals()->unheld, 1);
    counted_add((uint64_t *)&totals()->unheld_bytes, weight->bytes);
}

static size_t limited(size_t size)
{
    return size < BLOCKS_SIZE_MOST ? size : BLOCKS_SIZE_MOST;
}

void alloc_note(const void *block, size_t size, const void *frame)
{
    const enum counted_visit visit = counted_enter(LIVE_EVENT_ALLOC, frame);
    size = limited(size);
    if (visit && agent_is_recording())
        note(visit, block, size, frame, &(struct block_weight){.bytes = size, .blocks = 1});
    counted_leave(visit);
}

// Once for each thread, and for the first one of a child of fork: no two shall have the same gaps.
static uint64_t seed(void)
{
    const uint64_t mixed = (clock_now(LIVE_EVENT_WALL) ^ (uint64_t)(uintptr_t)&alloc_sampler) *
                           UINT64_C(0x9e3779b97f4a7c15);
    return mixed ^ mixed >> 32;
}

// A block is in the filter for as long as it is in the table.
static void filter_change(const void *block, int change)
{
    uint8_t *count = alloc_filter_of(block), now = __atomic_load_n(count, __ATOMIC_RELAXED);
    while (now != UINT8_MAX &&
           !__atomic_compare_exchange_n(count, &now, (uint8_t)(now + change), false,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
}

void alloc_note_sampled(const void *block, size_t size, const void *frame)
{
    const uint64_t first = alloc_sampler.random ? 0 : seed();
    size = limited(size);
    if (!byte_sampler_takes(&alloc_sampler, size, alloc.period, first))
        return;
    const enum counted_visit visit = counted_enter(LIVE_EVENT_ALLOC, frame);
    if (visit && agent_is_recording()) {
        const struct block_weight weight = byte_sampler_weight(size, alloc.period);
        filter_change(block, 1);
        newest.left = alloc_sampler.left;
        note(visit, block, size, frame, &weight);
    }
    counted_leave(visit);
}

struct block_taken alloc_take(const void *block, const void *frame)
{
    struct block_taken taken = {.known = false};
    // The allocator will look at it next: no need to wait for one after the other.
    __builtin_prefetch((const char *)block - 2 * sizeof(size_t), 1);
    const enum counted_visit visit = counted_enter(LIVE_EVENT_ALLOC, frame);
    if (!visit)
        return taken;
    taken.recording = agent.recording;
    taken.known = blocks_take(&alloc.blocks, (uintptr_t)block, &taken.facts);
    if (newest.block == block) {
        taken.temporary = !alloc.period || newest.left == alloc_sampler.left;
        newest.block = NULL;
    }
    if (taken.known && alloc.period)
        filter_change(block, -1);
    counted_leave(visit);
    return taken;
}

void alloc_put_back(const void *block, struct block_taken taken, const void *frame)
{
    const enum counted_visit visit =
        taken.known ? counted_enter(LIVE_EVENT_ALLOC, frame) : COUNTED_TOO_LATE;
    if (!visit)
        return;
    if (taken.recording == agent.recording) {
        if (taken.temporary)
            newest.block = block;
        if (alloc.period)
            filter_change(block, 1);
        blocks_add(&alloc.blocks, (uintptr_t)block, &taken.facts);
    }
    counted_leave(visit);
}

static inline void count_freed(const struct block_taken *taken)
{
    if (!taken->known) {
        if (!alloc.period)
            counted_add((uint64_t *)&totals()->unknown, 1);
        return;
    }
    struct block_weight weight = {.bytes = taken->facts.size, .blocks = 1};
    if (UNLIKELY(alloc.period))
        weight = byte_sampler_weight(taken->facts.size, alloc.period);
    if (taken->facts.node) {
        struct node *node = arena_at(&agent.arena, taken->facts.node);
        save(node);
        counted_add(&node->value[LIVE_FREED_BYTES], weight.bytes);
        counted_add(&node->value[LIVE_FREED_BLOCKS], weight.blocks);
        counted_add(&node->value[LIVE_BIRTHS],
                    0 - weight.bytes * birth_seconds(taken->facts.birth));
        if (taken->temporary)
            counted_add(&node->value[LIVE_TEMPORARY], weight.blocks);
    }
    add((uint64_t *)&totals()->live, 0 - weight.bytes);
}

void alloc_freed(struct block_taken taken, const void *frame)
{
    const enum counted_visit visit = counted_enter(LIVE_EVENT_ALLOC, frame);
    if (visit && taken.recording == agent.recording)
        count_freed(&taken);
    counted_leave(visit);
}

static void note_mapping(enum counted_visit visit, uint64_t mapped, uint64_t unmapped,
                         const void *frame)
{
    const struct caller_registers caller = unwind_caller_of(frame);
    struct thread *thread = counted_thread(visit);
    ref_t ref = 0;
    if (LIKELY(counted_begin(thread, frame))) {
        ref = counted_node(thread, &caller, 0);
        counted_end(thread, ref);
    }
    struct node *node = arena_at(&agent.arena, ref ? ref : counted_without_context);
    counted_add(&node->value[LIVE_MAPPED], mapped);
    counted_add(&node->value[LIVE_UNMAPPED], unmapped);
}

void alloc_note_mapping(uint64_t mapped, uint64_t unmapped, const void *frame)
{
    const int saved_errno = errno;
    const enum counted_visit visit = counted_enter(LIVE_EVENT_ALLOC, frame);
    if (visit && alloc.keeps && agent_is_recording())
        note_mapping(visit, mapped, unmapped, frame);
    counted_leave(visit);
    errno = saved_errno;
}

// An agent that has come late may have had a table before. One that is too small is left, empty.
static int map_table(void)
{
    size_t bytes = TABLE_LEAST;
    while (bytes * 2 <= agent.slice_mapped / ALLOC_PART)
        bytes *= 2;
    if (alloc.table_bytes && counted_may_end)
        counted_clear(alloc.blocks.table, alloc.table_bytes);
    if (alloc.table_bytes && (alloc.table_bytes >= bytes || !counted_may_end))
        return 0;
    void *table = counted_map(bytes);
    while (!table && bytes > TABLE_LEAST) {
        bytes /= 2;
        table = counted_map(bytes);
    }
    if (!table)
        return -ENOMEM;
    alloc.table_bytes = bytes;
    blocks_open(&alloc.blocks, table, bytes);
    return 0;
}

// Only in the build that has them.
#pragma weak alloc_functions
#pragma weak alloc_real_functions
#pragma weak alloc_reaches_us
#pragma weak alloc_misses_new
#pragma weak alloc_tell_trackers_of_maps

static void find_functions(void)
{
    uintptr_t functions[16];
    if (!alloc_functions)
        agent_note("libcairn.so sees no allocations: libcairn-alloc.so does");
    else if (counted_may_end ? lookup_in_executable("malloc") : !alloc_reaches_us())
        agent_note("a program has an allocator inside of its executable: what that allocates is "
                   "not seen");
    else if (alloc_misses_new())
        agent_note("the allocator of a program has an operator new of its own: what C++ code "
                   "allocates is not seen");
    if (!alloc_functions || counted_may_end)
        return; // only walks are made then
    trackers_leave_calls(functions, alloc_functions(functions, 16));
    trackers_doubt_functions(functions, alloc_real_functions(functions, 16));
    alloc_tell_trackers_of_maps();
}

static _Atomic uint64_t told; // of this process' memory

void alloc_count_memory(void)
{
    unsigned char there[1024];
    const size_t piece = sizeof there * 4096;
    uint64_t pages = 0;
    for (size_t at = 0; at < alloc.table_bytes; at += piece) {
        const size_t left = alloc.table_bytes - at, bytes = left < piece ? left : piece;
        if (mincore((char *)alloc.blocks.table + at, bytes, there))
            break;
        for (size_t i = 0; i < bytes / 4096; i++)
            pages += there[i] & 1;
    }
    const uint64_t before = atomic_exchange_explicit(&told, pages * 4096, memory_order_relaxed);
    atomic_fetch_add_explicit(&agent.process->agent_bytes, pages * 4096 - before,
                              memory_order_relaxed);
}

int alloc_start(void)
{
    if (!alloc.table_bytes || counted_may_end)
        find_functions();
    const struct live_options *options = &agent.session->options;
    const int error = map_table();
    atomic_store_explicit(&told, 0, memory_order_relaxed);
    alloc.keeps = tree_traits_of(options->tree)->keeps_all;
    alloc.period = options->alloc_period;
    alloc.shift = alloc.period ? BYTE_SAMPLER_SHIFT : 0;
    alloc_sampler = (struct byte_sampler){.left = 0};
    if (alloc_filter && counted_may_end)
        counted_clear(alloc_filter, UINT64_C(1) << ALLOC_FILTER_BITS);
    if (!alloc_filter && alloc.period)
        alloc_filter = counted_map(UINT64_C(1) << ALLOC_FILTER_BITS);
    if (error || (alloc.period && !alloc_filter))
        return error ? error : -ENOMEM;
    return counted_switch_on(LIVE_EVENT_ALLOC, alloc.period ? COUNTED_SAMPLED : COUNTED_ALL);
}
