// SPDX-License-Identifier: MIT
#include "unwind/cfi.h"
#include "unwind/tables.h"

enum {
    PE_OMIT = 0xff,
    PE_FORMAT = 0x0f,
    PE_RELATIVE = 0x70,
    PE_PCREL = 0x10,
    PE_DATAREL = 0x30,
    PE_SDATA4 = 0x0b,
};

#define SAVED_ROWS 4
#define FDES_MOST 1000000 // looked at, one after the other, where there is no index

struct entry {
    struct reader body; // after length and CIE pointer
    const unsigned char *cie;
};

struct cie {
    uint64_t code_factor;
    int64_t data_factor;
    uint64_t ra_register;
    uint8_t encoding;
    bool signal, augmented;
    struct reader program;
};

static struct reader tables_from(const struct module_ref *module, uintptr_t at)
{
    if (at < module->tables_start || at > module->tables_end)
        return (struct reader){NULL, NULL, true};
    return reader_make((const unsigned char *)at, (const unsigned char *)module->tables_end);
}

static uint64_t read_format(struct reader *reader, uint8_t encoding)
{
    switch (encoding & PE_FORMAT) {
    case 0x00:
    case 0x04:
    case 0x0c:
        return reader_u64(reader);
    case 0x01:
        return reader_uleb(reader);
    case 0x02:
        return reader_u16(reader);
    case 0x03:
        return reader_u32(reader);
    case 0x09:
        return (uint64_t)reader_sleb(reader);
    case 0x0a:
        return (uint64_t)(int64_t)(int16_t)reader_u16(reader);
    case 0x0b:
        return (uint64_t)(int64_t)(int32_t)reader_u32(reader);
    }
    reader->failed = true;
    return 0;
}

// A pointer as tables write it. Indirect ones (personalities) are skipped, never followed.
static uintptr_t read_pointer(struct reader *reader, uint8_t encoding,
                              const struct module_ref *module)
{
    uintptr_t here = (uintptr_t)reader->at;
    uint64_t value = read_format(reader, encoding);
    switch (encoding & PE_RELATIVE) {
    case 0:
        return value;
    case PE_PCREL:
        return here + value;
    case PE_DATAREL:
        return (uintptr_t)module->eh_frame_hdr + value;
    }
    reader->failed = true;
    return 0;
}

// Splits the entry at the reader and moves past it. False at the end of the section, or if damaged.
static bool next_entry(struct reader *reader, struct entry *entry)
{
    uint64_t length = reader_u32(reader);
    bool wide = length == 0xffffffff;
    if (wide)
        length = reader_u64(reader);
    if (reader->failed || length == 0 || length > reader_left(reader))
        return false;
    entry->body = reader_make(reader->at, reader->at + length);
    reader_skip(reader, length);
    const unsigned char *field = entry->body.at;
    uint64_t back = wide ? reader_u64(&entry->body) : reader_u32(&entry->body);
    // 0 marks a CIE; elsewhere it is the distance back to one.
    entry->cie = back == 0 || back > (uintptr_t)field ? NULL : field - back;
    return !entry->body.failed;
}

static bool read_augmentation(struct cie *cie, const struct module_ref *module,
                              struct reader *reader, const char *letters, size_t count)
{
    if (count == 0)
        return true;
    if (letters[0] != 'z')
        return false;
    cie->augmented = true;
    uint64_t length = reader_uleb(reader);
    if (length > reader_left(reader))
        return false;
    struct reader data = reader_make(reader->at, reader->at + length);
    reader_skip(reader, length);
    for (size_t i = 1; i < count; i++) {
        uint8_t encoding;
        switch (letters[i]) {
        case 'R':
            cie->encoding = reader_u8(&data);
            break;
        case 'L':
            reader_u8(&data);
            break;
        case 'P':
            encoding = reader_u8(&data);
            if (encoding != PE_OMIT)
                read_pointer(&data, encoding & (PE_FORMAT | PE_RELATIVE), module);
            break;
        case 'S':
            cie->signal = true;
            break;
        default: // whatever it is, its data is within what 'z' let us skip
            return !data.failed;
        }
    }
    return !data.failed;
}

