// SPDX-License-Identifier: MIT
// 100,000 random walks over random call graphs: after every call and return, the context decodes to
// the true path; and so do contexts that were recorded before the last re-encodings.

#include "encode_walks.h"
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ROUNDS = 24, STEPS = 40, LONG_STEPS = 1500, KEPT = 64 };

// A context that was recorded, to be decoded when its encoding is long gone.
struct kept {
    uint32_t stamp;
    struct encoded_context context;
    uint32_t *path;
    uint32_t count;
};

static void keep(const struct walk_program *program, const struct walk_thread *thread,
                 struct kept *kept)
{
    free((void *)kept->context.stack);
    free(kept->path);
    kept->stamp = program->options.stamp;
    kept->context = encoded_context_of(&thread->state, thread->function);
    size_t stack = kept->context.depth * sizeof(struct cc_entry);
    kept->context.stack = memcpy(malloc(stack + 1), kept->context.stack, stack);
    kept->count = thread->count;
    kept->path = memcpy(malloc(thread->count * 4ul + 1), thread->path, thread->count * 4ul);
}

static void check_kept(const struct walk_program *program, struct kept *kept)
{
    static uint32_t path[WALK_PATH];
    if (!kept->path)
        return;
    int64_t count = context_decode(&program->graph, program->dictionaries[kept->stamp],
                                   &kept->context, path, WALK_PATH);
    assert_true(count >= 0);
    assert_true(walk_is_true(&program->graph, path + WALK_PATH - count, (uint32_t)count,
                             kept->context.root, kept->context.function, kept->path, kept->count));
    free((void *)kept->context.stack);
    free(kept->path);
}

static uint64_t walk_program(uint64_t seed, struct walk_program *sums)
{
    static const unsigned bits[] = {ID_BITS, ID_BITS, ID_BITS, 16, 6, 4, 2, 1};
    static struct walk_program program;
    struct kept kept[KEPT] = {0};
    uint64_t walks = 0;
    walk_seed(seed);
    walk_start(&program, bits[walk_random(8)]);
    for (unsigned round = 0; round < ROUNDS; round++) {
        unsigned percent = 30 + (unsigned)walk_random(65);
        unsigned steps = walk_random(200) ? STEPS : LONG_STEPS;
        for (unsigned step = 0; step < steps; step++) {
            for (unsigned i = 0; i < program.threads; i++)
                walk_step(&program, &program.thread[i], percent);
            if (walk_random(steps == STEPS ? 32 : 128) == 0)
                walk_reencode(&program);
            struct walk_thread *thread = &program.thread[walk_random(program.threads)];
            if (walk_random(steps == STEPS ? 16 : 512) == 0)
                walk_jump_out(&program, thread);
            if (walk_check(&program, thread) && walk_random(8) == 0)
                keep(&program, thread, &kept[walk_random(KEPT)]);
        }
        walks += program.threads;
        for (unsigned i = 0; i < program.threads; i++) {
            if (walk_random(2))
                walk_restart(&program, &program.thread[i]);
        }
    }
    for (unsigned i = 0; i < KEPT; i++)
        check_kept(&program, &kept[i]);
    sums->checked += program.checked;
    sums->encodings += program.encodings;
    sums->overflows += program.overflows;
    sums->repeats += program.repeats;
    sums->pushes += program.pushes;
    sums->signals += program.signals;
    sums->silent += program.silent;
    sums->jumps_out += program.jumps_out;
    sums->without_room += program.without_room;
    sums->undecoded += program.undecoded;
    sums->graph.edge_count += program.graph.edge_count;
    if (program.deepest > sums->deepest)
        sums->deepest = program.deepest;
    walk_end(&program);
    return walks;
}

static void test_walks(void **unused)
{
    (void)unused;
    struct walk_program sums = {0};
    const char *one = getenv("WALK_SEED");
    const char *asked = getenv("WALKS");
    uint64_t wanted = asked ? strtoull(asked, NULL, 10) : 100000, walks = 0, seed = 0;
    if (one)
        walk_program(strtoull(one, NULL, 10), &sums);
    for (; !one && walks < wanted; seed++) {
        // A failure names its program by this.
        fprintf(stderr, "\rprogram %llu ", (unsigned long long)seed);
        walks += walk_program(seed, &sums);
    }
    printf("%llu walks, %llu contexts, %llu edges deep at most, %llu encodings, %llu edges cut, "
           "%llu pushes, %llu repetitions, %u edges, %llu silent ones taken, %llu jumps out, %llu "
           "contexts without room, %llu not decoded\n",
           (unsigned long long)walks, (unsigned long long)sums.checked,
           (unsigned long long)sums.deepest, (unsigned long long)sums.encodings,
           (unsigned long long)sums.overflows, (unsigned long long)sums.pushes,
           (unsigned long long)sums.repeats, sums.graph.edge_count, (unsigned long long)sums.silent,
           (unsigned long long)sums.jumps_out, (unsigned long long)sums.without_room,
           (unsigned long long)sums.undecoded);
    // Everything that can happen did happen, and most contexts were compared.
    assert_true(one || (sums.encodings && sums.overflows && sums.repeats && sums.pushes &&
                        sums.signals && sums.silent && sums.jumps_out && sums.without_room &&
                        sums.undecoded && sums.deepest > 250));
    assert_true(sums.without_room + sums.undecoded < sums.checked / 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_walks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
