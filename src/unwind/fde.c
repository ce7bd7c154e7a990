// SPDX-License-Identifier: MIT
#include "unwind/fde.h"
#include "base/gc_hidden.h"
#include "unwind/shortcut.h"
#include <stdatomic.h>

enum {
    PE_OMIT = 0xff,
    PE_FORMAT = 0x0f,
    PE_RELATIVE = 0x70,
    PE_PCREL = 0x10,
    PE_DATAREL = 0x30,
    PE_SDATA4 = 0x0b,
};

#define FDES_MOST 1000000 // looked at, one after the other, where there is no index

struct entry {
    struct reader body; // after length and CIE pointer
    const unsigned char *cie;
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

uintptr_t fde_pointer(struct reader *reader, uint8_t encoding, const struct module_ref *module)
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
                fde_pointer(&data, encoding & (PE_FORMAT | PE_RELATIVE), module);
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
    cie->encoding = 0;
    cie->signal = cie->augmented = false;
    if (!next_entry(&all, &entry) || entry.cie)
        return false;
    struct reader *reader = &entry.body;
    uint8_t version = reader_u8(reader);
    if (version != 1 && version != 3 && version != 4)
        return false;
    const char *letters = (const char *)reader->at;
    const size_t left = reader_left(reader);
    size_t count = 0; // by hand: the stub of the marker comes here, and must not call libc
    while (count < left && letters[count])
        count++;
    reader_skip(reader, count + 1);
    if (version == 4 && (reader_u8(reader) != sizeof(void *) || reader_u8(reader) != 0))
        return false;
    cie->code_factor = reader_uleb(reader);
    cie->data_factor = reader_sleb(reader);
    cie->ra_register = version == 1 ? reader_u8(reader) : reader_uleb(reader);
    if (reader->failed || !read_augmentation(cie, module, reader, letters, count))
        return false;
    cie->program = *reader;
    cie->at = (uintptr_t)at;
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
    function->start = fde_pointer(reader, cie->encoding, module);
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

// The last entry at or below the target, or count if there is none. If the linker's order is
// damaged, some entry comes out, which does not cover the pc.
static uint64_t search_between(const unsigned char *table, uint64_t low, uint64_t high,
                               int64_t target)
{
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        if (index_key(table, middle) <= target)
            low = middle;
        else
            high = middle;
    }
    return low;
}

// The same from an entry that is likely to be near, in growing steps.
static uint64_t search_near(const unsigned char *table, uint64_t count, uint64_t near,
                            int64_t target)
{
    uint64_t low = near, high = near, step = 4;
    if (index_key(table, near) <= target) {
        do {
            low = high;
            high = high + step < count ? high + step : count;
            step *= 4;
        } while (high < count && index_key(table, high) <= target);
    } else {
        do {
            high = low;
            low = low > step ? low - step : 0;
            step *= 4;
        } while (low > 0 && index_key(table, low) > target);
    }
    return search_between(table, low, high, target);
}

// Where in its index the last pc of a stretch of code was found: upper bits say which stretch. Most
// of what a cold step costs is a search through an index that is in no cache; code that was met
// nearby is where to begin, the nearer the better. A hint is one word and only a hint, so any
// thread may write it at any time, and it may be about a module that is gone.
#define HINTS 4096
#define HINT_BITS 24
#define NEAR_SHIFT 10 // stretches of a kilobyte
#define FAR_SHIFT 15  // where that one is new: of 32
static _Atomic uint64_t near_hints[HINTS] GC_HIDDEN, far_hints[HINTS / 4] GC_HIDDEN;

static _Atomic uint64_t *near_hint(uint64_t pc)
{
    return &near_hints[(pc >> NEAR_SHIFT) % HINTS];
}

static _Atomic uint64_t *far_hint(uint64_t pc)
{
    return &far_hints[(pc >> FAR_SHIFT) % (HINTS / 4)];
}

void fde_expect(uintptr_t pc)
{
    const struct shortcut *shortcut = shortcut_at(pc);
    if (shortcut) {
        __builtin_prefetch(shortcut_first(shortcut, pc));
        return;
    }
    __builtin_prefetch(near_hint(pc));
    __builtin_prefetch(far_hint(pc));
}

// The hint for a stretch, or `none` if it is about another one.
static uint64_t read_hint(_Atomic uint64_t *hint, uint64_t stretch, uint64_t none)
{
    uint64_t word = atomic_load_explicit(hint, memory_order_relaxed);
    bool same = word >> HINT_BITS == (stretch & (UINT64_MAX >> HINT_BITS)) && word != 0;
    return same ? word & ((UINT64_C(1) << HINT_BITS) - 1) : none;
}

static void write_hint(_Atomic uint64_t *hint, uint64_t stretch, uint64_t found)
{
    atomic_store_explicit(hint, stretch << HINT_BITS | found, memory_order_relaxed);
}

static uint64_t search_keys(const unsigned char *table, uint64_t count, int64_t target, uint64_t pc)
{
    if (count == 0)
        return count;
    uint64_t hint = read_hint(near_hint(pc), pc >> NEAR_SHIFT, count);
    if (hint >= count)
        hint = read_hint(far_hint(pc), pc >> FAR_SHIFT, count);
    uint64_t found = hint < count ? search_near(table, count, hint, target)
                                  : search_between(table, 0, count, target);
    if (found >> HINT_BITS == 0) {
        write_hint(near_hint(pc), pc >> NEAR_SHIFT, found);
        write_hint(far_hint(pc), pc >> FAR_SHIFT, found);
    }
    return index_key(table, found) <= target ? found : count;
}

