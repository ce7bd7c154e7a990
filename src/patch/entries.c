// SPDX-License-Identifier: MIT
#include "patch/entries.h"
#include "patch/entries_list.h"
#include "patch/text.h"
#include <errno.h>
#include <linux/membarrier.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

// Bytes of code that one system call writes: on the stack, and when all entries are switched.
#define CHUNK 1024
#define LARGE_CHUNK (UINT64_C(64) << 10)

static const unsigned char no_op[ENTRY_BYTES] = {0x0f, 0x1f, 0x44, 0x00, 0x00};
static const unsigned char endbr[4] = {0xf3, 0x0f, 0x1e, 0xfa};
#define TRAP 0xcc
#define RETURN 0xc3 // as the first byte of a relay: it is shut
#define PACED_RELAY_BYTES (14 + 2 * TEXT_RELAY_BYTES)

// One module's entries, sorted by address. Made in normal context, then only read.
struct patched_module {
    struct patched_module *next;
    _Atomic bool gone; // unloaded; set under the loader's lock, read anywhere
    uintptr_t base;
    const unsigned char *relay; // within reach of its entries: jumps to the hook
    size_t relay_bytes;
    unsigned char relay_first; // byte, of one that is not shut
    size_t count;
    uintptr_t entry[];
};

// Pushed at the head, release; a signal handler that switches reads with acquire.
static struct patched_module *_Atomic modules;

static bool is_here(const struct patched_module *module)
{
    return !atomic_load_explicit(&module->gone, memory_order_acquire);
}

// What libraries that come later find. Written where entries are switched.
static void (*current_hook)(void);
static _Atomic bool entries_are_on, relays_are_shut;

// Of whoever switches all entries; made in normal context.
static unsigned char *large_chunk;

// Set once, where modules are added; read anywhere.
static _Atomic bool ambiguous;

// ---- preparing a module

struct search {
    void (*hook)(void);
    int64_t added;
    uint64_t skipped;
    int error;
};

// The five bytes that can be patched at an entry of the list; 0 if there are none.
static uintptr_t patchable_at(const struct dl_phdr_info *info, uintptr_t address)
{
    if (!entries_in_segment(info, address, ENTRY_BYTES + sizeof endbr, PF_X))
        return 0;
    const unsigned char *code = (const unsigned char *)address;
    if (!memcmp(code, endbr, sizeof endbr))
        code += sizeof endbr;
    static const unsigned char single[ENTRY_BYTES] = {0x90, 0x90, 0x90, 0x90, 0x90};
    const bool one = !memcmp(code, no_op, 4); // the last byte is a displacement: any will do
    return one || !memcmp(code, single, ENTRY_BYTES) ? (uintptr_t)code : 0;
}

static int by_address(const void *a, const void *b)
{
    const uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;
    return x < y ? -1 : x > y;
}

