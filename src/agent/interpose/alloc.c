// SPDX-License-Identifier: MIT
#include "agent/interpose/alloc.h"
#include "agent/thread/thread.h"
#include "base/agent_map.h"
#include "base/likely.h"
#include "event/blocks.h"
#include <errno.h>
#include <sys/mman.h>
#include <sys/single_threaded.h>

#define TABLE_LEAST 4096

static const volatile uint32_t never = 0;
const volatile uint32_t *alloc_switch = &never;

static struct {
    uint32_t *page; // wiped in children of fork
    struct blocks blocks;
    size_t table_bytes;
    ref_t rootless; // statement for blocks of no context: the root's, in the first tree
    bool keeps;     // trees are full: their statements have all values
    bool beside;    // another event has the samples
} alloc;

// The frame of the interposed function whose event the calling thread is at, 0: none. An event in a
// handler that has interrupted it finds trees and trackers in the middle of a change.
static __thread uintptr_t noting;

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

static inline void count(uint64_t *value, uint64_t amount)
{
#ifdef __x86_64__
    if (LIKELY(__libc_single_threaded)) {
        __asm__ volatile("addq %1, %0" : "+m"(*value) : "er"(amount) : "cc", "memory");
        return;
    }
#endif
    __atomic_fetch_add(value, amount, __ATOMIC_RELAXED);
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
                   blocks = value_of(node, LIVE_ALLOC_BLOCKS) - value_of(node, LIVE_FREED_BLOCKS);
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

// Where the program has called the function that has this frame.
static inline struct caller_registers caller_of(const void *frame)
{
    const uintptr_t *words = frame;
    return (struct caller_registers){.pc = words[1], .sp = (uintptr_t)(words + 2), .bp = words[0]};
}

static inline void charge(ref_t ref, uint64_t size)
{
    struct node *node = arena_at(&agent.arena, ref);
    save(node);
    count(&node->value[LIVE_ALLOC_BYTES], size);
    count(&node->value[LIVE_ALLOC_BLOCKS], 1);
}

// Charges a block to the context that it is allocated in. Its node; 0: it has none for good.
static ref_t attribute(struct thread *thread, const struct caller_registers *caller, uint64_t size)
{
    if (thread_is_misplaced(thread))
        thread_move(thread);
    const ref_t node = tracker->locate_caller(&thread->tracked, caller, size);
    struct live_thread *record = thread->record;
    if (LIKELY(!alloc.beside)) {
        record->stats.samples++;
        record->stats.cost_ns += size;
    }
    if (!node)
        return 0;
    if (alloc.keeps) {
        charge(node, size);
        return node;
    }
    tree_charge(&agent.arena, record->tree, node, size);
    return 0;
}

static inline bool is_on_stack(const struct thread *thread, uintptr_t address)
{
    return address >= thread->stack.low && address < thread->stack.high;
}

// An event that was left behind by a longjmp out of a handler is over: nothing that interrupts it
// lies above it, or on the thread's own stack if it does not.
static inline bool is_at_an_event(const struct thread *thread, uintptr_t frame)
{
    return noting &&
           (!is_on_stack(thread, frame) || (is_on_stack(thread, noting) && frame < noting));
}

bool alloc_is_noting(const struct thread *thread, uintptr_t sp)
{
    return is_at_an_event(thread, sp);
}

void alloc_note(const void *block, size_t size, const void *frame)
{
    const struct caller_registers caller = caller_of(frame);
    struct thread *thread = thread_current;
    ref_t node = 0;
    if (!agent_is_recording())
        return;
    blocks_expect(&alloc.blocks, (uintptr_t)block);
    if (LIKELY(thread && !is_at_an_event(thread, (uintptr_t)frame))) {
        const int saved_errno = errno;
        noting = (uintptr_t)frame;
        atomic_signal_fence(memory_order_seq_cst);
        node = attribute(thread, &caller, size);
        if (!LIKELY(!thread->due))
            sample_late(thread, node);
        atomic_signal_fence(memory_order_seq_cst);
        noting = 0;
        errno = saved_errno;
    }
    if (!node && alloc.keeps) {
        node = alloc.rootless;
        charge(node, size);
        count((uint64_t *)&totals()->rootless, 1);
    }
    note_live(size);
    if (blocks_add(&alloc.blocks, (uintptr_t)block, size, node))
        return;
    count((uint64_t *)&totals()->unheld, 1);
    count((uint64_t *)&totals()->unheld_bytes, size);
}

struct block_taken alloc_take(const void *block)
{
    struct block_taken taken = {.known = false};
    // The allocator will look at it next: no need to wait for one after the other.
    __builtin_prefetch((const char *)block - 2 * sizeof(size_t), 1);
    taken.known = blocks_take(&alloc.blocks, (uintptr_t)block, &taken.size, &taken.node);
    return taken;
}

void alloc_put_back(const void *block, struct block_taken taken)
{
    if (taken.known)
        blocks_add(&alloc.blocks, (uintptr_t)block, taken.size, taken.node);
}

void alloc_freed(struct block_taken taken)
{
    if (!taken.known) {
        count((uint64_t *)&totals()->unknown, 1);
        return;
    }
    if (taken.node) {
        struct node *node = arena_at(&agent.arena, taken.node);
        save(node);
        count(&node->value[LIVE_FREED_BYTES], taken.size);
        count(&node->value[LIVE_FREED_BLOCKS], 1);
    }
    add((uint64_t *)&totals()->live, 0 - taken.size);
}

static void *map_wiped(size_t bytes)
{
    void *memory = agent_map_map(bytes);
    if (!memory)
        return NULL;
    // Sparse it shall stay. And what a child inherits is none of its own doing.
    madvise(memory, bytes, MADV_NOHUGEPAGE);
    if (!madvise(memory, bytes, MADV_WIPEONFORK))
        return memory;
    agent_map_unmap(memory, bytes);
    return NULL;
}

static int map_table(void)
{
    size_t bytes = TABLE_LEAST;
    while (bytes * 2 <= agent.slice_mapped / ALLOC_PART)
        bytes *= 2;
    void *table = map_wiped(bytes);
    while (!table && bytes > TABLE_LEAST) {
        bytes /= 2;
        table = map_wiped(bytes);
    }
    alloc.page = table ? map_wiped(4096) : NULL;
    if (!alloc.page)
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

static void find_functions(void)
{
    uintptr_t functions[16];
    if (!alloc_functions)
        agent_note("libcairn.so sees no allocations: libcairn-alloc.so does");
    else if (!alloc_reaches_us())
        agent_note("a program has an allocator inside of its executable: what that allocates is "
                   "not seen");
    else if (alloc_misses_new())
        agent_note("the allocator of a program has an operator new of its own: what C++ code "
                   "allocates is not seen");
    if (!alloc_functions)
        return;
    trackers_leave_calls(functions, alloc_functions(functions, 16));
    trackers_doubt_functions(functions, alloc_real_functions(functions, 16));
}

void alloc_count_memory(void)
{
    static _Atomic uint64_t told;
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
    const struct live_thread *record = thread_current ? thread_current->record : NULL;
    if (!record)
        return -ENOSPC;
    if (!alloc.page)
        find_functions();
    int error = alloc.page ? 0 : map_table();
    if (error)
        return error;
    alloc.keeps = agent.session->options.tree == LIVE_TREE_FULL;
    alloc.beside = agent.session->options.event != LIVE_EVENT_ALLOC;
    alloc.rootless =
        tree_unplaced(&agent.arena, record->tree, tree_root(&agent.arena, record->tree));
    noting = 0;
    alloc_switch = alloc.page;
    // Release: a reader that finds it on also finds all of the above.
    __atomic_store_n(alloc.page, 1, __ATOMIC_RELEASE);
    return 0;
}
