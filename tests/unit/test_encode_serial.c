// SPDX-License-Identifier: MIT
// Contexts as two numbers, and what is needed to decode them as bytes: random programs write both
// while they run, and what is read back gives the true paths.

#include "encode/codebook/codebook.h"
#include "encode_walks.h"
#include "make_pool.h"
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { KEPT = 500, INTERN_BYTES = 1 << 18, STREAM = 1 << 20 };

// Two numbers and a function: what a log would hold.
struct logged {
    struct interned_context context;
    uint32_t *path;
    uint32_t count;
};

struct writing {
    struct walk_program program;
    struct intern intern;
    uint64_t *memory;
    uint32_t functions, edges, nodes, stamps; // written so far
    struct serial out;
    struct logged logged[KEPT];
    unsigned count;
};

static void log_context(struct writing *writing, unsigned number)
{
    struct walk_thread *thread = &writing->program.thread[number];
    struct logged *logged = &writing->logged[writing->count++];
    struct intern_origin origin = {.function = GRAPH_NONE, .root = thread->state.root};
    uint32_t node = intern_origin(&writing->intern, &origin);
    logged->context.id = thread->state.id;
    const uint32_t interned =
        intern_stack(&writing->intern, node, thread->stack, thread->state.depth);
    logged->context.handle = (uint64_t)writing->program.options.stamp << 32 | interned;
    // The same again is there, and not added.
    const uint32_t used = writing->intern.used;
    assert_int_equal(intern_stack(&writing->intern, node, thread->stack, thread->state.depth),
                     interned);
    assert_int_equal(writing->intern.used, used);
    logged->context.function = thread->function;
    logged->count = thread->count;
    logged->path = memcpy(malloc(thread->count * 4ul + 1), thread->path, thread->count * 4ul);
    assert_true(interned != 0);
}

static void write_all(struct writing *writing)
{
    const struct graph *graph = &writing->program.graph;
    serial_graph(&writing->out, graph, writing->functions, writing->edges);
    writing->functions = graph->function_count;
    writing->edges = graph->edge_count;
    // A silent jump may have made several necessary.
    for (; writing->stamps <= writing->program.options.stamp; writing->stamps++)
        serial_dictionary(&writing->out, writing->program.dictionaries[writing->stamps]);
    const struct intern *intern = &writing->intern;
    uint32_t ready = intern_ready(intern->node, writing->nodes, intern->capacity);
    serial_stacks(&writing->out, &writing->intern.node[writing->nodes], writing->nodes, ready);
    writing->nodes = ready;
}

static void run(struct writing *writing, uint64_t seed)
{
    static const unsigned bits[] = {ID_BITS, ID_BITS, 8, 3};
    memset(writing, 0, sizeof *writing);
    walk_seed(seed);
    walk_start(&writing->program, bits[walk_random(4)]);
    writing->nodes = 1;
    writing->memory = calloc(1, INTERN_BYTES);
    assert_int_equal(intern_init(&writing->intern, writing->memory, INTERN_BYTES), 0);
    writing->out = (struct serial){.data = malloc(STREAM), .capacity = STREAM};
    while (writing->count < KEPT) {
        unsigned number = (unsigned)walk_random(writing->program.threads);
        for (unsigned i = 0; i < 5; i++)
            walk_step(&writing->program, &writing->program.thread[number], 65);
        if (walk_check(&writing->program, &writing->program.thread[number]))
            log_context(writing, number);
        if (walk_random(10) == 0)
            walk_restart(&writing->program, &writing->program.thread[number]);
        if (walk_random(20) == 0) {
            write_all(writing);
            walk_reencode(&writing->program);
        }
    }
    write_all(writing);
    assert_true(writing->out.size < STREAM);
}

static void end(struct writing *writing)
{
    for (unsigned i = 0; i < writing->count; i++)
        free(writing->logged[i].path);
    free(writing->memory);
    free(writing->out.data);
    walk_end(&writing->program);
}

