// SPDX-License-Identifier: MIT
#include "symbol/dwarf/bounds.h"
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <string.h>

// The part of .eh_frame that is read, one entry after the other.
struct bounds_reading {
    const struct object *object;
    const Elf_Data *data;
    uint64_t address; // of the section
    // The last common entry that was read: most sections have one or two of them.
    Dwarf_Off common;
    bool common_known;
    unsigned encoding;
    bool signal;
};

static uint64_t read_leb128(const uint8_t **at, const uint8_t *end)
{
    uint64_t value = 0;
    for (unsigned shift = 0; *at < end && shift < 64; shift += 7) {
        uint8_t byte = *(*at)++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            break;
    }
    return value;
}

// How the addresses of the entries that belong to this common entry are written.
static unsigned pointer_encoding(const Dwarf_CIE *common)
{
    const uint8_t *at = common->augmentation_data;
    const uint8_t *end = at ? at + common->augmentation_data_size : NULL;
    if (!common->augmentation || common->augmentation[0] != 'z')
        return DW_EH_PE_absptr;
    for (const char *letter = common->augmentation + 1; *letter && at < end; letter++) {
        if (*letter == 'R')
            return *at;
        if (*letter == 'L') {
            at++;
        } else if (*letter == 'P') {
            unsigned form = *at++ & 0x0f;
            if (form == DW_EH_PE_udata2 || form == DW_EH_PE_sdata2)
                at += 2;
            else if (form == DW_EH_PE_udata4 || form == DW_EH_PE_sdata4)
                at += 4;
            else if (form == DW_EH_PE_uleb128 || form == DW_EH_PE_sleb128)
                read_leb128(&at, end);
            else
                at += 8;
        } else if (*letter != 'S' && *letter != 'B') {
            break;
        }
    }
    return DW_EH_PE_absptr;
}

static bool read_pointer(const uint8_t **at, const uint8_t *end, unsigned form, uint64_t *value)
{
    size_t bytes = form == DW_EH_PE_absptr || form == DW_EH_PE_udata8 || form == DW_EH_PE_sdata8 ? 8
                   : form == DW_EH_PE_udata4 || form == DW_EH_PE_sdata4                          ? 4
                   : form == DW_EH_PE_udata2 || form == DW_EH_PE_sdata2                          ? 2
                                                                        : 0;
    if (!bytes || (size_t)(end - *at) < bytes)
        return false;
    int64_t wide = 0;
    memcpy(&wide, *at, bytes);
    if (form == DW_EH_PE_sdata4)
        wide = (int32_t)wide;
    else if (form == DW_EH_PE_sdata2)
        wide = (int16_t)wide;
    *value = (uint64_t)wide;
    *at += bytes;
    return true;
}

static bool know_common(struct bounds_reading *reading, const unsigned char *identity,
                        Dwarf_Off offset)
{
    if (reading->common_known && reading->common == offset)
        return true;
    Dwarf_CFI_Entry entry;
    Dwarf_Off next;
    Elf_Data data = *reading->data;
    if (offset >= data.d_size ||
        dwarf_next_cfi(identity, &data, true, offset, &next, &entry) != 0 ||
        !dwarf_cfi_cie_p(&entry))
        return false;
    reading->common = offset;
    reading->common_known = true;
    reading->encoding = pointer_encoding(&entry.cie);
    reading->signal = entry.cie.augmentation && strchr(entry.cie.augmentation, 'S');
    return true;
}

static void add_function(struct bounds *bounds, const struct bounds_reading *reading,
                         const Dwarf_FDE *entry)
{
    unsigned how = reading->encoding & 0x70, form = reading->encoding & 0x0f;
    const uint8_t *at = entry->start, *end = entry->end;
    const uint8_t *section = reading->data->d_buf;
    if (reading->encoding & DW_EH_PE_indirect || at < section || at > end)
        return;
    uint64_t position = reading->address + (uint64_t)(at - section);
    uint64_t start, length;
    // The length is written in the same form, but never signed.
    if (!read_pointer(&at, end, form, &start) || !read_pointer(&at, end, form & 0x07, &length))
        return;
    if (how == DW_EH_PE_pcrel)
        start += position;
    else if (how != DW_EH_PE_absptr)
        return;
    const struct object *object = reading->object;
    if (start >= object->base && start < object->end && length <= object->end - start)
        spans_add(&bounds->functions, start - object->base, start - object->base + length,
                  reading->signal);
}

void bounds_read(struct bounds *bounds, const struct object *object)
{
    GElf_Shdr header;
    Elf_Scn *section = object_section(object, ".eh_frame", &header);
    size_t identity_bytes;
    const char *identity = section ? elf_getident(object->elf, &identity_bytes) : NULL;
    Elf_Data *data = identity ? elf_rawdata(section, NULL) : NULL;
    // The forms are read as this machine writes them: a profile is looked at on its own kind of
    // machine.
    if (!data || !data->d_buf || identity[EI_CLASS] != ELFCLASS64 ||
        identity[EI_DATA] != ELFDATA2LSB)
        return;
    struct bounds_reading reading = {.object = object, .data = data, .address = header.sh_addr};
    Dwarf_Off offset = 0, next;
    Dwarf_CFI_Entry entry;
    while (offset < data->d_size) {
        int result =
            dwarf_next_cfi((const unsigned char *)identity, data, true, offset, &next, &entry);
        if (result == 1 || next <= offset)
            break;
        if (result == 0 && !dwarf_cfi_cie_p(&entry) &&
            know_common(&reading, (const unsigned char *)identity, entry.fde.CIE_pointer))
            add_function(bounds, &reading, &entry.fde);
        offset = next;
    }
    spans_sort(&bounds->functions);
}

void bounds_free(struct bounds *bounds)
{
    spans_free(&bounds->functions);
}

bool bounds_find(const struct bounds *bounds, uint64_t offset, struct bounds_function *function)
{
    size_t index = spans_find(&bounds->functions, offset);
    if (index == SPANS_NONE)
        return false;
    const struct span *span = &bounds->functions.list[index];
    *function = (struct bounds_function){span->start, span->end, span->item != 0};
    return true;
}
