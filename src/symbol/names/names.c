// SPDX-License-Identifier: MIT
#include "symbol/names/names.h"
#include "base/memory.h"
#include <libiberty/demangle.h>
#include <stdlib.h>
#include <string.h>

// The demangler needs time and stack in proportion; no honest name is that long.
enum { LONGEST_MANGLED = 64 * 1024 };

static bool is_number(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (text[i] < '0' || text[i] > '9')
            return false;
    return length > 0;
}

static bool is_hash(const char *text, size_t length)
{
    return length > 0 && strspn(text, "0123456789abcdefABCDEF") >= length;
}

static bool is_clone_word(const char *word, size_t length)
{
    static const char *const words[] = {"cold",  "part", "isra",       "constprop", "lto_priv",
                                        "clone", "llvm", "localalias", "simdclone", "__uniq"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i]) == length && memcmp(words[i], word, length) == 0)
            return true;
    return false;
}

// Where the last clone suffix of raw[0..length) begins, ".word" or ".word.123"; length if there is
// none.
static size_t last_suffix(const char *raw, size_t length, bool *cold)
{
    const char *dot = memrchr(raw, '.', length);
    if (!dot || dot == raw)
        return length;
    const char *word = dot + 1;
    size_t word_length = length - (size_t)(word - raw);
    if (is_number(word, word_length) || is_hash(word, word_length)) {
        const char *before = memrchr(raw, '.', (size_t)(dot - raw));
        if (before && before != raw && is_clone_word(before + 1, (size_t)(dot - before - 1))) {
            word = before + 1;
            word_length = (size_t)(dot - word);
            dot = before;
        }
    }
    if (!is_clone_word(word, word_length))
        return length;
    *cold = word_length == 4 && memcmp(word, "cold", 4) == 0;
    return (size_t)(dot - raw);
}

size_t names_base_length(const char *raw, bool *cold, size_t *parent)
{
    size_t length = strlen(raw);
    const char *version = length ? strchr(raw + 1, '@') : NULL;
    if (version)
        length = (size_t)(version - raw);
    *cold = false;
    *parent = length;
    for (;;) {
        bool is_cold = false;
        size_t shorter = last_suffix(raw, length, &is_cold);
        if (shorter == length)
            return length;
        length = shorter;
        if (is_cold) {
            *cold = true;
            *parent = length;
        }
    }
}

static char *demangle(const char *mangled)
{
    if (mangled[0] == '_' && mangled[1] == 'D')
        return dlang_demangle(mangled, DMGL_NO_OPTS);
    // Rust's old scheme looks like C++ and has to be tried first; v0 names begin with _R.
    if (mangled[0] == '_' && (mangled[1] == 'R' || mangled[1] == 'Z')) {
        char *rust = rust_demangle(mangled, DMGL_NO_OPTS);
        if (rust)
            return rust;
    }
    if (mangled[0] == '_' && mangled[1] == 'Z')
        return cplus_demangle_v3(mangled, DMGL_NO_OPTS);
    return NULL;
}

const char *names_shortened(struct text_pool *pool, const char *name)
{
    static const char full[] =
        "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >";
    static const char usual[] = "std::string";
    const char *found = strstr(name, full);
    if (!found)
        return pool_string(pool, name);
    char *copy = memory_text(name), *to = copy + (found - name);
    for (const char *from = found; *from;) {
        if (strncmp(from, full, sizeof full - 1) == 0) {
            memcpy(to, usual, sizeof usual - 1);
            to += sizeof usual - 1;
            from += sizeof full - 1;
            from += from[0] == ' ' && from[1] == '>'; // "> >" was for old compilers
        } else {
            *to++ = *from++;
        }
    }
    const char *kept = pool_substring(pool, copy, (size_t)(to - copy));
    free(copy);
    return kept;
}

// As Go's own stack traces have it: "slices.Sort[...]" whatever it is instantiated with.
static const char *without_type_arguments(struct text_pool *pool, const char *raw)
{
    const char *open = strchr(raw, '['), *close = open ? strrchr(open, ']') : NULL;
    if (!close)
        return pool_string(pool, raw);
    return pool_format(pool, "%.*s[...]%s", (int)(open - raw), raw, close + 1);
}

const char *names_display(struct text_pool *pool, const char *raw, enum names_dialect dialect)
{
    if (dialect == NAMES_DOTTED)
        return without_type_arguments(pool, raw);
    bool cold;
    size_t parent, length = names_base_length(raw, &cold, &parent);
    const char *base = pool_substring(pool, raw, length);
    if (base[0] != '_' || length > LONGEST_MANGLED)
        return base;
    char *readable = demangle(base);
    if (!readable)
        return base;
    const char *kept = names_shortened(pool, readable);
    free(readable);
    return kept;
}
