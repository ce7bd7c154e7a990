// SPDX-License-Identifier: MIT

#include "analyze/names/short_name.h"
#include "base/memory.h"
#include <ctype.h>

enum token_kind {
    TOKEN_TEXT,      // an identifier, an operator, a lambda
    TOKEN_SEPARATOR, // between parts: "::", or "." in languages that have no "::"
    TOKEN_SPACE,     // before it stands a return type, behind the parameters a qualifier
    TOKEN_ARGUMENTS, // <int, long>, !(int)
    TOKEN_PARAMETERS,
    TOKEN_SUFFIX, // [abi:cxx11], [clone .part.0]
};

struct token {
    enum token_kind kind;
    const char *begin, *end;
};

struct template_name {
    struct token *tokens;
    size_t count, capacity;
    bool dotted, unicode;
};

static void add(struct template_name *name, enum token_kind kind, const char *begin,
                const char *end)
{
    name->tokens =
        memory_grown(name->tokens, &name->capacity, name->count + 1, sizeof *name->tokens);
    name->tokens[name->count++] = (struct token){kind, begin, end};
}

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '$' || (c & 0x80);
}

static bool starts(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

// Behind the bracket that closes the one at `at`; NULL: none does.
static const char *skip_group(const char *at)
{
    unsigned angle = 0, other = 0;
    for (const char *begin = at; *at; at++) {
        if (strchr("([{", *at))
            other++;
        else if (strchr(")]}", *at))
            other -= other > 0;
        else if (*at == '<' && !(at - begin >= 8 && starts(at - 8, "operator")))
            angle++;
        else if (*at == '>' && at[-1] != '-' && at[-1] != '=')
            angle -= angle > 0;
        if (angle == 0 && other == 0)
            return at + 1;
        if (other == 0 && *begin != '<' && strchr(")]}", *at))
            return at + 1; // angle brackets that were none
    }
    return NULL;
}

// Behind an operator's symbol; NULL if these are other words.
static const char *skip_operator(const char *at)
{
    if (!starts(at, "operator") || is_word(at[8]))
        return NULL;
    at += 8;
    if (starts(at, "()") || starts(at, "[]"))
        return at + 2;
    if (starts(at, "\"\""))
        return at + 2 + strcspn(at + 2, "(<");
    static const char *const symbols[] = {
        "<=>", "<<=", ">>=", "->*", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||",
        "++",  "--",  "->",  "+=",  "-=", "*=", "/=", "%=", "^=", "&=", "|="};
    // Old demanglers write `operator<<char>` for the less of char.
    if (starts(at, "<<") && is_word(at[2]) && strchr(at, '>'))
        return at + 1;
    for (unsigned i = 0; i < sizeof symbols / sizeof *symbols; i++)
        if (starts(at, symbols[i]))
            return at + strlen(symbols[i]);
    if (*at && strchr("+-*/%^&|~!=<>,", *at))
        return at + 1;
    // `operator new[]`, and conversions: `operator std::vector<int>() const`.
    while (*at && *at != '(') {
        const char *group = *at == '<' ? skip_group(at) : NULL;
        at = group ? group : at + 1;
    }
    return at;
}

// Names of Ada, D and Go have dots between their parts; those that compilers make up do not.
static bool is_dotted(const char *name)
{
    static const char *const clones[] = {"part",     "isra",       "constprop", "cold",
                                         "lto_priv", "localalias", "llvm",      "clone"};
    const char *dot = strrchr(name, '.');
    if (!dot || strstr(name, "::") || strchr(name, '@') || strstr(name, "+0x") ||
        strchr(".<", *name))
        return false;
    for (const char *part = name; part; part = strchr(part, '.')) {
        part += *part == '.';
        if (!is_word(*part) && *part != '(')
            return false;
        const size_t length = strcspn(part, ".!(");
        if (length > 0 && strspn(part, "0123456789") >= length)
            return false;
        for (unsigned i = 0; i < sizeof clones / sizeof *clones; i++)
            if (strlen(clones[i]) == length && starts(part, clones[i]))
                return false;
    }
    return true;
}

// Whether a part of the name begins here, rather than its arguments or parameters.
static bool at_part(const struct template_name *name)
{
    if (name->count == 0)
        return true;
    enum token_kind kind = name->tokens[name->count - 1].kind;
    return kind == TOKEN_SEPARATOR || kind == TOKEN_SPACE;
}

static bool token_is(const struct token *token, const char *text)
{
    return (size_t)(token->end - token->begin) == strlen(text) && starts(token->begin, text);
}

// Where " as " stands in `<T as Trait>`; its end if that is not there.
static const char *find_as(const char *begin, const char *end)
{
    unsigned depth = 0;
    const char *at = begin + 1;
    for (; at < end && (depth > 0 || !starts(at, " as ")); at++) {
        depth += strchr("<([{", *at) != NULL;
        depth -= depth > 0 && strchr(">)]}", *at) && at[-1] != '-';
    }
    return at < end ? at : end;
}

// `collect::<Vec<u8>>`: Rust may write arguments like a part of the name.
static bool is_turbofish(const struct template_name *name, const char *begin, const char *end)
{
    return token_is(&name->tokens[name->count - 1], "::") && !starts(begin, "<impl ") &&
           !starts(begin, "<lambda") && find_as(begin, end) == end;
}

// Reads one token; returns where it ends.
static const char *read_token(struct template_name *name, const char *at)
{
    const char *end = NULL;
    enum token_kind kind = TOKEN_TEXT;
    if (starts(at, "::"))
        kind = TOKEN_SEPARATOR, end = at + 2;
    else if (name->dotted && *at == '.')
        kind = TOKEN_SEPARATOR, end = at + 1;
    else if (*at == ' ' && at[1] == '[' && (end = skip_group(at + 1)))
        kind = TOKEN_SUFFIX;
    else if (starts(at, " <") && !at_part(name) && (end = skip_group(at + 1)))
        kind = TOKEN_ARGUMENTS; // operator< <int>
    else if (*at == ' ')
        kind = TOKEN_SPACE, end = at + 1;
    else if (*at == '!' && at[1] == '(' && (end = skip_group(at + 1)))
        kind = TOKEN_ARGUMENTS;
    else if (*at == '[' && (end = skip_group(at)))
        kind = TOKEN_SUFFIX;
    else if (*at == '<' && (end = skip_group(at))) {
        kind = at_part(name) ? TOKEN_TEXT : TOKEN_ARGUMENTS;
        if (name->count > 1 && kind == TOKEN_TEXT && is_turbofish(name, at, end)) {
            kind = TOKEN_ARGUMENTS;
            at = name->tokens[--name->count].begin;
        }
    } else if (*at == '(' && (end = skip_group(at)))
        kind = at_part(name) ? TOKEN_TEXT : TOKEN_PARAMETERS;
    else if (*at == '{' && (end = skip_group(at)))
        kind = TOKEN_TEXT;
    else if (!(at_part(name) && (end = skip_operator(at)))) {
        for (end = at + 1; is_word(*at) && is_word(*end);)
            end++;
        // All that is no bracket goes with the identifier before it.
        if (name->count > 0 && name->tokens[name->count - 1].kind == TOKEN_TEXT &&
            name->tokens[name->count - 1].end == at) {
            name->tokens[name->count - 1].end = end;
            return end;
        }
    }
    add(name, kind, at, end);
    return end;
}

// A hash that rustc adds to the names of old.
static bool is_hash(const struct token *token)
{
    return token->end - token->begin == 17 && *token->begin == 'h' &&
           strspn(token->begin + 1, "0123456789abcdef") >= 16;
}

// Leaves the parts of the name alone: what stands before them and behind them goes.
static void strip(struct template_name *name)
{
    size_t begin = 0, end = name->count, parameters = end;
    while (parameters > 0 && name->tokens[parameters - 1].kind != TOKEN_PARAMETERS)
        parameters--;
    // Behind the last parameters there is another part, or there are qualifiers.
    bool trailing = parameters > 0;
    for (size_t i = parameters; i < end; i++)
        trailing &= name->tokens[i].kind != TOKEN_SEPARATOR;
    if (trailing) {
        end = parameters - 1;
        for (size_t i = 0; i < end; i++)
            if (name->tokens[i].kind == TOKEN_SPACE)
                begin = i + 1;
    }
    size_t kept = 0;
    for (size_t i = begin; i < end; i++)
        if (name->tokens[i].kind != TOKEN_PARAMETERS && name->tokens[i].kind != TOKEN_SUFFIX)
            name->tokens[kept++] = name->tokens[i];
    // `foo@plt`, `foo(int) [clone .cold]`: the end says that this is not foo itself.
    for (size_t i = end; i < name->count; i++)
        if (name->tokens[i].kind == TOKEN_TEXT && *name->tokens[i].begin == '@')
            name->tokens[kept++] = name->tokens[i];
    name->count = kept;
    if (name->count > 2 && is_hash(&name->tokens[name->count - 1]))
        name->count -= 2;
}

// Parts that say nothing without the one before them.
static bool is_weak(const struct token *token)
{
    return *token->begin == '{' || *token->begin == '~' || *token->begin == '@' ||
           starts(token->begin, "<lambda") || starts(token->begin, "'lambda") ||
           (starts(token->begin, "operator") && !is_word(token->begin[8]));
}

static bool is_lambda(const struct token *token)
{
    return starts(token->begin, "{lambda") || starts(token->begin, "<lambda") ||
           starts(token->begin, "'lambda");
}

// Leaves the last part, with what it needs to be understood, and `more` parts before it.
static void keep_last(struct template_name *name, unsigned more)
{
    size_t kept = 0;
    for (size_t i = 0; i < name->count; i++) // parts and what is between them
        if (name->tokens[i].kind <= TOKEN_SPACE)
            name->tokens[kept++] = name->tokens[i];
    name->count = kept;
    size_t begin = name->count;
    for (bool strong = false; begin > 0; begin--) {
        const struct token *token = &name->tokens[begin - 1];
        if (token->kind != TOKEN_TEXT)
            continue;
        if (strong && more == 0)
            break;
        more -= strong;
        // `char const*`, `unsigned long`: the first word alone is a part.
        strong |= !is_weak(token) && !(begin > 1 && token[-1].kind == TOKEN_SPACE);
    }
    while (begin < name->count && name->tokens[begin].kind != TOKEN_TEXT)
        begin++;
    memmove(name->tokens, name->tokens + begin, (name->count - begin) * sizeof *name->tokens);
    name->count -= begin;
}

static void put(FILE *out, const char *begin, const char *end)
{
    fwrite(begin, 1, (size_t)(end - begin), out);
}

static void put_shorter(FILE *out, const char *begin, const char *end, enum name_stage stage,
                        bool unicode)
{
    char *text = memory_checked(strndup(begin, (size_t)(end - begin)));
    char *shorter = short_name(text, stage, unicode);
    fputs(shorter, out);
    free(shorter);
    free(text);
}

// {lambda(std::string const&)#2} has parameters of its own.
static void put_lambda(FILE *out, const struct token *token)
{
    const char *open = memchr(token->begin, '(', (size_t)(token->end - token->begin));
    const char *close = open ? skip_group(open) : NULL;
    if (!close || close > token->end)
        close = open = token->end;
    put(out, token->begin, open);
    put(out, close, token->end);
}

// `<T as Trait>` and `<path::T>` of Rust: the paths go; in the end the type alone is left.
static void put_implementation(FILE *out, const struct token *token, enum name_stage stage,
                               bool unicode)
{
    const char *as = find_as(token->begin, token->end);
    const bool trait = as < token->end;
    if (starts(token->begin, "<impl ") || !strstr(token->begin, "::")) {
        put(out, token->begin, token->end);
        return;
    }
    if (stage < NAME_TWO_PARTS)
        fputc('<', out);
    put_shorter(out, token->begin + 1, trait ? as : token->end - 1, NAME_LAST_PART, unicode);
    if (stage >= NAME_TWO_PARTS)
        return;
    if (trait) {
        fputs(" as ", out);
        put_shorter(out, as + 4, token->end - 1, NAME_LAST_PART, unicode);
    }
    fputc('>', out);
}

static void put_tokens(FILE *out, const struct template_name *name, enum name_stage stage)
{
    for (size_t i = 0; i < name->count; i++) {
        const struct token *token = &name->tokens[i];
        const bool last = i + 1 == name->count;
        if (token->kind == TOKEN_ARGUMENTS && stage >= NAME_WITHOUT_ARGUMENTS)
            fprintf(out, "%s%s", *token->begin == ' ' ? " " : "", name->unicode ? "<…>" : "<..>");
        else if (is_lambda(token) && stage >= NAME_WITHOUT_PARAMETERS)
            put_lambda(out, token);
        else if (token->kind == TOKEN_TEXT && *token->begin == '<' &&
                 stage >= NAME_WITHOUT_ARGUMENTS)
            put_implementation(out, token, stage, name->unicode);
        else if (!(last && token->kind == TOKEN_SPACE))
            put(out, token->begin, token->end);
    }
}

char *short_name(const char *text, enum name_stage stage, bool unicode)
{
    if (stage == NAME_FULL || !*text || strstr(text, "+0x"))
        return memory_text(text);
    struct template_name name = {.dotted = is_dotted(text), .unicode = unicode};
    const char *slash = strrchr(text, '/'); // the path of a package of Go
    if (name.dotted && slash && stage >= NAME_TWO_PARTS)
        text = slash + 1;
    for (const char *at = text; *at;)
        at = read_token(&name, at);
    strip(&name);
    // That a lambda is called goes without saying.
    if (stage >= NAME_WITHOUT_ARGUMENTS && name.count > 2 &&
        token_is(&name.tokens[name.count - 1], "operator()") &&
        is_lambda(&name.tokens[name.count - 3]))
        name.count -= 2;
    if (stage >= NAME_TWO_PARTS)
        keep_last(&name, stage == NAME_TWO_PARTS);
    char *made = NULL;
    size_t bytes = 0;
    FILE *out = memory_checked(open_memstream(&made, &bytes));
    put_tokens(out, &name, stage);
    fclose(out);
    free(name.tokens);
    if (bytes > 0)
        return memory_checked(made);
    free(made);
    return memory_text(text);
}

bool name_is_standard(const char *name)
{
    static const char *const standard[] = {
        "std::", "__gnu_cxx::", "__cxxabiv1::", "core::", "alloc::"};
    static const char *const before[] = {"<", "&", "*", "[", "(", "dyn ", "mut ", "void "};
    for (unsigned i = 0; i < sizeof before / sizeof *before; i++)
        if (starts(name, before[i]))
            name += strlen(before[i]);
    for (unsigned i = 0; i < sizeof standard / sizeof *standard; i++)
        if (starts(name, standard[i]))
            return true;
    return false;
}

bool name_is_address(const char *name)
{
    const char *number = strstr(name, "+0x");
    return number && number[3 + strspn(number + 3, "0123456789abcdef")] == '\0';
}

bool name_is_startup(const char *name)
{
    static const char *const names[] = {
        "_start",
        "__libc_start_main",
        "__libc_start_main_impl",
        "__libc_start_call_main",
        "clone",
        "clone3",
        "__clone",
        "__clone3",
        "start_thread",
        "thread_start",
        "generic_start_main",
        "runtime.goexit",
        "runtime.main",
        "runtime.goexit.abi0",
        "__libc_start_main@@GLIBC_2.34",
    };
    static const char *const machinery[] = {
        "thread::_",      "__invoke",         "_Invoker",          "_Bind",
        "thread_routine", "rt::lang_start",   "panicking::",       "panic::",
        "backtrace::",    "thread_start",     "ops::function::Fn", "spawn_unchecked",
        "lifecycle::",    "thread::thread::",
    };
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    if (starts(name, "libstdc++.so") && strstr(name, "+0x"))
        return true; // it has no symbol for what runs a thread
    for (unsigned i = 0; name_is_standard(name) && i < sizeof machinery / sizeof *machinery; i++)
        if (strstr(name, machinery[i]))
            return true;
    return strstr(name, "__rust_begin_short_backtrace") != NULL;
}
