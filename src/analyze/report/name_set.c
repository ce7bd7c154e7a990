// SPDX-License-Identifier: MIT

#include "analyze/report/name_set.h"
#include "analyze/index/hash_index.h"
#include "analyze/names/short_name.h"
#include "base/memory.h"

struct shown_name {
    uint32_t function;
    char *levels[NAME_LEVELS]; // NULL: no such form, or another function has it too
};

// A text that is taken.
struct issued {
    char *text;
    uint32_t owner; // in `names`
    unsigned level; // of the owner's name
    bool shared;    // by several functions at the same level: none may use it
};

struct name_set {
    const struct functions *functions;
    const struct text_style *style;
    struct shown_name *names;
    size_t count, capacity;
    struct hash_index by_function;
    struct issued *issued;
    size_t issued_count, issued_capacity;
    struct hash_index by_text;
    bool settled;
};

static uint64_t hash_text(const char *text)
{
    uint64_t hash = 14695981039346656037UL;
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 1099511628211UL;
    return hash_index_mix(hash);
}

struct name_set *name_set_new(const struct functions *functions, const struct text_style *style)
{
    struct name_set *names = memory_array(1, sizeof *names);
    names->functions = functions;
    names->style = style;
    return names;
}

void name_set_free(struct name_set *names)
{
    for (size_t i = 0; i < names->count; i++)
        for (unsigned level = 0; level < NAME_LEVELS; level++)
            free(names->names[i].levels[level]);
    for (size_t i = 0; i < names->issued_count; i++)
        free(names->issued[i].text);
    free(names->names);
    free(names->issued);
    hash_index_free(&names->by_function);
    hash_index_free(&names->by_text);
    free(names);
}

static size_t find_name(const struct name_set *names, uint32_t function)
{
    struct hash_index_cursor cursor =
        hash_index_find(&names->by_function, hash_index_mix(function));
    for (uint32_t found; hash_index_next(&names->by_function, &cursor, &found);)
        if (names->names[found].function == function)
            return found;
    return SIZE_MAX;
}

void name_set_add(struct name_set *names, uint32_t function)
{
    if (find_name(names, function) != SIZE_MAX)
        return;
    names->names =
        memory_grown(names->names, &names->capacity, names->count + 1, sizeof *names->names);
    hash_index_add(&names->by_function, hash_index_mix(function), (uint32_t)names->count);
    names->names[names->count++] = (struct shown_name){.function = function};
}

static struct issued *find_text(const struct name_set *names, const char *text)
{
    struct hash_index_cursor cursor = hash_index_find(&names->by_text, hash_text(text));
    for (uint32_t found; hash_index_next(&names->by_text, &cursor, &found);)
        if (strcmp(names->issued[found].text, text) == 0)
            return &names->issued[found];
    return NULL;
}

// Takes a text for a function. If several want the same, the one has it for which it is less short.
static void claim(struct name_set *names, const char *text, size_t owner, unsigned level)
{
    struct issued *known = find_text(names, text);
    if (known) {
        known->shared |= known->owner != owner && known->level == level;
        return;
    }
    names->issued = memory_grown(names->issued, &names->issued_capacity, names->issued_count + 1,
                                 sizeof *names->issued);
    hash_index_add(&names->by_text, hash_text(text), (uint32_t)names->issued_count);
    names->issued[names->issued_count++] =
        (struct issued){.text = memory_text(text), .owner = (uint32_t)owner, .level = level};
}

static bool is_free(const struct name_set *names, const char *text, size_t owner)
{
    const struct issued *known = find_text(names, text);
    return !known || (known->owner == owner && !known->shared);
}

static const struct function *function_of(const struct name_set *names, size_t number)
{
    return functions_get(names->functions, names->names[number].function);
}

// How many characters two names have in common at their ends.
static size_t common_end(const char *a, const char *b)
{
    const size_t length_a = strlen(a), length_b = strlen(b);
    size_t same = 0;
    while (same < length_a && same < length_b && a[length_a - 1 - same] == b[length_b - 1 - same])
        same++;
    return same;
}

