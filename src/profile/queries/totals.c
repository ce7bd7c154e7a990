// SPDX-License-Identifier: MIT
#include "profile/queries/totals.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void totals_add(struct profile_totals *totals, const struct live_stats *stats)
{
    totals->samples += stats->samples;
    totals->lost += stats->lost;
    totals->unplaced += stats->unplaced;
    for (unsigned i = 0; i < VERDICT_COUNT; i++)
        totals->verdicts[i] += stats->verdicts[i];
    totals->frames_stack += stats->frames_stack;
    totals->frames_walked += stats->frames_walked;
    totals->handler_ns += stats->handler_ns;
    totals->cost_ns += stats->cost_ns;
    totals->residue_ns += stats->residue_ns;
    totals->purged += stats->purged;
    totals->waits += stats->waits;
    totals->sparse += stats->sparse;
    totals->switches += stats->switches;
    totals->hook_samples += stats->hook_samples;
    totals->hook_ns += stats->hook_ns;
    for (unsigned i = 0; i < LIVE_HANDLER_BUCKETS; i++)
        totals->handler_histogram[i] += stats->handler_histogram[i];
}

void stats_add(struct live_stats *into, const struct live_stats *stats)
{
    into->samples += stats->samples;
    into->lost += stats->lost;
    into->unplaced += stats->unplaced;
    for (unsigned i = 0; i < VERDICT_COUNT; i++)
        into->verdicts[i] += stats->verdicts[i];
    into->frames_stack += stats->frames_stack;
    into->frames_walked += stats->frames_walked;
    into->handler_ns += stats->handler_ns;
    into->cost_ns += stats->cost_ns;
    into->residue_ns += stats->residue_ns;
    into->purged += stats->purged;
    into->waits += stats->waits;
    into->sparse += stats->sparse;
    into->switches += stats->switches;
    into->hook_samples += stats->hook_samples;
    into->hook_ns += stats->hook_ns;
    for (unsigned i = 0; i < LIVE_HANDLER_BUCKETS; i++) {
        uint64_t sum = (uint64_t)into->handler_histogram[i] + stats->handler_histogram[i];
        into->handler_histogram[i] = sum < UINT32_MAX ? (uint32_t)sum : UINT32_MAX;
    }
}

void hot_add(struct profile_hot *into, const struct profile_hot *hot)
{
    if (hot->counters > into->counters)
        into->counters = hot->counters;
    into->floor += hot->floor;
    into->made_up = (int64_t)((uint64_t)into->made_up + (uint64_t)hot->made_up);
}

static void add_encoding(struct live_encode *into, const struct live_encode *encode)
{
    uint64_t *sums = (uint64_t *)into, most = into->max_id;
    // The history is known for one process only.
    const struct live_encode *longest =
        encode->progress_count > into->progress_count ? encode : into;
    struct live_progress progress[LIVE_PROGRESS];
    const uint64_t progress_count = longest->progress_count;
    memcpy(progress, longest->progress, sizeof progress);
    for (unsigned i = 0; i < sizeof *into / sizeof *sums; i++)
        sums[i] += ((const uint64_t *)encode)[i];
    into->max_id = encode->max_id > most ? encode->max_id : most;
    into->progress_count = progress_count;
    memcpy(into->progress, progress, sizeof progress);
}

static void add_blocks(struct profile_alloc *into, const struct profile_alloc *alloc)
{
    into->live += alloc->live;
    into->peak = alloc->peak > into->peak ? alloc->peak : into->peak;
    into->unheld += alloc->unheld;
    into->unheld_bytes += alloc->unheld_bytes;
    into->unknown += alloc->unknown;
    into->rootless += alloc->rootless;
    into->verified += alloc->verified;
    into->mismatches += alloc->mismatches;
}

