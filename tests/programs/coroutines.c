// SPDX-License-Identifier: MIT
// Coroutines: stacks that appear, wander between threads, and are unmapped right after their last
// use.

#include "common.h"
#include <pthread.h>
#include <sys/mman.h>
#include <ucontext.h>

static volatile uint64_t sink;

struct coroutine {
    ucontext_t context, back;
    char *stack;
    size_t stack_bytes;
    int value, finished;
    void *sp; // of the hand-written switch
    void *back_sp;
};

static __thread struct coroutine *current;

// Not inlined and not cached: a coroutine that went to another thread must see that thread's own.
NOIPA struct coroutine *current_coroutine(void)
{
    return current;
}

NOIPA void coroutine_leaf(int value)
{
    sink += burn((uint64_t)value, 20);
    NO_TAIL_CALL();
}

typedef void (*yield_function)(void);

NOIPA void yield_context(void)
{
    struct coroutine *self = current_coroutine();
    swapcontext(&self->context, &self->back);
    NO_TAIL_CALL();
}

NOIPA int coroutine_descend(int depth, int value, yield_function yield)
{
    coroutine_leaf(value);
    yield();
    int result = depth ? coroutine_descend(depth - 1, value + 1, yield) : value;
    coroutine_leaf(value);
    yield();
    return result + 1;
}

NOIPA void coroutine_body(void)
{
    struct coroutine *self = current_coroutine();
    self->value = coroutine_descend(5, self->value, yield_context);
    self->finished = 1;
    setcontext(&self->back);
}

