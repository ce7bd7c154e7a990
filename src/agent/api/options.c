// SPDX-License-Identifier: MIT
#include "agent/api/options.h"
#include "base/text/decimal.h"
#include "live/choices.h"
#include "live/option_rules.h"
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#define NS_PER_S UINT64_C(1000000000)

struct word {
    const char *name, *value; // not terminated
    size_t name_length, value_length;
};

struct options_parsing {
    struct live_session *session;
    struct decimal phi, epsilon;
    bool rate_given, period_given;
};

static char *append(char *to, const char *end, const char *from, size_t length)
{
    while (length-- && to < end)
        *to++ = *from++;
    return to;
}

int api_refuse(struct api_error *error, const char *before, const char *word, size_t length,
               const char *after)
{
    if (!error->text || !error->bytes)
        return -EINVAL;
    const char *end = error->text + error->bytes - 1;
    char *to = append(error->text, end, before, strlen(before));
    to = append(to, end, word, length);
    *append(to, end, after, strlen(after)) = 0;
    return -EINVAL;
}

static int refuse(struct api_error *error, const struct word *word, const char *why)
{
    return api_refuse(error, "", word->name,
                      (size_t)(word->value + word->value_length - word->name), why);
}

// One of the words of the choice.
static int read_choice(const struct word *word, enum live_choice choice, uint32_t *value,
                       struct api_error *error)
{
    const int chosen = live_choice_of(choice, word->value, word->value_length);
    if (chosen >= 0) {
        *value = (uint32_t)chosen;
        return 0;
    }
    const char *const *words = live_words(choice);
    char list[80], *to = list;
    const char *end = list + sizeof list - 1;
    for (int i = 0; words[i]; i++) {
        const char *before = i == 0 ? ": " : words[i + 1] ? ", " : " or ";
        to = append(to, end, before, strlen(before));
        to = append(to, end, words[i], strlen(words[i]));
    }
    *to = 0;
    return refuse(error, word, list);
}

static bool value_is(const struct word *word, const char *text)
{
    return strlen(text) == word->value_length && !memcmp(word->value, text, word->value_length);
}

static bool name_is(const struct word *word, const char *text)
{
    return strlen(text) == word->name_length && !memcmp(word->name, text, word->name_length);
}

struct unit {
    const char *name;
    uint64_t size;
};

// A number with one of the units, in the smallest. False if it is none.
static bool read_amount(const struct word *word, const struct unit *units, uint64_t *amount)
{
    const char *at = word->value, *end = word->value + word->value_length;
    struct decimal number;
    if (!decimal_read(&at, end, &number))
        return false;
    for (; units->name; units++) {
        if (strlen(units->name) == (size_t)(end - at) &&
            !memcmp(units->name, at, (size_t)(end - at))) {
            *amount = decimal_whole(number, units->size);
            return true;
        }
    }
    return false;
}

static const struct unit no_units[] = {{"", 1}, {NULL, 0}};
static const struct unit times[] = {{"", 1},         {"ns", 1},       {"us", 1000},
                                    {"ms", 1000000}, {"s", NS_PER_S}, {NULL, 0}};
static const struct unit sizes[] = {{"", 1},        {"k", 1 << 10}, {"K", 1 << 10}, {"M", 1 << 20},
                                    {"m", 1 << 20}, {"G", 1 << 30}, {"g", 1 << 30}, {NULL, 0}};

static int set_event(struct options_parsing *parsing, const struct word *word,
                     struct api_error *error)
{
    if (value_is(word, "cpu"))
        parsing->session->options.event = LIVE_EVENT_CPU;
    else if (value_is(word, "wall"))
        parsing->session->options.event = LIVE_EVENT_WALL;
    else if (!strncmp(word->value, "calls", 5))
        return refuse(error, word, ": calls are followed from the first on, by cairn record");
    else
        return refuse(error, word, ": the events are cpu and wall");
    return 0;
}

static int set_rate(struct options_parsing *parsing, const struct word *word,
                    struct api_error *error)
{
    uint64_t rate = 0;
    if (!read_amount(word, no_units, &rate) || rate < 1 || rate > RULE_MOST_RATE)
        return refuse(error, word, ": samples a second, from 1 to 10000");
    parsing->session->options.period_ns = (NS_PER_S + rate / 2) / rate;
    parsing->rate_given = true;
    return 0;
}

static int set_period(struct options_parsing *parsing, const struct word *word,
                      struct api_error *error)
{
    uint64_t period = 0;
    if (!read_amount(word, times, &period) || period < NS_PER_S / RULE_MOST_RATE ||
        period > NS_PER_S)
        return refuse(error, word, ": a time from 100us to 1s");
    parsing->session->options.period_ns = period;
    parsing->period_given = true;
    return 0;
}

static bool is_share(struct decimal number)
{
    return number.digits && decimal_whole(number, 1) == 0;
}

