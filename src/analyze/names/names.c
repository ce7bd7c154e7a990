// SPDX-License-Identifier: MIT

#include "analyze/names/names.h"
#include "analyze/index/hash_index.h"
#include "base/memory.h"
#include "base/text/text.h"

#define WORD_COLUMNS 40 // of a word in a name
#define NAME_COLUMNS 64 // of a name, before it is cut

struct names {
    const struct profile *profile;
    uint32_t tree_count, process_count;
    const char **main_threads;        // by process: the name of its main thread, NULL: none
    bool *is_named;                   // by tree: by a name that is not just the program's
    char (*pools)[THREAD_NAME_BYTES]; // by tree; empty: none
    char **processes;                 // by process
    const char *ellipsis;
};

// A word of the commands of a program, and in how many of them it is.
struct name_word {
    uint64_t hash; // of both
    uint32_t processes, last;
};

struct words {
    struct name_word *words;
    size_t count, capacity;
    struct hash_index by_hash;
};

static uint64_t hash_text(uint64_t hash, const char *text)
{
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return hash_index_mix(hash + 1);
}

// The name of the file if a word is a path, and not a script, an option, an address or an
// assignment.
static const char *file_name(const char *word)
{
    return word[0] == '-' || strpbrk(word, " \t\n:=") ? word : last_part(word);
}

// Of that name, apart from words that are the same.
static uint64_t hash_file(uint64_t program, const char *word)
{
    return hash_text(~program, file_name(word));
}

static const char *program_of(const struct profile *profile, uint32_t process)
{
    char **command = process < profile->process_count ? profile->processes[process].command : NULL;
    return command && command[0] && command[0][0] ? last_part(command[0]) : "?";
}

// Two words of the same hash would be taken for one: a name would have a word too much or too few.
static struct name_word *find_word(struct words *words, uint64_t hash)
{
    struct hash_index_cursor cursor = hash_index_find(&words->by_hash, hash);
    for (uint32_t found; hash_index_next(&words->by_hash, &cursor, &found);)
        if (words->words[found].hash == hash)
            return &words->words[found];
    words->words =
        memory_grown(words->words, &words->capacity, words->count + 1, sizeof *words->words);
    words->words[words->count] = (struct name_word){.hash = hash, .last = UINT32_MAX};
    hash_index_add(&words->by_hash, hash, (uint32_t)words->count);
    return &words->words[words->count++];
}

static void count_word(struct words *words, uint64_t hash, uint32_t process)
{
    struct name_word *word = find_word(words, hash);
    word->processes += word->last != process;
    word->last = process;
}

// The program itself counts as a word without letters: how many processes there are of it.
static void count_words(struct words *words, const struct profile *profile)
{
    for (uint32_t i = 0; i < profile->process_count; i++) {
        const uint64_t program = hash_text(0, program_of(profile, i));
        char **command = profile->processes[i].command;
        count_word(words, program, i);
        for (unsigned w = 1; command && command[0] && command[w]; w++) {
            count_word(words, hash_text(program, command[w]), i);
            count_word(words, hash_file(program, command[w]), i);
        }
    }
}

// A path is shortened to its end, other text to its beginning. Returns the columns that it takes.
static unsigned put_short(FILE *out, const char *word, const char *ellipsis)
{
    const unsigned width = text_width(word);
    if (width <= WORD_COLUMNS) {
        fputs(word, out);
    } else if (strchr(word, '/') && !strpbrk(word, " \t\n")) {
        const char *end = text_skip(word, width - WORD_COLUMNS + 1), *slash = strchr(end, '/');
        fprintf(out, "%s%s", ellipsis, slash ? slash : end);
    } else {
        const char *end = text_skip(word, WORD_COLUMNS - 1);
        fprintf(out, "%.*s%s", (int)(end - word), word, ellipsis);
    }
    return width < WORD_COLUMNS ? width : WORD_COLUMNS;
}

// A word before it was the same, or a path that ends in it: "cc1 src/a.c -dumpbase a.c".
static bool is_repeated(char **command, unsigned word)
{
    for (unsigned before = 1; before < word; before++)
        if (strcmp(command[before], command[word]) == 0 ||
            strcmp(last_part(command[before]), command[word]) == 0)
            return true;
    return false;
}

// A path is shortened to the name of its file, if no other path ends in that.
static const char *distinguishing_part(struct words *words, uint64_t program, const char *word)
{
    const uint32_t paths = find_word(words, hash_text(program, word))->processes;
    const uint32_t files = find_word(words, hash_file(program, word))->processes;
    return files == paths ? file_name(word) : word;
}

