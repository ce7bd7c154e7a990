// SPDX-License-Identifier: MIT
#include "outside/foreign_walk.h"
#include "outside/load_map.h"
#include "unwind/arch.h"
#include <string.h>
#include <ucontext.h>

#define WORD sizeof(uint64_t)
#define PAGE 4096
#define COPY_BYTES (RECORD_MOST + 2 * PAGE)
#define LOWEST_CODE 65536
#define USER_BITS 47
#define ARGUMENTS_DISTANCE 64

// Where the copy of a stack lies here.
struct stack_copy {
    uint64_t low, bytes; // of the stack there
    uintptr_t here;      // of its first byte
};

static uintptr_t translate(const struct stack_copy *copy, const struct space *space, uint64_t word)
{
    if (word - copy->low <= copy->bytes)
        return copy->here + (word - copy->low);
    return word >= LOWEST_CODE && word >> USER_BITS == 0 ? space_translate(space, word) : word;
}

static bool take_stack(struct stack_copy *copy, const struct perf_record *sample,
                       const struct space *space, uint64_t sp)
{
    static unsigned char *memory;
    if (!memory && !(memory = mirror_stack(COPY_BYTES)))
        return false;
    // As it was aligned there.
    *copy = (struct stack_copy){
        .low = sp, .bytes = sample->stack_bytes, .here = (uintptr_t)memory + sp % PAGE};
    if (copy->bytes)
        memcpy((void *)copy->here, sample->stack, copy->bytes);
    for (uintptr_t at = (copy->here + WORD - 1) & ~(WORD - 1);
         at + WORD <= copy->here + copy->bytes; at += WORD) {
        uint64_t *word = (uint64_t *)at;
        *word = translate(copy, space, *word);
    }
    return true;
}

static place_t site_of(const struct unwind_frame *caller)
{
    return caller->flags & FRAME_INTERRUPTED ? caller->place + 1 : caller->place;
}

// The arguments of the program lie right above the first frame; alignment may cost some.
static bool starts_process(const struct unwind_cursor *cursor, const struct stack_copy *copy,
                           const struct space *space)
{
    const uint64_t sp = copy->low + (cursor->sp - copy->here);
    return space->stack_start && sp <= space->stack_start &&
           space->stack_start - sp <= ARGUMENTS_DISTANCE;
}

// A walk that ends where there is no table has come to the root if that is the first frame, or if
// the frame pointer is zero, as the ABI says of the outermost frame. Otherwise the reason may be
// that the copy of the stack has ended.
static enum verdict reason_of(const struct unwind_cursor *cursor, const struct stack_copy *copy,
                              const struct perf_record *sample, const struct space *space,
                              enum verdict verdict)
{
    const bool is_full = sample->stack_bytes >= sample->stack_room;
    if (verdict == VERDICT_NO_CFI && (cursor->bp == 0 || starts_process(cursor, copy, space)))
        return cursor->guesses ? VERDICT_GUESSED : VERDICT_COMPLETE;
    if (verdict != VERDICT_COMPLETE && is_full &&
        (verdict == VERDICT_BAD_STACK || copy->here + copy->bytes - cursor->sp < 64 * WORD))
        return VERDICT_NOT_COPIED;
    return verdict;
}

static void push(struct foreign_path *path, place_t function, const struct unwind_frame *caller)
{
    if (path->count < FOREIGN_FRAMES)
        path->frames[path->count++] =
            (struct foreign_frame){.site = caller ? site_of(caller) : 0, .function = function};
}

// A search that led nowhere has found calls that are over: the caller is not known.
static void drop_unsure(struct foreign_path *path, size_t sure)
{
    if (sure == 0 || path->verdict == VERDICT_COMPLETE || path->verdict == VERDICT_GUESSED ||
        path->count <= sure)
        return;
    path->count = sure;
    path->frames[sure - 1].site = 0;
}

// Returns how many frames lie below the first one that was searched for; 0: none was.
static size_t walk(struct foreign_path *path, struct unwind_cursor *cursor)
{
    size_t sure = 0;
    bool guessed = false;
    while (unwind_step(cursor, &path->verdict) == UNWIND_OK && path->count < FOREIGN_FRAMES) {
        push(path, cursor->left.function, &cursor->frame);
        guessed |= cursor->left.flags & FRAME_GUESSED;
        if (cursor->scanned && !sure)
            sure = path->count;
    }
    push(path, cursor->frame.function, NULL);
    if (guessed && path->verdict == VERDICT_COMPLETE)
        path->verdict = VERDICT_GUESSED;
    return sure;
}

