// SPDX-License-Identifier: MIT
// Our decoder of instructions against a table of known ones and, where it is at hand, a full
// decoder: on random bytes, and on all the code of real programs.
#include "patch/x86_64/decode.h"
#include <elf.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static const struct known {
    const char *bytes;
    unsigned length;
    enum flow flow;
} known[] = {
    {"90", 1, FLOW_NEXT},
    {"e8 01 02 03 04", 5, FLOW_CALL},
    {"66 66 48 e8 01 02 03 04", 8, FLOW_CALL},
    {"e9 01 02 03 04", 5, FLOW_JUMP},
    {"f2 e9 01 02 03 04", 6, FLOW_JUMP},
    {"eb 10", 2, FLOW_JUMP},
    {"75 10", 2, FLOW_BRANCH},
    {"0f 85 01 02 03 04", 6, FLOW_BRANCH},
    {"e3 10", 2, FLOW_BRANCH},
    {"ff d0", 2, FLOW_CALL_INDIRECT},
    {"41 ff d4", 3, FLOW_CALL_INDIRECT},
    {"3e ff d0", 3, FLOW_CALL_INDIRECT},
    {"ff 15 01 02 03 04", 6, FLOW_CALL_INDIRECT},
    {"ff 14 c5 01 02 03 04", 7, FLOW_CALL_INDIRECT},
    {"ff 54 24 08", 4, FLOW_CALL_INDIRECT},
    {"ff 25 01 02 03 04", 6, FLOW_JUMP_INDIRECT},
    {"ff 60 10", 3, FLOW_JUMP_INDIRECT},
    {"ff 1d 01 02 03 04", 6, FLOW_ODD},
    {"c3", 1, FLOW_RETURN},
    {"f3 c3", 2, FLOW_RETURN},
    {"c2 08 00", 3, FLOW_RETURN},
    {"0f 0b", 2, FLOW_STOP},
    {"cc", 1, FLOW_STOP},
    {"f4", 1, FLOW_STOP},
    {"0f 05", 2, FLOW_ODD},
    {"c7 f8 01 02 03 04", 6, FLOW_ODD},
    {"f3 0f 1e fa", 4, FLOW_NEXT},
    {"66 2e 0f 1f 84 00 00 00 00 00", 10, FLOW_NEXT},
    {"48 b8 01 02 03 04 05 06 07 08", 10, FLOW_NEXT},
    {"66 b8 01 02", 4, FLOW_NEXT},
    {"66 81 c0 01 02", 5, FLOW_NEXT},
    {"48 a1 01 02 03 04 05 06 07 08", 10, FLOW_NEXT},
    {"f6 05 01 02 03 04 05", 7, FLOW_NEXT},
    {"f7 d8", 2, FLOW_NEXT},
    {"64 48 8b 04 25 28 00 00 00", 9, FLOW_NEXT},
    {"c5 f8 77", 3, FLOW_NEXT},
    {"c4 e3 7d 18 c1 01", 6, FLOW_NEXT},
    {"62 f1 7c 48 10 44 24 01", 8, FLOW_NEXT},
    {"0f 38 00 c1", 4, FLOW_NEXT},
    {"66 0f 3a 0f c1 08", 6, FLOW_NEXT},
};

static size_t read_hex(const char *text, unsigned char *bytes)
{
    size_t count = 0;
    for (char *end; *text; text = *end ? end + 1 : end)
        bytes[count++] = (unsigned char)strtoul(text, &end, 16);
    return count;
}

static void test_known(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        unsigned char bytes[INSTRUCTION_MOST];
        const size_t count = read_hex(known[i].bytes, bytes);
        struct instruction in;
        if (!decode(bytes, count, &in) || in.length != known[i].length || in.flow != known[i].flow)
            fail_msg("%s: length %u, flow %u", known[i].bytes, in.length, in.flow);
        assert_false(decode(bytes, count - 1, &in)); // never reads what it was not given
    }
}

static void test_operands(void **state)
{
    (void)state;
    static const unsigned char load[] = {0x48, 0x8b, 0x0d, 1, 2, 3, 4};  // mov 0x4030201(%rip),%rcx
    static const unsigned char stack[] = {0x48, 0x8b, 0x44, 0x24, 0x18}; // mov 24(%rsp),%rax
    static const unsigned char back[] = {0xeb, 0xfe};
    struct instruction in;
    assert_true(decode(load, sizeof load, &in));
    assert_true(in.rip_relative && in.disp_at == 3 && in.disp == 0x4030201 && in.reg == 1);
    assert_true(decode(stack, sizeof stack, &in));
    assert_true(in.base == REGISTER_STACK && in.index == NO_REGISTER && in.disp == 24);
    assert_true(decode(back, sizeof back, &in));
    assert_int_equal(decode_target(&in, 1000), 1000);
}

#ifdef HAVE_ZYDIS
#include <Zydis/Zydis.h>

static ZydisDecoder oracle;

static enum flow flow_by(const ZydisDecodedInstruction *in, const ZydisDecodedOperand *operand)
{
    const bool direct = operand[0].type == ZYDIS_OPERAND_TYPE_IMMEDIATE;
    if (in->mnemonic == ZYDIS_MNEMONIC_XEND)
        return FLOW_NEXT;
    if (in->mnemonic == ZYDIS_MNEMONIC_XBEGIN || in->mnemonic == ZYDIS_MNEMONIC_XABORT)
        return FLOW_ODD;
    switch (in->meta.category) {
    case ZYDIS_CATEGORY_CALL:
        return in->meta.branch_type == ZYDIS_BRANCH_TYPE_FAR ? FLOW_ODD
               : direct                                      ? FLOW_CALL
                                                             : FLOW_CALL_INDIRECT;
    case ZYDIS_CATEGORY_UNCOND_BR:
        return in->meta.branch_type == ZYDIS_BRANCH_TYPE_FAR ? FLOW_ODD
               : direct                                      ? FLOW_JUMP
                                                             : FLOW_JUMP_INDIRECT;
    case ZYDIS_CATEGORY_COND_BR:
        return FLOW_BRANCH;
    default:
        return FLOW_NEXT;
    }
}

