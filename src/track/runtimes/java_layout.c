// SPDX-License-Identifier: MIT
#include "track/runtimes/java_layout.h"
#include "loadmap/dynamic.h"
#include "loadmap/image.h"
#include <string.h>

#define MOST_ENTRIES 20000

uintptr_t java_layout[JAVA_LAYOUT];

struct wanted {
    const char *type, *name;
};

static const struct wanted wanted_fields[JAVA_FIELDS] = {
    [JAVA_VERSION] = {"Abstract_VM_Version", "_vm_major_version"},
    [JAVA_CODE_LOW] = {"CodeCache", "_low_bound"},
    [JAVA_CODE_HIGH] = {"CodeCache", "_high_bound"},
    [JAVA_CODE_HEAPS] = {"CodeCache", "_heaps"},
    [JAVA_CALL_RETURN] = {"StubRoutines", "_call_stub_return_address"},
    [JAVA_INTERPRETER] = {"AbstractInterpreter", "_code"},
    [JAVA_INTERPRETER_CODE] = {"StubQueue", "_stub_buffer"},
    [JAVA_INTERPRETER_BYTES] = {"StubQueue", "_buffer_limit"},
    [JAVA_ARRAY_LENGTH] = {"GrowableArrayBase", "_len"},
    [JAVA_ARRAY_DATA] = {"GrowableArray<int>", "_data"},
    [JAVA_HEAP_MEMORY] = {"CodeHeap", "_memory"},
    [JAVA_HEAP_SEGMENTS] = {"CodeHeap", "_segmap"},
    [JAVA_HEAP_SEGMENT_SHIFT] = {"CodeHeap", "_log2_segment_size"},
    [JAVA_SPACE_LOW] = {"VirtualSpace", "_low"},
    [JAVA_SPACE_HIGH] = {"VirtualSpace", "_high"},
    [JAVA_BLOB_NAME] = {"CodeBlob", "_name"},
    [JAVA_BLOB_FRAME_WORDS] = {"CodeBlob", "_frame_size"},
    [JAVA_BLOB_CODE] = {"CodeBlob", "_code_begin"},
    [JAVA_BLOB_CODE_END] = {"CodeBlob", "_code_end"},
    [JAVA_COMPILED_METHOD] = {"CompiledMethod", "_method"},
    [JAVA_COMPILED_SCOPES] = {"CompiledMethod", "_scopes_data_begin"},
    [JAVA_COMPILED_DEOPT] = {"CompiledMethod", "_deopt_handler_begin"},
    [JAVA_COMPILED_DEOPT_HANDLE] = {"CompiledMethod", "_deopt_mh_handler_begin"},
    [JAVA_COMPILED_ENTRY] = {"nmethod", "_verified_entry_point"},
    [JAVA_COMPILED_ORIGINAL_PC] = {"nmethod", "_orig_pc_offset"},
    [JAVA_COMPILED_METADATA] = {"nmethod", "_metadata_offset"},
    [JAVA_COMPILED_POSITIONS] = {"nmethod", "_scopes_pcs_offset"},
    [JAVA_COMPILED_POSITIONS_END] = {"nmethod", "_dependencies_offset"},
    [JAVA_POSITION_PC] = {"PcDesc", "_pc_offset"},
    [JAVA_POSITION_SCOPE] = {"PcDesc", "_scope_decode_offset"},
    [JAVA_METHOD_CONSTANT] = {"Method", "_constMethod"},
    [JAVA_CONSTANT_POOL] = {"ConstMethod", "_constants"},
    [JAVA_CONSTANT_FLAGS] = {"ConstMethod", "_flags"},
    [JAVA_CONSTANT_CODE_BYTES] = {"ConstMethod", "_code_size"},
    [JAVA_CONSTANT_NAME] = {"ConstMethod", "_name_index"},
    [JAVA_CONSTANT_SIGNATURE] = {"ConstMethod", "_signature_index"},
    [JAVA_POOL_HOLDER] = {"ConstantPool", "_pool_holder"},
    [JAVA_POOL_FILE] = {"ConstantPool", "_source_file_name_index"},
    [JAVA_CLASS_NAME] = {"Klass", "_name"},
    [JAVA_CLASS_POOL] = {"InstanceKlass", "_constants"},
    [JAVA_SYMBOL_LENGTH] = {"Symbol", "_length"},
    [JAVA_SYMBOL_BODY] = {"Symbol", "_body"},
};

static const char *const wanted_sizes[] = {"HeapBlock", "PcDesc", "ConstMethod", "ConstantPool"};

// A module's memory, with what it exports.
struct exports {
    struct dynamic dynamic;
    bool lacks; // something that was asked for
};

static bool open_module(struct exports *exports, uintptr_t base, size_t bytes)
{
    struct image image;
    *exports = (struct exports){.lacks = false};
    if (!image_from_memory(&image, base, base + bytes, NULL))
        return false;
    const ElfW(Ehdr) *file = (const ElfW(Ehdr) *)base;
    const ElfW(Phdr) *headers = (const ElfW(Phdr) *)(base + file->e_phoff);
    return dynamic_read(&exports->dynamic, &image.ref, base, headers, file->e_phnum);
}