// The functions of the kernel are named by readers, from places inside.
static void push_kernel(struct foreign_path *path, const struct perf_record *sample)
{
    const place_t unknown = place_make(MODULE_KERNEL, PLACE_OFFSET_UNKNOWN);
    for (size_t i = 0; i < sample->chain_count && path->count < FOREIGN_FRAMES / 2; i++) {
        const uint64_t address = sample->chain[i];
        if (!record_is_address(address))
            continue;
        const place_t place = place_make(MODULE_KERNEL, address);
        if (path->count)
            path->frames[path->count - 1].site = place;
        else
            path->statement = place;
        path->frames[path->count++] = (struct foreign_frame){.function = unknown};
    }
}

// Nothing below the stack pointer is copied. A register whose place lies there is restored already,
// in the last instructions of a function.
static enum unwind_standing stand_above_nothing(uintptr_t *pc, uintptr_t *sp, bool *interrupted)
{
    (void)pc;
    (void)sp;
    return *interrupted ? UNWIND_AT_CALL : UNWIND_AS_IT_IS;
}

static void walk_program(struct foreign_path *path, const struct perf_record *sample,
                         const struct space *space, const struct stack_copy *copy)
{
    struct unwind_cursor cursor;
    ucontext_t context;
    for (unsigned i = 0; i < UNWIND_REGISTERS; i++) {
        const uintptr_t value = translate(copy, space, sample->registers[i]);
        memcpy((char *)&context + arch_context_offset(i), &value, sizeof value);
    }
    unwind_truth = stand_above_nothing;
    load_map_of(space);
    unwind_start(&cursor, &context, (struct unwind_bounds){copy->here, copy->here + copy->bytes});
    if (path->count) // the oldest frame of the kernel was entered from here
        path->frames[path->count - 1].site = cursor.frame.place + 1;
    else
        path->statement = cursor.frame.place;
    const size_t sure = walk(path, &cursor);
    path->verdict = reason_of(&cursor, copy, sample, space, path->verdict);
    drop_unsure(path, sure);
    load_map_of(NULL);
}

// Programs for 32 bits have other tables: only chains of frame pointers are followed.
static void walk_narrow(struct foreign_path *path, const struct perf_record *sample,
                        const struct space *space)
{
    const uint64_t low = sample->registers[ARCH_SP];
    uint64_t fp = sample->registers[ARCH_FP], pc = sample->registers[ARCH_RA];
    bool interrupted = true;
    path->verdict = VERDICT_NO_CFI;
    while (pc && path->count < FOREIGN_FRAMES) {
        uint32_t words[2]; // the caller's frame pointer, the return address
        const struct space_mapping *mapping = space_find(space, pc);
        const struct mirror *mirror = mapping ? mapping->mirror : NULL;
        const place_t place =
            mirror ? place_make(mirror->ref.id, pc + mapping->shift - mirror->ref.base)
                   : place_make(MODULE_ANONYMOUS, pc);
        if (path->count)
            path->frames[path->count - 1].site = place + interrupted;
        else
            path->statement = place;
        path->frames[path->count++] = (struct foreign_frame){
            .function = place_make(place_module(place), PLACE_OFFSET_UNKNOWN)};
        if (!mapping || fp < low || fp - low + sizeof words > sample->stack_bytes)
            return;
        memcpy(words, sample->stack + (fp - low), sizeof words);
        if (words[0] && words[0] <= fp)
            return;
        path->verdict = words[0] ? VERDICT_NO_CFI : VERDICT_GUESSED;
        fp = words[0];
        pc = words[1];
        interrupted = false;
    }
}

bool foreign_walk(struct foreign_path *path, const struct perf_record *sample,
                  const struct space *space, enum foreign_kernel kernel)
{
    struct stack_copy copy;
    path->count = 0;
    path->verdict = VERDICT_COMPLETE;
    if (kernel == FOREIGN_WITH_KERNEL)
        push_kernel(path, sample);
    if (sample->has_registers == RECORD_WIDE &&
        take_stack(&copy, sample, space, sample->registers[ARCH_SP]))
        walk_program(path, sample, space, &copy);
    else if (sample->has_registers == RECORD_NARROW)
        walk_narrow(path, sample, space);
    return path->count != 0;
}
