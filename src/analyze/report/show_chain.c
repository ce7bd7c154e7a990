// SPDX-License-Identifier: MIT

#include "analyze/report/show_chain.h"
#include "analyze/names/short_name.h"
#include "base/memory.h"

#define CHAIN_NAMES 8    // names in a row
#define NAME_IN_CHAIN 40 // columns of a name that is not alone in its row, where there is no limit
#define ARROW_COLUMNS 3
#define RECURSIVE 3 // a function that is on a path this often is called so
#define CUT_NAME 8  // columns that are left of a name at least

struct chain {
    struct name_set *names;
    const struct show_options *options;
    const struct chain_link *links;
    size_t count;
    unsigned room;
    unsigned level;   // of the names
    bool marks;       // "[inlined]", and how deep recursion went
    unsigned *widths; // per link
    bool *kept;
    size_t kept_count;
    unsigned kept_width; // with arrows, and a sign for each gap
    const char **cut;    // per link: the rest of its name; NULL: all
};

static const char *name_of(const struct chain *chain, const struct chain_link *link)
{
    if (chain->cut[link - chain->links])
        return chain->cut[link - chain->links];
    if (chain->room > 0)
        return name_set_text(chain->names, link->function, chain->level);
    if (chain->options->wide || chain->count == 1)
        return name_set_full(chain->names, link->function);
    return name_set_fit(chain->names, link->function, NAME_IN_CHAIN);
}

static char *link_text(const struct chain *chain, const struct chain_link *link, const char *name)
{
    char times[24] = "", recursion[48] = "", *text = NULL;
    if (link->times > 1)
        snprintf(times, sizeof times, " %s%u", chain->options->unicode ? "×" : "x", link->times);
    if (link->recursion >= RECURSIVE && chain->marks)
        snprintf(recursion, sizeof recursion, " (recursive, to depth %u)", link->recursion);
    else if (link->recursion >= RECURSIVE)
        snprintf(recursion, sizeof recursion, " (recursive)");
    if (asprintf(&text, "%s%s%s%s", name, times, recursion,
                 link->inlined && chain->marks ? " [inlined]" : "") < 0)
        memory_checked(NULL);
    return text;
}

static unsigned link_width(const struct chain *chain, size_t number)
{
    char *text = link_text(chain, &chain->links[number], name_of(chain, &chain->links[number]));
    const unsigned width = text_width(text);
    free(text);
    return width;
}

const char *chain_arrow(const struct show_options *options)
{
    return options->upward ? (options->unicode ? " ‹ " : " < ")
                           : (options->unicode ? " › " : " > ");
}

const char *chain_gap(const struct show_options *options)
{
    return options->unicode ? "…" : "...";
}

// All names, at that level.
static void keep_all(struct chain *chain, unsigned level)
{
    chain->level = level;
    chain->kept_count = chain->count;
    chain->kept_width = ARROW_COLUMNS * (unsigned)(chain->count - 1);
    for (size_t i = 0; i < chain->count; i++) {
        chain->kept[i] = true;
        chain->widths[i] = link_width(chain, i);
        chain->kept_width += chain->widths[i];
    }
}

static bool fits(const struct chain *chain)
{
    return chain->kept_count <= CHAIN_NAMES &&
           (chain->room == 0 || chain->kept_width <= chain->room);
}

// Leaves a name out. There is one sign for a gap, however many are missing.
static void leave_out(struct chain *chain, size_t number)
{
    if (!chain->kept[number])
        return;
    const unsigned gap = ARROW_COLUMNS + text_width(chain_gap(chain->options));
    const bool before = number > 0 && !chain->kept[number - 1];
    const bool after = number + 1 < chain->count && !chain->kept[number + 1];
    chain->kept[number] = false;
    chain->kept_count--;
    chain->kept_width += gap;
    chain->kept_width -= ARROW_COLUMNS + chain->widths[number];
    chain->kept_width -= (before ? gap : 0) + (after ? gap : 0);
}

