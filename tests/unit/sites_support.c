// SPDX-License-Identifier: MIT
#include "sites_support.h"
#include "loadmap/loadmap.h"
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <ucontext.h>

#include <cmocka.h>

__thread uint64_t number;
static int64_t words[16]; // of adding_plan()
__thread const int64_t *numbers = words;
__thread uintptr_t told_target;
uint64_t hook_calls, traps_met;

static void (*volatile on_step)(uintptr_t pc, uintptr_t sp);
#define TRACE_FLAG 0x100

static void on_trap(int signal, siginfo_t *info, void *context)
{
    ucontext_t *interrupted = context;
    greg_t *registers = interrupted->uc_mcontext.gregs;
    (void)signal;
    if (info->si_code == TRAP_TRACE || info->si_code == TRAP_BRKPT) {
        if (on_step) {
            on_step((uintptr_t)registers[REG_RIP], (uintptr_t)registers[REG_RSP]);
            return;
        }
    }
    const uintptr_t to = sites_trapped((uintptr_t)registers[REG_RIP]);
    assert_true(to != 0);
    __atomic_fetch_add(&traps_met, 1, __ATOMIC_RELAXED);
    registers[REG_RIP] = (greg_t)to;
}

static void no_news(const struct module_info *module)
{
    (void)module;
}

void support_start(void)
{
    struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
    assert_int_equal(sigaction(SIGTRAP, &action, NULL), 0);
    assert_int_equal(loadmap_start(no_news), 0);
    assert_int_equal(sites_start(), 0);
}

int support_set_up(void **state)
{
    (void)state;
    support_start();
    return 0;
}

static int32_t from_thread(const void *variable)
{
    return (int32_t)((uintptr_t)variable - (uintptr_t)__builtin_thread_pointer());
}

__attribute__((naked)) static void count_call(void)
{
    // Every register and flag may be in use.
    __asm__("pushfq\n\tlock incq hook_calls(%rip)\n\tpopfq\n\t"
            "pushq 8(%rsp)\n\tpopq %fs:told_target@tpoff\n\tret");
}

__attribute__((naked)) static void count_return(void)
{
    __asm__("pushfq\n\tlock incq hook_calls(%rip)\n\tpopfq\n\tret");
}

struct stub_plan plain_plan(void)
{
    return (struct stub_plan){.kind = STUB_PLAIN};
}

struct stub_plan hook_plan(void)
{
    return (struct stub_plan){
        .kind = STUB_HOOK, .before = count_call, .after = count_return, .push_target = true};
}

struct stub_plan table_plan(uint32_t index)
{
    return (struct stub_plan){.kind = STUB_TABLE,
                              .tls_number = from_thread(&number),
                              .tls_table = from_thread(&numbers),
                              .index = index,
                              .before = count_return,
                              .after = count_return};
}

struct stub_plan adding_plan(int64_t word)
{
    static uint32_t count;
    uint32_t index = 0;
    while (index < count && words[index] != word)
        index++;
    assert_in_range(index, 0, 15);
    if (index == count)
        words[count++] = word;
    numbers = words;
    return table_plan(index);
}

unsigned patch_chain(const void *function, const struct chain_target *targets, unsigned count)
{
    struct site_list list;
    struct site_change changes[16];
    struct stub_arm arms[STUB_ARMS];
    const struct stub_plan hook = hook_plan();
    assert_int_equal(sites_find((uintptr_t)function, &list, NULL), 0);
    assert_in_range(list.count, 0, 16);
    for (unsigned i = 0; i < list.count; i++) {
        struct site *site = changes[i].site = &list.site[i];
        struct stub_plan plan = {.kind = STUB_CHAIN, .arms = arms, .arm_count = count};
        assert_int_equal(stub_make(site, &hook, &plan.otherwise), 0);
        for (unsigned k = 0; k < count; k++) {
            struct stub_plan arm = table_plan(targets[k].index);
            arm.target = arms[k].target = targets[k].target;
            arms[k].stub = NULL;
            if (site->kind != SITE_TAIL_INDIRECT)
                assert_int_equal(stub_make(site, &arm, &arms[k].stub), 0);
        }
        assert_int_equal(stub_make(site, &plan, &changes[i].stub), 0);
    }
    assert_int_equal(sites_apply(changes, list.count, COMPANY_THREADS), 0);
    return list.count;
}

unsigned patch(const void *function, const struct stub_plan *plan)
{
    struct site_list list;
    assert_int_equal(sites_find((uintptr_t)function, &list, NULL), 0);
    struct site_change changes[16];
    assert_in_range(list.count, 0, 16);
    for (unsigned i = 0; i < list.count; i++) {
        changes[i].site = &list.site[i];
        assert_int_equal(stub_make(changes[i].site, plan, &changes[i].stub), 0);
    }
    assert_int_equal(sites_apply(changes, list.count, COMPANY_THREADS), 0);
    return list.count;
}

void unpatch(const void *function)
{
    struct site_list list;
    assert_int_equal(sites_find((uintptr_t)function, &list, NULL), 0);
    struct site_change changes[16] = {0};
    for (unsigned i = 0; i < list.count; i++)
        changes[i].site = &list.site[i];
    assert_int_equal(sites_apply(changes, list.count, COMPANY_THREADS), 0);
}

long step_through(long (*function)(long), long argument, void (*seen)(uintptr_t pc, uintptr_t sp))
{
    on_step = seen;
    __asm__ volatile("pushfq\n\torq %0, (%%rsp)\n\tpopfq" ::"i"(TRACE_FLAG) : "cc", "memory");
    const long result = function(argument);
    __asm__ volatile("pushfq\n\tandq %0, (%%rsp)\n\tpopfq" ::"i"(~TRACE_FLAG) : "cc", "memory");
    on_step = NULL;
    return result;
}