// hot:PHI[,EPS]
static int set_hot(struct options_parsing *parsing, const struct word *word, const char *at,
                   struct api_error *error)
{
    struct live_options *options = &parsing->session->options;
    const char *end = word->value + word->value_length;
    if (!decimal_read(&at, end, &parsing->phi) || !is_share(parsing->phi))
        return refuse(error, word, ": phi is a share of the total, above 0 and below 1");
    options->hot_counters = decimal_inverse(parsing->phi, RULE_EPSILONS_IN_PHI);
    if (at < end) {
        if (*at++ != ',' || !decimal_read(&at, end, &parsing->epsilon) || at != end ||
            !is_share(parsing->epsilon))
            return refuse(error, word, ": give shares as in hot:1e-4 or hot:1e-4,2e-5");
        options->hot_counters = decimal_inverse(parsing->epsilon, 1);
        if (options->hot_counters <= decimal_inverse(parsing->phi, 1))
            return refuse(error, word, ": epsilon must be smaller than phi; a fifth is usual");
    }
    return 0;
}

// bounded:K
static int set_depth(struct options_parsing *parsing, const struct word *word, const char *at,
                     struct api_error *error)
{
    const size_t length = (size_t)(word->value + word->value_length - at);
    const struct word depth = {word->name, at, word->name_length, length};
    uint64_t frames = 0;
    if (!read_amount(&depth, no_units, &frames) || !frames || frames > RULE_MOST_DEPTH)
        return refuse(error, word, ": K is a number of frames, from 1 to 4096");
    parsing->session->options.bounded_depth = (uint32_t)frames;
    return 0;
}

static int set_tree(struct options_parsing *parsing, const struct word *word,
                    struct api_error *error)
{
    struct live_options *options = &parsing->session->options;
    const char *end = word->value + word->value_length,
               *colon = memchr(word->value, ':', word->value_length);
    const int kind =
        live_choice_of(LIVE_TREES, word->value, (size_t)((colon ? colon : end) - word->value));
    if (kind < 0 || (colon && kind != LIVE_TREE_HOT && kind != LIVE_TREE_BOUNDED))
        return refuse(error, word, ": trees are full, hot:PHI[,EPS], bounded:K and functions");
    options->tree = (uint32_t)kind;
    if (!colon)
        return 0;
    return kind == LIVE_TREE_HOT ? set_hot(parsing, word, colon + 1, error)
                                 : set_depth(parsing, word, colon + 1, error);
}

static int set_memory(struct options_parsing *parsing, const struct word *word,
                      struct api_error *error)
{
    uint64_t bytes = 0;
    if (!read_amount(word, sizes, &bytes) || bytes < RULE_LEAST_MEMORY || bytes > RULE_MOST_MEMORY)
        return refuse(error, word, ": a size from 1M to 16G");
    parsing->session->slice_bytes =
        (bytes + LIVE_SESSION_BYTES - 1) & -(uint64_t)LIVE_SESSION_BYTES;
    return 0;
}

static int set_tree_memory(struct options_parsing *parsing, const struct word *word,
                           struct api_error *error)
{
    uint64_t bytes = 0;
    if (!read_amount(word, sizes, &bytes) || bytes < RULE_LEAST_BUFFER)
        return refuse(error, word, ": a size from 16k on");
    parsing->session->options.bounded_bytes = bytes;
    return 0;
}

static int set_miner(struct options_parsing *parsing, const struct word *word,
                     struct api_error *error)
{
    return read_choice(word, LIVE_MINERS, &parsing->session->options.miner, error);
}

static int set_purge(struct options_parsing *parsing, const struct word *word,
                     struct api_error *error)
{
    return read_choice(word, LIVE_PURGES, &parsing->session->options.purge, error);
}

static int set_source(struct options_parsing *parsing, const struct word *word,
                      struct api_error *error)
{
    return read_choice(word, LIVE_SOURCES, &parsing->session->options.source, error);
}

static int read_switch(const struct word *word, uint32_t *value, struct api_error *error)
{
    *value = value_is(word, "on") || value_is(word, "yes") || !word->value_length;
    if (*value || value_is(word, "off") || value_is(word, "no"))
        return 0;
    return refuse(error, word, ": on or off");
}

static int set_marker(struct options_parsing *parsing, const struct word *word,
                      struct api_error *error)
{
    return read_switch(word, &parsing->session->options.marker, error);
}

static int set_follow_fork(struct options_parsing *parsing, const struct word *word,
                           struct api_error *error)
{
    return read_switch(word, &parsing->session->options.follow_fork, error);
}

static int set_per_thread(struct options_parsing *parsing, const struct word *word,
                          struct api_error *error)
{
    return read_switch(word, &parsing->session->options.per_thread, error);
}

static int set_track(struct options_parsing *parsing, const struct word *word,
                     struct api_error *error)
{
    (void)parsing;
    return value_is(word, "walk")
               ? 0
               : refuse(error, word, ": only walk; calls are followed by cairn record");
}

