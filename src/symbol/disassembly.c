// SPDX-License-Identifier: MIT

#include "symbol/disassembly.h"
#include "base/memory.h"
#include "symbol/dwarf/bounds.h"
#include "symbol/files/object.h"
#include <errno.h>
#include <stdarg.h>
#ifdef HAVE_ZYDIS
#include <Zydis/Zydis.h>
#endif

enum { MOST_CODE = 4 << 20 }; // of one function

__attribute__((format(printf, 2, 3))) static int refuse(char **error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (vasprintf(error, format, arguments) < 0)
        memory_checked(NULL);
    va_end(arguments);
    return -1;
}

void disassembly_free(struct disassembly *code)
{
    free(code->instructions);
    *code = (struct disassembly){0};
}

#ifdef HAVE_ZYDIS

// The bytes of the file that are loaded at an address; how many there are up to `end`.
static const uint8_t *loaded_bytes(const struct object *object, uint64_t address, uint64_t end,
                                   size_t *bytes)
{
    size_t headers = 0, size = 0;
    const uint8_t *image = (const uint8_t *)elf_rawfile(object->elf, &size);
    if (!image || elf_getphdrnum(object->elf, &headers) != 0)
        return NULL;
    for (size_t i = 0; i < headers; i++) {
        GElf_Phdr header;
        if (!gelf_getphdr(object->elf, (int)i, &header) || header.p_type != PT_LOAD ||
            address < header.p_vaddr || address - header.p_vaddr >= header.p_filesz)
            continue;
        const uint64_t at = address - header.p_vaddr, left = header.p_filesz - at;
        if (header.p_offset > size || at > size - header.p_offset)
            return NULL;
        const uint64_t there = size - header.p_offset - at, wanted = end - address;
        *bytes = (size_t)(wanted < left ? wanted : left);
        *bytes = *bytes < there ? *bytes : (size_t)there;
        return image + header.p_offset + at;
    }
    return NULL;
}

static void find_target(struct disassembled *instruction, const ZydisDecodedInstruction *decoded,
                        const ZydisDecodedOperand *operands, uint64_t address, uint64_t base)
{
    const bool branches = decoded->meta.category == ZYDIS_CATEGORY_COND_BR ||
                          decoded->meta.category == ZYDIS_CATEGORY_UNCOND_BR ||
                          decoded->meta.category == ZYDIS_CATEGORY_CALL;
    ZyanU64 target = 0;
    instruction->calls = decoded->meta.category == ZYDIS_CATEGORY_CALL;
    if (branches && decoded->operand_count_visible > 0 &&
        operands[0].type == ZYDIS_OPERAND_TYPE_IMMEDIATE &&
        ZYAN_SUCCESS(ZydisCalcAbsoluteAddress(decoded, &operands[0], address, &target)) &&
        target > base)
        instruction->target = target - base;
}

static void decode_all(struct disassembly *code, const uint8_t *bytes, size_t count)
{
    ZydisDecoder decoder;
    ZydisFormatter formatter;
    ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    ZydisFormatterInit(&formatter, ZYDIS_FORMATTER_STYLE_ATT);
    ZydisFormatterSetProperty(&formatter, ZYDIS_FORMATTER_PROP_HEX_UPPERCASE, ZYAN_FALSE);
    ZydisFormatterSetProperty(&formatter, ZYDIS_FORMATTER_PROP_ADDR_PADDING_ABSOLUTE,
                              ZYDIS_PADDING_DISABLED);
    ZydisFormatterSetProperty(&formatter, ZYDIS_FORMATTER_PROP_ADDR_PADDING_RELATIVE,
                              ZYDIS_PADDING_DISABLED);
    size_t capacity = 0;
    for (size_t at = 0; at < count;) {
        ZydisDecodedInstruction decoded;
        ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
        code->instructions = memory_grown(code->instructions, &capacity, code->count + 1,
                                          sizeof *code->instructions);
        struct disassembled *instruction = &code->instructions[code->count++];
        *instruction = (struct disassembled){.offset = code->begin + at, .length = 1};
        const uint64_t address = code->base + code->begin + at;
        if (ZYAN_SUCCESS(
                ZydisDecoderDecodeFull(&decoder, bytes + at, count - at, &decoded, operands))) {
            instruction->length = decoded.length;
            ZydisFormatterFormatInstruction(&formatter, &decoded, operands,
                                            decoded.operand_count_visible, instruction->text,
                                            sizeof instruction->text, address, ZYAN_NULL);
            find_target(instruction, &decoded, operands, address, code->base);
        } else {
            snprintf(instruction->text, sizeof instruction->text, ".byte 0x%02x", bytes[at]);
        }
        at += instruction->length;
    }
}

static uint64_t end_of(const struct object *object, uint64_t begin, uint64_t least)
{
    struct bounds bounds = {0};
    struct bounds_function function;
    bounds_read(&bounds, object);
    uint64_t end = bounds_find(&bounds, begin, &function) ? function.end : least;
    bounds_free(&bounds);
    return end < begin || end - begin > MOST_CODE ? begin + MOST_CODE : end;
}

static int read_code(struct disassembly *code, const struct object *object,
                     const struct profile_module *module, uint64_t least, char **error)
{
    if (object->machine != EM_X86_64)
        return refuse(error, "%s is for another machine than x86-64", module->path);
    if (object->build_id_bytes != module->build_id_bytes ||
        memcmp(object->build_id, module->build_id, module->build_id_bytes) != 0)
        return refuse(error, "%s has changed since it was recorded: its instructions are others",
                      module->path);
    code->base = object->base;
    code->end = end_of(object, code->begin, least);
    size_t count = 0;
    const uint8_t *bytes =
        loaded_bytes(object, code->base + code->begin, code->base + code->end, &count);
    if (!bytes)
        return refuse(error, "%s has no code at 0x%llx", module->path,
                      (unsigned long long)(code->base + code->begin));
    decode_all(code, bytes, count);
    return 0;
}

int disassemble(struct disassembly *code, const struct profile_module *module, uint64_t begin,
                uint64_t least, char **error)
{
    struct object object;
    *code = (struct disassembly){.begin = begin};
    const bool vdso = module->path && strcmp(module->path, "[vdso]") == 0;
    if (!module->path || (module->path[0] == '[' && !vdso))
        return refuse(error, "the instructions of %s are in no file",
                      module->path ? module->path : "generated code");
    const int failed = vdso ? object_open_vdso(&object) : object_open(&object, module->path);
    if (failed)
        return refuse(error, "cannot read %s: %s", module->path,
                      failed == -ENOEXEC ? "it is no ELF file" : strerror(-failed));
    const int status = read_code(code, &object, module, least, error);
    object_close(&object);
    return status;
}

#else

int disassemble(struct disassembly *code, const struct profile_module *module, uint64_t begin,
                uint64_t least, char **error)
{
    (void)module, (void)begin, (void)least;
    *code = (struct disassembly){0};
    return refuse(error, "this cairn cannot disassemble: it was built without Zydis "
                         "(libzydis-dev)");
}

#endif
