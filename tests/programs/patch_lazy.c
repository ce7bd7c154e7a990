// SPDX-License-Identifier: MIT
// Preloaded into any program: follows it from main() and the start of each thread, function by
// function. A site that is reached for the first time calls a handler, which finds the sites of the
// function called, makes them do the same, and then leads its own site through a plain stub, or
// back to the original code.
//
//   PATCH_REPORT=FILE   appends what was done, as JSON

#include "loadmap/loadmap.h"
#include "patch/functions/functions.h"
#include "patch/transaction.h"
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))

void lazy_hook(void);
void lazy_called(const uintptr_t *stack);

// All registers are saved, the vector ones too: what is called may be anything.
__asm__(".text\n"
        ".p2align 4\n"
        ".hidden lazy_hook, lazy_called\n"
        ".globl lazy_hook\n"
        ".type lazy_hook, @function\n"
        "lazy_hook:\n"
        ".cfi_startproc\n"
        "pushq %rbp\n"
        ".cfi_def_cfa_offset 16\n"
        ".cfi_offset rbp, -16\n"
        "movq %rsp, %rbp\n"
        ".cfi_def_cfa_register rbp\n"
        "pushq %rax\n pushq %rcx\n pushq %rdx\n pushq %rsi\n pushq %rdi\n"
        "pushq %r8\n pushq %r9\n pushq %r10\n pushq %r11\n"
        "subq $3072, %rsp\n"
        "andq $-64, %rsp\n"
        "xorl %eax, %eax\n"
        "movl $8, %ecx\n"
        "leaq 512(%rsp), %rdi\n"
        "rep stosq\n"
        "movl $0xe7, %eax\n"
        "xorl %edx, %edx\n"
        "xsave64 (%rsp)\n"
        "leaq 8(%rbp), %rdi\n"
        "call lazy_called\n"
        "movl $0xe7, %eax\n"
        "xorl %edx, %edx\n"
        "xrstor64 (%rsp)\n"
        "leaq -72(%rbp), %rsp\n"
        "popq %r11\n popq %r10\n popq %r9\n popq %r8\n"
        "popq %rdi\n popq %rsi\n popq %rdx\n popq %rcx\n popq %rax\n"
        "popq %rbp\n"
        ".cfi_def_cfa rsp, 8\n"
        ".cfi_restore rbp\n"
        "ret\n"
        ".cfi_endproc\n"
        ".size lazy_hook, . - lazy_hook\n");

static __thread bool inside; // what the handler calls may lead to sites, too
static bool started;
static uint64_t functions, hooked, settled, errors;

static void add(uint64_t *counter, uint64_t amount)
{
    __atomic_fetch_add(counter, amount, __ATOMIC_RELAXED);
}

static void on_trap(int signal, siginfo_t *info, void *context)
{
    ucontext_t *interrupted = context;
    const uintptr_t to = sites_trapped((uintptr_t)interrupted->uc_mcontext.gregs[REG_RIP]);
    (void)info;
    if (to) {
        interrupted->uc_mcontext.gregs[REG_RIP] = (greg_t)to;
        return;
    }
    struct sigaction fall = {.sa_handler = SIG_DFL};
    sigaction(signal, &fall, NULL);
}

static void follow(uintptr_t function)
{
    const struct stub_plan plan = {.kind = STUB_HOOK, .before = lazy_hook, .push_target = true};
    struct site_counts counts = {0};
    struct site_list list;
    if (sites_find(function, &list, &counts) || !counts.functions)
        return; // not to be patched, or known
    add(&functions, 1);
    unsigned count = 0;
    struct stub *stub;
    for (unsigned i = 0; i < list.count; i++)
        count += list.site[i].form != FORM_TRAP && !stub_make(&list.site[i], &plan, &stub) &&
                 !patch_add(&list.site[i], stub);
    add(patch_commit(THREADS_OTHERS) ? &errors : &hooked, count);
}

static void settle(struct site *site)
{
    const struct stub_plan plan = {.kind = STUB_PLAIN};
    struct stub *stub = NULL;
    // Every other one runs the original code again.
    if (site->address / 8 % 2 && stub_make(site, &plan, &stub))
        return;
    add(patch_add(site, stub) || patch_commit(THREADS_OTHERS) ? &errors : &settled, 1);
}

// The stack holds the hook's return address and, if the site is indirect, the target.
void lazy_called(const uintptr_t *stack)
{
    struct stub_place place;
    if (inside || !sites_locate(stack[0], &place))
        return;
    inside = true;
    enum site_stays why;
    struct site *site = place.site;
    const bool direct = (site->kind == SITE_CALL || site->kind == SITE_TAIL) && !site->thunk;
    uintptr_t target = direct ? site->target : stack[1];
    if (direct && site->slot) // it may be bound by now
        target = *(const uintptr_t *)site->slot;
    if (patch_begin()) {
        add(&errors, 1);
    } else {
        if (target && !functions_must_stay(target, &why))
            follow(target);
        if (atomic_load(&site->stub) == place.stub)
            settle(site);
        patch_end();
    }
    inside = false;
}

static void no_news(const struct module_info *module)
{
    (void)module;
}

__attribute__((constructor)) static void start(void)
{
    struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigaction(SIGTRAP, &action, NULL);
    int error = loadmap_start(no_news);
    error = error ? error : sites_start();
    if (error) {
        fprintf(stderr, "patch_lazy: %s\n", strerror(-error));
        _exit(99);
    }
    started = true;
}

__attribute__((destructor)) static void report(void)
{
    const char *path = getenv("PATCH_REPORT");
    FILE *file = path ? fopen(path, "ae") : NULL;
    if (!file)
        return;
    fprintf(file, "{\"functions\": %lu, \"hooked\": %lu, \"settled\": %lu, \"errors\": %lu}\n",
            functions, hooked, settled, errors);
    fclose(file);
}

static void begin_at(void *function)
{
    inside = true;
    if (started && !patch_begin()) {
        follow((uintptr_t)function);
        patch_end();
    }
    inside = false;
}

typedef int main_t(int, char **, char **);

EXPORTED int __libc_start_main(main_t *main, int argc, char **argv, void (*init)(void),
                               void (*fini)(void), void (*loader_fini)(void), void *stack_end);
EXPORTED int __libc_start_main(main_t *main, int argc, char **argv, void (*init)(void),
                               void (*fini)(void), void (*loader_fini)(void), void *stack_end)
{
    __typeof__(&__libc_start_main) real =
        (__typeof__(&__libc_start_main))dlsym(RTLD_NEXT, "__libc_start_main");
    begin_at((void *)main);
    return real(main, argc, argv, init, fini, loader_fini, stack_end);
}

EXPORTED int pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                            void *(*routine)(void *), void *argument)
{
    __typeof__(&pthread_create) real =
        (__typeof__(&pthread_create))dlsym(RTLD_NEXT, "pthread_create");
    begin_at((void *)routine);
    return real(thread, attributes, routine, argument);
}

EXPORTED pid_t fork(void)
{
    pid_t (*real)(void) = (pid_t(*)(void))dlsym(RTLD_NEXT, "fork");
    pid_t child = real();
    if (child == 0)
        patch_after_fork();
    return child;
}