static uint64_t search_shortcut(const struct shortcut *shortcut, uintptr_t pc)
{
    const uint32_t *first = shortcut_first(shortcut, pc);
    // If the order is damaged, so may these be; but they are entries of the table.
    uint64_t low = first[0], high = first[1] >= first[0] ? (uint64_t)first[1] + 1 : low + 1;
    return search_between(shortcut->table, low, high, (int64_t)(pc - (uintptr_t)shortcut->data));
}

void fde_expect_entries(uintptr_t pc)
{
    const struct shortcut *shortcut = shortcut_at(pc);
    if (!shortcut)
        return;
    const uint32_t *first = shortcut_first(shortcut, pc);
    __builtin_prefetch(shortcut->table + (uint64_t)first[0] * INDEX_ENTRY);
    __builtin_prefetch(shortcut->table + (uint64_t)first[1] * INDEX_ENTRY);
}

// Where the FDE of an entry is.
static uintptr_t fde_of_entry(const unsigned char *data, const unsigned char *table, uint64_t entry)
{
    int32_t fde;
    memcpy(&fde, table + entry * INDEX_ENTRY + 4, sizeof fde);
    return (uintptr_t)data + (uintptr_t)(intptr_t)fde;
}

void fde_expect_program(uintptr_t pc)
{
    const struct shortcut *shortcut = shortcut_at(pc);
    if (!shortcut)
        return;
    uintptr_t at = fde_of_entry(shortcut->data, shortcut->table, search_shortcut(shortcut, pc));
    __builtin_prefetch((const void *)at);
    __builtin_prefetch((const void *)(at + 64));
}

// 0: there is none.
static uintptr_t search_index(const struct module_ref *module, struct reader table, uint64_t count,
                              uintptr_t pc)
{
    const unsigned char *data = module->eh_frame_hdr;
    shortcut_build(module, table.at, count);
    uint64_t found = search_keys(table.at, count, (int64_t)(pc - (uintptr_t)data), pc);
    return found == count ? 0 : fde_of_entry(data, table.at, found);
}

uintptr_t fde_by_shortcut(const struct shortcut *shortcut, uintptr_t pc)
{
    uint64_t found = search_shortcut(shortcut, pc);
    bool before = index_key(shortcut->table, found) > (int64_t)(pc - (uintptr_t)shortcut->data);
    return before ? 0 : fde_of_entry(shortcut->data, shortcut->table, found);
}

static bool take_entry(struct entry *entry, const struct module_ref *module, uintptr_t pc,
                       struct fde *fde, struct cfi_function *function)
{
    if (!read_fde(entry, module, &fde->cie, function) || !covers(function, pc))
        return false;
    fde->program = entry->body;
    return true;
}

// Where the linker made no index: one after the other.
static enum cfi_result scan_section(const struct module_ref *module, uintptr_t section,
                                    uintptr_t pc, struct fde *fde, struct cfi_function *function)
{
    struct reader reader = tables_from(module, section);
    struct entry entry;
    for (unsigned i = 0; i < FDES_MOST && next_entry(&reader, &entry); i++)
        if (entry.cie && take_entry(&entry, module, pc, fde, function))
            return CFI_OK;
    return CFI_NONE;
}

// Reads the FDE that an index led to.
static enum cfi_result take_fde(const struct module_ref *module, uintptr_t at, uintptr_t pc,
                                struct fde *fde, struct cfi_function *function)
{
    struct entry entry;
    struct reader reader = tables_from(module, at);
    if (at == 0)
        return CFI_NONE;
    if (!next_entry(&reader, &entry) || !entry.cie)
        return CFI_BAD;
    function->start = function->end = 0;
    if (take_entry(&entry, module, pc, fde, function))
        return CFI_OK;
    // Read, and does not cover it: the pc is between functions.
    return function->end > function->start ? CFI_NONE : CFI_BAD;
}

enum cfi_result fde_find(const struct module_ref *module, uintptr_t pc, struct fde *fde,
                         struct cfi_function *function)
{
    const struct shortcut *shortcut = shortcut_at(pc);
    if (shortcut && shortcut->data == module->eh_frame_hdr)
        return take_fde(module, fde_by_shortcut(shortcut, pc), pc, fde, function);
    struct reader reader = tables_from(module, (uintptr_t)module->eh_frame_hdr);
    uint8_t version = reader_u8(&reader), section_encoding = reader_u8(&reader);
    uint8_t count_encoding = reader_u8(&reader), table_encoding = reader_u8(&reader);
    if (reader.failed || version != 1)
        return CFI_BAD;
    uintptr_t section =
        section_encoding == PE_OMIT ? 0 : fde_pointer(&reader, section_encoding, module);
    if (count_encoding == PE_OMIT || table_encoding != (PE_DATAREL | PE_SDATA4))
        return scan_section(module, section, pc, fde, function);
    uint64_t count = fde_pointer(&reader, count_encoding, module);
    if (reader.failed || count > reader_left(&reader) / INDEX_ENTRY)
        return CFI_BAD;
    return take_fde(module, search_index(module, reader, count, pc), pc, fde, function);
}

uint64_t fde_bytes(void)
{
    return sizeof near_hints + sizeof far_hints + shortcut_bytes();
}
