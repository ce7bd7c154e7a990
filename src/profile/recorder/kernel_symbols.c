// SPDX-License-Identifier: MIT
#include "profile/recorder/kernel_symbols.h"
#include "profile/loader.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define KALLSYMS "/proc/kallsyms"
#define LAST_BYTES 4096 // of what nothing follows

struct kernel_symbols {
    struct kernel_symbol *symbols; // by address
    size_t count;
};

// One line: address, kind, name, and in brackets the module. False if it is no function.
static bool parse(char *line, struct kernel_symbol *symbol)
{
    char *rest, *name;
    symbol->begin = strtoull(line, &rest, 16);
    if (rest == line || rest[0] != ' ' || !rest[1] || rest[2] != ' ' || !strchr("tTwW", rest[1]))
        return false;
    name = rest + 3;
    name[strcspn(name, "\n")] = '\0';
    char *tab = strchr(name, '\t');
    if (tab)
        *tab = ' ';
    symbol->name = name;
    return symbol->begin != 0 && *name;
}

static size_t underscores(const char *name)
{
    return strspn(name, "_");
}

// By address; of several names for one, the plainest first.
static int by_address(const void *left, const void *right)
{
    const struct kernel_symbol *a = left, *b = right;
    if (a->begin != b->begin)
        return a->begin < b->begin ? -1 : 1;
    const size_t x = underscores(a->name), y = underscores(b->name);
    return x != y ? (x < y ? -1 : 1) : strcmp(a->name, b->name);
}

static bool add(struct kernel_symbols *symbols, const struct kernel_symbol *symbol)
{
    if (!profile_grow((void **)&symbols->symbols, symbols->count, symbols->count + 1,
                      sizeof *symbol))
        return false;
    struct kernel_symbol *added = &symbols->symbols[symbols->count];
    *added = (struct kernel_symbol){.begin = symbol->begin, .name = strdup(symbol->name)};
    symbols->count += added->name != NULL;
    return added->name != NULL;
}

static void settle(struct kernel_symbols *symbols)
{
    size_t kept = 0;
    qsort(symbols->symbols, symbols->count, sizeof *symbols->symbols, by_address);
    for (size_t i = 0; i < symbols->count; i++) {
        struct kernel_symbol *symbol = &symbols->symbols[i];
        if (kept && symbols->symbols[kept - 1].begin == symbol->begin)
            free((char *)symbol->name);
        else
            symbols->symbols[kept++] = *symbol;
    }
    symbols->count = kept;
    for (size_t i = 0; i < kept; i++)
        symbols->symbols[i].end =
            i + 1 < kept ? symbols->symbols[i + 1].begin : symbols->symbols[i].begin + LAST_BYTES;
}

struct kernel_symbols *kernel_symbols_read(FILE *file)
{
    struct kernel_symbols *symbols = calloc(1, sizeof *symbols);
    char *line = NULL;
    size_t capacity = 0;
    bool whole = symbols != NULL;
    for (struct kernel_symbol symbol; whole && getline(&line, &capacity, file) >= 0;)
        whole = !parse(line, &symbol) || add(symbols, &symbol);
    free(line);
    if (!whole || !symbols->count) {
        kernel_symbols_free(symbols);
        return NULL;
    }
    settle(symbols);
    return symbols;
}

struct kernel_symbols *kernel_symbols_open(void)
{
    FILE *file = fopen(KALLSYMS, "re");
    struct kernel_symbols *symbols = file ? kernel_symbols_read(file) : NULL;
    if (file)
        fclose(file);
    return symbols;
}

void kernel_symbols_free(struct kernel_symbols *symbols)
{
    for (size_t i = 0; symbols && i < symbols->count; i++)
        free((char *)symbols->symbols[i].name);
    if (symbols)
        free(symbols->symbols);
    free(symbols);
}

bool kernel_symbols_are_readable(void)
{
    FILE *file = fopen(KALLSYMS, "re");
    char *line = NULL;
    size_t capacity = 0;
    bool found = false;
    // Hidden addresses are all 0. A few true ones may be, too: those of each processor's data.
    for (int i = 0; file && !found && i < 4096 && getline(&line, &capacity, file) >= 0; i++)
        found = strtoull(line, NULL, 16) != 0;
    free(line);
    if (file)
        fclose(file);
    return found;
}

struct kernel_symbol *kernel_symbols_find(struct kernel_symbols *symbols, uint64_t address)
{
    size_t low = 0, high = symbols->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (symbols->symbols[middle].begin <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low && address < symbols->symbols[low - 1].end ? &symbols->symbols[low - 1] : NULL;
}
