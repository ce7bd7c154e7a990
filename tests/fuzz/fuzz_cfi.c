// SPDX-License-Identifier: MIT
// Damaged unwind tables and stacks of garbage: nothing may be read outside of the table segment,
// the code and the stack, and every walk must end. The tables are libc's, copied and damaged where
// they are about to be read; the memory around them is poisoned. The input says where to damage
// what.

#include "../random.h"
#include "loadmap/image.h"
#include "unwind/cfi.h"
#include "unwind/expression.h"
#include "unwind/recipe.h"
#include "unwind/shortcut.h"
#include "unwind/unwind.h"
#include <sanitizer/asan_interface.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#define STACK_WORDS 512
#define DAMAGES_MOST 16

static struct module_ref module;
static unsigned char *copy;
static size_t copy_bytes;
static uintptr_t stack[STACK_WORDS];

// The unwinder's view of the world is one module.
_Atomic uint32_t loadmap_generation_count = 1;
_Atomic uint32_t loadmap_questions;
struct loadmap_hull loadmap_hulls[2];

void loadmap_enter(void)
{
}

void loadmap_leave(void)
{
}

bool loadmap_find(uintptr_t pc, struct module_ref *found, bool *unloading)
{
    *unloading = false;
    memset(found, 0, sizeof *found);
    if (pc < module.start || pc >= module.end)
        return false;
    *found = module;
    return true;
}

bool loadmap_peek(uintptr_t pc, struct module_ref *found)
{
    bool unloading;
    return loadmap_find(pc, found, &unloading);
}

bool loadmap_is_generated(uintptr_t pc)
{
    (void)pc;
    return false;
}

bool loadmap_is_likely(uintptr_t address)
{
    return address >= module.start && address < module.end;
}

bool loadmap_readable(uintptr_t address)
{
    return address >= module.code_start && address < module.code_end &&
           module.code_end - address >= 8;
}

static struct image original;

