// SPDX-License-Identifier: MIT
// A small interpreter that chooses what to optimise by asking cairn.
//
// It runs a program in bytecode. Every function of that program is entered through a C function of
// its own (a runner), so that it has a name on the stack; the work itself is done by interpret(),
// which is the same for all. So "which function of my program is hot?" is a question of contexts:
//
//     interpret ◄ run_2 ◄ interpret ◄ run_0 ◄ main        run_2 is "steps"
//
// Now and then it asks for the hottest contexts, adds up those of each runner, and translates the
// hottest function into a form that is faster to run. Without cairn it works the same, and never
// translates anything.

#include <cairn.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum operation {
    PUSH,
    LOAD,
    STORE,
    ADD,
    SUB,
    MUL,
    DIV,
    MOD,
    LESS,
    EQUAL,
    JUMP,
    BRANCH,
    CALL,
    RETURN
};

struct instruction {
    enum operation operation;
    int64_t operand;
};

#define LOCALS 4
#define STACK 16

static const struct instruction main_code[] = {
    // local 0: n, 1: i, 2: sum. for (i = 1; i < n; i++) sum += steps(i) + divisor(i) + digits(i)
    {PUSH, 1},    {STORE, 1}, {PUSH, 0}, {STORE, 2}, {LOAD, 1},   {LOAD, 0}, {LESS, 0},
    {BRANCH, 24}, {LOAD, 2},  {LOAD, 1}, {CALL, 1},  {ADD, 0},    {LOAD, 1}, {CALL, 2},
    {ADD, 0},     {LOAD, 1},  {CALL, 3}, {ADD, 0},   {STORE, 2},  {LOAD, 1}, {PUSH, 1},
    {ADD, 0},     {STORE, 1}, {JUMP, 4}, {LOAD, 2},  {RETURN, 0},
};

// How many decimal digits n has.
static const struct instruction digits_code[] = {
    {PUSH, 1}, {STORE, 1}, {PUSH, 9}, {LOAD, 0},  {LESS, 0},   {BRANCH, 15},
    {LOAD, 0}, {PUSH, 10}, {DIV, 0},  {STORE, 0}, {LOAD, 1},   {PUSH, 1},
    {ADD, 0},  {STORE, 1}, {JUMP, 2}, {LOAD, 1},  {RETURN, 0},
};

// How many steps n takes to 1: n/2 if it is even, else 3n+1. The hot one.
static const struct instruction steps_code[] = {
    {PUSH, 0}, {STORE, 1}, {PUSH, 1},    {LOAD, 0},  {LESS, 0}, {BRANCH, 26}, {LOAD, 0},
    {PUSH, 2}, {MOD, 0},   {BRANCH, 17}, {LOAD, 0},  {PUSH, 3}, {MUL, 0},     {PUSH, 1},
    {ADD, 0},  {STORE, 0}, {JUMP, 21},   {LOAD, 0},  {PUSH, 2}, {DIV, 0},     {STORE, 0},
    {LOAD, 1}, {PUSH, 1},  {ADD, 0},     {STORE, 1}, {JUMP, 2}, {LOAD, 1},    {RETURN, 0},
};

// The smallest divisor of n below 8, or 8.
static const struct instruction divisor_code[] = {
    {PUSH, 2}, {STORE, 1}, {LOAD, 1},  {PUSH, 8},  {LESS, 0},    {BRANCH, 18}, {LOAD, 0},
    {LOAD, 1}, {MOD, 0},   {PUSH, 0},  {EQUAL, 0}, {BRANCH, 13}, {JUMP, 18},   {LOAD, 1},
    {PUSH, 1}, {ADD, 0},   {STORE, 1}, {JUMP, 2},  {LOAD, 1},    {RETURN, 0},
};

typedef int64_t runner(int64_t argument);
static runner run_0, run_1, run_2, run_3;

// A translated instruction. Where four in a row are `local = local + constant` or the like, the
// first does it all, and the others are there only for those who jump among them.
struct fast_instruction {
    int operation; // enum operation, or that and FUSED
    int64_t operand, constant;
};
#define FUSED 16

static struct function {
    const char *name;
    runner *run;
    const struct instruction *code;
    size_t count;
    struct fast_instruction *fast; // once it is optimised
    uint64_t heat;
} functions[] = {
    {"main", run_0, main_code, sizeof main_code / sizeof *main_code, NULL, 0},
    {"digits", run_1, digits_code, sizeof digits_code / sizeof *digits_code, NULL, 0},
    {"steps", run_2, steps_code, sizeof steps_code / sizeof *steps_code, NULL, 0},
    {"divisor", run_3, divisor_code, sizeof divisor_code / sizeof *divisor_code, NULL, 0},
};
#define FUNCTIONS (sizeof functions / sizeof *functions)

static inline int64_t calculate(enum operation operation, int64_t left, int64_t right)
{
    switch (operation) {
    case ADD:
        return left + right;
    case SUB:
        return left - right;
    case MUL:
        return left * right;
    case DIV:
        return left / right;
    case MOD:
        return left % right;
    case LESS:
        return left < right;
    default: // EQUAL
        return left == right;
    }
}

