// SPDX-License-Identifier: MIT

#include "analyze/analysis.h"
#include "base/memory.h"
#include "base/text/nearest.h"
#include "base/text/text.h"
#include <malloc.h>

// Reading the debug information of a large program takes seconds: say so on a terminal.
static void show_progress(void *context, const char *module, unsigned done, unsigned total)
{
    (void)context;
    if (!text_can_rewrite(stderr))
        return;
    char *name = text_cut(last_part(module ? module : ""), 60, &(struct text_style){0});
    fprintf(stderr, "\r\033[Kreading symbols: %s (%u of %u)", name, done + 1, total);
    free(name);
    fflush(stderr);
}

// Symbols and debug information leave tens of megabytes that the C library would keep, while trees
// are built that need all there is.
static void return_free_memory(void)
{
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

void analysis_resolve(struct analysis *analysis, const struct build_options *options)
{
    build_resolve(analysis->functions, analysis->profile, options);
    if (!analysis->silent && text_can_rewrite(stderr))
        fputs("\r\033[K", stderr);
    return_free_memory();
}

static uint64_t resolve_moment(const struct moment *moment, const struct profile *profile,
                               uint64_t otherwise)
{
    const double ns =
        moment->is_share ? moment->value * (double)profile->duration_ns : moment->value;
    return !moment->given ? otherwise : ns < 0x1p63 ? (uint64_t)ns : UINT64_MAX;
}

static int refuse(char **error, const char *path, const char *why)
{
    if (asprintf(error, "%s %s", path, why) < 0)
        memory_checked(NULL);
    return -1;
}

int analysis_range(const struct profile *profile, const char *path,
                   const struct analysis_options *options, struct time_range *range, char **error)
{
    *range = (struct time_range){resolve_moment(&options->from, profile, 0),
                                 resolve_moment(&options->to, profile, UINT64_MAX)};
    if (!profile->timeline.recorded)
        return refuse(error, path, "has no timeline: record with 'cairn record --timeline'");
    return range->from_ns < range->to_ns
               ? 0
               : refuse(error, path, "has nothing in that range: --from must lie before --to");
}

// Leaves the chosen part of the profile.
static int choose_range(struct analysis *analysis, const char *path,
                        const struct analysis_options *options, char **error)
{
    analysis->is_part = options->from.given || options->to.given;
    if (!analysis->is_part)
        return 0;
    if (analysis_range(analysis->profile, path, options, &analysis->range, error) < 0)
        return -1;
    return profile_keep_range(analysis->profile, &analysis->range) < 0
               ? refuse(error, path, "is too large for this machine's memory")
               : 0;
}

int analysis_open(struct analysis *analysis, const char *path,
                  const struct analysis_options *options, char **error)
{
    *analysis = (struct analysis){0};
    analysis->profile = profile_read(path, error);
    if (!analysis->profile)
        return -1;
    if (choose_range(analysis, path, options, error) < 0) {
        profile_free(analysis->profile);
        return -1;
    }
    analysis->silent = options->silent;
    struct symbols_options symbols = {.inlines = options->inlines,
                                      .debuginfod = options->debuginfod,
                                      .progress = options->silent ? NULL : show_progress};
    analysis->symbols = memory_checked(symbols_new(analysis->profile, &symbols));
    analysis->functions = functions_new(analysis->profile, analysis->symbols);
    return 0;
}

void analysis_close(struct analysis *analysis)
{
    functions_free(analysis->functions);
    if (analysis->symbols)
        symbols_free(analysis->symbols);
    if (analysis->profile)
        profile_free(analysis->profile);
    *analysis = (struct analysis){0};
}

int analysis_metric(const struct analysis *analysis, const char *name, char **error)
{
    const struct profile *profile = analysis->profile;
    for (unsigned i = 0; i < profile->metric_count; i++)
        if (!name || strcmp(profile->metrics[i].name, name) == 0)
            return (int)i;
    if (profile->metric_count == 0) {
        *error = memory_text("this profile has no metric at all");
        return -1;
    }
    const char **names = memory_array(profile->metric_count + 1, sizeof *names);
    size_t bytes = 0;
    FILE *out = memory_checked(open_memstream(error, &bytes));
    fprintf(out, "this profile has no metric '%s'; it has ", name);
    for (unsigned i = 0; i < profile->metric_count; i++)
        fprintf(out, "%s%s", i ? ", " : "", names[i] = profile->metrics[i].name);
    const char *near = nearest_word(name, names);
    if (near)
        fprintf(out, ": did you mean '%s'?", near);
    fclose(out);
    memory_checked(*error);
    free(names);
    return -1;
}

char *analysis_list_metrics(const struct analysis *analysis)
{
    const struct profile *profile = analysis->profile;
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = memory_checked(open_memstream(&text, &bytes));
    for (unsigned i = 0; i < profile->metric_count; i++)
        fprintf(out, "%s%s (%s)", i ? ", " : "", profile->metrics[i].name,
                profile->metrics[i].unit);
    fclose(out);
    return memory_checked(text);
}

const char *analysis_note(const struct analysis *analysis, unsigned index)
{
    const struct profile *profile = analysis->profile;
    return index < profile->note_count ? profile->notes[index]
           : analysis->symbols ? symbols_note(analysis->symbols, index - profile->note_count)
                               : NULL;
}

static bool needs_quotes(const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_@%+=:,./-";
    if (!*word)
        return true;
    while (*word && (strchr(plain, *word) || (unsigned char)*word >= 0x80)) // or other letters
        word++;
    return *word != '\0';
}

// As one would type it, so that it can be copied back into a shell.
static void put_word(FILE *out, const char *word)
{
    if (!needs_quotes(word)) {
        fputs(word, out);
        return;
    }
    fputc('\'', out);
    for (; *word; word++)
        if (*word == '\'')
            fputs("'\\''", out);
        else
            fputc(*word, out);
    fputc('\'', out);
}

char *analysis_command(char *const *command)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = memory_checked(open_memstream(&text, &bytes));
    for (char *const *word = command; word && *word; word++) {
        if (word != command)
            fputc(' ', out);
        put_word(out, *word);
    }
    fclose(out);
    // A script of several lines is easier to read so than with escapes.
    for (char *at = memory_checked(text); *at; at++)
        if (*at == '\n' || *at == '\t')
            *at = ' ';
    return text;
}
