// SPDX-License-Identifier: MIT
// Filters of system calls: what they say is what the kernel makes of them, and what that means for
// the agent.

#include "../random.h"
#include "agent/interpose/seccomp_filter.h"
#include <errno.h>
#include <linux/audit.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define RETURN(action) BPF_STMT(BPF_RET | BPF_K, action)
// The action if the accumulator is that.
#define IF(value, action) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1), RETURN(action)

static void all_is_allowed(void **state)
{
    (void)state;
    static const struct sock_filter filter[] = {RETURN(SECCOMP_RET_ALLOW)};
    assert_int_equal(seccomp_filter_forbids(filter, 1, true), 0);
    static const struct sock_filter logging[] = {RETURN(SECCOMP_RET_LOG)};
    assert_int_equal(seccomp_filter_forbids(logging, 1, true), 0);
}

static void a_list_of_what_may_be_done(void **state)
{
    (void)state;
    static const struct sock_filter filter[] = {
        LOAD(nr),
        IF(SYS_read, SECCOMP_RET_ALLOW),
        IF(SYS_write, SECCOMP_RET_ALLOW),
        IF(SYS_rt_sigreturn, SECCOMP_RET_ALLOW),
        IF(SYS_rt_sigprocmask, SECCOMP_RET_ALLOW),
        IF(SYS_clock_gettime, SECCOMP_RET_ALLOW),
        IF(SYS_munmap, SECCOMP_RET_ALLOW),
        IF(SYS_getpid, SECCOMP_RET_ALLOW),
        IF(SYS_gettid, SECCOMP_RET_ALLOW),
        RETURN(SECCOMP_RET_TRAP),
    };
    assert_int_equal(seccomp_filter_forbids(filter, COUNT(filter), false),
                     FILTER_NO_CLOCKS | FILTER_NO_ADVICE | FILTER_NO_GOODBYE | FILTER_NO_STACKS |
                         FILTER_NO_PENDING);
    assert_true(seccomp_filter_forbids(filter, COUNT(filter), true) & FILTER_LEAVE);
}

static void what_fails_is_borne_but_where_it_must_not(void **state)
{
    (void)state;
    static const struct sock_filter filter[] = {LOAD(nr), IF(SYS_write, SECCOMP_RET_ALLOW),
                                                RETURN(SECCOMP_RET_ERRNO | EPERM)};
    assert_int_equal(seccomp_filter_forbids(filter, COUNT(filter), true), FILTER_LEAVE);
    static const struct sock_filter one[] = {
        LOAD(nr), IF(SYS_perf_event_open, SECCOMP_RET_ERRNO | EPERM), RETURN(SECCOMP_RET_ALLOW)};
    assert_int_equal(seccomp_filter_forbids(one, COUNT(one), true), 0);
}

static void who_would_have_to_be_asked_is_not(void **state)
{
    (void)state;
    static const uint32_t actions[] = {SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_KILL_THREAD,
                                       SECCOMP_RET_TRAP, SECCOMP_RET_TRACE, SECCOMP_RET_USER_NOTIF};
    for (unsigned i = 0; i < COUNT(actions); i++) {
        const struct sock_filter filter[] = {LOAD(nr), IF(SYS_perf_event_open, actions[i]),
                                             RETURN(SECCOMP_RET_ALLOW)};
        assert_int_equal(seccomp_filter_forbids(filter, COUNT(filter), false), FILTER_NO_CLOCKS);
    }
}

static void arguments_count(void **state)
{
    (void)state;
    // Only the clock of the time of day may be read.
    static const struct sock_filter clocks[] = {
        LOAD(nr),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clock_gettime, 0, 3),
        LOAD(args[0]),
        IF(0, SECCOMP_RET_ALLOW),
        RETURN(SECCOMP_RET_KILL_PROCESS),
        RETURN(SECCOMP_RET_ALLOW),
    };
    struct sock_filter fixed[COUNT(clocks)];
    memcpy(fixed, clocks, sizeof clocks);
    fixed[1].jf = (unsigned char)(COUNT(clocks) - 3);
    assert_int_equal(seccomp_filter_forbids(fixed, COUNT(fixed), false), FILTER_LEAVE);
}

static void damaged_ones_say_the_worst(void **state)
{
    (void)state;
    const struct seccomp_data call = {.nr = SYS_getpid};
    assert_int_equal(seccomp_filter_action(NULL, 0, &call), SECCOMP_RET_KILL_PROCESS);
    for (unsigned code = 0; code < 65536; code++) {
        const struct sock_filter filter[] = {{(uint16_t)code, 255, 255, UINT32_MAX},
                                             {(uint16_t)code, 0, 0, 3},
                                             {(uint16_t)code, 1, 0, 64},
                                             LOAD(nr)};
        seccomp_filter_action(filter, COUNT(filter), &call);
    }
}

// A program of random steps over what a call says, whose result is the error that the call gets.
#define STEPS 24