static __attribute__((noinline)) int64_t interpret(const struct function *function,
                                                   int64_t argument)
{
    int64_t locals[LOCALS] = {argument}, stack[STACK], *top = stack - 1;
    for (const struct instruction *at = function->code;; at++) {
        switch (at->operation) {
        case PUSH:
            *++top = at->operand;
            break;
        case LOAD:
            *++top = locals[at->operand];
            break;
        case STORE:
            locals[at->operand] = *top--;
            break;
        case JUMP:
            at = function->code + at->operand - 1;
            break;
        case BRANCH:
            if (!*top--)
                at = function->code + at->operand - 1;
            break;
        case CALL:
            *top = functions[at->operand].run(*top);
            break;
        case RETURN:
            return *top;
        default:
            top--;
            top[0] = calculate(at->operation, top[0], top[1]);
        }
    }
}

static __attribute__((noinline)) int64_t run_translated(const struct function *function,
                                                        int64_t argument)
{
    int64_t locals[LOCALS] = {argument}, stack[STACK], *top = stack - 1;
    for (const struct fast_instruction *at = function->fast;; at++) {
        switch (at->operation) {
        case PUSH:
            *++top = at->operand;
            break;
        case LOAD:
            *++top = locals[at->operand];
            break;
        case STORE:
            locals[at->operand] = *top--;
            break;
        case JUMP:
            at = function->fast + at->operand - 1;
            break;
        case BRANCH:
            if (!*top--)
                at = function->fast + at->operand - 1;
            break;
        case CALL:
            *top = functions[at->operand].run(*top);
            break;
        case RETURN:
            return *top;
        case FUSED + ADD:
            locals[at->operand] += at->constant;
            at += 3;
            break;
        case FUSED + MUL:
            locals[at->operand] *= at->constant;
            at += 3;
            break;
        case FUSED + DIV:
            locals[at->operand] /= at->constant;
            at += 3;
            break;
        default:
            top--;
            top[0] = calculate((enum operation)at->operation, top[0], top[1]);
        }
    }
}

static int64_t run(const struct function *function, int64_t argument)
{
    return function->fast ? run_translated(function, argument) : interpret(function, argument);
}

// One C function for each function in bytecode. The empty assembly after the call keeps the compiler
// from making it a jump, which would leave no trace on the stack.
#define RUNNER(number)                                                                             \
    static __attribute__((noinline)) int64_t run_##number(int64_t argument)                        \
    {                                                                                              \
        int64_t result = run(&functions[number], argument);                                        \
        __asm__ volatile("" : "+r"(result));                                                       \
        return result;                                                                             \
    }
RUNNER(0)
RUNNER(1)
RUNNER(2)
RUNNER(3)

static bool can_be_fused(const struct instruction *at, size_t left)
{
    return left >= 4 && at[0].operation == LOAD && at[1].operation == PUSH &&
           (at[2].operation == ADD || at[2].operation == MUL || at[2].operation == DIV) &&
           at[3].operation == STORE && at[3].operand == at[0].operand;
}

static void optimise(struct function *function)
{
    struct fast_instruction *fast = calloc(function->count, sizeof *fast);
    if (!fast)
        return;
    for (size_t i = 0; i < function->count; i++) {
        const struct instruction *at = &function->code[i];
        fast[i] = (struct fast_instruction){(int)at->operation, at->operand, 0};
        if (can_be_fused(at, function->count - i))
            fast[i] =
                (struct fast_instruction){FUSED + (int)at[2].operation, at->operand, at[1].operand};
    }
    function->fast = fast;
}

// The cost of a context belongs to the innermost function of the program on its path.
static int add_up(const struct cairn_item *item, void *total)
{
    *(uint64_t *)total += item->value;
    for (unsigned i = 0; i < item->frame_count; i++) {
        for (size_t f = 0; f < FUNCTIONS; f++) {
            if (item->frames[i].function == (uintptr_t)functions[f].run) {
                functions[f].heat += item->value;
                return 0;
            }
        }
    }
    return 0;
}

// Optimises the hottest function, if it takes a third of the time.
static void consider(void)
{
    uint64_t total = 0;
    struct function *hottest = &functions[0];
    for (size_t f = 0; f < FUNCTIONS; f++)
        functions[f].heat = 0;
    cairn_hottest(CAIRN_CONTEXTS, 100, add_up, &total);
    for (size_t f = 0; f < FUNCTIONS; f++)
        if (functions[f].heat > hottest->heat)
            hottest = &functions[f];
    if (hottest->fast || hottest->heat * 3 < total || !total)
        return;
    fprintf(stderr, "optimised %s: %d %% of %" PRIu64 " ms\n", hottest->name,
            (int)(hottest->heat * 100 / total), total / 1000000);
    optimise(hottest);
    cairn_purge(); // what was is no measure any more
}

int main(int argc, char **argv)
{
    const int rounds = argc > 1 ? atoi(argv[1]) : 60;
    char error[200];
    const int started = cairn_start("rate=2000 tree=hot:1e-3 memory=16M", error, sizeof error);
    if (started && started != CAIRN_ABSENT) // without cairn it runs as well, unoptimised
        fprintf(stderr, "cairn: %s\n", error);
    int64_t sum = 0;
    for (int round = 1; round <= rounds; round++) {
        sum += functions[0].run(2000 + round);
        if (round % 10 == 0)
            consider();
    }
    printf("%" PRId64 "\n", sum);
    return 0;
}
