// SPDX-License-Identifier: MIT
// Encodings that threads are on, and what they mean for each edge.
//
// Nobody is ever stopped for a new encoding. A site has stubs that read what to add from the table
// of the encoding that their *thread* is on, before the call and behind it.
//
//   epoch 7 ─ word[edge] ◄── table of thread 1       A new one is published, and each thread gets
//   epoch 8 ─ word[edge] ◄── table of thread 2       the table of slow paths instead of its own: its
//             all long   ◄── table of thread 3       next call walks the stack, and goes over.
//
// Until then the thread returns by its old words, so what it has added is what it takes off. A word
// never changes between adding and pushing while an epoch lives: so whatever a call did, its return
// undoes, and what the walk computes for a new epoch is undone by that one's words.

#include "track/encode/threads/epoch.h"
#include "base/gc_hidden.h"
#include "track/encode/sites/call_graph.h"
#include "track/encode/sites/open_functions.h"

// For threads that nobody knows: nothing happens. The words of all edges are 0.
static struct encode_words nothing GC_HIDDEN;
__thread struct encode_state encode_state = {.words = &nothing};

static struct encode_epoch *epochs; // from new to old
static struct encode_words *slow_paths;

static struct encode_epoch *new_epoch(struct dictionary *dictionary)
{
    struct encode_epoch *epoch = encode.pool.map(sizeof *epoch); // hardly any of it will be used
    const uint32_t functions = encode.graph.function_count;
    if (!epoch)
        return NULL;
    epoch->dictionary = dictionary;
    epoch->open = functions ? encode.pool.map(functions) : NULL;
    epoch->open_count = epoch->open ? functions : 0;
    if (functions && !epoch->open) {
        encode.pool.unmap(epoch, sizeof *epoch);
        return NULL;
    }
    for (uint32_t f = 0; f < functions; f++)
        epoch->open[f] = encode_is_open(f);
    return epoch;
}

// Nobody is on it any more, nor will be.
static void free_epoch(struct encode_epoch *epoch)
{
    struct encode_epoch **link = &epochs;
    while (*link && *link != epoch)
        link = &(*link)->older;
    if (*link)
        *link = epoch->older;
    dictionary_free(&encode.graph, epoch->dictionary);
    if (epoch->open)
        encode.pool.unmap(epoch->open, epoch->open_count);
    encode.pool.unmap(epoch, sizeof *epoch);
}

int64_t encode_next_word(const struct numbering *numbering, uint32_t edge)
{
    const struct graph_edge *one = graph_edge(&encode.graph, edge);
    const bool outside = encode_leads_outside(edge);
    const int64_t word = outside ? (int64_t)ID_OUTSIDE : numbering_word(numbering, edge);
    const uint64_t leaves = encode_is_open(one->caller) ? ID_MASK + 1 - ID_OPEN : 0;
    const uint64_t enters = encode_is_open(one->callee) && !outside ? ID_OPEN : 0;
    return word < 0 ? word : (int64_t)(((uint64_t)word + leaves + enters) & ID_MASK);
}

static void set_words(struct encode_epoch *epoch, uint32_t edge, int64_t word)
{
    // Relaxed: who sees an epoch sees what was there then; of an edge that is new since, nothing
    // leads to its word before a system call was made.
    const uint64_t first = encode_first_id(epoch, graph_edge(&encode.graph, edge)->callee);
    atomic_store_explicit(&epoch->words.first[edge], first, memory_order_relaxed);
    atomic_store_explicit(&epoch->words.word[edge], word, memory_order_relaxed);
}

int encode_start_epochs(void)
{
    slow_paths = encode.pool.map(sizeof *slow_paths);
    return slow_paths ? 0 : -1;
}

void encode_add_word(uint32_t edge)
{
    if (edge >= ENCODE_EDGES)
        return;
    atomic_store_explicit(&slow_paths->word[edge], WORD_LONG, memory_order_relaxed);
    for (struct encode_epoch *epoch = epochs; epoch; epoch = epoch->older)
        set_words(epoch, edge, WORD_PUSH | edge);
}

bool encode_publish(struct numbering *next)
{
    struct encode_epoch *epoch = new_epoch(next->dictionary);
    struct encode_epoch *old = atomic_load_explicit(&encode.epoch, memory_order_relaxed);
    if (!epoch)
        return false;
    for (uint32_t i = 0; i < encode.graph.edge_count && i < ENCODE_EDGES; i++)
        set_words(epoch, i, encode_next_word(next, i));
    if (old)
        numbering_free(&encode.numbering);
    encode.numbering = *next;
    epoch->older = epochs;
    epochs = epoch;
    // Release: who sees it sees its words.
    atomic_store_explicit(&encode.epoch, epoch, memory_order_release);
    // Release: who sees this sees the epoch.
    atomic_store_explicit(&encode.invalidated, false, memory_order_release);
    for (struct encode_thread *thread = encode.threads; thread; thread = thread->next)
        encode_take_slow_path(thread->state);
    if (old && old->users == 0)
        free_epoch(old);
    return true;
}

void encode_leave(struct encode_thread *thread)
{
    struct encode_epoch *epoch = thread->epoch;
    thread->epoch = NULL;
    if (epoch && --epoch->users == 0 &&
        epoch != atomic_load_explicit(&encode.epoch, memory_order_relaxed))
        free_epoch(epoch);
}

void encode_join(struct encode_thread *thread)
{
    struct encode_epoch *epoch = atomic_load_explicit(&encode.epoch, memory_order_relaxed);
    epoch->users++;
    encode_leave(thread);
    thread->epoch = epoch;
    if (thread->state->jump.edge < epoch->dictionary->edges)
        thread->state->jump.slot = 0;
    thread->state->base = dictionary_base(epoch->dictionary);
    thread->state->stamp = epoch->dictionary->stamp;
    encode_take_fast_path(thread->state);
}

int64_t encode_word(const struct encode_thread *thread, uint32_t edge)
{
    return atomic_load_explicit(&thread->epoch->words.word[edge], memory_order_relaxed);
}

bool encode_repeats(const struct encode_thread *thread, uint32_t edge)
{
    const int64_t word = edge < ENCODE_EDGES ? encode_word(thread, edge) : 0;
    return word < 0 && word & WORD_REPEATS;
}

void encode_take_slow_path(struct encode_state *state)
{
    atomic_store_explicit(&state->words, slow_paths, memory_order_relaxed);
}

void encode_take_fast_path(struct encode_state *state)
{
    if (state->thread)
        atomic_store_explicit(&state->words, &state->thread->epoch->words, memory_order_relaxed);
}

void encode_detach_words(struct encode_state *state)
{
    atomic_store_explicit(&state->words, &nothing, memory_order_relaxed);
}

// ---- leading sites to what the encoding says

int encode_lead_sites(const struct numbering *numbering, enum encode_phase phase)
{
    struct encode_site *site;
    int error = 0;
    for (uint32_t i = 0; (site = encode_site_number(i)) && !error; i++) {
        if (!site->site || encode_is_fixed(site))
            continue;
        struct stub *stub = encode_stub_for(site, numbering, phase);
        if (stub || phase == ENCODE_AFTER)
            error = patch_add(site->site, stub);
    }
    const int failed = patch_commit(encode_threading());
    return error ? error : failed;
}
