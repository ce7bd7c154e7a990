// SPDX-License-Identifier: MIT
// What it costs to patch the call sites of a program. Preloaded into any program: instruments its
// functions one by one, as a tracker does that meets them at their first call, prints what each
// step cost per site, and ends before main().
//
//   LD_PRELOAD=build/bench/patch_sites.so /usr/bin/perl
//   PATCH_EVERY=8      every eighth function (1): what runs is scattered over a program
//   PATCH_ONLY=TEXT    only modules whose path holds this; the program's own is "main program"
//
// Counts instructions, too, under callgrind:
//
//   valgrind --tool=callgrind --toggle-collect=instrument ...

#include "loadmap/loadmap.h"
#include "patch/functions/jump_table.h"
#include "patch/functions/leaf_functions.h"
#include "patch/transaction.h"
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

enum step { STEP_FIND, STEP_TABLES, STEP_LEAVES, STEP_STUBS, STEP_APPLY, STEPS };

static const char *const step_names[STEPS] = {"find sites", "jump tables", "leaf functions",
                                              "make stubs", "write code"};

static uint64_t cost[STEPS], patched, functions, batches;
static size_t change_count;
static uintptr_t tables[1024];
static unsigned table_count;
static struct site_counts counts;
static unsigned every = 1, met;

static uint64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

__attribute__((naked)) static void hook(void)
{
    __asm__("ret");
}

static void note_stayed(uintptr_t address, enum site_stays why)
{
    if (why == STAYS_TABLE && table_count < sizeof tables / sizeof *tables)
        tables[table_count++] = address;
}

static void ignore(uintptr_t function, void *context)
{
    (void)function;
    (void)context;
}

static void apply(void)
{
    if (patch_commit(THREADS_NONE))
        abort();
    patched += change_count;
    change_count = 0;
    batches++;
}

static void make_stub(struct site *site)
{
    const struct stub_plan plan = {
        .kind = STUB_HOOK, .before = hook, .after = hook, .push_target = true};
    struct stub *stub;
    change_count += !stub_make(site, &plan, &stub) && !patch_add(site, stub);
}

// Which calls need no stub. In place: the list is the program's for good.
static unsigned choose(const struct site_list *list, struct site **chosen)
{
    unsigned count = 0;
    for (unsigned i = 0; i < list->count; i++) {
        struct site *site = &list->site[i];
        const bool direct = site->kind == SITE_CALL && !site->thunk;
        if (site->form != FORM_TRAP && site->kind != SITE_TAIL &&
            !(direct && site->target && leaf_function_is(site->target, ignore, NULL)))
            chosen[count++] = site;
    }
    return count;
}

static int instrument(uintptr_t function, void *context)
{
    static struct site *chosen[8192];
    struct site_list list;
    (void)context;
    if (met++ % every)
        return 0;
    uint64_t at[STEPS + 1] = {now()};
    table_count = 0;
    if (patch_begin())
        abort();
    if (sites_find(function, &list, &counts)) {
        patch_end();
        return 0;
    }
    at[1] = now();
    for (unsigned i = 0; i < table_count; i++)
        jump_table_stays(tables[i], ignore, NULL);
    at[2] = now();
    const unsigned count = choose(&list, chosen);
    at[3] = now();
    for (unsigned i = 0; i < count; i++)
        make_stub(chosen[i]);
    at[4] = now();
    if (change_count)
        apply();
    patch_end();
    at[5] = now();
    for (unsigned i = 0; i < STEPS; i++)
        cost[i] += at[i + 1] - at[i];
    functions++;
    return 0;
}

static int visit_module(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size;
    (void)context;
    uintptr_t first = 0;
    for (int i = 0; i < info->dlpi_phnum && !first; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD && info->dlpi_phdr[i].p_flags & PF_X)
            first = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
    const char *only = getenv("PATCH_ONLY");
    const char *name = *info->dlpi_name ? info->dlpi_name : "main program";
    if (first && (!only || strstr(name, only)))
        sites_functions(first, instrument, NULL);
    return 0;
}

// Own calls into libc go through sites that are patched meanwhile, some of them by traps.
static void on_trap(int signal, siginfo_t *info, void *context)
{
    ucontext_t *interrupted = context;
    const uintptr_t to = sites_trapped((uintptr_t)interrupted->uc_mcontext.gregs[REG_RIP]);
    (void)info;
    if (!to)
        _exit(128 + signal);
    interrupted->uc_mcontext.gregs[REG_RIP] = (greg_t)to;
}

static void no_news(const struct module_info *module)
{
    (void)module;
}

static uint64_t cost_of_asking(void)
{
    enum { TIMES = 10000 };
    const uint64_t begin = now();
    for (unsigned i = 0; i < TIMES; i++)
        now();
    return (now() - begin) / TIMES;
}

static void report(void)
{
    uint64_t all = 0;
    const uint64_t asking = cost_of_asking() * functions;
    printf("%lu sites in %lu functions, %lu batches\n", patched, functions, batches);
    for (unsigned i = 0; i < STEPS && patched; i++) {
        const uint64_t own = cost[i] > asking ? cost[i] - asking : 0;
        printf("%-16s %6lu ns\n", step_names[i], own / patched);
        all += own;
    }
    printf("%-16s %6lu ns a site\n", "together", patched ? all / patched : 0);
    fflush(stdout);
}

__attribute__((constructor)) static void start(void)
{
    struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigaction(SIGTRAP, &action, NULL);
    if (getenv("PATCH_EVERY"))
        every = (unsigned)atoi(getenv("PATCH_EVERY"));
    if (every == 0 || loadmap_start(no_news) || sites_start()) {
        fprintf(stderr, "patch_sites: cannot patch here\n");
        _exit(1);
    }
    counts.stayed = note_stayed;
    dl_iterate_phdr(visit_module, NULL);
    report();
    _exit(0);
}
