// SPDX-License-Identifier: MIT
#include "cmd/record/options/tree_options.h"
#include "base/text/nearest.h"
#include "base/text/text.h"
#include "cmd/line/numbers.h"
#include "cmd/record/options/record_options.h"
#include "live/choices.h"
#include "live/option_rules.h"
#include "tree/tree.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define MISUSE(...) misuse(&command_record, "record: " __VA_ARGS__)

#define MOST_COUNTERS ((double)RULE_MOST_COUNTERS)
#define DEFAULT_PHI (1.0 / RULE_PHIS)
// Sticky Sampling may miss a hot context; with which probability.
#define STICKY_FAILURE 1e-4

void default_tree(struct tree_options_given *tree)
{
    *tree = (struct tree_options_given){
        .kind = LIVE_TREE_FULL,
        .phi = DEFAULT_PHI,
        .epsilon = DEFAULT_PHI / RULE_EPSILONS_IN_PHI,
        .depth = RULE_DEPTH,
        .bytes = RULE_BUFFER,
    };
}

// 1/epsilon rounded up: the promise is an error of epsilon at most. Rounding of binary fractions
// (1/0.00002) must not add a counter.
static double counters_for(double epsilon)
{
    return ceil(1 / epsilon * (1 - 1e-12));
}

static bool is_share(double number)
{
    return number > 0 && number < 1;
}

static int set_hot(struct tree_options_given *tree, const char *text)
{
    const char *rest = "";
    tree->kind = LIVE_TREE_HOT;
    if (!parse_number(text, &tree->phi, &rest) || (*rest && *rest != ','))
        return MISUSE("--tree hot:%s: give a share as in hot:1e-4, or two as in hot:1e-4,2e-5",
                      text);
    if (!is_share(tree->phi))
        return MISUSE("--tree hot:%s: PHI, the share of the total from which on a context is "
                      "hot, lies between %g and 1",
                      text, RULE_EPSILONS_IN_PHI / MOST_COUNTERS);
    tree->epsilon = tree->phi / RULE_EPSILONS_IN_PHI;
    if (*rest == ',') {
        const char *epsilon = rest + 1;
        if (!parse_number(epsilon, &tree->epsilon, &rest) || *rest)
            return MISUSE("--tree hot:%s: give a share as in hot:1e-4, or two as in hot:1e-4,2e-5",
                          text);
        if (!is_share(tree->epsilon))
            return MISUSE("--tree hot:%s: EPS, the greatest error as a share of the total, lies "
                          "between %g and PHI",
                          text, 1 / MOST_COUNTERS);
        if (tree->epsilon >= tree->phi)
            return MISUSE("--tree hot:%s: EPS must be smaller than PHI, %g; the default is a fifth "
                          "of it, %g",
                          text, tree->phi, tree->phi / RULE_EPSILONS_IN_PHI);
    }
    if (counters_for(tree->epsilon) > MOST_COUNTERS)
        return MISUSE("--tree hot:%s would need %.3g counters: the smallest EPS is %g (a "
                      "PHI of %g)",
                      text, counters_for(tree->epsilon), 1 / MOST_COUNTERS,
                      RULE_EPSILONS_IN_PHI / MOST_COUNTERS);
    return PROCEED;
}

static int set_bounded(struct tree_options_given *tree, const char *text)
{
    double depth = 0;
    tree->kind = LIVE_TREE_BOUNDED;
    if (!parse_whole_number(text, &depth) || depth < 1 || depth > RULE_MOST_DEPTH)
        return MISUSE("--tree bounded:%s: K, the most frames of a sample, is a whole number from 1 "
                      "to %d (default 16)",
                      text, RULE_MOST_DEPTH);
    tree->depth = (unsigned)depth;
    return PROCEED;
}

int set_tree(struct tree_options_given *tree, const char *text)
{
    const size_t length = strcspn(text, ":");
    const char *value = text[length] ? text + length + 1 : NULL;
    static int (*const set[])(struct tree_options_given * tree, const char *text) = {
        [LIVE_TREE_FULL] = NULL,
        [LIVE_TREE_HOT] = set_hot,
        [LIVE_TREE_BOUNDED] = set_bounded,
        [LIVE_TREE_FUNCTIONS] = NULL,
    };
    const int kind = live_choice_of(LIVE_TREES, text, length);
    if (kind >= 0) {
        tree->kind = (enum live_tree_kind)kind;
        if (value && !set[kind])
            return MISUSE("--tree %.*s takes no number", (int)length, text);
        return value ? set[kind](tree, value) : PROCEED;
    }
    char name[32];
    snprintf(name, sizeof name, "%.*s", (int)length, text);
    const char *near = nearest_word(name, live_words(LIVE_TREES));
    return MISUSE("--tree takes full, hot[:PHI[,EPS]], bounded[:K] or functions, not '%s'%s%s%s",
                  text, near ? ": did you mean '" : "", near ? near : "", near ? "'?" : "");
}