static void check_logged(const struct codebook *codebook, const struct logged *logged)
{
    static struct cc_entry stack[WALK_PATH];
    static uint32_t path[WALK_PATH];
    struct intern_result found = {.stack = stack, .limit = WALK_PATH};
    const struct dictionary *dictionary =
        codebook_dictionary(codebook, handle_stamp(logged->context.handle));
    assert_non_null(dictionary);
    assert_int_equal(intern_context(&codebook->intern, &logged->context, &found), 0);
    int64_t count = context_decode(&codebook->graph, dictionary, &found.context, path, WALK_PATH);
    assert_true(count >= 0);
    assert_true(walk_is_true(&codebook->graph, path + WALK_PATH - count, (uint32_t)count,
                             found.origin.root, logged->context.function, logged->path,
                             logged->count));
    assert_true(found.origin.handle == 0 && found.origin.function == GRAPH_NONE);
}

static void test_read_back(void **unused)
{
    (void)unused;
    static struct writing writing;
    for (uint64_t seed = 0; seed < 100; seed++) {
        run(&writing, seed);
        struct pool pool = make_pool();
        struct codebook codebook;
        codebook_init(&codebook, &pool);
        // Exactly as large, so that a read beyond the end is caught.
        uint8_t *copy = memcpy(malloc(writing.out.size), writing.out.data, writing.out.size);
        assert_int_equal(codebook_read(&codebook, copy, writing.out.size), 0);
        free(copy);
        const struct graph *graph = &writing.program.graph;
        assert_int_equal(codebook.graph.function_count, graph->function_count);
        assert_int_equal(codebook.graph.edge_count, graph->edge_count);
        for (uint32_t i = 0; i < graph->edge_count; i++) {
            const struct graph_edge *one = graph_edge(graph, i);
            const struct graph_edge *other = graph_edge(&codebook.graph, i);
            assert_true(one->caller == other->caller && one->callee == other->callee);
            assert_true(one->kind == other->kind && one->flags == other->flags);
            assert_true(graph_site(graph, one->site)->place ==
                        graph_site(&codebook.graph, other->site)->place);
        }
        for (unsigned i = 0; i < writing.count; i++)
            check_logged(&codebook, &writing.logged[i]);
        codebook_free(&codebook);
        assert_int_equal(pool.mapped, 0);
        end(&writing);
    }
}

// Written into too little room, bytes are only counted.
static void test_size(void **unused)
{
    (void)unused;
    static struct writing writing;
    run(&writing, 8);
    uint8_t few[16];
    struct serial whole = {0}, part = {.data = few, .capacity = sizeof few};
    serial_graph(&whole, &writing.program.graph, 0, 0);
    serial_graph(&part, &writing.program.graph, 0, 0);
    assert_int_equal(whole.size, part.size);
    assert_true(whole.size > sizeof few);
    end(&writing);
}

static int read_bytes(const uint8_t *data, size_t size)
{
    struct pool pool = make_pool();
    struct codebook codebook;
    codebook_init(&codebook, &pool);
    int status = codebook_read(&codebook, data, size);
    codebook_free(&codebook);
    return status;
}

// Kinds and flags of edges that nobody writes, and a dictionary that builds on another one.
static void test_unknown(void **unused)
{
    (void)unused;
    struct pool pool = make_pool();
    struct graph graph;
    struct numbering numbering;
    const struct numbering_options options = {.stamp = 1, .id_bits = ID_BITS};
    uint8_t bytes[64];
    struct serial out = {.data = bytes, .capacity = sizeof bytes};
    graph_init(&graph, &pool);
    for (uint32_t i = 0; i < 2; i++)
        graph_add_function(&graph, place_make(4, i * 16));
    graph_add_edge(&graph, place_make(4, 5), 0, 1, EDGE_CALL);
    serial_graph(&out, &graph, 0, 0);
    for (unsigned last = 0; last < 128; last++) {
        const unsigned kind = last % 8, flags = last / 8;
        const bool known = (kind == EDGE_CALL || kind == EDGE_INDIRECT ||
                            kind == EDGE_SILENT_JUMP || kind == EDGE_SILENT_CALL) &&
                           (flags == 0 || flags == EDGE_UNENCODED);
        bytes[out.size - 1] = (uint8_t)last;
        assert_int_equal(read_bytes(bytes, out.size), known ? 0 : -EBADMSG);
    }
    bytes[out.size - 1] = EDGE_CALL;
    const size_t dictionary = out.size;
    assert_int_equal(numbering_make(&numbering, &graph, &options), 0);
    serial_dictionary(&out, numbering.dictionary);
    assert_in_range(out.size, dictionary + 1, sizeof bytes);
    assert_int_equal(read_bytes(bytes, out.size), 0);
    assert_int_equal(bytes[dictionary + 1], 1); // the stamp
    bytes[dictionary + 2] = 1;
    assert_int_equal(read_bytes(bytes, out.size), -EBADMSG);
    dictionary_free(&graph, numbering.dictionary);
    numbering_free(&numbering);
    graph_free(&graph);
    pool_close(&pool);
}

