// SPDX-License-Identifier: MIT
#include "patch/entries/entries.h"
#include "base/system/agent_map.h"
#include "patch/entries/entries_list.h"
#include "patch/entries/entries_module.h"
#include "patch/functions/dl_notify.h"
#include "patch/write/code_write.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

const unsigned char entries_no_op[ENTRY_BYTES] = {0x0f, 0x1f, 0x44, 0x00, 0x00};
// Where `cairn cc` has aligned what follows. It becomes a short one, and one of a byte behind it.
const unsigned char entries_long_no_op[LONG_NO_OP_BYTES] = {0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00};
static const unsigned char endbr[4] = {0xf3, 0x0f, 0x1e, 0xfa};
#define RETURN 0xc3
#define PACED_RELAY_BYTES (14 + 2 * CODE_RELAY_BYTES)

struct patched_module *_Atomic entries_modules;

// The hook for libraries that come later.
static void (*current_hook)(void);

// Set once, where modules are added; read anywhere.
static _Atomic bool ambiguous;

// ---- preparing a module

struct entry_search {
    void (*hook)(void);
    int64_t added;
    uint64_t skipped;
    int error;
};

// The five bytes that can be patched at an entry of the list; 0 if there are none.
static uintptr_t patchable_at(const struct dl_phdr_info *info, uintptr_t address)
{
    if (!entries_in_segment(info, address, sizeof entries_long_no_op + sizeof endbr, PF_X))
        return 0;
    const unsigned char *code = (const unsigned char *)address;
    if (!memcmp(code, endbr, sizeof endbr))
        code += sizeof endbr;
    static const unsigned char single[ENTRY_BYTES] = {0x90, 0x90, 0x90, 0x90, 0x90};
    const bool one =
        !memcmp(code, entries_no_op, 4); // the last byte is a displacement: any will do
    return one || !memcmp(code, single, ENTRY_BYTES) ||
                   !memcmp(code, entries_long_no_op, sizeof entries_long_no_op)
               ? (uintptr_t)code
               : 0;
}

static int by_address(const void *a, const void *b)
{
    const uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;
    return x < y ? -1 : x > y;
}

// A module that was here before, at the same place: it has its relay yet.
static struct patched_module *known_before(const struct patched_module *module)
{
    for (struct patched_module *old = entries_first_module(); old; old = old->next)
        if (!entries_module_is_here(old) && old->base == module->base &&
            old->count == module->count &&
            !memcmp(old->entry, module->entry, module->count * sizeof *module->entry))
            return old;
    return NULL;
}

static bool fill_module(struct patched_module *module, const struct dl_phdr_info *info,
                        const uintptr_t *list, size_t count, struct entry_search *search)
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
    module->quiet = (uint32_t *)(module->entry + count); // room for all of them
    return module->count != 0;
}

// Set before entries are found.
static int32_t paced_cell; // 0: none
static void (*paced_turn)(void);

void entries_pace(int32_t cell, void (*turn)(void))
{
    paced_cell = cell;
    paced_turn = turn;
    entries_rest_relays();
}

// decq %fs:cell; js hook; jo turn; ret
static void make_paced_relay(unsigned char relay[PACED_RELAY_BYTES], void (*hook)(void))
{
    static const unsigned char count[5] = {0x64, 0x48, 0xff, 0x0c, 0x25};
    static const unsigned char choose[5] = {0x78, 3, 0x70, 1 + CODE_RELAY_BYTES, RETURN};
    memcpy(relay, count, sizeof count);
    memcpy(relay + 5, &paced_cell, sizeof paced_cell);
    memcpy(relay + 9, choose, sizeof choose);
    code_make_relay(relay + 14, hook);
    code_make_relay(relay + 14 + CODE_RELAY_BYTES, paced_turn);
}