int set_miner(struct tree_options_given *tree, const char *text)
{
    const int chosen = option_choice(&command_record, "--miner", text, live_words(LIVE_MINERS));
    if (chosen < 0)
        return STATUS_MISUSE;
    tree->miner = (enum live_miner)chosen;
    tree->miner_given = true;
    return PROCEED;
}

int set_purge(struct tree_options_given *tree, const char *text)
{
    const int chosen = option_choice(&command_record, "--purge", text, live_words(LIVE_PURGES));
    if (chosen < 0)
        return STATUS_MISUSE;
    tree->purge = (enum live_purge)chosen;
    tree->purge_given = true;
    return PROCEED;
}

int set_tree_memory(struct tree_options_given *tree, const char *text)
{
    double bytes = 0;
    tree->bytes_given = true;
    if (!parse_size(text, &bytes))
        return MISUSE("'%s' is not a size: --tree-memory takes a number with k, M or G", text);
    tree->bytes = bytes < (double)(UINT64_C(1) << 40) ? (uint64_t)bytes : UINT64_C(1) << 40;
    return PROCEED;
}

// Whole megabytes, rounded up: the suggested value must work.
static unsigned long long megabytes_for(uint64_t bytes)
{
    return (bytes >> 20) + 1;
}

static int refuse_counters(const struct record_options *options)
{
    const double counters = counters_for(options->trees.epsilon);
    const double smallest = RULE_COUNTER_BYTES / ((double)options->memory - RULE_PROCESS_BYTES);
    return MISUSE("an error of %g takes %.0f counters, and --memory %s is too small for them: "
                  "--memory %lluM would do, or hot:%.2g",
                  options->trees.epsilon, counters, text_bytes(options->memory).text,
                  megabytes_for(option_hot_bytes((uint64_t)counters)),
                  smallest * RULE_EPSILONS_IN_PHI * 1.05);
}

static int check_memory(const struct record_options *options)
{
    const struct tree_options_given *tree = &options->trees;
    struct live_options live = {0};
    fill_tree_options(&live, tree);
    switch (option_check_tree(&live, options->memory)) {
    case RULE_COUNTERS_NEED_MEMORY:
        return refuse_counters(options);
    case RULE_BUFFER_TOO_SMALL:
        return MISUSE("--tree-memory is too small for samples of %u frames: --tree-memory %lluk at "
                      "least",
                      tree->depth, (unsigned long long)(option_least_buffer(&live) + 1023) >> 10);
    case RULE_BUFFER_NEEDS_MEMORY:
        return MISUSE("each thread's tree of %s has to fit into --memory %s: --memory %lluM at "
                      "least",
                      text_bytes(tree->bytes).text, text_bytes(options->memory).text,
                      megabytes_for(tree->bytes + RULE_PROCESS_BYTES));
    case RULE_COUNTERS_TOO_MANY: // set_hot() has refused it
    case RULE_FITS:
        break;
    }
    return PROCEED;
}

int combine_tree(const struct record_options *options)
{
    const struct tree_options_given *tree = &options->trees;
    const bool follows = options->tracker == LIVE_TRACKER_CALLS;
    const struct tree_traits *traits = tree_traits_of(tree->kind);
    if (options->event_count > 1 && !traits->keeps_all)
        return MISUSE("hot and bounded trees count one event: several go with --tree full");
    if (tree->miner_given && !traits->has_errors)
        return MISUSE("--miner goes with --tree hot: it finds the hot contexts");
    if (tree->purge_given && !traits->has_buffer)
        return MISUSE("--purge goes with --tree bounded: it chooses what a full buffer drops");
    if (tree->bytes_given && !traits->has_buffer)
        return MISUSE("--tree-memory goes with --tree bounded; --memory bounds the other trees");
    if (traits->has_buffer && follows)
        return MISUSE("--tree %s is for samples, and --track calls follows every call: use --tree "
                      "hot, or --track walk",
                      live_word(LIVE_TREES, tree->kind));
    return check_memory(options);
}

struct tree_name tree_name(const struct tree_options_given *tree)
{
    const char *kind = live_word(LIVE_TREES, tree->kind);
    struct tree_name name;
    if (tree->kind == LIVE_TREE_HOT)
        snprintf(name.text, sizeof name.text, "%s:%g,%g%s%s", kind, tree->phi, tree->epsilon,
                 tree->miner ? "," : "", tree->miner ? live_word(LIVE_MINERS, tree->miner) : "");
    else if (tree->kind == LIVE_TREE_BOUNDED)
        snprintf(name.text, sizeof name.text, "%s:%u", kind, tree->depth);
    else
        snprintf(name.text, sizeof name.text, "%s", kind);
    return name;
}

void fill_tree_options(struct live_options *live, const struct tree_options_given *tree)
{
    const double counters = counters_for(tree->epsilon);
    live->tree = tree->kind;
    live->miner = tree->miner;
    // For a full tree too: it continues as a hot one when its memory is used up.
    live->hot_counters = (uint64_t)counters;
    live->sticky_items = (uint64_t)ceil(counters * log(1 / (tree->phi * STICKY_FAILURE)));
    live->bounded_depth = tree->depth;
    live->purge = tree->purge;
    live->bounded_bytes = tree->bytes;
}