// Leaves out functions of libraries, or those of the program, until the others fit. Downwards, the
// last one is what the row is about, and the first ones say where it belongs; upwards, the nearest
// callers matter most.
static bool fit_without(struct chain *chain, bool own)
{
    const size_t count = chain->count;
    const bool upward = chain->options->upward;
    for (size_t i = 1; i < count && !fits(chain); i++) {
        const size_t number = upward ? count - i : i;
        if ((number + 1 < count || upward) && chain->links[number].own == own)
            leave_out(chain, number);
    }
    if (!fits(chain) && !upward && count > 1 && chain->links[0].own == own)
        leave_out(chain, 0);
    return fits(chain);
}

static char *kept_text(const struct chain *chain)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = memory_checked(open_memstream(&text, &bytes));
    for (size_t i = 0, next; i < chain->count; i = next) {
        next = i + 1;
        if (i > 0)
            fputs(chain_arrow(chain->options), out);
        if (chain->kept[i]) {
            char *link = link_text(chain, &chain->links[i], name_of(chain, &chain->links[i]));
            fputs(link, out);
            free(link);
            continue;
        }
        while (next < chain->count && !chain->kept[next])
            next++;
        if (chain->room > 0)
            fputs(chain_gap(chain->options), out);
        else
            fprintf(out, "(%zu more)", next - i);
    }
    fclose(out);
    return memory_checked(text);
}

// The width of a link with the shortest possible name: none.
static unsigned mark_width(const struct chain *chain, size_t number)
{
    char *mark = link_text(chain, &chain->links[number], "");
    const unsigned width = text_width(mark);
    free(mark);
    return width;
}

// The name of a library function is cut, if that leaves room for the program's own functions, which
// say more.
static char *text_with_cut(struct chain *chain)
{
    const size_t last = chain->count - 1;
    if (chain->count < 2 || chain->links[last].own || chain->options->upward)
        return NULL;
    const unsigned taken = chain->kept_width - chain->widths[last] + mark_width(chain, last);
    if (chain->kept_count > CHAIN_NAMES || taken + CUT_NAME > chain->room)
        return NULL;
    chain->cut[last] = name_set_fit(chain->names, chain->links[last].function, chain->room - taken);
    return kept_text(chain);
}

// Functions of stripped programs are named by their first address, which says little to their
// author.
static bool has_name(const struct chain *chain, size_t number)
{
    return !name_is_address(name_set_full(chain->names, chain->links[number].function));
}

// The last of the program's own functions, one with a name if there is one, and that of a library
// which the row is about: both cut.
static char *text_of_two(struct chain *chain)
{
    const size_t last = chain->count - 1;
    size_t own = last, named = last;
    while (own > 0 && !chain->links[own].own)
        own--;
    while (named > 0 && !(chain->links[named].own && has_name(chain, named)))
        named--;
    if (chain->links[named].own && has_name(chain, named))
        own = named;
    if (own == last || !chain->links[own].own || chain->options->upward)
        return NULL;
    for (size_t i = 0; i < last; i++)
        if (i != own)
            leave_out(chain, i);
    const unsigned names = chain->widths[own] + chain->widths[last];
    const unsigned marks = mark_width(chain, own) + mark_width(chain, last);
    const unsigned taken = chain->kept_width - names + marks;
    if (taken + 2 * CUT_NAME > chain->room)
        return NULL;
    const unsigned left = chain->room - taken;
    chain->cut[own] = name_set_fit(chain->names, chain->links[own].function, left - CUT_NAME);
    chain->cut[last] =
        name_set_fit(chain->names, chain->links[last].function, left - text_width(chain->cut[own]));
    return kept_text(chain);
}

