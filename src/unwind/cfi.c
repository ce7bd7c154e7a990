// SPDX-License-Identifier: MIT
#include "unwind/cfi.h"
#include "unwind/common_cfi.h"
#include "unwind/fde.h"
#include "unwind/tables.h"

#define SAVED_ROWS 3 // compilers use one; each costs stack of the handler

// Copied: filling so many bytes with general registers alone is a slow instruction.
static const struct cfi_row blank = {.cfa_register = UINT16_MAX};

struct cfi_machine {
    const struct cie *cie;
    const struct module_ref *module;
    uintptr_t location, pc;
    struct cfi_row *row; // the caller's
    struct cfi_row initial;
    struct cfi_row saved[SAVED_ROWS];
    unsigned depth;
};

static void set_rule(struct cfi_machine *machine, uint64_t reg, enum rule_kind kind, int64_t value)
{
    int slot = arch_tracked_slot(reg);
    if (slot >= 0)
        machine->row->rule[slot] = (struct rule){kind, value};
    else if (arch_is_result(reg) && kind != RULE_SAME && kind != RULE_UNDEFINED)
        machine->row->saves_result = true;
}

static void restore_rule(struct cfi_machine *machine, uint64_t reg)
{
    int slot = arch_tracked_slot(reg);
    if (slot >= 0)
        machine->row->rule[slot] = machine->initial.rule[slot];
}

static int64_t scaled(const struct cfi_machine *machine, uint64_t value)
{
    return (int64_t)(value * (uint64_t)machine->cie->data_factor);
}

static uintptr_t skip_block(struct reader *reader)
{
    uintptr_t at = (uintptr_t)reader->at;
    reader_skip(reader, reader_uleb(reader));
    return at;
}

static void set_cfa(struct cfi_machine *machine, uint64_t reg, int64_t offset)
{
    machine->row->cfa_register = reg < UNWIND_REGISTERS ? (uint16_t)reg : UINT16_MAX;
    machine->row->cfa_offset = offset;
    machine->row->cfa_is_expression = false;
}

static void advance(struct cfi_machine *machine, uint64_t delta)
{
    machine->location += delta * machine->cie->code_factor;
}

static bool run_state(struct cfi_machine *machine, uint8_t code)
{
    if (code == 0x0a) { // remember_state
        if (machine->depth == SAVED_ROWS)
            return false;
        machine->saved[machine->depth++] = *machine->row;
        return true;
    }
    if (machine->depth == 0)
        return false;
    *machine->row = machine->saved[--machine->depth];
    return true;
}

// Instructions whose operands are a register and a rule for it.
static bool run_rule(struct cfi_machine *machine, struct reader *reader, uint8_t code)
{
    uint64_t reg = reader_uleb(reader);
    switch (code) {
    case 0x05: // offset_extended
        set_rule(machine, reg, RULE_OFFSET, scaled(machine, reader_uleb(reader)));
        return true;
    case 0x06: // restore_extended
        restore_rule(machine, reg);
        return true;
    case 0x07: // undefined
        set_rule(machine, reg, RULE_UNDEFINED, 0);
        return true;
    case 0x08: // same_value
        set_rule(machine, reg, RULE_SAME, 0);
        return true;
    case 0x09: // register
        set_rule(machine, reg, RULE_REGISTER, (int64_t)reader_uleb(reader));
        return true;
    case 0x10: // expression
        set_rule(machine, reg, RULE_EXPRESSION, (int64_t)skip_block(reader));
        return true;
    case 0x11: // offset_extended_sf
        set_rule(machine, reg, RULE_OFFSET, scaled(machine, (uint64_t)reader_sleb(reader)));
        return true;
    case 0x14: // val_offset
        set_rule(machine, reg, RULE_VALUE_OFFSET, scaled(machine, reader_uleb(reader)));
        return true;
    case 0x15: // val_offset_sf
        set_rule(machine, reg, RULE_VALUE_OFFSET, scaled(machine, (uint64_t)reader_sleb(reader)));
        return true;
    case 0x16: // val_expression
        set_rule(machine, reg, RULE_VALUE_EXPRESSION, (int64_t)skip_block(reader));
        return true;
    case 0x2f: // GNU_negative_offset_extended
        set_rule(machine, reg, RULE_OFFSET, scaled(machine, 0 - reader_uleb(reader)));
        return true;
    }
    return false;
}