static bool read_cie(struct cie *cie, const struct module_ref *module, const unsigned char *at)
{
    struct reader all = tables_from(module, (uintptr_t)at);
    struct entry entry;
    memset(cie, 0, sizeof *cie);
    if (!next_entry(&all, &entry) || entry.cie)
        return false;
    struct reader *reader = &entry.body;
    uint8_t version = reader_u8(reader);
    if (version != 1 && version != 3 && version != 4)
        return false;
    const char *letters = (const char *)reader->at;
    size_t count = strnlen(letters, reader_left(reader));
    reader_skip(reader, count + 1);
    if (version == 4 && (reader_u8(reader) != sizeof(void *) || reader_u8(reader) != 0))
        return false;
    cie->code_factor = reader_uleb(reader);
    cie->data_factor = reader_sleb(reader);
    cie->ra_register = version == 1 ? reader_u8(reader) : reader_uleb(reader);
    if (reader->failed || !read_augmentation(cie, module, reader, letters, count))
        return false;
    cie->program = *reader;
    return !reader->failed && cie->ra_register == ARCH_RA;
}

// Reads an FDE up to its program. False if it is damaged; whether it covers the pc is the caller's
// question.
static bool read_fde(struct entry *entry, const struct module_ref *module, struct cie *cie,
                     struct cfi_function *function)
{
    if (!entry->cie || !read_cie(cie, module, entry->cie))
        return false;
    struct reader *reader = &entry->body;
    function->start = read_pointer(reader, cie->encoding, module);
    function->end = function->start + read_format(reader, cie->encoding);
    function->signal = cie->signal;
    if (cie->augmented)
        reader_skip(reader, reader_uleb(reader));
    return !reader->failed;
}

static bool covers(const struct cfi_function *function, uintptr_t pc)
{
    return pc >= function->start && pc < function->end;
}

// The FDE of the last index entry at or below the pc. The index is sorted by the linker; if it is
// not, a wrong FDE comes out, which does not cover the pc.
static uintptr_t search_index(const struct module_ref *module, struct reader table, uint64_t count,
                              uintptr_t pc)
{
    uintptr_t data = (uintptr_t)module->eh_frame_hdr;
    int64_t target = (int64_t)(pc - data);
    uint64_t low = 0, high = count;
    int32_t pair[2];
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        memcpy(pair, table.at + middle * sizeof pair, sizeof pair);
        if (pair[0] <= target)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0)
        return 0;
    memcpy(pair, table.at + (low - 1) * sizeof pair, sizeof pair);
    return data + (uintptr_t)(intptr_t)pair[1];
}

static enum cfi_result scan_section(const struct module_ref *module, uintptr_t section,
                                    uintptr_t pc, struct entry *entry, struct cie *cie,
                                    struct cfi_function *function)
{
    struct reader reader = tables_from(module, section);
    for (unsigned i = 0; i < FDES_MOST && next_entry(&reader, entry); i++)
        if (entry->cie && read_fde(entry, module, cie, function) && covers(function, pc))
            return CFI_OK;
    return CFI_NONE;
}

static enum cfi_result find_fde(const struct module_ref *module, uintptr_t pc, struct entry *entry,
                                struct cie *cie, struct cfi_function *function)
{
    struct reader reader = tables_from(module, (uintptr_t)module->eh_frame_hdr);
    uint8_t version = reader_u8(&reader), section_encoding = reader_u8(&reader);
    uint8_t count_encoding = reader_u8(&reader), table_encoding = reader_u8(&reader);
    if (reader.failed || version != 1)
        return CFI_BAD;
    uintptr_t section =
        section_encoding == PE_OMIT ? 0 : read_pointer(&reader, section_encoding, module);
    if (count_encoding == PE_OMIT || table_encoding != (PE_DATAREL | PE_SDATA4))
        return scan_section(module, section, pc, entry, cie, function);
    uint64_t count = read_pointer(&reader, count_encoding, module);
    if (reader.failed || count > reader_left(&reader) / 8)
        return CFI_BAD;
    uintptr_t at = search_index(module, reader, count, pc);
    if (at == 0)
        return CFI_NONE;
    reader = tables_from(module, at);
    if (!next_entry(&reader, entry) || !read_fde(entry, module, cie, function))
        return CFI_BAD;
    return covers(function, pc) ? CFI_OK : CFI_NONE;
}

struct machine {
    const struct cie *cie;
    const struct module_ref *module;
    uintptr_t location, pc;
    struct cfi_row row, initial;
    struct cfi_row saved[SAVED_ROWS];
    unsigned depth;
};

