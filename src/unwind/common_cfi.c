// SPDX-License-Identifier: MIT
#include "unwind/common_cfi.h"
#include "unwind/recipe.h"

#define USUAL_ENCODING 0x1b // of pointers: four bytes with a sign, from where they are
#define FDE_HEAD 17         // bytes before the augmentation of an FDE that has such pointers
#define OPERAND_LIMIT (UINT32_C(1) << 21)

bool common_cfi_begins(const struct cie *cie)
{
    static const unsigned char common[] = {0x0c, ARCH_SP, 8, 0x80 | ARCH_RA, 1};
    const unsigned char *at = cie->program.at + sizeof common;
    if (cie->code_factor != 1 || cie->data_factor != ARCH_RA_OFFSET ||
        reader_left(&cie->program) < sizeof common ||
        memcmp(cie->program.at, common, sizeof common) != 0)
        return false;
    while (at < cie->program.end && *at == 0)
        at++;
    return at == cie->program.end;
}

// LEB128 of three bytes at most; a longer one becomes OPERAND_LIMIT or more.
static inline uint32_t operand(const unsigned char **at)
{
    uint32_t value = *(*at)++;
    if (value < 0x80)
        return value;
    uint32_t next = *(*at)++;
    value = (value & 0x7f) | (next & 0x7f) << 7;
    if (next >= 0x80)
        value |= (uint32_t) * (*at)++ << 14;
    return value;
}

// Registers whose rules a plain row can hold, or need not.
static inline bool is_plain_register(unsigned reg)
{
    return reg != ARCH_SP && reg != ARCH_RA && !arch_is_result(reg);
}

static inline uint32_t bytes_of_code(const unsigned char **at, unsigned code)
{
    uint16_t half;
    uint32_t whole;
    if (code == 0x02) // advance_loc1
        return *(*at)++;
    if (code == 0x03) { // advance_loc2
        memcpy(&half, *at, sizeof half);
        *at += sizeof half;
        return half;
    }
    memcpy(&whole, *at, sizeof whole); // advance_loc4
    *at += sizeof whole;
    return whole;
}

bool common_cfi_run(const unsigned char *at, const unsigned char *end, uint64_t distance,
                    struct plain *row)
{
    struct plain now = {.cfa_register = ARCH_SP, .cfa_offset = 8}, saved = {0};
    while (at < end) {
        const unsigned code = *at++, low = code & 0x3f;
        if (code == 0x0e) { // def_cfa_offset
            now.cfa_offset = operand(&at);
        } else if (code >> 6 == 2) { // offset
            const uint32_t words = operand(&at);
            if (low == ARCH_FP)
                now.fp = words;
            if (words == 0 || words >= OPERAND_LIMIT || !is_plain_register(low))
                return false;
        } else if (code >> 6 == 1 || (code >= 0x02 && code <= 0x04)) { // advance_loc*
            const uint32_t bytes = code >> 6 == 1 ? low : bytes_of_code(&at, code);
            if (bytes > distance)
                break;
            distance -= bytes;
        } else if (code >> 6 == 3) { // restore
            if (low == ARCH_FP)
                now.fp = 0;
            else if (!is_plain_register(low))
                return false;
        } else if (code == 0x0a && !saved.cfa_offset) { // remember_state
            saved = now;
        } else if (code == 0x0b && saved.cfa_offset) { // restore_state
            now = saved;
            saved.cfa_offset = 0;
        } else if (code == 0x0c) { // def_cfa
            now.cfa_register = operand(&at);
            now.cfa_offset = operand(&at);
        } else if (code == 0x0d) { // def_cfa_register
            now.cfa_register = operand(&at);
        } else if (code != 0) { // nop
            return false;
        }
    }
    *row = now;
    return at <= end && now.cfa_register < ARCH_RA && now.cfa_offset < OPERAND_LIMIT;
}

void common_cfi_note(const struct cie *cie, uintptr_t pc)
{
    struct shortcut *shortcut = (struct shortcut *)shortcut_at(pc);
    if (!shortcut || cie->encoding != USUAL_ENCODING || !cie->augmented || cie->signal)
        return;
    for (unsigned i = 0; i < SHORTCUT_CIES; i++) {
        // Relaxed: it is a number to compare with.
        uintptr_t known = atomic_load_explicit(&shortcut->cie[i], memory_order_relaxed);
        if (known == 0)
            atomic_store_explicit(&shortcut->cie[i], cie->at, memory_order_relaxed);
        if (known == 0 || known == cie->at)
            return;
    }
}

static inline bool is_noted(const struct shortcut *shortcut, uintptr_t cie)
{
    for (unsigned i = 0; i < SHORTCUT_CIES; i++)
        if (atomic_load_explicit(&shortcut->cie[i], memory_order_relaxed) == cie)
            return true;
    return false;
}

bool common_cfi_recipe(const struct shortcut *shortcut, uintptr_t pc, union unwind_recipe *recipe)
{
    const struct module_ref *module = &shortcut->module;
    const uintptr_t at = fde_by_shortcut(shortcut, pc), left = module->tables_end - at;
    uint32_t head[4]; // bytes that follow, way back to the CIE, start and bytes of the code
    struct plain row;
    if (at < module->tables_start || at >= module->tables_end || left < FDE_HEAD + PLAIN_BEYOND)
        return false;
    memcpy(head, (const void *)at, sizeof head);
    const uintptr_t start = at + 8 + (uintptr_t)(intptr_t)(int32_t)head[2], distance = pc - start;
    if (head[0] > INT32_MAX || head[0] < FDE_HEAD - 4 || head[0] + 4 + PLAIN_BEYOND > left ||
        !is_noted(shortcut, at + 4 - head[1]) || distance >= head[3] || head[3] > INT32_MAX ||
        start < module->start)
        return false;
    const unsigned char *program = (const unsigned char *)at + FDE_HEAD, *end;
    const unsigned augmented = program[-1];
    end = (const unsigned char *)at + 4 + head[0];
    if (augmented >= 0x80 || !common_cfi_run(program + augmented, end, distance, &row) ||
        row.fp > INT16_MAX)
        return false;
    recipe->function = place_make(module->id, start - module->base);
    recipe->cfa_offset = (int32_t)row.cfa_offset;
    recipe->distance = (int32_t)distance;
    recipe->fp_offset = (int16_t)-row.fp;
    recipe->kind = row.cfa_register == ARCH_SP   ? RECIPE_SP
                   : row.cfa_register == ARCH_FP ? RECIPE_FP
                                                 : RECIPE_REGISTER;
    recipe->detail = (uint8_t)(FRAME_CFI | row.cfa_register << DETAIL_REGISTER_SHIFT);
    recipe->generation = 0;
    return true;
}
