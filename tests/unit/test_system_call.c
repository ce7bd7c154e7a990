// SPDX-License-Identifier: MIT
// Which number the code before a system call loads: said where it is certain, and nothing
// elsewhere.

#include "unwind/arch.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <ucontext.h>
// after those above
#include <cmocka.h>

#define CODE(...) ((const unsigned char[]){__VA_ARGS__, 0x0f, 0x05})
#define NUMBER(...)                                                                                \
    arch_coded_number(CODE(__VA_ARGS__) + sizeof((unsigned char[]){__VA_ARGS__}),                  \
                      sizeof((unsigned char[]){__VA_ARGS__}))

static void reads_what_was_loaded(void **state)
{
    (void)state;
    assert_int_equal(NUMBER(0xb8, 1, 0, 0, 0), 1);                        // mov $1, %eax
    assert_int_equal(NUMBER(0xc3, 0xb8, 0xca, 0, 0, 0), 202);             // after another function
    assert_int_equal(NUMBER(0x31, 0xc0), 0);                              // xor %eax, %eax
    assert_int_equal(NUMBER(0x48, 0x31, 0xc0), 0);                        // xor %rax, %rax
    assert_int_equal(NUMBER(0x48, 0xc7, 0xc0, 15, 0, 0, 0), 15);          // mov $15, %rax
    assert_int_equal(NUMBER(0xb8, 0xe7, 0, 0, 0, 0x48, 0x89, 0xd7), 231); // mov %rdx, %rdi
    assert_int_equal(NUMBER(0xb8, 0xca, 0, 0, 0, 0x40, 0x80, 0xf6, 0x81), 202); // xor $0x81, %sil
    assert_int_equal(NUMBER(0xb8, 9, 0, 0, 0, 0x45, 0x31, 0xc0), 9);            // xor %r8d, %r8d
    assert_int_equal(NUMBER(0xb8, 9, 0, 0, 0, 0x41, 0xb8, 5, 0, 0, 0), 9);      // mov $5, %r8d
    assert_int_equal(NUMBER(0xb8, 9, 0, 0, 0, 0x48, 0x8b, 0x7c, 0x24, 8), 9);   // mov 8(%rsp), %rdi
    assert_int_equal(NUMBER(0xb8, 9, 0, 0, 0, 0x74, 0x20), 9);                  // je
}

static void says_nothing_of_other_code(void **state)
{
    (void)state;
    assert_int_equal(NUMBER(0x48, 0x89, 0xf8), ARCH_CALL_UNKNOWN);       // mov %rdi, %rax
    assert_int_equal(NUMBER(0x41, 0xb8, 5, 0, 0, 0), ARCH_CALL_UNKNOWN); // mov $5, %r8d
    assert_int_equal(NUMBER(0x45, 0x31, 0xc0), ARCH_CALL_UNKNOWN);       // xor %r8d, %r8d
    assert_int_equal(NUMBER(0xb8, 9, 0, 0, 0, 0x48, 0x89, 0xf8),
                     ARCH_CALL_UNKNOWN);                                 // and then %rax
    assert_int_equal(NUMBER(0xb8, 9, 0, 0, 0, 0x58), ARCH_CALL_UNKNOWN); // pop %rax
    assert_int_equal(NUMBER(0xb8, 9, 0, 0, 0, 0xe8, 0, 0, 0, 0), ARCH_CALL_UNKNOWN); // a call
    assert_int_equal(NUMBER(0xb8, 9, 0, 0, 0, 0x0f, 0x94, 0xc0), ARCH_CALL_UNKNOWN); // sete %al
    assert_int_equal(NUMBER(0xb8, 9, 0, 0, 0, 0x80, 0xf4, 1), ARCH_CALL_UNKNOWN);    // xor $1, %ah
    assert_int_equal(NUMBER(0xb8, 0xff, 0xff, 0xff, 0x7f), ARCH_CALL_UNKNOWN); // none that there is
    assert_int_equal(NUMBER(0x90), ARCH_CALL_UNKNOWN);
}

static long call_at(const unsigned char *pc, greg_t rcx, greg_t rax, greg_t flags, size_t readable)
{
    ucontext_t context;
    memset(&context, 0, sizeof context);
    greg_t *registers = context.uc_mcontext.gregs;
    registers[REG_RIP] = (greg_t)pc;
    registers[REG_RCX] = rcx;
    registers[REG_RAX] = rax;
    registers[REG_R11] = 0x246;
    registers[REG_EFL] = flags;
    return arch_system_call(&context, readable);
}

static void knows_when_there_was_a_call(void **state)
{
    (void)state;
    static const unsigned char code[] = {0xb8, 1, 0, 0, 0, 0x0f, 0x05, 0xc3};
    const unsigned char *behind = code + 7;
    assert_int_equal(call_at(behind, (greg_t)behind, 77, 0x246, 7), 1);
    assert_int_equal(call_at(behind, (greg_t)behind, 77, 0x246, 2), ARCH_CALL_UNKNOWN);
    assert_int_equal(call_at(behind, (greg_t)behind, 77, 0x246, 0), ARCH_CALL_NONE); // not readable
    assert_int_equal(call_at(behind, (greg_t)behind + 1, 77, 0x246, 7), ARCH_CALL_NONE);
    assert_int_equal(call_at(behind, (greg_t)behind, 77, 0x202, 7), ARCH_CALL_NONE); // other flags
    assert_int_equal(call_at(code + 5, (greg_t)behind, 219, 0x246, 5), 219); // made once more
    // A function that was called through %rcx.
    assert_int_equal(call_at(code + 5, (greg_t)(code + 5), 0, 0x246, 5), ARCH_CALL_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_what_was_loaded),
        cmocka_unit_test(says_nothing_of_other_code),
        cmocka_unit_test(knows_when_there_was_a_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
