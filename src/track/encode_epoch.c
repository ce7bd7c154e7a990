// SPDX-License-Identifier: MIT
// Encodings that threads are on, and what they mean at each site.
//
// Alone, a thread's numbers stand in the code of stubs, and a new encoding moves its return
// addresses to other stubs at once. In company nobody is stopped: a site has one stub, which reads
// what to add from the table of the encoding that its *thread* is on, before the call and behind
// it.
//
//   epoch 7 ─ word[site] ◄── table of thread 1       A new one is published, and each thread gets
//   epoch 8 ─ word[site] ◄── table of thread 2       the table of long ways instead of its own: its
//             all long   ◄── table of thread 3       next call walks the stack, and goes over.
//
// Until then the thread returns by its old words, so what it has added is what it takes off. A word
// never changes between adding and pushing while an epoch lives: so whatever a call did, its return
// undoes, and what the walk computes for a new epoch is undone by that one's words.

#include "base/unseen.h"
#include "track/encode_facts.h"

// For threads that nobody knows: nothing happens. The words of all sites are 0.
static _Atomic int64_t nothing[ENCODE_SITES] UNSEEN;
__thread struct encode_state encode_state = {.table = nothing};

static struct encode_epoch *epochs; // from new to old
static _Atomic int64_t *long_ways;

static struct encode_epoch *new_epoch(struct dictionary *dictionary)
{
    const size_t bytes =
        sizeof(struct encode_epoch) + (encode.company ? ENCODE_SITES * sizeof(int64_t) : 0);
    struct encode_epoch *epoch = encode.pool.map(bytes); // hardly any of it will be used
    if (!epoch)
        return NULL;
    epoch->bytes = bytes;
    epoch->dictionary = dictionary;
    epoch->own_bytes = dictionary->edges * sizeof *epoch->own;
    epoch->own = epoch->own_bytes ? encode.pool.map(epoch->own_bytes) : NULL;
    for (uint32_t i = 0; epoch->own && i < dictionary->edges; i++)
        epoch->own[i] = dictionary_own(dictionary, graph_edge(&encode.graph, i)->callee);
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
    if (epoch->own)
        encode.pool.unmap(epoch->own, epoch->own_bytes);
    encode.pool.unmap(epoch, epoch->bytes);
}

static int64_t word_of(const struct numbering *numbering, const struct encode_site *site)
{
    if (site->edge == GRAPH_NONE || site->edge >= numbering->covered)
        return WORD_LONG;
    const struct code *code = numbering_code(numbering, site->edge);
    if (encode_blinds(site->edge))
        return (int64_t)encode_blinding(numbering->dictionary);
    if (code->action == ACTION_ADD)
        return (int64_t)code->add;
    return WORD_PUSH | (code->action == ACTION_REPEAT ? WORD_REPEATS : 0) |
           (code->add ? WORD_BEGINS : 0) | site->edge;
}

static void fill_words(struct encode_epoch *epoch, const struct numbering *numbering)
{
    struct encode_site *site;
    for (uint32_t i = 0; (site = encode_site_number(i)); i++)
        // Relaxed: published as a whole.
        atomic_store_explicit(&epoch->word[i], word_of(numbering, site), memory_order_relaxed);
}

bool encode_publish(struct numbering *next)
{
    struct encode_epoch *epoch = new_epoch(next->dictionary);
    struct encode_epoch *old = atomic_load_explicit(&encode.epoch, memory_order_relaxed);
    if (!epoch)
        return false;
    if (encode.company)
        fill_words(epoch, next);
    if (old)
        numbering_free(&encode.numbering);
    encode.numbering = *next;
    encode_forget_targets();
    epoch->older = epochs;
    epochs = epoch;
    // Release: who sees it sees its words.
    atomic_store_explicit(&encode.epoch, epoch, memory_order_release);
    // Who sees a function trusted sees that he is behind: encode_decode_state() looks in this
    // order.
    atomic_thread_fence(memory_order_seq_cst);
    encode_trust();
    // Release: who sees this sees the epoch.
    atomic_store_explicit(&encode.unsettled, false, memory_order_release);
    for (struct encode_thread *thread = encode.threads; thread && encode.company;
         thread = thread->next)
        encode_notice(thread->state);
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
    thread->state->own_count = 0; // for hooks in handlers that come meanwhile
    atomic_signal_fence(memory_order_seq_cst);
    encode_leave(thread);
    thread->epoch = epoch;
    thread->state->base = dictionary_base(epoch->dictionary);
    thread->state->own = epoch->own;
    atomic_signal_fence(memory_order_seq_cst);
    thread->state->own_count = epoch->own ? epoch->dictionary->edges : 0;
    encode_calm(thread->state);
}

int64_t encode_word(const struct encode_thread *thread, const struct encode_site *site)
{
    return atomic_load_explicit(&thread->epoch->word[site->number], memory_order_relaxed);
}