// Before minor version 14 all ranges of ids began with 0.
static void test_ranges_from_zero(void **unused)
{
    (void)unused;
    enum { A, B, C, D, Z };
    static const struct {
        uint32_t caller, callee;
        enum edge_kind kind;
    } edges[] = {{A, B, EDGE_CALL}, {A, C, EDGE_CALL},        {C, D, EDGE_CALL},
                 {B, D, EDGE_CALL}, {B, Z, EDGE_SILENT_JUMP}, {C, Z, EDGE_SILENT_JUMP}};
    // Stamp 1, 5 functions, 6 edges, ids up to 2, 3 lists: A→B; A→C; C→D and B→D.
    static const uint8_t dictionary[] = {2, 1, 0, 5, 6, 2, 3, 1, 4, 0, 0, 4, 2, 0, 8, 4, 2};
    struct pool pool = make_pool();
    struct codebook codebook;
    struct graph graph;
    uint8_t bytes[64];
    struct serial out = {.data = bytes, .capacity = sizeof bytes};
    graph_init(&graph, &pool);
    for (uint32_t i = A; i <= Z; i++)
        graph_add_function(&graph, place_make(4, i * 16));
    for (uint32_t i = 0; i < 6; i++)
        graph_add_edge(&graph, place_make(4, edges[i].caller * 16 + edges[i].callee + 1),
                       edges[i].caller, edges[i].callee, edges[i].kind);
    serial_graph(&out, &graph, 0, 0);
    codebook_init(&codebook, &pool);
    assert_int_equal(codebook_read(&codebook, bytes, out.size), 0);
    assert_int_equal(codebook_read(&codebook, dictionary, sizeof dictionary), 0);
    static const uint32_t paths[][2] = {{1, 2}, {0, 3}}; // ACD, ABD
    for (uint32_t i = 0; i < 2; i++) {
        const struct encoded_context context = {.id = 1 + i, .root = A, .function = D};
        uint32_t path[2];
        assert_int_equal(
            context_decode(&codebook.graph, codebook_dictionary(&codebook, 1), &context, path, 2),
            2);
        assert_memory_equal(path, paths[i], sizeof path);
    }
    graph_free(&graph);
    codebook_free(&codebook);
}

static void test_no_memory(void **unused)
{
    (void)unused;
    static struct writing writing;
    run(&writing, 6);
    unsigned maps = 0;
    for (int status = -ENOMEM; status == -ENOMEM; maps++) {
        struct pool pool = make_pool();
        struct codebook codebook;
        codebook_init(&codebook, &pool);
        test_pool_fail_after(maps);
        status = codebook_read(&codebook, writing.out.data, writing.out.size);
        test_pool_fail_after(UINT_MAX);
        codebook_free(&codebook);
        assert_int_equal(pool.mapped, 0);
        assert_true(status == 0 || status == -ENOMEM);
    }
    assert_true(maps > 10);
    end(&writing);
}

