// SPDX-License-Identifier: MIT
// Whether numbers pay where a program asks for its context all the time, with each block that it
// allocates. To be told by a number costs nothing there, but the calls that lead to it do; and what
// no number tells is walked, which is cheap, too, where the same stacks come again. So there is a
// purse:
//
//   each context that is asked for ──► purse ──► sites, encodings, pushes, comparisons
//
//   it is full       functions are looked at
//   it is empty      nothing more is looked at
//   it is in debt    the program calls much and asks little: numbers rest, that is, all sites run
//                    their original code, and what is asked is walked, until the purse is full
//
// So numbers cost at most so much for each context, whatever the program does, and a phase that
// asks for nothing costs little more than what the purse holds. What calls with a number cost is
// not counted by anybody; a part of the time is taken for it.

#include "base/unseen.h"
#include "track/encode_parts.h"
#include "track/unwinding.h"

enum {
    ASK_NS = 20,       // for each context: what a remembered walk takes
    FULL_NS = 4000000, // that are to be there before the functions of a stack are looked at
    DEBT_NS = 8000000, // beyond which numbers rest
    SITE_NS = 3500,    // to find a site and lead it to a stub
    PUSH_NS = 8,       // and its pop
    COMPARE_NS = 3000, // a number and a walk
    RESTS_DOUBLED = 8, // each rest is twice as long as the one before, so many times
};

void encode_weigh(void)
{
    encode.weighs = !encode.verify && !encode.restless;
}

static int64_t full(void)
{
    return (int64_t)FULL_NS << (encode.rests < RESTS_DOUBLED ? encode.rests : RESTS_DOUBLED);
}

static int64_t purse(void)
{
    return __atomic_load_n(&encode.purse, __ATOMIC_RELAXED);
}

void encode_count_asks(uint64_t asks)
{
    // Not more than twice as much as is wanted: what was asked long ago pays for nothing now.
    if (purse() < 2 * full())
        __atomic_fetch_add(&encode.purse, (int64_t)asks * ASK_NS, __ATOMIC_RELAXED);
}

void encode_spend(const struct encode_bill *bill)
{
    const uint64_t sum = bill->sites * SITE_NS + bill->pushes * PUSH_NS +
                         bill->compared * COMPARE_NS + bill->nanoseconds;
    __atomic_fetch_sub(&encode.purse, (int64_t)sum, __ATOMIC_RELAXED);
}

bool encode_can_compare(void)
{
    return !encode.weighs || !encode.resting || purse() >= full();
}

bool encode_can_look(void)
{
    return !encode.weighs || purse() >= full();
}

// Or because an unwinder has come that would find the stubs at any time.
bool encode_must_rest(void)
{
    return !encode.resting && ((encode.weighs && purse() < -DEBT_NS) || unwinding_has_memory());
}

#define CHANGES 256
static struct site_change changes[CHANGES] UNSEEN;

// If that fails they go on as they did, which means nothing to anybody.
static void restore(size_t *count)
{
    if (*count)
        sites_apply(changes, *count, encode.company ? COMPANY_THREADS : COMPANY_NONE);
    *count = 0;
}

static void restore_sites(void)
{
    struct encode_site *site;
    size_t count = 0;
    for (uint32_t i = 0; (site = encode_site_number(i)); i++) {
        if (site->dead || (encode.company && site->fixed) || !atomic_load(&site->site->stub))
            continue;
        changes[count++] = (struct site_change){site->site, NULL};
        if (count == CHANGES)
            restore(&count);
    }
    restore(&count);
    sites_flush();
}

// Whether all return addresses can be moved.
static bool can_move(const struct encode_thread *thread)
{
    return encode_may_move(thread) && !thread->has_hook;
}

void encode_rest(struct encode_thread *thread)
{
    if (!can_move(thread))
        return;
    const uint64_t begin = encode_cpu_now();
    encode.resting = true;
    encode.rests++;
    encode.counts->rests++;
    // What a site of libc does among threads cannot be changed, and so not be taken up again.
    encode.failed |= encode.company || unwinding_has_memory();
    restore_sites();
    encode_move_returns(thread);
    encode_replay(thread, 0);
    encode_spend(&(struct encode_bill){.nanoseconds = encode_cpu_now() - begin});
}

void encode_wake(struct encode_thread *thread)
{
    if (!encode.resting || encode.failed || encode.frozen || !can_move(thread) ||
        !encode_is_alone())
        return;
    const uint64_t begin = encode_cpu_now();
    encode.resting = false;
    // Without memory for it, all is as it was.
    encode.resting = !encode_renumber(thread);
    encode_spend(&(struct encode_bill){.nanoseconds = encode_cpu_now() - begin});
}