static struct coroutine *create(int value, size_t stack_bytes)
{
    struct coroutine *self = calloc(1, sizeof *self);
    // A hole below, so that an overflow is a fault and nothing worse.
    self->stack_bytes = stack_bytes + 4096;
    self->stack = mmap(NULL, self->stack_bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    CHECK(self->stack != MAP_FAILED);
    CHECK(mprotect(self->stack, 4096, PROT_NONE) == 0);
    self->value = value;
    getcontext(&self->context);
    self->context.uc_stack.ss_sp = self->stack + 4096;
    self->context.uc_stack.ss_size = stack_bytes;
    self->context.uc_link = NULL;
    makecontext(&self->context, coroutine_body, 0);
    return self;
}

static int destroy(struct coroutine *self)
{
    int value = self->value;
    CHECK(munmap(self->stack, self->stack_bytes) == 0);
    free(self);
    return value;
}

NOIPA void resume(struct coroutine *self)
{
    current = self;
    swapcontext(&self->back, &self->context);
    current = NULL;
}

static long run_crowd(int rounds, int crowd, size_t stack_bytes)
{
    long sum = 0;
    for (int round = 0; round < rounds; round++) {
        struct coroutine *all[16];
        for (int i = 0; i < crowd; i++)
            all[i] = create(round + i, stack_bytes);
        for (int left = crowd; left > 0;) {
            for (int i = 0; i < crowd; i++) {
                if (!all[i])
                    continue;
                resume(all[i]);
                if (all[i]->finished) {
                    sum += destroy(all[i]);
                    all[i] = NULL;
                    left--;
                }
            }
        }
    }
    return sum;
}

static int run_freed(void)
{
    printf("freed %ld\n", run_crowd(60, 8, 64 * 1024));
    return 0;
}

static int run_small(void)
{
    printf("small %ld\n", run_crowd(60, 8, 16 * 1024));
    return 0;
}

// Two threads that hand all coroutines to each other after every step.
enum { WANDERERS = 8 };
static struct coroutine *wanderers[WANDERERS];
static pthread_barrier_t barrier;
static int wandering;

static void *wander(void *argument)
{
    int me = (int)(intptr_t)argument;
    for (int step = 0; step < 40; step++) {
        for (int i = 0; i < WANDERERS; i++)
            if ((i + step) % 2 == me && wanderers[i] && !wanderers[i]->finished)
                resume(wanderers[i]);
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

static int run_migrate(void)
{
    long sum = 0;
    for (int round = 0; round < 40; round++) {
        pthread_t threads[2];
        pthread_barrier_init(&barrier, NULL, 2);
        for (int i = 0; i < WANDERERS; i++)
            wanderers[i] = create(round + i, 64 * 1024);
        for (int i = 0; i < 2; i++)
            CHECK(pthread_create(&threads[i], NULL, wander, (void *)(intptr_t)i) == 0);
        for (int i = 0; i < 2; i++)
            pthread_join(threads[i], NULL);
        for (int i = 0; i < WANDERERS; i++) {
            CHECK(wanderers[i]->finished);
            sum += destroy(wanderers[i]);
        }
        wandering++;
    }
    printf("migrated %ld\n", sum);
    return 0;
}

// A switch that no library knows of: nothing can be interposed here.
void switch_stacks(void **save, void *load);
__asm__(".text\n"
        ".type switch_stacks, @function\n"
        "switch_stacks:\n"
        "    .cfi_startproc\n"
        "    push %rbp\n    .cfi_adjust_cfa_offset 8\n"
        "    push %rbx\n    .cfi_adjust_cfa_offset 8\n"
        "    push %r12\n    .cfi_adjust_cfa_offset 8\n"
        "    push %r13\n    .cfi_adjust_cfa_offset 8\n"
        "    push %r14\n    .cfi_adjust_cfa_offset 8\n"
        "    push %r15\n    .cfi_adjust_cfa_offset 8\n"
        "    mov %rsp, (%rdi)\n"
        "    mov %rsi, %rsp\n"
        "    pop %r15\n    .cfi_adjust_cfa_offset -8\n"
        "    pop %r14\n    .cfi_adjust_cfa_offset -8\n"
        "    pop %r13\n    .cfi_adjust_cfa_offset -8\n"
        "    pop %r12\n    .cfi_adjust_cfa_offset -8\n"
        "    pop %rbx\n    .cfi_adjust_cfa_offset -8\n"
        "    pop %rbp\n    .cfi_adjust_cfa_offset -8\n"
        "    ret\n"
        "    .cfi_endproc\n"
        ".size switch_stacks, .-switch_stacks\n"
        ".type switched_start, @function\n"
        "switched_start:\n"
        "    .cfi_startproc\n"
        "    .cfi_undefined rip\n"
        "    call switched_body\n"
        "    ud2\n"
        "    .cfi_endproc\n"
        ".size switched_start, .-switched_start\n");

void switched_start(void);

NOIPA void yield_switch(void)
{
    struct coroutine *self = current_coroutine();
    switch_stacks(&self->sp, self->back_sp);
    NO_TAIL_CALL();
}

__attribute__((used)) NOIPA void switched_body(void)
{
    struct coroutine *self = current_coroutine();
    self->value = coroutine_descend(5, self->value, yield_switch);
    self->finished = 1;
    switch_stacks(&self->sp, self->back_sp);
}

NOIPA void resume_switch(struct coroutine *self)
{
    current = self;
    switch_stacks(&self->back_sp, self->sp);
    current = NULL;
}

static int run_switch(void)
{
    long sum = 0;
    for (int round = 0; round < 60; round++) {
        struct coroutine *all[8];
        for (int i = 0; i < 8; i++) {
            all[i] = create(round + i, 32 * 1024);
            void **top = (void **)(all[i]->stack + all[i]->stack_bytes) - 2;
            *top = (void *)switched_start;
            all[i]->sp = top - 6;
        }
        // Each runs to another point before the next one starts, and the stacks go in another
        // order.
        for (int left = 8; left > 0;) {
            for (int i = 7; i >= 0; i--) {
                for (int steps = i % 3 + 1; steps > 0 && all[i]; steps--) {
                    resume_switch(all[i]);
                    if (all[i]->finished) {
                        sum += destroy(all[i]);
                        all[i] = NULL;
                        left--;
                    }
                }
            }
        }
    }
    printf("switched %ld\n", sum);
    return 0;
}

int main(int argc, char **argv)
{
    static const struct mode modes[] = {{"freed", run_freed},
                                        {"small", run_small},
                                        {"migrate", run_migrate},
                                        {"switch", run_switch}};
    return RUN_MODE(modes);
}