// Its words that some other process of the program does not have; all of them if there are none.
static char *process_name(struct words *words, const struct names *names, uint32_t process)
{
    char **command = names->profile->processes[process].command;
    const char *program = program_of(names->profile, process);
    const uint64_t program_hash = hash_text(0, program);
    const uint32_t processes = find_word(words, program_hash)->processes;
    bool any = false;
    unsigned count = 1;
    for (; command && command[0] && command[count]; count++)
        any |= find_word(words, hash_text(program_hash, command[count]))->processes < processes;
    char *name = NULL;
    size_t bytes = 0;
    FILE *out = memory_checked(open_memstream(&name, &bytes));
    unsigned columns = put_short(out, program, names->ellipsis);
    bool left_out = false;
    for (unsigned w = 1; w < count; w++) {
        const struct name_word *word = find_word(words, hash_text(program_hash, command[w]));
        if (any && (word->processes == processes || is_repeated(command, w))) {
            left_out = true;
            continue;
        }
        const char *shown = any ? distinguishing_part(words, program_hash, command[w]) : command[w];
        if (columns + text_width(shown) > NAME_COLUMNS && columns > WORD_COLUMNS / 2) {
            fprintf(out, " %s", names->ellipsis);
            break;
        }
        fprintf(out, "%s%s ", left_out ? " " : "", left_out ? names->ellipsis : "");
        columns += put_short(out, shown, names->ellipsis) + 1 + 2 * left_out;
        left_out = false;
    }
    fclose(out);
    for (char *at = memory_checked(name); *at; at++) // a script of several lines
        if (*at == '\n' || *at == '\t')
            *at = ' ';
    return name;
}

static bool is_program(const struct profile *profile, const struct profile_tree *tree)
{
    return strncmp(tree->name, program_of(profile, tree->process), THREAD_NAME_BYTES - 1) == 0;
}

struct pooled {
    uint32_t tree;
    char pool[THREAD_NAME_BYTES];
};

static int compare_pools(const void *left, const void *right)
{
    const struct pooled *a = left, *b = right;
    return memcmp(a->pool, b->pool, sizeof a->pool);
}

// Names that are one of a kind stay as they are, numbers and all.
static void find_pools(struct names *names)
{
    const struct profile *profile = names->profile;
    struct pooled *sorted = memory_array(profile->tree_count, sizeof *sorted);
    uint32_t count = 0;
    for (uint32_t i = 0; i < profile->tree_count; i++) {
        const struct profile_tree *tree = &profile->trees[i];
        names->is_named[i] = tree->name[0] && !is_program(profile, tree);
        if (!names->is_named[i])
            continue;
        if (tree->start == 0 && tree->process < profile->process_count)
            names->main_threads[tree->process] = tree->name;
        sorted[count].tree = i;
        thread_name_pool(sorted[count++].pool, tree->name);
    }
    if (count > 1)
        qsort(sorted, count, sizeof *sorted, compare_pools);
    for (uint32_t i = 0, next; i < count; i = next) {
        bool differ = false;
        const char *name = profile->trees[sorted[i].tree].name;
        for (next = i; next < count && compare_pools(&sorted[i], &sorted[next]) == 0; next++)
            differ |= strcmp(profile->trees[sorted[next].tree].name, name) != 0;
        for (uint32_t k = i; differ && k < next; k++)
            memcpy(names->pools[sorted[k].tree], sorted[k].pool, THREAD_NAME_BYTES);
    }
    free(sorted);
}

struct names *names_new(const struct profile *profile)
{
    struct names *names = memory_array(1, sizeof *names);
    names->profile = profile;
    names->tree_count = profile->tree_count;
    names->process_count = profile->process_count;
    names->ellipsis = text_style(stdout).unicode ? "…" : "...";
    names->is_named = memory_array(profile->tree_count, sizeof *names->is_named);
    names->main_threads = memory_array(profile->process_count, sizeof *names->main_threads);
    names->pools = memory_array(profile->tree_count, sizeof *names->pools);
    names->processes = memory_array(profile->process_count, sizeof *names->processes);
    find_pools(names);
    struct words words = {0};
    count_words(&words, profile);
    for (uint32_t i = 0; i < profile->process_count; i++)
        names->processes[i] = process_name(&words, names, i);
    free(words.words);
    hash_index_free(&words.by_hash);
    return names;
}

void names_free(struct names *names)
{
    if (!names)
        return;
    for (uint32_t i = 0; i < names->process_count; i++)
        free(names->processes[i]);
    free(names->processes);
    free(names->pools);
    free(names->main_threads);
    free(names->is_named);
    free(names);
}

const char *names_thread(const struct names *names, uint32_t tree)
{
    const struct profile_tree *from = &names->profile->trees[tree];
    if (tree >= names->tree_count)
        return NULL;
    if (names->is_named[tree])
        return from->name;
    return from->start == 0 && from->process < names->process_count
               ? names->main_threads[from->process] // several trees are the main thread's
               : NULL;
}

const char *names_pool(const struct names *names, uint32_t tree)
{
    return tree < names->tree_count && names->pools[tree][0] ? names->pools[tree]
                                                             : names_thread(names, tree);
}

const char *names_program(const struct names *names, uint32_t process)
{
    return program_of(names->profile, process);
}

const char *names_process(const struct names *names, uint32_t process)
{
    return process < names->process_count ? names->processes[process]
                                          : program_of(names->profile, process);
}

char *names_command(const struct names *names, uint32_t process)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = memory_checked(open_memstream(&text, &bytes));
    fputs(program_of(names->profile, process), out);
    char **command =
        process < names->profile->process_count ? names->profile->processes[process].command : NULL;
    for (unsigned w = 1; command && command[0] && command[w]; w++)
        fprintf(out, " %s", command[w]);
    fclose(out);
    return memory_checked(text);
}