static bool make_module_relay(struct patched_module *module, void (*hook)(void))
{
    unsigned char relay[PACED_RELAY_BYTES];
    if (paced_cell)
        make_paced_relay(relay, hook);
    else
        code_make_relay(relay, hook);
    module->relay_bytes = paced_cell ? PACED_RELAY_BYTES : CODE_RELAY_BYTES;
    module->relay_first = relay[0];
    module->relay_cell = (unsigned char)paced_cell;
    entries_settle_relay(module, relay);
    module->relay = code_page_near(module->entry[0], module->entry[module->count - 1], relay,
                                   module->relay_bytes);
    return module->relay != NULL;
}

// Where code lies in this and that gigabyte hardly ever matters.
static void note_ambiguity(const struct patched_module *fresh)
{
    const uint32_t length = (uint32_t)(fresh->entry[fresh->count - 1] - fresh->entry[0]);
    for (const struct patched_module *old = entries_first_module(); old; old = old->next) {
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
                           struct entry_search *search)
{
    const size_t bytes =
        sizeof(struct patched_module) + count * (sizeof(uintptr_t) + sizeof(uint32_t));
    struct patched_module *module = agent_map(bytes), *before;
    if (!module) {
        search->error = -ENOMEM;
        return;
    }
    bool usable = fill_module(module, info, list, count, search);
    if (usable && (before = known_before(module))) {
        agent_unmap(module, bytes);
        usable = !entries_settle_module(before);
        atomic_store_explicit(&before->gone, !usable, memory_order_release);
        search->added += usable ? (int64_t)before->count : 0;
        return;
    }
    if (!usable || !make_module_relay(module, search->hook) || entries_settle_module(module)) {
        search->skipped += module->count;
        agent_unmap(module, bytes);
        return;
    }
    search->added += (int64_t)module->count;
    note_ambiguity(module);
    module->next = entries_first_module();
    atomic_store_explicit(&entries_modules, module, memory_order_release);
}

static bool is_known(const struct dl_phdr_info *info)
{
    for (struct patched_module *module = entries_first_module(); module; module = module->next)
        if (entries_module_is_here(module) && module->base == info->dlpi_addr &&
            entries_in_segment(info, module->entry[0], 1, PF_X))
            return true;
    return false;
}

static int search_module(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size;
    struct entry_search *search = context;
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

int64_t entries_find_new(bool gone)
{
    struct patched_module *module = gone ? entries_first_module() : NULL;
    for (; module; module = module->next)
        if (entries_module_is_here(module) && !dl_iterate_phdr(find_still_here, module))
            atomic_store_explicit(&module->gone, true, memory_order_release);
    if (!current_hook)
        return 0;
    entries_switch_prepare();
    struct entry_search search = {.hook = current_hook};
    dl_each_new(search_module, &search);
    return search.error ? search.error : search.added;
}

int64_t entries_find(void (*hook)(void), uint64_t *skipped)
{
    current_hook = hook;
    entries_switch_prepare();
    struct entry_search search = {.hook = hook};
    dl_iterate_phdr(search_module, &search);
    *skipped += search.skipped;
    return search.error ? search.error : search.added;
}

ptrdiff_t entries_index(const struct patched_module *module, uintptr_t back)
{
    const uintptr_t entry = back - ENTRY_BYTES;
    if (!entries_module_is_here(module) || entry < module->entry[0] ||
        entry > module->entry[module->count - 1])
        return -1;
    const uintptr_t *found =
        bsearch(&entry, module->entry, module->count, sizeof entry, by_address);
    return found ? found - module->entry : -1;
}

bool entries_is_return(uintptr_t address)
{
    for (const struct patched_module *module = entries_first_module(); module;
         module = module->next)
        if (entries_index(module, address) >= 0)
            return true;
    return false;
}

bool entries_is_relay(uintptr_t address)
{
    for (struct patched_module *module = entries_first_module(); module; module = module->next)
        if (address - (uintptr_t)module->relay < module->relay_bytes)
            return true;
    return false;
}