static bool module_exports(uintptr_t base, size_t bytes, const char *name)
{
    struct exports exports;
    return open_module(&exports, base, bytes) && dynamic_exports(&exports.dynamic, name);
}

bool java_layout_is_machine(uintptr_t base, size_t bytes)
{
    return module_exports(base, bytes, "JNI_GetCreatedJavaVMs");
}

bool java_layout_is_hotspot(uintptr_t base, size_t bytes)
{
    return module_exports(base, bytes, "gHotSpotVMStructs");
}

// The word that an exported variable holds.
static uintptr_t exported(struct exports *exports, const char *name)
{
    uintptr_t address;
    if (dynamic_find(&exports->dynamic, name, &address) && address % 8 == 0 &&
        dynamic_holds(&exports->dynamic, address, 8))
        return *(const uintptr_t *)address;
    exports->lacks = true;
    return 0;
}

// A table of the machine's; the names of its entries' parts are exported with their offsets.
struct machine_table {
    uintptr_t entry, stride;
    uintptr_t type, name, is_static, offset, address, size;
};

static const char *text_at(const struct exports *exports, uintptr_t address)
{
    if (!dynamic_holds(&exports->dynamic, address, 8))
        return NULL;
    const uintptr_t text = *(const uintptr_t *)address;
    return dynamic_holds(&exports->dynamic, text, 1) ? (const char *)text : NULL;
}

static bool is_entry(const struct exports *exports, const struct machine_table *table)
{
    return table->stride >= 8 && table->stride <= 256 &&
           dynamic_holds(&exports->dynamic, table->entry, table->stride) &&
           text_at(exports, table->entry + table->type);
}

static void take_field(const struct exports *exports, const struct machine_table *table)
{
    const char *type = text_at(exports, table->entry + table->type),
               *name = text_at(exports, table->entry + table->name);
    for (unsigned i = 0; name && i < JAVA_FIELDS; i++)
        if (!strcmp(wanted_fields[i].type, type) && !strcmp(wanted_fields[i].name, name) &&
            (*(const int32_t *)(table->entry + table->is_static) != 0) == (i < JAVA_STATICS))
            java_layout[i] =
                *(const uintptr_t *)(table->entry +
                                     (i < JAVA_STATICS ? table->address : table->offset));
}

static void take_size(const struct exports *exports, const struct machine_table *table)
{
    const char *type = text_at(exports, table->entry + table->type);
    for (unsigned i = 0; i < JAVA_LAYOUT - JAVA_FIELDS; i++)
        if (!strcmp(wanted_sizes[i], type))
            java_layout[JAVA_FIELDS + i] = *(const uintptr_t *)(table->entry + table->size);
}

static void read_table(const struct exports *exports, struct machine_table *table,
                       void (*take)(const struct exports *, const struct machine_table *))
{
    for (unsigned i = 0; i < MOST_ENTRIES && is_entry(exports, table); i++) {
        take(exports, table);
        table->entry += table->stride;
    }
}

const char *java_layout_read(uintptr_t base, size_t bytes)
{
    struct exports exports;
    if (!open_module(&exports, base, bytes))
        return "symbols";
    struct machine_table fields = {
        .entry = exported(&exports, "gHotSpotVMStructs"),
        .stride = exported(&exports, "gHotSpotVMStructEntryArrayStride"),
        .type = exported(&exports, "gHotSpotVMStructEntryTypeNameOffset"),
        .name = exported(&exports, "gHotSpotVMStructEntryFieldNameOffset"),
        .is_static = exported(&exports, "gHotSpotVMStructEntryIsStaticOffset"),
        .offset = exported(&exports, "gHotSpotVMStructEntryOffsetOffset"),
        .address = exported(&exports, "gHotSpotVMStructEntryAddressOffset"),
    };
    struct machine_table types = {
        .entry = exported(&exports, "gHotSpotVMTypes"),
        .stride = exported(&exports, "gHotSpotVMTypeEntryArrayStride"),
        .type = exported(&exports, "gHotSpotVMTypeEntryTypeNameOffset"),
        .size = exported(&exports, "gHotSpotVMTypeEntrySizeOffset"),
    };
    if (exports.lacks)
        return "gHotSpotVMStructs";
    for (unsigned i = 0; i < JAVA_LAYOUT; i++)
        java_layout[i] = UINTPTR_MAX;
    read_table(&exports, &fields, take_field);
    read_table(&exports, &types, take_size);
    for (unsigned i = 0; i < JAVA_LAYOUT; i++)
        if (java_layout[i] == UINTPTR_MAX)
            return i < JAVA_FIELDS ? wanted_fields[i].name : wanted_sizes[i - JAVA_FIELDS];
    return NULL;
}