// A thread's context goes on with that of its creator.
static void test_creators(void **unused)
{
    (void)unused;
    static uint64_t memory[1024];
    memset(memory, 0, sizeof memory);
    struct intern intern;
    assert_int_equal(intern_init(&intern, memory, sizeof memory), 0);
    struct cc_entry entries[] = {{4, 2, 0}, {9, 3, 1}}, stack[4];
    uint32_t origin = intern_origin(&intern, &(struct intern_origin){0, 0, GRAPH_NONE, 7});
    assert_int_equal(intern_origin(&intern, &(struct intern_origin){0, 0, GRAPH_NONE, 7}), origin);
    uint64_t creator = UINT64_C(5) << 32 | intern_stack(&intern, origin, entries, 2);
    uint32_t child = intern_origin(&intern, &(struct intern_origin){11, creator, 13, 17});
    assert_true(child != origin);
    uint64_t handle = UINT64_C(6) << 32 | intern_stack(&intern, child, entries, 1);
    struct intern_result found = {.stack = stack, .limit = 4};
    struct interned_context asked = {3, handle, 19};
    assert_int_equal(intern_context(&intern, &asked, &found), 0);
    assert_int_equal(handle_stamp(handle), 6);
    assert_true(found.context.id == 3 && found.context.function == 19);
    assert_int_equal(found.context.depth, 1);
    assert_int_equal(found.context.root, 17);
    assert_memory_equal(stack, entries, sizeof entries[0]);
    const struct intern_origin from = found.origin;
    assert_true(from.handle == creator && from.id == 11 && from.function == 13);
    asked = (struct interned_context){from.id, from.handle, from.function};
    assert_int_equal(intern_context(&intern, &asked, &found), 0);
    assert_int_equal(handle_stamp(creator), 5);
    assert_int_equal(found.context.depth, 2);
    assert_int_equal(found.context.root, 7);
    assert_memory_equal(stack, entries, sizeof entries);
    assert_int_equal(found.origin.handle, 0);
    // What is no handle, or too deep.
    const uint64_t wrong[] = {0, 99, 1 << 30};
    for (unsigned i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        asked = (struct interned_context){0, wrong[i], 0};
        assert_int_equal(intern_context(&intern, &asked, &found), -EBADMSG);
    }
    asked.handle = creator;
    found.limit = 1;
    assert_int_equal(intern_context(&intern, &asked, &found), -ENOSPC);
}

static void test_full(void **unused)
{
    (void)unused;
    static uint64_t memory[64];
    memset(memory, 0, sizeof memory);
    struct intern intern;
    assert_int_equal(intern_init(&intern, memory, 79), -ENOSPC);
    assert_int_equal(intern_init(&intern, memory, sizeof memory), 0);
    assert_int_equal(intern.capacity, 8);
    uint32_t origin = intern_origin(&intern, &(struct intern_origin){.root = 1});
    struct cc_entry entry = {0};
    unsigned made = 0;
    for (; made < 20; made++) {
        entry.id = made;
        if (!intern_stack(&intern, origin, &entry, 1))
            break;
    }
    assert_int_equal(made, 6); // one is never used, one is the origin
    assert_int_equal(intern.refused, 1);
    entry.id = 3; // what is there is still found
    assert_true(intern_stack(&intern, origin, &entry, 1) != 0);
}

static struct intern shared;

static void *intern_many(void *handles)
{
    uint32_t origin = intern_origin(&shared, &(struct intern_origin){.root = 1});
    for (uint32_t i = 0; i < 20000; i++) {
        struct cc_entry stack[3] = {{i % 7, 1, 0}, {i % 11, 2, 0}, {i % 131, 3, i % 3}};
        ((uint64_t *)handles)[i] = intern_stack(&shared, origin, stack, 1 + i % 3);
    }
    return NULL;
}

// Threads that intern the same stacks at once: each handle leads to what it was made of, and it is
// seldom that two stand for the same.
static void test_threads(void **unused)
{
    (void)unused;
    enum { THREADS = 4, EACH = 20000, BYTES = 1 << 22 };
    uint64_t *memory = calloc(1, BYTES), *handles = calloc(THREADS * EACH, sizeof *handles);
    assert_int_equal(intern_init(&shared, memory, BYTES), 0);
    pthread_t thread[THREADS];
    for (unsigned t = 0; t < THREADS; t++)
        assert_int_equal(pthread_create(&thread[t], NULL, intern_many, handles + t * EACH), 0);
    for (unsigned t = 0; t < THREADS; t++)
        pthread_join(thread[t], NULL);
    for (uint32_t i = 0; i < THREADS * EACH; i++) {
        struct cc_entry stack[3];
        const struct interned_context asked = {0, handles[i], 0};
        struct intern_result found = {.stack = stack, .limit = 3};
        uint32_t k = i % EACH;
        assert_int_equal(intern_context(&shared, &asked, &found), 0);
        assert_int_equal(found.context.depth, 1 + k % 3);
        struct cc_entry expected[3] = {{k % 7, 1, 0}, {k % 11, 2, 0}, {k % 131, 3, k % 3}};
        assert_memory_equal(stack, expected, found.context.depth * sizeof stack[0]);
    }
    assert_int_equal(intern_ready(shared.node, 1, shared.capacity), shared.used);
    free(memory);
    free(handles);
}