static bool run_cfa(struct cfi_machine *machine, struct reader *reader, uint8_t code)
{
    uint64_t reg;
    switch (code) {
    case 0x0c: // def_cfa
        reg = reader_uleb(reader);
        set_cfa(machine, reg, (int64_t)reader_uleb(reader));
        return true;
    case 0x0d: // def_cfa_register; it and def_cfa_offset change one half of a rule that is no
               // expression
        if (machine->row->cfa_is_expression)
            return false;
        set_cfa(machine, reader_uleb(reader), machine->row->cfa_offset);
        return true;
    case 0x0e: // def_cfa_offset
        if (machine->row->cfa_is_expression)
            return false;
        machine->row->cfa_offset = (int64_t)reader_uleb(reader);
        return true;
    case 0x0f: // def_cfa_expression
        machine->row->cfa_offset = (int64_t)skip_block(reader);
        machine->row->cfa_is_expression = true;
        return true;
    case 0x12: // def_cfa_sf
        reg = reader_uleb(reader);
        set_cfa(machine, reg, scaled(machine, (uint64_t)reader_sleb(reader)));
        return true;
    case 0x13: // def_cfa_offset_sf
        if (machine->row->cfa_is_expression)
            return false;
        machine->row->cfa_offset = scaled(machine, (uint64_t)reader_sleb(reader));
        return true;
    }
    return false;
}

static bool run_one(struct cfi_machine *machine, struct reader *reader)
{
    uint8_t code = reader_u8(reader), low = code & 0x3f;
    switch (code >> 6) {
    case 1: // advance_loc
        advance(machine, low);
        return true;
    case 2: // offset
        set_rule(machine, low, RULE_OFFSET, scaled(machine, reader_uleb(reader)));
        return true;
    case 3: // restore
        restore_rule(machine, low);
        return true;
    }
    switch (code) {
    case 0x00: // nop
        return true;
    case 0x01: // set_loc
        machine->location = fde_pointer(reader, machine->cie->encoding, machine->module);
        return true;
    case 0x02:
        advance(machine, reader_u8(reader));
        return true;
    case 0x03:
        advance(machine, reader_u16(reader));
        return true;
    case 0x04:
        advance(machine, reader_u32(reader));
        return true;
    case 0x0a:
    case 0x0b:
        return run_state(machine, code);
    case 0x2e: // GNU_args_size
        reader_uleb(reader);
        return true;
    }
    if ((code >= 0x0c && code <= 0x0f) || code == 0x12 || code == 0x13)
        return run_cfa(machine, reader, code);
    return run_rule(machine, reader, code);
}

// The instructions that make up almost all programs, with operands of one byte. True if it was one.
static inline __attribute__((always_inline)) bool run_common(struct cfi_machine *machine,
                                                             struct reader *program)
{
    uint8_t code = program->at[0], low = code & 0x3f;
    uint8_t operand = program->end - program->at > 1 ? program->at[1] : 0x80;
    if (code >> 6 == 1) { // advance_loc
        advance(machine, low);
        program->at += 1;
        return true;
    }
    if (operand >= 0x80)
        return false;
    if (code == 0x0e && !machine->row->cfa_is_expression) // def_cfa_offset
        machine->row->cfa_offset = operand;
    else if (code >> 6 == 2) // offset
        set_rule(machine, low, RULE_OFFSET, scaled(machine, operand));
    else
        return false;
    program->at += 2;
    return true;
}

static inline __attribute__((always_inline)) bool run_next(struct cfi_machine *machine,
                                                           struct reader *program)
{
    return run_common(machine, program) || (run_one(machine, program) && !program->failed);
}

static bool run(struct cfi_machine *machine, struct reader program)
{
    while (reader_left(&program) && machine->location <= machine->pc)
        if (!run_next(machine, &program))
            return false;
    return !program.failed;
}

