// SPDX-License-Identifier: MIT
// Threads at work in code whose call sites are patched, redirected and unpatched all the time.
//
//   patch_stress SECONDS THREADS       prints what was done; exits with 1 if a result was wrong

#include "loadmap/loadmap.h"
#include "patch/transaction.h"
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <ucontext.h>

uint64_t patch_work(uint64_t seed);

#define SEEDS 64
#define THREADS_MOST 64
#define SITES_MOST 200000
#define STUBS 4
#define BATCH_MOST 4000

static uint64_t expected[SEEDS];
static _Atomic bool stop;
static _Atomic uint64_t traps, rounds, wrong;
// What stubs count with, and what they add.
static const int64_t words[] = {7, INT64_MIN};
static __thread uint64_t number;
static __thread const int64_t *table = words;

static struct patched {
    struct site *site;
    struct stub *stub[STUBS];
} sites[SITES_MOST];
static size_t site_count;

static void on_trap(int signal, siginfo_t *info, void *context)
{
    ucontext_t *interrupted = context;
    const uintptr_t to = sites_trapped((uintptr_t)interrupted->uc_mcontext.gregs[REG_RIP]);
    (void)signal;
    (void)info;
    if (!to)
        abort();
    traps++;
    interrupted->uc_mcontext.gregs[REG_RIP] = (greg_t)to;
}

__attribute__((naked)) static void hook(void)
{
    __asm__("ret");
}

// Tail jumps have no stub that adds.
static struct stub_plan plan_number(unsigned which, const struct site *site)
{
    const uintptr_t thread = (uintptr_t)__builtin_thread_pointer();
    const bool tail = site->kind == SITE_TAIL || site->kind == SITE_TAIL_INDIRECT;
    struct stub_plan plan = {.kind = which == 0           ? STUB_PLAIN
                                     : which == 3 || tail ? STUB_HOOK
                                                          : STUB_TABLE,
                             .index = which - 1,
                             .tls_number = (int32_t)((uintptr_t)&number - thread),
                             .tls_table = (int32_t)((uintptr_t)&table - thread),
                             .before = hook,
                             .after = hook,
                             .push_target = true};
    return plan;
}

static int take_function(uintptr_t function, void *context)
{
    struct site_list list;
    (void)context;
    if (sites_find(function, &list, NULL))
        return 0;
    for (unsigned i = 0; i < list.count && site_count < SITES_MOST; i++) {
        struct patched *patched = &sites[site_count];
        patched->site = &list.site[i];
        bool made = true;
        for (unsigned k = 0; k < STUBS && made; k++) {
            const struct stub_plan plan = plan_number(k, patched->site);
            made = !stub_make(patched->site, &plan, &patched->stub[k]);
        }
        site_count += made;
    }
    return 0;
}

static void take_module(const void *address)
{
    if (sites_functions((uintptr_t)address, take_function, NULL))
        abort();
}

static void *work(void *argument)
{
    for (uint64_t i = (uintptr_t)argument; !stop; i++) {
        wrong += patch_work(i % SEEDS) != expected[i % SEEDS];
        rounds++;
    }
    return NULL;
}

static uint64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

// Some sites, each to one of its stubs or back.
static size_t choose(unsigned *random)
{
    const unsigned share = 1 + (unsigned)rand_r(random) % 40, only = (unsigned)rand_r(random) % 8;
    size_t count = 0;
    for (size_t i = 0; i < site_count && count < BATCH_MOST; i++) {
        if ((unsigned)rand_r(random) % 40 >= share)
            continue;
        const unsigned which = only < STUBS ? only : (unsigned)rand_r(random) % (STUBS + 2);
        count += !patch_add(sites[i].site, which < STUBS ? sites[i].stub[which] : NULL);
    }
    return count;
}

static void no_news(const struct module_info *module)
{
    (void)module;
}

static void start(void)
{
    struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
    sigaction(SIGTRAP, &action, NULL);
    for (uint64_t i = 0; i < SEEDS; i++)
        expected[i] = patch_work(i);
    if (loadmap_start(no_news) || sites_start())
        abort();
    static const char *const of_modules[] = {"patch_work", "__cxa_throw", "_Unwind_Resume",
                                             "qsort"};
    for (size_t i = 0; i < sizeof of_modules / sizeof *of_modules; i++) {
        const void *address = dlsym(RTLD_DEFAULT, of_modules[i]);
        if (patch_begin())
            abort();
        take_module(address);
        patch_end();
    }
}

int main(int argc, char **argv)
{
    const uint64_t seconds = argc > 1 ? strtoul(argv[1], NULL, 10) : 3;
    const unsigned threads = argc > 2 ? (unsigned)atoi(argv[2]) : 8;
    pthread_t thread[THREADS_MOST];
    uint64_t batches = 0, changed = 0;
    unsigned random = 1;
    start();
    for (unsigned i = 0; i < threads && i < THREADS_MOST; i++)
        pthread_create(&thread[i], NULL, work, (void *)(uintptr_t)(i * 7));
    for (const uint64_t end = now() + seconds * 1000000000; now() < end; batches++) {
        int error = patch_begin();
        const size_t count = error ? 0 : choose(&random);
        error = error ? error : patch_commit(THREADS_OTHERS);
        patch_end();
        if (error) {
            printf("apply: %s\n", strerror(-error));
            return 1;
        }
        changed += count;
    }
    stop = true;
    for (unsigned i = 0; i < threads && i < THREADS_MOST; i++)
        pthread_join(thread[i], NULL);
    printf("sites %zu batches %lu changes %lu traps %lu rounds %lu wrong %lu\n", site_count,
           batches, changed, traps, rounds, wrong);
    return wrong != 0;
}
