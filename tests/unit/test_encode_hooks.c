// SPDX-License-Identifier: MIT
// The hooks in assembler do to the state of a thread what encode/state.c does: random calls and
// returns go through both, and give the same state. Then a signal's handler, which makes calls of
// its own, comes after each instruction.

#include "track/encode/threads/hooks.h"
#include "track/encode/threads/state_offsets.h"
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SITES = 8, EDGES = 24, DEPTH = 40, CALLS = 64, BASE = 1000 };

// encode_hook_calls_x86_64.S: what stubs do around the hooks.
extern void (*const hook_direct_calls[SITES])(void);
extern const uintptr_t hook_direct_stubs[SITES];
extern const char hook_indirect_stub[];
void hook_indirect(uint64_t target);
void hook_table(int64_t word);
void hook_after(void);
void hook_after_table(int64_t word);
void hook_registers(void (*function)(uint64_t), uint64_t argument, uint64_t values[9]);

// What the hooks find in the agent.
__thread struct encode_state encode_state;
struct encode encode;
_Atomic uint64_t encode_table[1 << TABLE_BITS];
uint32_t vector_mask, vector_bytes = 512;

// How a call is made, and its return: what the stub of its site does.
enum way { WAY_DIRECT, WAY_INDIRECT, WAY_TABLE, WAY_LONG, WAY_ADD, WAY_C, WAYS };

struct call {
    enum way way;
    int64_t word;
    uint32_t edge;
};

static struct call now; // what a hook that goes the slow path is to do
static uint64_t slow_paths, steps, seeded = 88172645463325252u;
static struct encode_words words;

static uint64_t next_random(uint64_t below)
{
    seeded ^= seeded << 13;
    seeded ^= seeded >> 7;
    seeded ^= seeded << 17;
    return (seeded >> 11) % below;
}

static uint64_t first_of(uint32_t edge)
{
    return BASE + words.first[edge];
}

// ---- the slow path of the hooks

bool encode_before_known(uintptr_t stub, uintptr_t target, uintptr_t sp);
void encode_before_slow(uintptr_t stub, uintptr_t target, uintptr_t sp, uintptr_t bp);
bool encode_tail_known(uintptr_t stub, uintptr_t target, uintptr_t sp);
void encode_tail_slow(uintptr_t stub, uintptr_t target, uintptr_t sp, uintptr_t bp);
bool encode_table_known(uintptr_t stub, int64_t word, uintptr_t sp);
void encode_table_after(uintptr_t stub);

static void take_slow_path(void)
{
    context_call(&encode_state.context, now.word, first_of(now.edge));
    if (encode_state.countdown < 0)
        encode_state.countdown = 7;
    slow_paths++;
}

bool encode_before_known(uintptr_t stub, uintptr_t target, uintptr_t sp)
{
    (void)sp;
    assert_true(now.way == WAY_DIRECT ? stub == hook_direct_stubs[now.edge % SITES] && !target
                                      : stub == (uintptr_t)hook_indirect_stub && target);
    take_slow_path();
    return true;
}

bool encode_table_known(uintptr_t stub, int64_t word, uintptr_t sp)
{
    (void)stub;
    (void)sp;
    assert_true(now.way == WAY_LONG ? word_is_long(word) : word == now.word);
    take_slow_path();
    return true;
}

void encode_table_after(uintptr_t stub)
{
    (void)stub;
    context_return(&encode_state.context, now.word);
}

void encode_before_slow(uintptr_t stub, uintptr_t target, uintptr_t sp, uintptr_t bp)
{
    fail();
    (void)stub, (void)target, (void)sp, (void)bp;
}

bool encode_tail_known(uintptr_t stub, uintptr_t target, uintptr_t sp)
{
    (void)stub, (void)target, (void)sp;
    return true;
}

void encode_tail_slow(uintptr_t stub, uintptr_t target, uintptr_t sp, uintptr_t bp)
{
    fail();
    (void)stub, (void)target, (void)sp, (void)bp;
}

// ---- calls

static uint64_t target_of(uint32_t edge)
{
    return 0x400000 + edge * 0x40u;
}