// What the readers decode, over and over, while the graph grows and is encoded anew.
enum { CHAIN = 49, ENCODINGS = 8 };

static struct {
    struct graph graph;
    struct dictionary *dictionary[ENCODINGS]; // by stamp
    uint32_t encodings;                       // released by the main thread, when one more is there
    bool done; // written by the main thread, relaxed: any time will do
} growing;

static void *decode_many(void *wrong)
{
    uint64_t rounds = 0;
    while (!__atomic_load_n(&growing.done, __ATOMIC_RELAXED) || rounds == 0) {
        const uint32_t encodings = __atomic_load_n(&growing.encodings, __ATOMIC_ACQUIRE);
        for (uint32_t depth = 1; depth < CHAIN; depth++, rounds++) {
            uint32_t path[64];
            // Each edge of the chain has the number 0, in whatever encoding.
            const struct encoded_context context = {.function = depth};
            int64_t count = context_decode(&growing.graph, growing.dictionary[rounds % encodings],
                                           &context, path, 64);
            bool right = count == depth;
            for (uint32_t k = 0; right && k < depth; k++)
                right = path[64 - depth + k] == k;
            *(uint64_t *)wrong += !right;
        }
    }
    return NULL;
}

static void encode_growing(void)
{
    struct numbering numbering;
    struct numbering_options options = {.stamp = growing.encodings, .id_bits = ID_BITS};
    assert_int_equal(numbering_make(&numbering, &growing.graph, &options), 0);
    growing.dictionary[options.stamp] = numbering.dictionary;
    __atomic_store_n(&growing.encodings, options.stamp + 1, __ATOMIC_RELEASE);
    numbering_free(&numbering);
}

// A chain of functions is encoded; then many others come, in many encodings.
static void test_decode_while_growing(void **unused)
{
    (void)unused;
    struct pool pool = make_pool();
    struct graph *graph = &growing.graph;
    uint64_t wrong[2] = {0};
    graph_init(graph, &pool);
    for (uint32_t i = 0; i < CHAIN; i++)
        graph_add_function(graph, place_make(4, i * 16));
    for (uint32_t i = 0; i + 1 < CHAIN; i++) {
        graph_add_edge(graph, place_make(4, i * 16 + 5), i, i + 1, EDGE_CALL);
        graph_edge(graph, i)->heat = 1;
    }
    encode_growing();
    pthread_t thread[2];
    for (unsigned t = 0; t < 2; t++)
        assert_int_equal(pthread_create(&thread[t], NULL, decode_many, &wrong[t]), 0);
    walk_seed(1);
    for (uint32_t i = 0; i < 3000; i++) {
        uint32_t from = (uint32_t)walk_random(graph->function_count);
        uint32_t to = graph_add_function(graph, place_make(5, i * 16));
        graph_add_edge(graph, place_make(6, i), from, to, EDGE_CALL);
        graph_add_edge(graph, place_make(7, i), to, (uint32_t)walk_random(CHAIN), EDGE_INDIRECT);
        graph_add_edge(graph, place_make(8, i), to, from, EDGE_CALL);
        if (i % 500 == 0)
            encode_growing();
    }
    __atomic_store_n(&growing.done, true, __ATOMIC_RELAXED);
    for (unsigned t = 0; t < 2; t++) {
        pthread_join(thread[t], NULL);
        assert_int_equal(wrong[t], 0);
    }
    for (uint32_t i = 0; i < growing.encodings; i++)
        dictionary_free(graph, growing.dictionary[i]);
    graph_free(graph);
    pool_close(&pool);
    assert_int_equal(pool.mapped, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read_back),
        cmocka_unit_test(test_size),
        cmocka_unit_test(test_unknown),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_creators),
        cmocka_unit_test(test_full),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_ranges_from_zero),
        cmocka_unit_test(test_decode_while_growing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
