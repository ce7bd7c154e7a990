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

int find_sites(uintptr_t function, struct site_list *list, struct site_counts *counts)
{
    assert_int_equal(patch_begin(), 0);
    const int error = sites_find(function, list, counts);
    patch_end();
    return error;
}

int make_stub(struct site *site, const struct stub_plan *plan, struct stub **stub)
{
    assert_int_equal(patch_begin(), 0);
    const int error = stub_make(site, plan, stub);
    patch_end();
    return error;
}

int lead_site(struct site *site, struct stub *stub)
{
    assert_int_equal(patch_begin(), 0);
    int error = patch_add(site, stub);
    error = error ? error : patch_commit(THREADS_OTHERS);
    patch_end();
    return error;
}

// The sites of a function are led to what `stub_for` makes of `how`.
static unsigned lead_all(const void *function,
                         struct stub *(*stub_for)(struct site *, const void *), const void *how)
{
    struct site_list list;
    assert_int_equal(patch_begin(), 0);
    assert_int_equal(sites_find((uintptr_t)function, &list, NULL), 0);
    for (unsigned i = 0; i < list.count; i++)
        assert_int_equal(patch_add(&list.site[i], stub_for(&list.site[i], how)), 0);
    assert_int_equal(patch_commit(THREADS_OTHERS), 0);
    patch_end();
    return list.count;
}

struct chain {
    const struct chain_target *targets;
    unsigned count;
};

static struct stub *stub_by_plan(struct site *site, const void *how)
{
    struct stub *stub;
    assert_int_equal(stub_make(site, how, &stub), 0);
    return stub;
}

static struct stub *chain_for(struct site *site, const void *how)
{
    const struct chain *chain = how;
    struct stub_arm arms[STUB_ARMS];
    const struct stub_plan hook = hook_plan();
    const struct stub_plan plan = {.kind = STUB_CHAIN,
                                   .arms = arms,
                                   .arm_count = chain->count,
                                   .otherwise = stub_by_plan(site, &hook)};
    for (unsigned i = 0; i < chain->count; i++) {
        struct stub_plan arm = table_plan(chain->targets[i].index);
        arm.target = chain->targets[i].target;
        arms[i].target = arm.target;
        arms[i].stub = site->kind == SITE_TAIL_INDIRECT ? NULL : stub_by_plan(site, &arm);
    }
    return stub_by_plan(site, &plan);
}

static struct stub *no_stub(struct site *site, const void *how)
{
    (void)site, (void)how;
    return NULL;
}

unsigned patch_chain(const void *function, const struct chain_target *targets, unsigned count)
{
    const struct chain chain = {targets, count};
    return lead_all(function, chain_for, &chain);
}

unsigned patch(const void *function, const struct stub_plan *plan)
{
    return lead_all(function, stub_by_plan, plan);
}

void unpatch(const void *function)
{
    lead_all(function, no_stub, NULL);
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