static int take_libc(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size;
    (void)context;
    if (!info->dlpi_name || !strstr(info->dlpi_name, "/libc.so.6"))
        return 0;
    image_from_headers(&original, info->dlpi_addr, info->dlpi_phdr, info->dlpi_phnum);
    const struct module_ref *from = &original.ref;
    copy_bytes = from->end - from->start;
    copy = mmap(NULL, copy_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (copy == MAP_FAILED)
        return -1;
    uintptr_t move = (uintptr_t)copy - from->start;
    memcpy((void *)(from->tables_start + move), (void *)from->tables_start,
           from->tables_end - from->tables_start);
    memcpy((void *)(from->code_start + move), (void *)from->code_start,
           from->code_end - from->code_start);
    module = *from;
    module.id = MODULE_FIRST_FILE;
    module.start += move;
    module.base += move;
    module.end += move;
    module.eh_frame_hdr = copy + (from->eh_frame_hdr - (const unsigned char *)from->start);
    module.tables_start += move;
    module.tables_end += move;
    module.code_start += move;
    module.code_end += move;
    return 1;
}

static bool set_up(void)
{
    if (dl_iterate_phdr(take_libc, NULL) != 1)
        return false;
    ASAN_POISON_MEMORY_REGION(copy, copy_bytes);
    ASAN_UNPOISON_MEMORY_REGION((void *)module.tables_start,
                                module.tables_end - module.tables_start);
    ASAN_UNPOISON_MEMORY_REGION((void *)module.code_start, module.code_end - module.code_start);
    return true;
}

// The index of libc is known to be of the usual form: twelve bytes, then pairs.
static size_t index_entries(void)
{
    uint32_t count;
    memcpy(&count, module.eh_frame_hdr + 8, 4);
    return count;
}

struct damage {
    unsigned char *at;
    unsigned char was;
};

struct round {
    uintptr_t pc;
    unsigned char *place[4]; // the head of the index, the pair, the FDE, its CIE
    struct damage damage[DAMAGES_MOST];
    unsigned damages;
};

static void choose(struct round *round, uint64_t which, uint64_t offset)
{
    unsigned char *pair = (unsigned char *)module.eh_frame_hdr + 12 + which % index_entries() * 8;
    int32_t values[2];
    uint32_t back;
    memcpy(values, pair, 8);
    round->place[0] = (unsigned char *)module.eh_frame_hdr;
    round->place[1] = pair;
    round->place[2] = (unsigned char *)module.eh_frame_hdr + values[1];
    memcpy(&back, round->place[2] + 4, 4);
    round->place[3] = round->place[2] + 4 - back;
    round->pc = (uintptr_t)module.eh_frame_hdr + (uintptr_t)(intptr_t)values[0] + offset;
    round->damages = 0;
}

static void damage(struct round *round, unsigned where, unsigned offset, unsigned char value)
{
    static const unsigned extent[4] = {12, 8, 96, 40};
    unsigned char *at = round->place[where % 4] + offset % extent[where % 4];
    if (round->damages == DAMAGES_MOST || (uintptr_t)at < module.tables_start ||
        (uintptr_t)at >= module.tables_end)
        return;
    round->damage[round->damages++] = (struct damage){at, *at};
    *at = value;
}

static void repair(struct round *round)
{
    while (round->damages) {
        struct damage *last = &round->damage[--round->damages];
        *last->at = last->was;
    }
}

static void fill_stack(void)
{
    for (unsigned i = 0; i < STACK_WORDS; i++) {
        uint64_t number = next_random();
        stack[i] = number % 4 == 0 ? (uintptr_t)&stack[number / 4 % STACK_WORDS]
                   : number % 4 == 1
                       ? number >> 32
                       : module.code_start + (number >> 16) % (module.code_end - module.code_start);
    }
}

static void walk(uintptr_t pc)
{
    ucontext_t context;
    struct unwind_cursor cursor;
    enum verdict verdict;
    struct unwind_bounds bounds = {(uintptr_t)stack, (uintptr_t)(stack + STACK_WORDS)};
    for (unsigned i = 0; i < 23; i++)
        context.uc_mcontext.gregs[i] = (greg_t)stack[next_random() % STACK_WORDS];
    context.uc_mcontext.gregs[REG_RIP] = (greg_t)pc;
    context.uc_mcontext.gregs[REG_RSP] = (greg_t)&stack[next_random() % 64];
    context.uc_mcontext.gregs[REG_RBP] = (greg_t)&stack[next_random() % STACK_WORDS];
    unwind_start(&cursor, &context, bounds);
    unsigned steps = 0;
    while (unwind_step(&cursor, &verdict) == UNWIND_OK && steps < 10000)
        steps++;
    if (steps >= 10000)
        abort(); // cannot be: the stack has 512 words
}

static bool same_rule(struct rule left, struct rule right)
{
    return left.kind == right.kind && left.value == right.value;
}

// Whole rows and those that only know the caller must agree, on damaged tables too. (In a damaged
// index it depends on earlier searches which function is found.)
static void look_up(uintptr_t pc)
{
    static const unsigned slot[] = {ARCH_FP_SLOT, ARCH_SP_SLOT, ARCH_RA_SLOT};
    struct cfi_function function, other;
    struct cfi_row row, part;
    enum cfi_result result = cfi_find(&module, pc, &function, &row);
    if (cfi_find_caller(&module, pc, &other, &part) != CFI_OK || result != CFI_OK ||
        function.start != other.start)
        return;
    bool same = function.end == other.end && function.signal == other.signal &&
                row.cfa_offset == part.cfa_offset && row.cfa_register == part.cfa_register &&
                row.cfa_is_expression == part.cfa_is_expression &&
                row.saves_result == part.saves_result;
    for (unsigned i = 0; i < 3; i++)
        same = same && same_rule(row.rule[slot[i]], part.rule[slot[i]]);
    if (!same) {
        fprintf(
            stderr,
            "pc %#lx: result %d, CFA r%d%+ld, fp %d:%ld; by the short way CFA r%d%+ld, fp %d:%ld\n",
            (unsigned long)pc, (int)result, row.cfa_register, (long)row.cfa_offset,
            (int)row.rule[ARCH_FP_SLOT].kind, (long)row.rule[ARCH_FP_SLOT].value, part.cfa_register,
            (long)part.cfa_offset, (int)part.rule[ARCH_FP_SLOT].kind,
            (long)part.rule[ARCH_FP_SLOT].value);
        abort();
    }
}

static void examine(const struct round *round)
{
    // As one that stays: then a short cut into its index is made, and hidden every other time.
    static unsigned turn;
    turn++;
    for (unsigned i = 0; i < SHORTCUTS; i++)
        if (shortcuts[i].state == SHORTCUT_WHOLE)
            shortcut_codes[i].bytes = turn % 2 ? shortcuts[i].bytes : 0;
    module.permanent = 1;
    for (uintptr_t pc = round->pc; pc < round->pc + 64; pc += 13)
        look_up(pc);
    module.permanent = 0;
    // What is damaged must not be met again from the cache when it is whole.
    loadmap_generation_count++;
    walk(round->pc);
    walk(round->pc + 1);
    loadmap_generation_count++;
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    struct round round;
    uint64_t head[2];
    if ((!copy && !set_up()) || size < sizeof head)
        return 0;
    memcpy(head, input, sizeof head);
    random_state = head[0] | 1;
    fill_stack();
    choose(&round, head[0], head[1] % 200);
    for (size_t i = sizeof head; i + 3 <= size; i += 3)
        damage(&round, input[i], input[i + 1], input[i + 2]);
    examine(&round);
    repair(&round);
    return 0;
}
