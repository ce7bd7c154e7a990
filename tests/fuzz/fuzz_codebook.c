// SPDX-License-Identifier: MIT
// The reader of encoded contexts on any bytes: what it accepts decodes to paths that are sound.

#include "encode/codebook/handle_frames.h"
#include "make_pool.h"
#include <errno.h>
#include <stdlib.h>

enum { STACK = 64, PATH = 256, HANDLES = 64 };

// What everybody who decodes relies on.
static void check(bool holds)
{
    if (!holds)
        abort();
}

static void check_path(const struct codebook *codebook, const uint32_t *path, uint32_t count,
                       uint32_t root, uint32_t function)
{
    uint32_t at = root;
    for (uint32_t i = 0; i < count; i++) {
        check(path[i] < codebook->graph.edge_count);
        const struct graph_edge *edge = graph_edge(&codebook->graph, path[i]);
        check(edge->caller == at);
        at = edge->callee;
    }
    check(at == function);
}

static void check_dictionary(const struct codebook *codebook, const struct dictionary *dictionary)
{
    uint64_t most = 0;
    for (uint32_t f = 0; f < dictionary->functions; f++) {
        const struct dictionary_function *into = &dictionary->function[f];
        uint64_t end = into->reserved;
        for (uint32_t i = into->first; i < into->first + into->count; i++) {
            const struct dictionary_step *step = &dictionary->step[i];
            check(step->start >= end && step->caller < dictionary->functions);
            check(step->edge == GRAPH_NONE ||
                  graph_edge(&codebook->graph, step->edge)->callee == f);
            end = step->edge == GRAPH_NONE
                      ? dictionary->function[step->caller].own_end
                      : step->start + dictionary->function[step->caller].contexts;
            check(end > step->start && end <= into->contexts);
            check(dictionary_find(dictionary, f, step->start) == step);
            check(dictionary_find(dictionary, f, end - 1) == step);
        }
        check(into->contexts > 0 && !dictionary_find(dictionary, f, into->contexts));
        check(!into->reserved || !dictionary_find(dictionary, f, 0));
        if (into->contexts - 1 > most)
            most = into->contexts - 1;
    }
    check(most == dictionary->max_id);
}

static void check_handle(const struct codebook *codebook, const struct dictionary *dictionary,
                         uint32_t node)
{
    struct cc_entry stack[STACK];
    uint32_t path[PATH];
    uint64_t handle = (uint64_t)dictionary->stamp << 32 | node;
    uint64_t ids[] = {0, 1, dictionary->max_id, dictionary->max_id + 1, 2 * dictionary->max_id + 1};
    for (uint32_t f = 0; f < codebook->graph.function_count && f < 16; f++) {
        for (unsigned i = 0; i < sizeof ids / sizeof ids[0]; i++) {
            const struct interned_context asked = {ids[i], handle, f};
            struct intern_result found = {.stack = stack, .limit = STACK};
            int status = intern_context(&codebook->intern, &asked, &found);
            check(status == 0 || status == -ENOSPC || status == -EBADMSG);
            if (status < 0)
                continue;
            int64_t count =
                context_decode(&codebook->graph, dictionary, &found.context, path, PATH);
            check(count >= 0 || count == -ENOSPC || count == -EBADMSG);
            if (count >= 0)
                check_path(codebook, path + PATH - count, (uint32_t)count, found.origin.root, f);
        }
    }
}

// As whoever was handed the node would ask.
static void check_telling(const struct codebook *codebook, uint32_t stamp, uint32_t node)
{
    struct cc_entry stack[STACK];
    uint32_t path[STACK];
    struct walked frames[STACK];
    struct handle_frames telling = {.limit = STACK, .stack = stack, .path = path, .frames = frames};
    for (uint64_t id = 0; id < 4; id++) {
        int status = codebook_frames(codebook, id, (uint64_t)stamp << 32 | node, &telling);
        check(status == 0 || status == -ENOSPC || status == -EBADMSG);
        check(status < 0 || telling.count <= STACK);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pool pool = make_pool();
    struct codebook codebook;
    codebook_init(&codebook, &pool);
    codebook.dictionary_limit = 1 << 24;
    int status = codebook_read(&codebook, data, size);
    check(status == 0 || status == -ENOMEM || status == -EBADMSG);
    for (uint32_t d = 0; d < codebook.dictionary_count; d++) {
        const struct dictionary *dictionary =
            *(struct dictionary **)series_at(&codebook.dictionaries, d);
        check_dictionary(&codebook, dictionary);
        check(codebook_dictionary(&codebook, dictionary->stamp) == dictionary);
        for (uint32_t node = 0; node <= codebook.intern.used && node < HANDLES; node++)
            check_handle(&codebook, dictionary, node);
        for (uint32_t node = 0; node <= codebook.intern.used && node < HANDLES; node++)
            check_telling(&codebook, dictionary->stamp, node);
    }
    for (uint32_t node = 0; node <= codebook.intern.used && node < HANDLES; node++)
        check_telling(&codebook, 0, node);
    codebook_free(&codebook);
    check(pool.mapped == 0);
    return 0;
}