// As threads/hooks.c does it once the edge is known.
static void remember(uintptr_t stub, uintptr_t target, uint32_t edge)
{
    const uint64_t hash = encode_table_hash(stub, target);
    encode_table[hash & ((1 << TABLE_BITS) - 1)] = encode_table_word(hash, edge);
}

static struct call choose(void)
{
    struct call call = {.way = (enum way)next_random(WAYS), .edge = (uint32_t)next_random(EDGES)};
    if (call.way == WAY_DIRECT)
        call.edge %= SITES;
    call.word = words.word[call.edge];
    // It may have a number by now, which stubs that pop do not add.
    if (call.word >= 0)
        call.word = WORD_PUSH | call.edge;
    if (call.way == WAY_ADD || (call.way == WAY_C && next_random(2)))
        call.word = (int64_t)next_random(50);
    return call;
}

static void enter(const struct call *call)
{
    now = *call;
    switch (call->way) {
    case WAY_DIRECT:
        hook_direct_calls[call->edge]();
        break;
    case WAY_INDIRECT:
        hook_indirect(target_of(call->edge));
        break;
    case WAY_TABLE:
        hook_table(call->word);
        break;
    case WAY_LONG:
        hook_table(WORD_LONG);
        break;
    case WAY_ADD: // in the code of the stub itself
        encode_state.context.id += (uint64_t)call->word;
        break;
    default:
        context_call(&encode_state.context, call->word, first_of(call->edge));
    }
}

static void leave(const struct call *call)
{
    now = *call;
    switch (call->way) {
    case WAY_DIRECT:
    case WAY_INDIRECT:
        hook_after();
        break;
    case WAY_TABLE:
        hook_after_table(call->word);
        break;
    case WAY_LONG:
        hook_after_table(WORD_LONG);
        break;
    case WAY_ADD:
        encode_state.context.id -= (uint64_t)call->word;
        break;
    default:
        context_return(&encode_state.context, call->word);
    }
}

static void assert_same(const struct context_state *expected)
{
    const struct context_state *is = &encode_state.context;
    assert_int_equal(is->id, expected->id);
    assert_int_equal(is->depth, expected->depth);
    assert_int_equal(is->over, expected->over);
    assert_memory_equal(is->stack, expected->stack, is->depth * sizeof *is->stack);
}

static struct cc_entry entries[DEPTH + 1], expected_entries[DEPTH];

static int setup(void **unused)
{
    (void)unused;
    static struct cc_entry none;
    memset(encode_table, 0, sizeof encode_table);
    memset(&encode_state, 0, sizeof encode_state);
    slow_paths = 0;
    entries[DEPTH] = none;
    for (uint32_t i = 0; i < EDGES; i++) {
        words.first[i] = i % 4 ? 0 : i;
        words.word[i] = i % 5 == 4 ? 7 : WORD_PUSH | (i % 3 ? 0 : WORD_REPEATS) | i;
    }
    encode_state.context = (struct context_state){.stack = entries, .limit = DEPTH};
    encode_state.stack_bytes = UINTPTR_MAX;
    encode_state.countdown = 7;
    encode_state.base = BASE;
    encode_state.words = &words;
    for (uint32_t i = 0; i < EDGES; i++) {
        remember((uintptr_t)hook_indirect_stub, target_of(i), i);
        if (i < SITES)
            remember(hook_direct_stubs[i], 0, i);
    }
    return 0;
}

static void walk(unsigned count,
                 void (*around)(void (*act)(const struct call *), const struct call *))
{
    struct context_state expected = {.stack = expected_entries, .limit = DEPTH};
    struct call made[CALLS];
    unsigned depth = 0;
    for (unsigned i = 0; i < count; i++) {
        // Deep enough, now and then, that there is no room.
        const bool down =
            depth == 0 || (depth < CALLS && next_random(100) < (i / 200 % 2 ? 60 : 40));
        if (down) {
            made[depth] = choose();
            context_call(&expected, made[depth].word, first_of(made[depth].edge));
            around(enter, &made[depth++]);
        } else {
            context_return(&expected, made[--depth].word);
            around(leave, &made[depth]);
        }
        assert_same(&expected);
    }
}

static void act_plainly(void (*act)(const struct call *), const struct call *call)
{
    act(call);
}