static int set_word(struct options_parsing *parsing, const struct word *word,
                    struct api_error *error)
{
    static const struct {
        const char *name;
        int (*set)(struct options_parsing *parsing, const struct word *word,
                   struct api_error *error);
    } names[] = {
        {"event", set_event},
        {"rate", set_rate},
        {"frequency", set_rate},
        {"period", set_period},
        {"tree", set_tree},
        {"memory", set_memory},
        {"miner", set_miner},
        {"purge", set_purge},
        {"source", set_source},
        {"marker", set_marker},
        {"track", set_track},
        {"follow-fork", set_follow_fork},
        {"per-thread", set_per_thread},
        {"tree-memory", set_tree_memory},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (name_is(word, names[i].name))
            return names[i].set(parsing, word, error);
    return api_refuse(error, "unknown option '", word->name, word->name_length,
                      "': event, rate, period, tree, memory, miner, purge, tree-memory, marker, "
                      "follow-fork, per-thread");
}

// ceil(ln(1 / (phi * delta))) by powers of two, for Sticky Sampling: it may keep a little more.
static uint64_t sticky_rounds(struct decimal phi)
{
    const uint64_t inverse_of_both = decimal_inverse(phi, 10000); // delta is 1e-4
    unsigned bits = 1;
    while (bits < 64 && inverse_of_both >> bits)
        bits++;
    return (uint64_t)bits * 6932 / 10000 + 1;
}

static char *put_share(char *to, struct decimal share)
{
    for (; share.digits % 10 == 0 && share.digits; share.exponent++)
        share.digits /= 10;
    to = stpcpy(decimal_write(to, share.digits), "e-");
    return decimal_write(to, (uint64_t)-share.exponent);
}

// As the tool names the kinds.
static void name_tree(struct options_parsing *parsing)
{
    const struct live_options *options = &parsing->session->options;
    char *to = stpcpy(parsing->session->tree_name, live_word(LIVE_TREES, options->tree));
    struct decimal epsilon = parsing->epsilon;
    if (!epsilon.digits) // a fifth of phi
        epsilon = (struct decimal){parsing->phi.digits * 2, parsing->phi.exponent - 1};
    switch (options->tree) {
    case LIVE_TREE_HOT:
        to = stpcpy(put_share(stpcpy(to, ":"), parsing->phi), ",");
        to = put_share(to, epsilon);
        if (options->miner)
            to = stpcpy(stpcpy(to, ","), live_word(LIVE_MINERS, options->miner));
        break;
    case LIVE_TREE_BOUNDED:
        to = decimal_write(stpcpy(to, ":"), options->bounded_depth);
        break;
    default:
        break;
    }
    *to = 0;
}

static int combine(struct options_parsing *parsing, struct api_error *error)
{
    struct live_session *session = parsing->session;
    struct live_options *options = &session->options;
    if (parsing->rate_given && parsing->period_given)
        return api_refuse(error, "rate and period say the same: give one of them", "", 0, "");
    name_tree(parsing);
    options->sticky_items = options->hot_counters * sticky_rounds(parsing->phi);
    static const char *const faults[] = {
        [RULE_COUNTERS_TOO_MANY] =
            "tree=hot: too many counters; epsilon can be 1e-8 at least, phi alone 5e-8",
        [RULE_COUNTERS_NEED_MEMORY] =
            "the memory is too small for so small an epsilon: it takes 64 bytes for each 1/epsilon",
        [RULE_BUFFER_TOO_SMALL] =
            "tree-memory is too small for so many frames: it takes 256 bytes for each",
        [RULE_BUFFER_NEEDS_MEMORY] = "tree-memory, the buffer of one thread, must fit into memory",
    };
    const enum option_fault fault = option_check_tree(options, session->slice_bytes);
    return fault ? api_refuse(error, faults[fault], "", 0, "") : 0;
}

static void set_defaults(struct live_session *session)
{
    memset(session, 0, sizeof *session);
    session->magic = LIVE_MAGIC;
    session->version = LIVE_VERSION;
    session->slice_bytes = RULE_MEMORY;
    session->options = (struct live_options){
        .event = LIVE_EVENT_CPU,
        .period_ns = NS_PER_S / RULE_RATE,
        .marker = 1,
        .follow_fork = 1,
        .hot_counters = RULE_PHIS * RULE_EPSILONS_IN_PHI,
        .bounded_depth = RULE_DEPTH,
        .bounded_bytes = RULE_BUFFER,
    };
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n';
}

static struct word next_word(const char **at)
{
    const char *c = *at;
    while (*c == '-') // as on the command line, if one likes
        c++;
    struct word word = {.name = c};
    while (*c && *c != '=' && !is_blank(*c))
        c++;
    word.name_length = (size_t)(c - word.name);
    c += *c == '=';
    word.value = c;
    while (*c && !is_blank(*c))
        c++;
    word.value_length = (size_t)(c - word.value);
    *at = c;
    return word;
}

int api_parse_options(const char *words, struct live_session *session, struct api_error *error)
{
    struct options_parsing parsing = {.session = session, .phi = {1, -4}};
    set_defaults(session);
    for (const char *at = words ? words : "";;) {
        while (is_blank(*at))
            at++;
        if (!*at)
            return combine(&parsing, error);
        const struct word word = next_word(&at);
        int outcome = set_word(&parsing, &word, error);
        if (outcome)
            return outcome;
    }
}