static struct sock_filter random_step(unsigned left)
{
    static const uint16_t kinds[] = {
        BPF_LD | BPF_W | BPF_ABS,
        BPF_LD | BPF_IMM,
        BPF_LDX | BPF_W | BPF_IMM,
        BPF_LD | BPF_W | BPF_LEN,
        BPF_LD | BPF_MEM,
        BPF_LDX | BPF_W | BPF_MEM,
        BPF_ST,
        BPF_STX,
        BPF_ALU | BPF_ADD | BPF_K,
        BPF_ALU | BPF_ADD | BPF_X,
        BPF_ALU | BPF_SUB | BPF_K,
        BPF_ALU | BPF_SUB | BPF_X,
        BPF_ALU | BPF_MUL | BPF_K,
        BPF_ALU | BPF_MUL | BPF_X,
        BPF_ALU | BPF_DIV | BPF_K,
        BPF_ALU | BPF_AND | BPF_K,
        BPF_ALU | BPF_AND | BPF_X,
        BPF_ALU | BPF_OR | BPF_K,
        BPF_ALU | BPF_OR | BPF_X,
        BPF_ALU | BPF_XOR | BPF_K,
        BPF_ALU | BPF_XOR | BPF_X,
        BPF_ALU | BPF_LSH | BPF_K,
        BPF_ALU | BPF_RSH | BPF_K,
        BPF_ALU | BPF_NEG,
        BPF_JMP | BPF_JEQ | BPF_K,
        BPF_JMP | BPF_JEQ | BPF_X,
        BPF_JMP | BPF_JGT | BPF_K,
        BPF_JMP | BPF_JGT | BPF_X,
        BPF_JMP | BPF_JGE | BPF_K,
        BPF_JMP | BPF_JGE | BPF_X,
        BPF_JMP | BPF_JSET | BPF_K,
        BPF_JMP | BPF_JSET | BPF_X,
        BPF_JMP | BPF_JA,
        BPF_MISC | BPF_TAX,
        BPF_MISC | BPF_TXA,
    };
    struct sock_filter step = {.code = kinds[next_random() % COUNT(kinds)]};
    step.k = (uint32_t)next_random();
    if (BPF_CLASS(step.code) == BPF_JMP) {
        step.jt = (uint8_t)(next_random() % (left + 1));
        step.jf = (uint8_t)(next_random() % (left + 1));
        if (BPF_OP(step.code) == BPF_JA)
            step.k %= left + 1;
    } else if (BPF_CLASS(step.code) == BPF_ALU &&
               (BPF_OP(step.code) == BPF_LSH || BPF_OP(step.code) == BPF_RSH)) {
        step.k %= 32;
    } else if (step.code == (BPF_LD | BPF_W | BPF_ABS)) {
        // Not where the call was made: that is nobody's business here.
        step.k = next_random() % 2 ? 0 : 16 + (uint32_t)(next_random() % 12) * 4;
    } else if (BPF_CLASS(step.code) == BPF_ST || BPF_CLASS(step.code) == BPF_STX ||
               BPF_MODE(step.code) == BPF_MEM) {
        step.k %= 4; // which the first steps have filled
    } else if (step.code == (BPF_ALU | BPF_DIV | BPF_K)) {
        step.k |= 1;
    }
    return step;
}

static unsigned random_filter(struct sock_filter *filter)
{
    const struct sock_filter before[] = {LOAD(nr),
                                         IF(SYS_write, SECCOMP_RET_ALLOW),
                                         IF(SYS_exit_group, SECCOMP_RET_ALLOW),
                                         BPF_STMT(BPF_ST, 0),
                                         BPF_STMT(BPF_ST, 1),
                                         BPF_STMT(BPF_ST, 2),
                                         BPF_STMT(BPF_ST, 3)};
    const struct sock_filter behind[] = {
        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xfff),
        BPF_STMT(BPF_ALU | BPF_OR | BPF_K, SECCOMP_RET_ERRNO),
        BPF_STMT(BPF_RET | BPF_A, 0),
    };
    memcpy(filter, before, sizeof before);
    for (unsigned i = 0; i < STEPS; i++)
        filter[COUNT(before) + i] = random_step(STEPS - 1 - i);
    memcpy(filter + COUNT(before) + STEPS, behind, sizeof behind);
    return COUNT(before) + STEPS + COUNT(behind);
}

// What the kernel says; -1: it does not take the filter.
static int ask_kernel(const struct sock_filter *filter, unsigned count, const uint64_t *argument)
{
    int ends[2], error = -1;
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        struct sock_fprog program = {(unsigned short)count, (struct sock_filter *)filter};
        if (!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
            !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
            errno = 0;
            syscall(SYS_getppid, argument[0], argument[1], argument[2], argument[3], argument[4],
                    argument[5]);
            error = errno;
        }
        const ssize_t written = write(ends[1], &error, sizeof error);
        syscall(SYS_exit_group, written != sizeof error);
    }
    assert_int_equal(waitpid(child, NULL, 0), child);
    close(ends[1]);
    if (read(ends[0], &error, sizeof error) != sizeof error)
        error = -2;
    close(ends[0]);
    return error;
}

static void it_says_what_the_kernel_says(void **state)
{
    (void)state;
    unsigned taken = 0, different = 0;
    for (unsigned round = 0; round < 300; round++) {
        struct sock_filter filter[64];
        struct seccomp_data call = {.nr = SYS_getppid, .arch = AUDIT_ARCH_X86_64};
        const unsigned count = random_filter(filter);
        for (unsigned i = 0; i < 6; i++)
            call.args[i] = next_random();
        uint64_t argument[6];
        memcpy(argument, call.args, sizeof argument);
        const int kernel = ask_kernel(filter, count, argument);
        const uint32_t ours = seccomp_filter_action(filter, count, &call);
        if (kernel == -1)
            continue;
        taken++;
        assert_int_equal(ours & SECCOMP_RET_ACTION_FULL, SECCOMP_RET_ERRNO);
        assert_int_equal(ours & SECCOMP_RET_DATA, kernel);
        different += kernel != 0;
    }
    if (taken == 0)
        skip(); // no filters here
    assert_true(taken > 200 && different > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_is_allowed),
        cmocka_unit_test(a_list_of_what_may_be_done),
        cmocka_unit_test(what_fails_is_borne_but_where_it_must_not),
        cmocka_unit_test(who_would_have_to_be_asked_is_not),
        cmocka_unit_test(arguments_count),
        cmocka_unit_test(damaged_ones_say_the_worst),
        cmocka_unit_test(it_says_what_the_kernel_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