static void *map_memory(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static int write_all(const struct patched_module *module, bool on);

// A module that was here before, at the same place: it has its relay yet.
static struct patched_module *known_before(const struct patched_module *module)
{
    for (struct patched_module *old = atomic_load_explicit(&modules, memory_order_acquire); old;
         old = old->next)
        if (!is_here(old) && old->base == module->base && old->count == module->count &&
            !memcmp(old->entry, module->entry, module->count * sizeof *module->entry))
            return old;
    return NULL;
}

static bool fill_module(struct patched_module *module, const struct dl_phdr_info *info,
                        const uintptr_t *list, size_t count, struct search *search)
{
    entries_relocate(info, list, count, module->entry);
    for (size_t i = 0; i < count; i++) {
        uintptr_t entry = patchable_at(info, module->entry[i]);
        if (entry)
            module->entry[module->count++] = entry;
        else
            search->skipped++;
    }
    qsort(module->entry, module->count, sizeof *module->entry, by_address);
    module->base = info->dlpi_addr;
    return module->count != 0;
}

// Set before entries are found.
static int32_t paced_cell; // 0: none
static void (*paced_turn)(void);

void entries_pace(int32_t cell, void (*turn)(void))
{
    paced_cell = cell;
    paced_turn = turn;
}

// decq %fs:cell; js hook; jo turn; ret
static void make_paced_relay(unsigned char relay[PACED_RELAY_BYTES], void (*hook)(void))
{
    static const unsigned char count[5] = {0x64, 0x48, 0xff, 0x0c, 0x25};
    static const unsigned char choose[5] = {0x78, 3, 0x70, 1 + TEXT_RELAY_BYTES, RETURN};
    memcpy(relay, count, sizeof count);
    memcpy(relay + 5, &paced_cell, sizeof paced_cell);
    memcpy(relay + 9, choose, sizeof choose);
    text_make_relay(relay + 14, hook);
    text_make_relay(relay + 14 + TEXT_RELAY_BYTES, paced_turn);
}

static bool make_module_relay(struct patched_module *module, void (*hook)(void))
{
    unsigned char relay[PACED_RELAY_BYTES];
    if (paced_cell)
        make_paced_relay(relay, hook);
    else
        text_make_relay(relay, hook);
    module->relay_bytes = paced_cell ? PACED_RELAY_BYTES : TEXT_RELAY_BYTES;
    module->relay_first = relay[0];
    if (atomic_load_explicit(&relays_are_shut, memory_order_relaxed))
        relay[0] = RETURN;
    module->relay = text_page_near(module->entry[0], module->entry[module->count - 1], relay,
                                   module->relay_bytes);
    return module->relay != NULL;
}

// Where code lies in this and that gigabyte hardly ever matters.
static void note_ambiguity(const struct patched_module *fresh)
{
    const uint32_t length = (uint32_t)(fresh->entry[fresh->count - 1] - fresh->entry[0]);
    for (const struct patched_module *old = atomic_load_explicit(&modules, memory_order_acquire);
         old; old = old->next) {
        const uint32_t other = (uint32_t)(old->entry[old->count - 1] - old->entry[0]);
        const uint32_t distance = (uint32_t)(fresh->entry[0] - old->entry[0]);
        if (fresh->entry[0] != old->entry[0] && (distance <= other || -distance <= length))
            atomic_store_explicit(&ambiguous, true, memory_order_relaxed);
    }
}

bool entries_are_ambiguous(void)
{
    return atomic_load_explicit(&ambiguous, memory_order_relaxed);
}

static void prepare_module(const struct dl_phdr_info *info, const uintptr_t *list, size_t count,
                           struct search *search)
{
    const size_t bytes = sizeof(struct patched_module) + count * sizeof(uintptr_t);
    struct patched_module *module = map_memory(bytes), *before;
    if (!module) {
        search->error = -ENOMEM;
        return;
    }
    const bool on = atomic_load_explicit(&entries_are_on, memory_order_relaxed);
    bool usable = fill_module(module, info, list, count, search);
    if (usable && (before = known_before(module))) {
        munmap(module, bytes);
        // The program's own no-ops may be five of one byte: they become one first.
        usable = !write_all(before, false) && (!on || !write_all(before, true));
        atomic_store_explicit(&before->gone, !usable, memory_order_release);
        search->added += usable ? (int64_t)before->count : 0;
        return;
    }
    if (!usable || !make_module_relay(module, search->hook) || write_all(module, false) ||
        (on && write_all(module, true))) {
        search->skipped += module->count;
        munmap(module, bytes);
        return;
    }
    search->added += (int64_t)module->count;
    note_ambiguity(module);
    module->next = atomic_load_explicit(&modules, memory_order_relaxed);
    atomic_store_explicit(&modules, module, memory_order_release);
}

static bool is_known(const struct dl_phdr_info *info)
{
    for (struct patched_module *module = atomic_load_explicit(&modules, memory_order_acquire);
         module; module = module->next)
        if (is_here(module) && module->base == info->dlpi_addr &&
            entries_in_segment(info, module->entry[0], 1, PF_X))
            return true;
    return false;
}

static int search_module(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size;
    struct search *search = context;
    size_t count;
    const uintptr_t *list = entries_list(info, &count);
    if (list && !is_known(info))
        prepare_module(info, list, count, search);
    return 0;
}

static int find_still_here(struct dl_phdr_info *info, size_t size, void *context)
{
    const struct patched_module *module = context;
    (void)size;
    return module->base == info->dlpi_addr && entries_in_segment(info, module->entry[0], 1, PF_X);
}

int64_t entries_find_new(void)
{
    uint64_t skipped = 0;
    for (struct patched_module *module = atomic_load_explicit(&modules, memory_order_acquire);
         module; module = module->next)
        if (is_here(module) && !dl_iterate_phdr(find_still_here, module))
            atomic_store_explicit(&module->gone, true, memory_order_release);
    return current_hook ? entries_find(current_hook, &skipped) : 0;
}

int64_t entries_find(void (*hook)(void), uint64_t *skipped)
{
    current_hook = hook;
    if (!large_chunk)
        large_chunk = map_memory(LARGE_CHUNK);
    struct search search = {.hook = hook};
    dl_iterate_phdr(search_module, &search);
    *skipped += search.skipped;
    return search.error ? search.error : search.added;
}

size_t entries_count(void)
{
    size_t count = 0;
    for (struct patched_module *module = atomic_load_explicit(&modules, memory_order_acquire);
         module; module = module->next)
        count += is_here(module) ? module->count : 0;
    return count;
}

bool entries_is_return(uintptr_t address)
{
    uintptr_t entry = address - ENTRY_BYTES;
    for (struct patched_module *module = atomic_load_explicit(&modules, memory_order_acquire);
         module; module = module->next)
        if (is_here(module) && entry >= module->entry[0] &&
            entry <= module->entry[module->count - 1] &&
            bsearch(&entry, module->entry, module->count, sizeof entry, by_address))
            return true;
    return false;
}

bool entries_is_relay(uintptr_t address)
{
    for (struct patched_module *module = atomic_load_explicit(&modules, memory_order_acquire);
         module; module = module->next)
        if (address - (uintptr_t)module->relay < module->relay_bytes)
            return true;
    return false;
}

// ---- switching

static void make_entry(const struct patched_module *module, uintptr_t entry, bool on,
                       unsigned char bytes[ENTRY_BYTES])
{
    if (!on) {
        memcpy(bytes, no_op, ENTRY_BYTES);
        return;
    }
    int32_t distance = (int32_t)((uintptr_t)module->relay - (entry + ENTRY_BYTES));
    bytes[0] = 0xe8;
    memcpy(bytes + 1, &distance, sizeof distance);
}

// Which bytes of the entries a pass over the code writes.
enum pass { PASS_TRAP, PASS_REST, PASS_WHOLE };

static void make_pass(const struct patched_module *module, uintptr_t entry, bool on, enum pass pass,
                      unsigned char bytes[ENTRY_BYTES])
{
    unsigned char target[ENTRY_BYTES];
    make_entry(module, entry, on, target);
    switch (pass) {
    case PASS_WHOLE:
        memcpy(bytes, target, ENTRY_BYTES);
        break;
    case PASS_TRAP:
        memcpy(bytes, (const void *)entry, ENTRY_BYTES);
        bytes[0] = TRAP;
        break;
    case PASS_REST:
        bytes[0] = TRAP;
        memcpy(bytes + 1, target + 1, ENTRY_BYTES - 1);
        break;
    }
}

// The bytes that are written at once.
struct chunk {
    unsigned char *bytes;
    size_t size;
};

// One system call for all entries within a chunk; what lies between them is written as it is.
static int write_entries(int fd, const struct patched_module *module, bool on, enum pass pass,
                         struct chunk chunk)
{
    for (size_t i = 0; i < module->count;) {
        const uintptr_t start = module->entry[i];
        size_t used = 0;
        for (; i < module->count && module->entry[i] - start <= chunk.size - ENTRY_BYTES; i++) {
            size_t offset = module->entry[i] - start;
            memcpy(chunk.bytes + used, (const void *)(start + used), offset - used);
            make_pass(module, module->entry[i], on, pass, chunk.bytes + offset);
            used = offset + ENTRY_BYTES;
        }
        int error = text_write(fd, start, chunk.bytes, used);
        if (error)
            return error;
    }
    return 0;
}

static int write_all(const struct patched_module *module, bool on)
{
    unsigned char bytes[CHUNK];
    int fd = text_open();
    if (fd < 0)
        return fd;
    int error = write_entries(fd, module, on, PASS_WHOLE, (struct chunk){bytes, sizeof bytes});
    text_close(fd);
    return error;
}

static int write_pass(int fd, bool on, enum pass pass)
{
    unsigned char bytes[CHUNK];
    const struct chunk chunk = large_chunk ? (struct chunk){large_chunk, LARGE_CHUNK}
                                           : (struct chunk){bytes, sizeof bytes};
    for (struct patched_module *module = atomic_load_explicit(&modules, memory_order_acquire);
         module; module = module->next) {
        int error = is_here(module) ? write_entries(fd, module, on, pass, chunk) : 0;
        if (error)
            return error;
    }
    return 0;
}

// Every thread has seen all code written so far before it runs on.
static void synchronise_cores(void)
{
    syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0);
}

