// SPDX-License-Identifier: MIT
#include "unwind/cfi.h"
#include "unwind/expression.h"
#include "unwind/slow_steps.h"
#include "unwind/stack.h"

struct values {
    uintptr_t value[ARCH_TRACKED];
    uint32_t known; // by slot
    uintptr_t ra_slot;
};

void full_cfi_restart(struct unwind_cursor *cursor, uint32_t known)
{
    cursor->registers[ARCH_SP] = cursor->sp;
    cursor->registers[ARCH_FP] = cursor->bp;
    cursor->registers[ARCH_RA] = cursor->frame.pc;
    cursor->known = known;
    cursor->base_interrupted = cursor->frame.flags & FRAME_INTERRUPTED;
    cursor->base_at_call = cursor->frame.flags & FRAME_AT_CALL;
}

static bool compute_cfa(struct unwind_cursor *cursor, const struct module_ref *module,
                        const struct cfi_row *row, uintptr_t *cfa)
{
    if (row->cfa_is_expression)
        return expression_compute(
            &(struct expression){.module = module, .block = (uintptr_t)row->cfa_offset}, cursor,
            cfa);
    if (row->cfa_register >= UNWIND_REGISTERS || !(cursor->known >> row->cfa_register & 1))
        return false;
    *cfa = cursor->registers[row->cfa_register] + (uintptr_t)row->cfa_offset;
    return true;
}

// A frame that is left.
struct leaving {
    struct unwind_cursor *cursor;
    const struct module_ref *module;
    uintptr_t cfa;
};

// The register's value by a rule. *slot is where it was loaded from, if it was.
static bool apply_rule(const struct leaving *frame, struct rule rule, unsigned reg,
                       uintptr_t *value, uintptr_t *slot)
{
    struct unwind_cursor *cursor = frame->cursor;
    const uintptr_t cfa = frame->cfa;
    uint64_t initial = cfa;
    struct expression expression = {
        .module = frame->module, .block = (uintptr_t)rule.value, .initial = &initial};
    *slot = 0;
    switch (rule.kind) {
    case RULE_REGISTER:
        reg = rule.value >= 0 && rule.value < UNWIND_REGISTERS ? (unsigned)rule.value : 31;
        // fall through
    case RULE_SAME:
        if (!(cursor->known >> reg & 1))
            return false;
        *value = cursor->registers[reg];
        return true;
    case RULE_OFFSET:
        *slot = cfa + (uintptr_t)rule.value;
        if (cursor->base_at_call && *slot < cursor->registers[ARCH_SP] &&
            cursor->known >> reg & 1) {
            *slot = 0;
            *value = cursor->registers[reg];
            return true;
        }
        return stack_load(cursor, *slot, value);
    case RULE_VALUE_OFFSET:
        *value = cfa + (uintptr_t)rule.value;
        return true;
    case RULE_EXPRESSION:
        return expression_compute(&expression, cursor, slot) && stack_load(cursor, *slot, value);
    case RULE_VALUE_EXPRESSION:
        return expression_compute(&expression, cursor, value);
    }
    return false;
}

static bool apply_row(const struct leaving *frame, const struct cfi_row *row, struct values *values)
{
    values->known = UINT32_C(1) << ARCH_SP_SLOT;
    values->value[ARCH_SP_SLOT] = frame->cfa;
    for (unsigned i = 0; i < ARCH_TRACKED; i++)
        if (!(i == ARCH_SP_SLOT && row->rule[i].kind == RULE_SAME) &&
            apply_rule(frame, row->rule[i], arch_tracked[i], &values->value[i],
                       &values->ra_slot)) // the return address comes last: its slot stays
            values->known |= UINT32_C(1) << i;
    return values->known >> ARCH_RA_SLOT & 1;
}

static void commit(struct unwind_cursor *cursor, const struct values *values)
{
    cursor->known = 0;
    for (unsigned i = 0; i < ARCH_TRACKED; i++) {
        if (!(values->known >> i & 1))
            continue;
        cursor->registers[arch_tracked[i]] = values->value[i];
        cursor->known |= UINT32_C(1) << arch_tracked[i];
    }
    if (values->ra_slot && values->ra_slot == cursor->corrected_slot)
        cursor->registers[ARCH_RA] = cursor->corrected_pc;
}

static bool step_registers(struct unwind_cursor *cursor, struct frame_caller *caller,
                           enum verdict *verdict)
{
    uintptr_t pc = cursor->registers[ARCH_RA] - !cursor->base_interrupted;
    struct module_ref module;
    bool unloading;
    struct cfi_function function;
    struct cfi_row row;
    struct values values;
    *verdict = VERDICT_BAD_CFI;
    if (!loadmap_find(pc, &module, &unloading)) {
        *verdict = unloading ? VERDICT_UNLOADING : VERDICT_NO_CFI;
        return false;
    }
    if (cfi_find(&module, pc, &function, &row) != CFI_OK)
        return false;
    if (row.rule[ARCH_RA_SLOT].kind == RULE_UNDEFINED) {
        *verdict = VERDICT_COMPLETE;
        return false;
    }
    // A return address that stays as it is would be walked for ever.
    if (row.rule[ARCH_RA_SLOT].kind == RULE_SAME ||
        !compute_cfa(cursor, &module, &row, &caller->cfa))
        return false;
    *verdict = VERDICT_BAD_STACK;
    if (!apply_row(&(struct leaving){cursor, &module, caller->cfa}, &row, &values))
        return false;
    commit(cursor, &values);
    bool interrupted = function.signal;
    caller->at_call =
        find_truth(&cursor->registers[ARCH_RA], &cursor->registers[ARCH_SP], &interrupted);
    cursor->base_interrupted = interrupted;
    cursor->base_at_call = caller->at_call;
    caller->fp = cursor->known >> ARCH_FP & 1 ? cursor->registers[ARCH_FP] : cursor->bp;
    caller->pc = cursor->registers[ARCH_RA];
    caller->sp = cursor->registers[ARCH_SP];
    caller->slot = values.ra_slot;
    caller->interrupted = interrupted;
    return true;
}

static bool step_inside(struct unwind_cursor *cursor, struct frame_caller *caller,
                        enum verdict *verdict)
{
    loadmap_enter();
    bool stepped = step_registers(cursor, caller, verdict);
    loadmap_leave();
    return stepped;
}

bool full_cfi_is_current(const struct unwind_cursor *cursor)
{
    return cursor->registers[ARCH_SP] == cursor->sp &&
           cursor->registers[ARCH_RA] == cursor->frame.pc;
}

void full_cfi_catch_up(struct unwind_cursor *cursor)
{
    struct frame_caller caller;
    enum verdict verdict;
    uintptr_t before;
    while (!full_cfi_is_current(cursor)) {
        before = cursor->registers[ARCH_SP];
        if (!step_inside(cursor, &caller, &verdict) || caller.sp <= before ||
            caller.sp > cursor->sp) {
            // They went apart (a slot changed meanwhile, or this is another stack): go on with what
            // is sure.
            full_cfi_restart(cursor, 1u << ARCH_SP | 1u << ARCH_FP | 1u << ARCH_RA);
            return;
        }
    }
}

bool full_cfi_step(struct unwind_cursor *cursor, struct frame_caller *caller, enum verdict *verdict)
{
    full_cfi_catch_up(cursor);
    return step_inside(cursor, caller, verdict);
}
