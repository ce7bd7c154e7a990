// SPDX-License-Identifier: MIT
// Preloaded into any program: leads every call site of the program and its libraries through a stub
// that does nothing but what the site did, before main() runs, and lets the program work.
//
//   PATCH_STUBS=plain|table|hook        what the stubs do (plain)
//   PATCH_REPORT=FILE                   appends what was found, as JSON
//   PATCH_ONLY=TEXT                     patches only modules whose path holds this; the program's
//                                       own is "main program"
//   PATCH_TRAPS=1                       patches sites that take a signal each time, too
//   PATCH_DUMP=FILE                     tells of each site, and of each call that stays

#include "loadmap/loadmap.h"
#include "patch/transaction.h"
#include <alloca.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>

// What stubs count with, and what they add.
static const int64_t words[] = {3};
static __thread uint64_t number;
static __thread const int64_t *table = words;

static struct site_counts counts;
static size_t change_count;
static size_t failed_stubs;
static struct stub_plan plan;
static uint64_t traps;
static FILE *dump;
static uintptr_t base; // of the module that is being looked at

static void on_trap(int signal, siginfo_t *info, void *context)
{
    ucontext_t *interrupted = context;
    const uintptr_t to = sites_trapped((uintptr_t)interrupted->uc_mcontext.gregs[REG_RIP]);
    (void)info;
    if (!to) {
        // Not ours: as if we were not here.
        struct sigaction fall = {.sa_handler = SIG_DFL};
        sigaction(signal, &fall, NULL);
        return;
    }
    __atomic_fetch_add(&traps, 1, __ATOMIC_RELAXED);
    interrupted->uc_mcontext.gregs[REG_RIP] = (greg_t)to;
}

// Called from stubs, with every register in use.
__attribute__((naked)) static void hook(void)
{
    __asm__("ret");
}

static void note_stayed(uintptr_t address, enum site_stays why)
{
    fprintf(dump, "stays %lx %u\n", address - base, why);
}

static bool is_tail(const struct site *site)
{
    return site->kind == SITE_TAIL || site->kind == SITE_TAIL_INDIRECT;
}

static int patch_function(uintptr_t function, void *context)
{
    struct site_list list;
    (void)context;
    if (sites_find(function, &list, &counts))
        return 0;
    for (unsigned i = 0; i < list.count; i++) {
        struct site *site = &list.site[i];
        struct stub *stub;
        if (dump)
            fprintf(dump, "site %lx %u %u %u\n", site->address - base, site->kind, site->form,
                    site->length);
        if (site->form == FORM_TRAP && !getenv("PATCH_TRAPS"))
            continue;
        struct stub_plan own = plan;
        if (plan.kind == STUB_TABLE && is_tail(site))
            own.kind = STUB_PLAIN; // no stub of a tail jump adds
        if (stub_make(site, &own, &stub) || patch_add(site, stub))
            failed_stubs++;
        else
            change_count++;
    }
    return 0;
}

static int patch_module(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size;
    (void)context;
    uintptr_t first = 0;
    for (int i = 0; i < info->dlpi_phnum && !first; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD && info->dlpi_phdr[i].p_flags & PF_X)
            first = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
    const char *only = getenv("PATCH_ONLY");
    if (!first || (only && !strstr(*info->dlpi_name ? info->dlpi_name : "main program", only)))
        return 0;
    base = info->dlpi_addr;
    sites_functions(first, patch_function, NULL);
    return 0;
}

static uint64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static void choose_plan(void)
{
    const char *stubs = getenv("PATCH_STUBS");
    const uintptr_t thread = (uintptr_t)__builtin_thread_pointer();
    plan.tls_number = (int32_t)((uintptr_t)&number - thread);
    plan.tls_table = (int32_t)((uintptr_t)&table - thread);
    if (!stubs || !strcmp(stubs, "plain"))
        return;
    plan.kind = strcmp(stubs, "hook") ? STUB_TABLE : STUB_HOOK;
    plan.before = plan.after = hook;
    plan.push_target = true;
}