// The argument that a character of a name belongs to: the text between two commas, or brackets.
static char *argument_at(const char *name, size_t at, char *bracket)
{
    size_t begin = at, end = at;
    for (unsigned depth = 0; begin > 0; begin--) {
        const char c = name[begin - 1];
        if (strchr(">)]}", c))
            depth++;
        else if (depth == 0 && (strchr("<([{", c) || c == ','))
            break;
        else if (strchr("<([{", c))
            depth--;
    }
    for (unsigned depth = 0; name[end]; end++) {
        if (strchr("<([{", name[end]))
            depth++;
        else if (depth == 0 && (strchr(">)]}", name[end]) || name[end] == ','))
            break;
        else if (strchr(">)]}", name[end]))
            depth--;
    }
    if (begin == 0 || begin >= end)
        return NULL; // it is not between brackets
    const char *open = strchr(name, '<');
    *bracket = open && open < name + begin ? '<' : '(';
    while (begin < end && name[begin] == ' ')
        begin++;
    while (end > begin && name[end - 1] == ' ')
        end--;
    return memory_checked(strndup(name + begin, end - begin));
}

// The argument of a template, or the parameter, in which a name differs from the others that become
// the same without it: the last one, as what a template is about comes last. NULL if there is none.
// To be freed.
static char *differing(const struct name_set *names, size_t number, const size_t *group,
                       size_t count, char *bracket)
{
    const char *name = function_of(names, number)->name;
    size_t same = 0;
    for (size_t i = 0; i < count; i++) {
        const size_t length = common_end(name, function_of(names, group[i])->name);
        if (group[i] != number && length > same)
            same = length;
    }
    const size_t length = strlen(name);
    if (same >= length)
        return NULL;
    char *part = argument_at(name, length - same - 1, bracket);
    if (!part)
        return NULL;
    char *shorter = short_name(part, NAME_TWO_PARTS, names->style->unicode);
    free(part);
    return shorter;
}

// Names that are the same without arguments and parameters get those back in which they differ.
static void tell_apart(struct name_set *names, const size_t *group, size_t count)
{
    const char *dots = names->style->unicode ? "…" : "..";
    for (size_t i = 0; i < count; i++) {
        struct shown_name *name = &names->names[group[i]];
        char bracket = 0;
        const char *module =
            functions_module_name(names->functions, function_of(names, group[i])->module);
        char *part = differing(names, group[i], group, count, &bracket);
        for (unsigned level = NAME_STAGES; level < NAME_LEVELS; level++) {
            const char *base = name->levels[level == NAME_STAGES ? NAME_TWO_PARTS : NAME_LAST_PART];
            int made = part
                           ? asprintf(&name->levels[level], "%s%c%s%s%c", base, bracket,
                                      bracket == '<' ? dots : "", part, bracket == '<' ? '>' : ')')
                           : asprintf(&name->levels[level], "%s [%s]", base, module ? module : "?");
            if (made < 0)
                memory_checked(NULL);
        }
        free(part);
    }
}

static int compare_short(const void *left, const void *right, void *context)
{
    const struct name_set *names = context;
    const size_t a = *(const size_t *)left, b = *(const size_t *)right;
    const int order = strcmp(names->names[a].levels[NAME_WITHOUT_ARGUMENTS],
                             names->names[b].levels[NAME_WITHOUT_ARGUMENTS]);
    return order ? order : a < b ? -1 : 1;
}

static void find_groups(struct name_set *names)
{
    size_t *order = memory_array(names->count, sizeof *order);
    for (size_t i = 0; i < names->count; i++)
        order[i] = i;
    if (names->count > 1)
        qsort_r(order, names->count, sizeof *order, compare_short, names);
    for (size_t i = 0, next; i < names->count; i = next) {
        const char *text = names->names[order[i]].levels[NAME_WITHOUT_ARGUMENTS];
        for (next = i + 1;
             next < names->count &&
             strcmp(names->names[order[next]].levels[NAME_WITHOUT_ARGUMENTS], text) == 0;)
            next++;
        if (next - i > 1)
            tell_apart(names, order + i, next - i);
    }
    free(order);
}

// Makes all forms of all names, and forgets those that two functions would share.
static void settle(struct name_set *names)
{
    names->settled = true;
    for (size_t i = 0; i < names->count; i++) {
        const struct function *function = function_of(names, i);
        const char *safe = text_safe(function->name);
        // A row that is no code is a process or a thread: its name is not in a programming
        // language.
        for (unsigned stage = 0; stage < NAME_STAGES; stage++)
            names->names[i].levels[stage] =
                function->module == MODULE_NONE
                    ? memory_text(safe)
                    : short_name(safe, (enum name_stage)stage, names->style->unicode);
    }
    find_groups(names);
    for (unsigned level = 0; level < NAME_LEVELS; level++)
        for (size_t i = 0; i < names->count; i++)
            if (names->names[i].levels[level])
                claim(names, names->names[i].levels[level], i, level);
    for (size_t i = 0; i < names->count; i++) {
        char **levels = names->names[i].levels;
        for (unsigned level = 0; level < NAME_LEVELS; level++)
            if (levels[level] && !is_free(names, levels[level], i)) {
                free(levels[level]);
                levels[level] = NULL;
            }
    }
}