// One name that does not fit even if it is alone.
static char *cut_text(const struct chain *chain)
{
    const bool upward = chain->options->upward;
    const size_t number = upward ? 0 : chain->count - 1;
    const struct chain_link *link = &chain->links[number];
    const char *arrow = chain_arrow(chain->options), *dots = chain_gap(chain->options);
    const unsigned marks = mark_width(chain, number), gap = ARROW_COLUMNS + text_width(dots);
    const bool others = chain->count > 1 && chain->room >= marks + gap + CUT_NAME;
    const unsigned taken = marks + (others ? gap : 0);
    char *last = link_text(chain, link,
                           name_set_fit(chain->names, link->function,
                                        chain->room > taken + 4 ? chain->room - taken : 4));
    char *text = NULL;
    if (!others)
        return last;
    int made = upward ? asprintf(&text, "%s%s%s", last, arrow, dots)
                      : asprintf(&text, "%s%s%s", dots, arrow, last);
    if (made < 0)
        memory_checked(NULL);
    free(last);
    return text;
}

// All names, in as many lines as they take.
static char *several_lines(struct chain *chain)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = memory_checked(open_memstream(&text, &bytes));
    chain->level = NAME_WITHOUT_ARGUMENTS;
    for (unsigned i = 0, used = 0; i < chain->count; i++) {
        const struct chain_link *link = &chain->links[i];
        const char *name = name_of(chain, link);
        if (text_width(name) + ARROW_COLUMNS > chain->room)
            name = name_set_fit(chain->names, link->function, chain->room - ARROW_COLUMNS);
        char *shown = link_text(chain, link, name);
        const unsigned width = text_width(shown) + ARROW_COLUMNS;
        if (i > 0 && used + width > chain->room) {
            fputc('\n', out);
            used = 0;
        }
        if (i > 0)
            fputs(used == 0 ? chain_arrow(chain->options) + 1 : chain_arrow(chain->options), out);
        fputs(shown, out);
        used += width;
        free(shown);
    }
    fclose(out);
    return memory_checked(text);
}

static char *fitted(struct chain *chain)
{
    chain->marks = true;
    for (unsigned level = NAME_WITHOUT_PARAMETERS; level <= NAME_TWO_PARTS; level++) {
        keep_all(chain, level);
        if (fits(chain))
            return kept_text(chain);
    }
    chain->marks = false;
    if (chain->options->to_roots && chain->count > 1)
        return several_lines(chain);
    for (unsigned level = NAME_WITHOUT_ARGUMENTS; level < NAME_LEVELS; level++) {
        keep_all(chain, level);
        if (fits(chain) || fit_without(chain, false))
            return kept_text(chain);
    }
    char *text = text_with_cut(chain);
    if (!text)
        text = text_of_two(chain);
    if (text)
        return text;
    return fit_without(chain, true) ? kept_text(chain) : cut_text(chain);
}

char *chain_text(struct name_set *names, const struct chain_link *links, size_t count,
                 unsigned room, const struct show_options *options)
{
    struct chain chain = {.names = names,
                          .options = options,
                          .links = links,
                          .count = count,
                          .room = room,
                          .marks = true,
                          .kept = memory_array(count, sizeof(bool)),
                          .widths = memory_array(count, sizeof(unsigned)),
                          .cut = memory_array(count, sizeof(char *))};
    char *text;
    if (room > 0) {
        text = fitted(&chain);
    } else {
        keep_all(&chain, NAME_FULL);
        if (!options->wide && !fit_without(&chain, false))
            fit_without(&chain, true);
        text = kept_text(&chain);
    }
    free(chain.kept);
    free(chain.widths);
    free(chain.cut);
    return text;
}

unsigned chain_width(struct name_set *names, const struct chain_link *links, size_t count)
{
    unsigned width = 0;
    for (size_t i = 0; i < count; i++)
        width += (i > 0 ? ARROW_COLUMNS : 0) +
                 text_width(name_set_text(names, links[i].function, NAME_WITHOUT_PARAMETERS)) +
                 (links[i].inlined ? 10 : 0) + (links[i].recursion >= RECURSIVE ? 26 : 0);
    return width;
}