int entries_switch(bool on, bool alone)
{
    int fd = text_open(), error;
    if (fd < 0)
        return fd;
    atomic_store_explicit(&entries_are_on, on, memory_order_relaxed);
    if (alone) {
        error = write_pass(fd, on, PASS_WHOLE);
    } else {
        // First a trap, so that nobody runs into half an instruction; entries_trapped() sends them
        // past it.
        static const enum pass passes[] = {PASS_TRAP, PASS_REST, PASS_WHOLE};
        syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0);
        error = 0;
        for (size_t i = 0; i < sizeof passes / sizeof *passes && !error; i++) {
            error = write_pass(fd, on, passes[i]);
            synchronise_cores();
        }
    }
    text_close(fd);
    return error;
}

uintptr_t entries_trapped(uintptr_t pc)
{
    return entries_is_return(pc - 1 + ENTRY_BYTES) ? pc - 1 + ENTRY_BYTES : 0;
}

size_t entries_bytes(void)
{
    size_t bytes = 0;
    for (struct patched_module *module = atomic_load_explicit(&modules, memory_order_acquire);
         module; module = module->next)
        if (is_here(module))
            bytes += module->entry[module->count - 1] - module->entry[0];
    return bytes;
}

int entries_relay(bool on)
{
    int fd = text_open(), error = 0;
    if (fd < 0)
        return fd;
    atomic_store_explicit(&relays_are_shut, !on, memory_order_relaxed);
    for (struct patched_module *module = atomic_load_explicit(&modules, memory_order_acquire);
         module; module = module->next) {
        // The first byte of the jump, or a return.
        const unsigned char byte = on ? module->relay_first : RETURN;
        int failed = text_write(fd, (uintptr_t)module->relay, &byte, 1);
        error = failed ? failed : error;
    }
    text_close(fd);
    return error;
}