const char *name_set_full(const struct name_set *names, uint32_t function)
{
    return text_safe(functions_get(names->functions, function)->name);
}

const char *name_set_text(struct name_set *names, uint32_t function, unsigned level)
{
    if (!names->settled)
        settle(names);
    const size_t number = find_name(names, function);
    char **levels = names->names[number].levels;
    for (unsigned i = level; i < NAME_LEVELS; i++)
        if (levels[i])
            return levels[i];
    for (unsigned i = level; i-- > 0;)
        if (levels[i])
            return levels[i];
    return name_set_fit(names, function, UINT32_MAX / 2);
}

// Copies a name with a hole in the middle: its end matters as much as its beginning.
static char *cut_middle(const char *name, unsigned head, unsigned width,
                        const struct text_style *style)
{
    const char *dots = style->unicode ? "…" : "..";
    const unsigned whole = text_width(name), dots_width = text_width(dots);
    if (whole <= width)
        return memory_text(name);
    const unsigned room = width > dots_width ? width - dots_width : 1;
    head = head < room ? head : room;
    char *text = NULL;
    const char *head_end = text_skip(name, head);
    if (head > 0 && text_width(name) - text_width(head_end) > head)
        head_end = text_skip(name, head - 1);
    const char *tail = text_skip(name, whole - (room - head));
    if (asprintf(&text, "%.*s%s%s", (int)(head_end - name), name, dots, tail) < 0)
        memory_checked(NULL);
    return text;
}

// How much of the beginning is left of a name that is cut. Of "module+0x1f00", a function without a
// name, the module can be missed, the number cannot.
static unsigned head_columns(const char *name, unsigned width, unsigned quarters)
{
    if (!name_is_address(name))
        return width * quarters / 4;
    const unsigned digits = text_width(strstr(name, "+0x"));
    return width > digits + 1 ? width - digits - 1 : 0;
}

char *name_in_columns(const char *name, unsigned width, const struct text_style *style)
{
    name = text_safe(name);
    for (unsigned stage = 0; width > 0 && stage < NAME_STAGES; stage++) {
        char *text = short_name(name, (enum name_stage)stage, style->unicode);
        if (text_width(text) <= width)
            return text;
        if (stage == NAME_WITHOUT_ARGUMENTS) { // the rest would not identify it
            char *cut = cut_middle(text, head_columns(text, width, 1), width, style);
            free(text);
            return cut;
        }
        free(text);
    }
    return memory_text(name);
}

static const char *keep(struct name_set *names, char *text, size_t owner)
{
    claim(names, text, owner, NAME_LEVELS);
    free(text);
    return names->issued[names->issued_count - 1].text;
}

const char *name_set_fit(struct name_set *names, uint32_t function, unsigned width)
{
    if (!names->settled)
        settle(names);
    const size_t number = find_name(names, function);
    char **levels = names->names[number].levels;
    const char *shortest = NULL;
    for (unsigned i = 0; i < NAME_LEVELS; i++) {
        if (levels[i] && text_width(levels[i]) <= width)
            return levels[i];
        if (levels[i] && (!shortest || text_width(levels[i]) < text_width(shortest)))
            shortest = levels[i];
    }
    if (!shortest)
        shortest = text_safe(function_of(names, number)->name);
    for (unsigned quarters = 1; quarters < 4; quarters++) {
        char *cut =
            cut_middle(shortest, head_columns(shortest, width, quarters), width, names->style);
        struct issued *known = find_text(names, cut);
        if (known && known->owner == number && !known->shared) {
            free(cut);
            return known->text;
        }
        if (!known)
            return keep(names, cut, number);
        free(cut);
    }
    // No short form distinguishes it: a number does.
    char count[16];
    snprintf(count, sizeof count, "#%zu", number + 1);
    const unsigned room = width > strlen(count) + 4 ? width - (unsigned)strlen(count) : 4;
    char *cut = cut_middle(shortest, room / 2, room, names->style), *text = NULL;
    if (asprintf(&text, "%s%s", cut, count) < 0)
        memory_checked(NULL);
    free(cut);
    struct issued *known = find_text(names, text);
    if (!known)
        return keep(names, text, number);
    free(text);
    return known->text;
}