void profile_sum(const struct profile *profile, struct profile_totals *totals)
{
    *totals = (struct profile_totals){.processes = profile->process_count};
    for (unsigned i = 0; i < profile->tree_count; i++) {
        totals_add(totals, &profile->trees[i].stats);
        totals->nodes += profile->trees[i].count;
        totals->charges += profile->trees[i].charges.count;
        totals->charges_lost += profile->trees[i].charges.lost;
    }
    for (unsigned i = 0; i < profile->process_count; i++) {
        const struct profile_process *process = &profile->processes[i];
        totals->tree_bytes += process->tree_bytes;
        totals->threads += process->thread_starts;
        add_encoding(&totals->encode, &process->encode);
        add_blocks(&totals->alloc, &process->alloc);
        totals->asked_numbers += process->contexts.number;
        totals->asked_walked += process->contexts.walked;
        totals->asked_unknown += process->contexts.unknown;
        totals->asked_bytes += process->contexts.bytes;
        uint64_t bytes = process->agent_bytes + process->tree_bytes;
        if (bytes > totals->agent_bytes)
            totals->agent_bytes = bytes;
    }
}

uint64_t totals_walks(const struct profile_totals *totals)
{
    uint64_t walks = 0;
    for (unsigned i = 0; i < VERDICT_COUNT; i++)
        walks += totals->verdicts[i];
    return walks;
}

uint64_t totals_complete(const struct profile_totals *totals)
{
    return totals->verdicts[VERDICT_COMPLETE] + totals->verdicts[VERDICT_MARKER];
}

double totals_complete_percent(const struct profile_totals *totals)
{
    uint64_t walks = totals_walks(totals);
    return walks ? 100.0 * (double)totals_complete(totals) / (double)walks : 100.0;
}

double totals_guessed_percent(const struct profile_totals *totals)
{
    uint64_t walks = totals_walks(totals);
    return walks ? 100.0 * (double)totals->verdicts[VERDICT_GUESSED] / (double)walks : 0.0;
}

uint64_t totals_truncated(const struct profile_totals *totals)
{
    return totals_walks(totals) - totals_complete(totals) - totals->verdicts[VERDICT_GUESSED];
}

uint64_t totals_handler_percentile(const struct profile_totals *totals, double share)
{
    uint64_t all = 0;
    for (unsigned i = 0; i < LIVE_HANDLER_BUCKETS; i++)
        all += totals->handler_histogram[i];
    if (all == 0)
        return 0;
    // The middle of the bucket in which the wanted rank lies.
    double rank = share * (double)all;
    uint64_t below = 0;
    unsigned bucket = 0;
    while (bucket < LIVE_HANDLER_BUCKETS - 1) {
        below += totals->handler_histogram[bucket];
        if (below > 0 && (double)below >= rank)
            break;
        bucket++;
    }
    uint64_t low = live_bucket_floor(bucket), high = live_bucket_floor(bucket + 1);
    return low + (high - low) / 2;
}

double totals_handler_mean(const struct profile_totals *totals)
{
    return totals->samples ? (double)totals->handler_ns / (double)totals->samples : 0;
}

double totals_rate(const struct profile_totals *totals)
{
    const uint64_t samples = totals->samples - totals->waits;
    return totals->cost_ns ? (double)samples * 1e9 / (double)totals->cost_ns : 0;
}

static bool is_first_of_phase(const struct profile *profile, unsigned tree)
{
    for (unsigned before = 0; before < tree; before++)
        if (strcmp(profile->trees[before].phase, profile->trees[tree].phase) == 0)
            return false;
    return profile->trees[tree].phase[0] != 0;
}

char *profile_phases(const struct profile *profile, const char *between)
{
    char *all = NULL;
    for (unsigned i = 0; i < profile->tree_count; i++) {
        char *longer = NULL;
        if (!is_first_of_phase(profile, i))
            continue;
        if (asprintf(&longer, "%s%s%s", all ? all : "", all ? between : "",
                     profile->trees[i].phase) < 0)
            return all;
        free(all);
        all = longer;
    }
    return all;
}

bool profile_same_threads(const struct profile_tree *one, const struct profile_tree *other)
{
    return one->start == other->start && one->creator == other->creator &&
           strcmp(one->phase, other->phase) == 0 &&
           (!one->start || thread_name_same_pool(one->name, other->name));
}

void profile_join_names(struct profile_tree *into, const struct profile_tree *tree)
{
    if (thread_name_equals(into->name, tree->name) || !tree->threads)
        return; // time outside of samples is the main thread's, whatever that is called
    if (thread_name_same_pool(into->name, tree->name))
        thread_name_pool(into->name, tree->name);
    else
        memset(into->name, 0, sizeof into->name);
}