static void test_same_state(void **unused)
{
    (void)unused;
    walk(200000, act_plainly);
    assert_in_range(slow_paths, 1000, 60000); // most of some 70000 pushes are short
    assert_int_equal(entries[DEPTH].id | entries[DEPTH].edge | entries[DEPTH].count, 0);
}

// What sends a push the slow path: the state is to be computed anew, an encoding is wanted, the thread
// is on another stack, the edge is not in the table.
static void test_long_ways(void **unused)
{
    (void)unused;
    const struct call call = {WAY_INDIRECT, WORD_PUSH | 1, 1};
    encode_state.countdown = 100;
    for (unsigned round = 0; round < 6; round++) {
        encode_state.validity = round == 1 ? STATE_STALE : round == 0 ? STATE_UNSURE : STATE_VALID;
        encode.wanted = round == 2;
        encode_state.stack_bytes = round == 3 ? 0 : UINTPTR_MAX;
        words.word[1] = round == 4 ? WORD_LONG : WORD_PUSH | 1;
        if (round == 5)
            memset(encode_table, 0, sizeof encode_table);
        enter(&call);
        assert_int_equal(slow_paths, round);
        assert_int_equal(encode_state.context.depth, 1);
        leave(&call);
        assert_int_equal(encode_state.context.depth, 0);
    }
    leave(&call); // below 0 there is no stack
    assert_int_equal(encode_state.context.depth, 0);
}

static void check_registers(void (*function)(uint64_t), uint64_t argument)
{
    uint64_t values[9], after[9];
    for (unsigned i = 0; i < 9; i++)
        values[i] = after[i] = UINT64_C(0x1111111111111111) * (i + 1);
    hook_registers(function, argument, after);
    values[8] = argument; // rdi
    assert_memory_equal(after, values, sizeof values);
}

static void test_registers(void **unused)
{
    (void)unused;
    for (unsigned i = 0; i < 200; i++) {
        now = choose();
        now.way = i % 3 == 0 ? WAY_INDIRECT : i % 3 == 1 ? WAY_TABLE : WAY_LONG;
        now.word = words.word[now.edge] < 0 ? words.word[now.edge] : WORD_PUSH | now.edge;
        if (now.way == WAY_INDIRECT)
            check_registers(hook_indirect, target_of(now.edge));
        else
            check_registers((void (*)(uint64_t))hook_table,
                            (uint64_t)(now.way == WAY_LONG ? WORD_LONG : now.word));
        if (i % 2)
            check_registers((void (*)(uint64_t))hook_after, 5);
        else
            check_registers((void (*)(uint64_t))hook_after_table, (uint64_t)WORD_LONG);
    }
    assert_int_equal(encode_state.context.depth, 0);
}

// ---- a handler after each instruction

enum { TRAP = 0x100 };

static void interrupt(int number)
{
    (void)number;
    const struct call kept = now, other = {WAY_TABLE, WORD_PUSH | 17, 17};
    const struct call inner[] = {
        other, {WAY_C, WORD_PUSH | WORD_REPEATS | 3, 3}, {WAY_INDIRECT, WORD_PUSH | 5, 5}};
    const unsigned count = 1 + steps++ % 3;
    for (unsigned i = 0; i < count; i++)
        enter(&inner[i]);
    for (unsigned i = count; i-- > 0;)
        leave(&inner[i]);
    now = kept;
}

static void act_stepping(void (*act)(const struct call *), const struct call *call)
{
    __builtin_ia32_writeeflags_u64(__builtin_ia32_readeflags_u64() | TRAP);
    act(call);
    __builtin_ia32_writeeflags_u64(__builtin_ia32_readeflags_u64() & ~(uint64_t)TRAP);
}

static void test_interrupted(void **unused)
{
    (void)unused;
    struct sigaction action = {.sa_handler = interrupt}, old;
    assert_int_equal(sigaction(SIGTRAP, &action, &old), 0);
    walk(3000, act_stepping);
    assert_int_equal(sigaction(SIGTRAP, &old, NULL), 0);
    assert_true(steps > 50000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_same_state, setup),
        cmocka_unit_test_setup(test_long_ways, setup),
        cmocka_unit_test_setup(test_registers, setup),
        cmocka_unit_test_setup(test_interrupted, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