static void report(uint64_t found, uint64_t applied)
{
    const char *path = getenv("PATCH_REPORT");
    FILE *file = path ? fopen(path, "ae") : NULL;
    if (!file)
        return;
    fprintf(file,
            "{\"functions\": %lu, \"sites\": [%lu, %lu, %lu, %lu], \"forms\": [%lu, %lu, %lu, %lu, "
            "%lu], ",
            counts.functions, counts.sites[0], counts.sites[1], counts.sites[2], counts.sites[3],
            counts.forms[0], counts.forms[1], counts.forms[2], counts.forms[3], counts.forms[4]);
    fprintf(file, "\"stays\": [");
    for (unsigned i = 0; i < STAYS; i++)
        fprintf(file, "%s%lu", i ? ", " : "", counts.stays[i]);
    fprintf(
        file,
        "], \"patched\": %zu, \"failed\": %zu, \"find\": %lu, \"apply\": %lu, \"bytes\": %lu}\n",
        change_count, failed_stubs, found, applied, sites_bytes());
    fclose(file);
}

// To the unwinder stubs are frames, and so is what follows: the program sees neither.
__attribute__((visibility("default"))) int backtrace(void **buffer, int size)
{
    int (*real)(void **, int) = (int (*)(void **, int))dlsym(RTLD_NEXT, "backtrace");
    const size_t most = 2 * (size_t)size + 8;
    void **frames = alloca(most * sizeof *frames);
    size_t count = (size_t)real(frames, (int)most), own = 0;
    count = sites_clean_backtrace(frames, count);
    while (own < count && frames[own] != __builtin_return_address(0))
        own++;
    if (own == count) // by a patched call
        for (own = 0; own < count; own++)
            if ((uintptr_t)frames[own] == sites_true_pc((uintptr_t)__builtin_return_address(0)))
                break;
    count = count - own < (size_t)size ? count - own : (size_t)size;
    memcpy(buffer, frames + own, count * sizeof *frames);
    return (int)count;
}

struct trace {
    _Unwind_Trace_Fn function;
    void *argument;
    unsigned frames;
};

static _Unwind_Reason_Code on_frame(struct _Unwind_Context *context, void *argument)
{
    struct trace *trace = argument;
    struct stub_place place;
    if (sites_locate(_Unwind_GetIP(context), &place) || trace->frames++ == 0)
        return _URC_NO_REASON;
    return trace->function(context, trace->argument);
}

__attribute__((visibility("default"))) _Unwind_Reason_Code
_Unwind_Backtrace(_Unwind_Trace_Fn function, void *argument)
{
    struct trace trace = {.function = function, .argument = argument};
    _Unwind_Reason_Code (*real)(_Unwind_Trace_Fn, void *) =
        (_Unwind_Reason_Code(*)(_Unwind_Trace_Fn, void *))dlsym(RTLD_NEXT, "_Unwind_Backtrace");
    return real(on_frame, &trace);
}

static void nothing(const struct module_info *module)
{
    (void)module;
}

__attribute__((constructor)) static void start(void)
{
    struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    int error = loadmap_start(nothing);
    error = error ? error : sites_start();
    if (error || (error = patch_begin())) {
        fprintf(stderr, "patch_all: %s\n", strerror(-error));
        _exit(99);
    }
    sigaction(SIGTRAP, &action, NULL);
    choose_plan();
    dump = getenv("PATCH_DUMP") ? fopen(getenv("PATCH_DUMP"), "we") : NULL;
    counts.stayed = dump ? note_stayed : NULL;
    const uint64_t begin = now();
    dl_iterate_phdr(patch_module, NULL);
    const uint64_t found = now();
    error = patch_commit(THREADS_NONE);
    patch_end();
    const uint64_t applied = now();
    if (error) {
        fprintf(stderr, "patch_all: apply: %s\n", strerror(-error));
        _exit(99);
    }
    if (dump)
        fclose(dump);
    report(found - begin, applied - found);
}