static bool run_to_end(struct cfi_machine *machine, struct reader program, cfi_visit *visit,
                       void *context)
{
    uintptr_t from = machine->location;
    while (reader_left(&program)) {
        if (!run_next(machine, &program))
            return false;
        const uintptr_t to = machine->location < machine->pc ? machine->location : machine->pc;
        if (to > from && !visit(context, from, to, machine->row))
            return false;
        from = to;
    }
    return !program.failed &&
           (from == machine->pc || visit(context, from, machine->pc, machine->row));
}

static bool find_plainly(const struct fde *fde, const struct module_ref *module, uintptr_t start,
                         uintptr_t pc, struct cfi_row *row)
{
    struct plain plain;
    if (!common_cfi_begins(&fde->cie) ||
        module->tables_end - (uintptr_t)fde->program.end < PLAIN_BEYOND ||
        !common_cfi_run(fde->program.at, fde->program.end, pc - start, &plain))
        return false;
    *row = blank;
    row->cfa_register = (uint16_t)plain.cfa_register;
    row->cfa_offset = plain.cfa_offset;
    row->rule[ARCH_RA_SLOT] = (struct rule){RULE_OFFSET, ARCH_RA_OFFSET};
    if (plain.fp)
        row->rule[ARCH_FP_SLOT] = (struct rule){RULE_OFFSET, -8 * (int64_t)plain.fp};
    return true;
}

// Ready for the rules from `start` to the pc. Not all of it is cleared: it is large.
static void begin(struct cfi_machine *machine, const struct module_ref *module, uintptr_t start,
                  uintptr_t pc, struct cfi_row *row)
{
    machine->module = module;
    machine->location = start;
    machine->pc = pc;
    machine->depth = 0;
    machine->row = row;
    *row = machine->initial = blank;
}

// The rules that all functions of the CIE begin with.
static bool run_initial(struct cfi_machine *machine, const struct fde *fde)
{
    const uintptr_t start = machine->location;
    machine->cie = &fde->cie;
    if (!run(machine, fde->cie.program))
        return false;
    machine->initial = *machine->row;
    machine->location = start;
    return true;
}

static enum cfi_result interpret(const struct fde *fde, const struct module_ref *module,
                                 uintptr_t start, uintptr_t pc, struct cfi_row *row)
{
    struct cfi_machine machine;
    begin(&machine, module, start, pc, row);
    return run_initial(&machine, fde) && run(&machine, fde->program) ? CFI_OK : CFI_BAD;
}

static enum cfi_result find_fde(const struct module_ref *module, uintptr_t pc, struct fde *fde,
                                struct cfi_function *function)
{
    return module->eh_frame_hdr ? fde_find(module, pc, fde, function) : CFI_NONE;
}

enum cfi_result cfi_find(const struct module_ref *module, uintptr_t pc,
                         struct cfi_function *function, struct cfi_row *row)
{
    struct fde fde;
    enum cfi_result result = find_fde(module, pc, &fde, function);
    return result == CFI_OK ? interpret(&fde, module, function->start, pc, row) : result;
}

enum cfi_result cfi_find_caller(const struct module_ref *module, uintptr_t pc,
                                struct cfi_function *function, struct cfi_row *row)
{
    struct fde fde;
    enum cfi_result result = find_fde(module, pc, &fde, function);
    if (result != CFI_OK)
        return result;
    if (find_plainly(&fde, module, function->start, pc, row)) {
        common_cfi_note(&fde.cie, pc);
        return CFI_OK;
    }
    return interpret(&fde, module, function->start, pc, row);
}

enum cfi_result cfi_visit_rows(const struct module_ref *module, uintptr_t pc,
                               struct cfi_function *function, cfi_visit *visit, void *context)
{
    struct fde fde;
    struct cfi_machine machine;
    struct cfi_row row;
    const enum cfi_result result = find_fde(module, pc, &fde, function);
    if (result != CFI_OK)
        return result;
    begin(&machine, module, function->start, function->end, &row);
    return run_initial(&machine, &fde) && run_to_end(&machine, fde.program, visit, context)
               ? CFI_OK
               : CFI_BAD;
}