void encode_set_word(const struct encode_site *site, int64_t word)
{
    const uint32_t number = site->number;
    if (!encode.company)
        return;
    // Relaxed: the word is all there is. The site is led to its stub by a system call later.
    atomic_store_explicit(&long_ways[number], WORD_LONG, memory_order_relaxed);
    for (struct encode_epoch *epoch = epochs; epoch; epoch = epoch->older) {
        const bool begins =
            word < 0 && !word_is_long(word) &&
            dictionary_own(epoch->dictionary, graph_edge(&encode.graph, site->edge)->callee) != 0;
        atomic_store_explicit(&epoch->word[number], word | (begins ? WORD_BEGINS : 0),
                              memory_order_relaxed);
    }
}

void encode_notice(struct encode_state *state)
{
    if (encode.company)
        atomic_store_explicit(&state->table, long_ways, memory_order_relaxed);
}

void encode_calm(struct encode_state *state)
{
    if (encode.company && state->thread)
        atomic_store_explicit(&state->table, state->thread->epoch->word, memory_order_relaxed);
}

void encode_forget_table(struct encode_state *state)
{
    atomic_store_explicit(&state->table, nothing, memory_order_relaxed);
}

// ---- from fixed numbers to tables

// What a site leads to: its original code, if nothing is to be done and that can be changed again.
static struct stub *stub_in_company(struct encode_site *site, const struct numbering *numbering)
{
    if (encode_is_futile(site->caller))
        return NULL;
    if (!encode_is_direct(site))
        return site->hook;
    return !site->fixed && word_of(numbering, site) == 0 ? NULL : site->table;
}

#define CHANGES 512
static struct site_change changes[CHANGES] UNSEEN;

static int apply(size_t count, enum company company)
{
    return count ? sites_apply(changes, count, company) : 0;
}

enum direction { LEAD_ALL, LEAD_IN, LEAD_OUT };

static int lead(const struct numbering *numbering, enum direction direction)
{
    const enum company company = direction == LEAD_ALL ? COMPANY_NONE : COMPANY_THREADS;
    struct encode_site *site;
    size_t count = 0;
    int error = 0;
    for (uint32_t i = 0; (site = encode_site_number(i)) && !error; i++) {
        struct stub *stub = stub_in_company(site, numbering);
        if (site->dead || stub == atomic_load_explicit(&site->site->stub, memory_order_relaxed) ||
            (direction != LEAD_ALL && (site->fixed || (stub == NULL) != (direction == LEAD_OUT))))
            continue;
        changes[count++] = (struct site_change){site->site, stub};
        if (count == CHANGES) {
            error = apply(count, company);
            count = 0;
        }
    }
    return error ? error : apply(count, company);
}

int encode_lead_in(const struct numbering *next)
{
    return lead(next, LEAD_IN);
}

void encode_lead_out(void)
{
    lead(&encode.numbering, LEAD_OUT);
}

// Calls of several targets go one way only in company: their return does not know which it was.
static void push_indirect(void)
{
    for (uint32_t i = 0; i < encode.graph.edge_count; i++)
        if (graph_edge(&encode.graph, i)->kind == EDGE_INDIRECT)
            graph_edge(&encode.graph, i)->flags |= EDGE_UNENCODED;
}

static bool make_tables(void)
{
    struct encode_site *site;
    long_ways = encode.pool.map(ENCODE_SITES * sizeof *long_ways);
    if (!long_ways)
        return false;
    for (uint32_t i = 0; (site = encode_site_number(i)); i++) {
        atomic_store_explicit(&long_ways[i], WORD_LONG, memory_order_relaxed);
        if (i >= ENCODE_SITES ||
            (!site->dead && encode_is_direct(site) && !encode_table_stub(site)))
            return false;
        site->fixed = encode_is_fixed(site->site->address);
    }
    return true;
}

// Code that is not rewritten in company, and runs as it was compiled by now, will do so for good.
static bool leave_as_compiled(void)
{
    struct encode_site *site;
    bool left = false;
    for (uint32_t i = 0; (site = encode_site_number(i)); i++) {
        struct encode_facts *caller = encode_facts_of(site->caller);
        if (!site->fixed || !encode_is_futile(site->caller) || caller->flags & OPEN)
            continue;
        caller->flags |= OPEN;
        left = true;
    }
    return left;
}

bool encode_begin_company(struct encode_thread *thread)
{
    struct numbering_options options = encode.numbering.options;
    struct numbering next;
    options.stamp++;
    if (!make_tables())
        return false;
    encode_settle();
    if (leave_as_compiled())
        encode_settle();
    push_indirect();
    if (numbering_make(&next, &encode.graph, &options))
        return false;
    encode.company = true;
    if (!encode_publish(&next)) {
        encode.company = false;
        return false;
    }
    if (lead(&encode.numbering, LEAD_ALL))
        encode.failed = true;
    if (!thread)
        return true;
    encode_move_returns(thread);
    encode_join(thread);
    encode_replay(thread, 0);
    return true;
}