static void set_rule(struct machine *machine, uint64_t reg, enum rule_kind kind, int64_t value)
{
    int slot = arch_tracked_slot(reg);
    if (slot >= 0)
        machine->row.rule[slot] = (struct rule){kind, value};
    else if (arch_is_result(reg) && kind != RULE_SAME && kind != RULE_UNDEFINED)
        machine->row.saves_result = true;
}

static void restore_rule(struct machine *machine, uint64_t reg)
{
    int slot = arch_tracked_slot(reg);
    if (slot >= 0)
        machine->row.rule[slot] = machine->initial.rule[slot];
}

static int64_t scaled(const struct machine *machine, uint64_t value)
{
    return (int64_t)(value * (uint64_t)machine->cie->data_factor);
}

static uintptr_t skip_block(struct reader *reader)
{
    uintptr_t at = (uintptr_t)reader->at;
    reader_skip(reader, reader_uleb(reader));
    return at;
}

static void set_cfa(struct machine *machine, uint64_t reg, int64_t offset)
{
    machine->row.cfa_register = reg < UNWIND_REGISTERS ? (uint16_t)reg : UINT16_MAX;
    machine->row.cfa_offset = offset;
    machine->row.cfa_is_expression = false;
}

static void advance(struct machine *machine, uint64_t delta)
{
    machine->location += delta * machine->cie->code_factor;
}

static bool run_state(struct machine *machine, uint8_t code)
{
    if (code == 0x0a) { // remember_state
        if (machine->depth == SAVED_ROWS)
            return false;
        machine->saved[machine->depth++] = machine->row;
        return true;
    }
    if (machine->depth == 0)
        return false;
    machine->row = machine->saved[--machine->depth];
    return true;
}

// Instructions whose operands are a register and a rule for it.
static bool run_rule(struct machine *machine, struct reader *reader, uint8_t code)
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

static bool run_cfa(struct machine *machine, struct reader *reader, uint8_t code)
{
    uint64_t reg;
    switch (code) {
    case 0x0c: // def_cfa
        reg = reader_uleb(reader);
        set_cfa(machine, reg, (int64_t)reader_uleb(reader));
        return true;
    case 0x0d: // def_cfa_register; it and def_cfa_offset change one half of a rule that is no
               // expression
        if (machine->row.cfa_is_expression)
            return false;
        set_cfa(machine, reader_uleb(reader), machine->row.cfa_offset);
        return true;
    case 0x0e: // def_cfa_offset
        if (machine->row.cfa_is_expression)
            return false;
        machine->row.cfa_offset = (int64_t)reader_uleb(reader);
        return true;
    case 0x0f: // def_cfa_expression
        machine->row.cfa_offset = (int64_t)skip_block(reader);
        machine->row.cfa_is_expression = true;
        return true;
    case 0x12: // def_cfa_sf
        reg = reader_uleb(reader);
        set_cfa(machine, reg, scaled(machine, (uint64_t)reader_sleb(reader)));
        return true;
    case 0x13: // def_cfa_offset_sf
        if (machine->row.cfa_is_expression)
            return false;
        machine->row.cfa_offset = scaled(machine, (uint64_t)reader_sleb(reader));
        return true;
    }
    return false;
}

static bool run_one(struct machine *machine, struct reader *reader)
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
        machine->location = read_pointer(reader, machine->cie->encoding, machine->module);
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

static bool run(struct machine *machine, struct reader program)
{
    while (reader_left(&program) && machine->location <= machine->pc)
        if (!run_one(machine, &program) || program.failed)
            return false;
    return !program.failed;
}

enum cfi_result cfi_find(const struct module_ref *module, uintptr_t pc,
                         struct cfi_function *function, struct cfi_row *row)
{
    struct entry entry;
    struct cie cie;
    if (!module->eh_frame_hdr)
        return CFI_NONE;
    enum cfi_result result = find_fde(module, pc, &entry, &cie, function);
    if (result != CFI_OK)
        return result;
    struct machine machine;
    machine.cie = &cie;
    machine.module = module;
    machine.location = function->start;
    machine.pc = pc;
    machine.depth = 0;
    memset(&machine.row, 0, sizeof machine.row);
    machine.row.cfa_register = UINT16_MAX;
    machine.initial = machine.row;
    if (!run(&machine, cie.program))
        return CFI_BAD;
    machine.initial = machine.row;
    machine.location = function->start;
    if (!run(&machine, entry.body))
        return CFI_BAD;
    *row = machine.row;
    return CFI_OK;
}