// What we say of the bytes, if it is one that the oracle knows; false if it knows none.
static bool agree(const unsigned char *bytes, size_t count, unsigned *length)
{
    ZydisDecodedInstruction theirs;
    ZydisDecodedOperand operand[ZYDIS_MAX_OPERAND_COUNT];
    if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&oracle, bytes, count, &theirs, operand)))
        return false;
    // Instructions of a processor that was never sold, with encodings of their own.
    if (theirs.encoding == ZYDIS_INSTRUCTION_ENCODING_MVEX ||
        (theirs.encoding == ZYDIS_INSTRUCTION_ENCODING_VEX && theirs.meta.branch_type))
        return false;
    struct instruction ours;
    const bool known_here = decode(bytes, count, &ours);
    const bool relative = theirs.attributes & ZYDIS_ATTRIB_HAS_MODRM && theirs.raw.modrm.mod == 0 &&
                          theirs.raw.modrm.rm == 5 && theirs.raw.disp.size == 32;
    const enum flow flow = flow_by(&theirs, operand);
    const bool branches = flow != FLOW_NEXT;
    *length = theirs.length;
    if (!known_here || ours.length != theirs.length || ours.rip_relative != relative ||
        (relative && ours.disp_at != theirs.raw.disp.offset) ||
        (branches &&
         (ours.flow != flow || ((flow == FLOW_CALL || flow == FLOW_JUMP || flow == FLOW_BRANCH) &&
                                ours.immediate != operand[0].imm.value.s)))) {
        char text[64] = "";
        for (unsigned i = 0; i < theirs.length; i++)
            snprintf(text + 3 * i, 4, "%02x ", bytes[i]);
        fail_msg("%s(%s): length %u, flow %u", text, ZydisMnemonicGetString(theirs.mnemonic),
                 known_here ? ours.length : 0, ours.flow);
    }
    return true;
}

// Whether the bytes have a plain length, which says what decode() says.
static bool is_plain(const unsigned char *bytes)
{
    struct instruction in;
    const unsigned length = decode_plain_length(bytes);
    if (length == 0)
        return false;
    assert_true(decode(bytes, INSTRUCTION_MOST, &in));
    assert_int_equal(in.length, length);
    assert_int_equal(in.flow, FLOW_NEXT);
    assert_false(decode_is_padding(&in));
    return true;
}

static void test_random_bytes(void **state)
{
    (void)state;
    static const unsigned char first[] = {0x66, 0x48, 0x0f, 0xc4, 0xc5, 0x62, 0xf3, 0xff};
    uint64_t random = 88172645463325252, valid = 0;
    for (unsigned i = 0; i < 2000000; i++) {
        unsigned char bytes[16];
        for (unsigned k = 0; k < 2; k++) {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            memcpy(bytes + 8 * k, &random, 8);
        }
        if (i % 2)
            bytes[0] = first[i / 2 % sizeof first];
        if (i % 5 == 0)
            bytes[1] = 0x0f;
        unsigned length;
        valid += agree(bytes, INSTRUCTION_MOST, &length);
        is_plain(bytes);
        // Near the end of the code it is read with more care, to the same effect.
        struct instruction far, near;
        if (decode(bytes, INSTRUCTION_MOST, &far)) {
            assert_true(decode(bytes, far.length, &near));
            assert_memory_equal(&far, &near, sizeof far);
            assert_false(decode(bytes, far.length - 1u, &near));
        }
    }
    assert_true(valid > 500000);
}

static void check_file(const char *path)
{
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &status))
        return;
    const unsigned char *file = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    assert_ptr_not_equal(file, MAP_FAILED);
    const Elf64_Ehdr *head = (const void *)file;
    const Elf64_Phdr *segment = (const void *)(file + head->e_phoff);
    uint64_t checked = 0, plain = 0;
    for (unsigned i = 0; i < head->e_phnum; i++) {
        if (segment[i].p_type != PT_LOAD || !(segment[i].p_flags & PF_X))
            continue;
        const unsigned char *code = file + segment[i].p_offset;
        for (size_t at = 0; at < segment[i].p_filesz && checked < 3000000; checked++) {
            unsigned length = 1;
            agree(code + at, segment[i].p_filesz - at, &length);
            plain += segment[i].p_filesz - at >= INSTRUCTION_MOST && is_plain(code + at);
            at += length;
        }
    }
    assert_true(checked > 100);
    assert_true(plain > checked / 2); // worth asking for
    munmap((void *)file, (size_t)status.st_size);
}

static void test_real_code(void **state)
{
    (void)state;
    ZydisDecoderInit(&oracle, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    check_file("/proc/self/exe");
    check_file("/lib/x86_64-linux-gnu/libc.so.6");
    check_file("/lib/x86_64-linux-gnu/libm.so.6");
    check_file("/usr/lib/x86_64-linux-gnu/libcrypto.so.3");
    check_file("/usr/bin/git");
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known),
        cmocka_unit_test(test_operands),
#ifdef HAVE_ZYDIS
        cmocka_unit_test(test_real_code),
        cmocka_unit_test(test_random_bytes),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
