// SPDX-License-Identifier: MIT

#include "analyze/annotate/annotate.h"
#include "analyze/annotate/code_lines.h"
#include "analyze/annotate/source_file.h"
#include "analyze/names/short_name.h"
#include "base/memory.h"
#include "base/text/wrap.h"

enum {
    NEAR_LINES = 3,         // lines around those that cost something
    NEAR_INSTRUCTIONS = 4,  // the same for instructions
    DECLARATION_LINES = 20, // it is so far above the first instruction, at most
    WHOLE_CODE = 48,        // functions of so many instructions are not folded
    TAB_COLUMNS = 8,
    SHARE_COLUMNS = 7,
    PART_OF_WARM = 10, // a tenth of the function's own cost
};

struct annotating {
    FILE *out;
    const struct text_style *style;
    struct analysis *analysis;
    const struct annotated *annotated;
    const struct annotate_options *options;
    uint64_t hottest; // own cost
};

static const char *unit_of(const struct annotating *annotating)
{
    return annotating->analysis->profile->metrics[annotating->annotated->metric].unit;
}

static void put_share(const struct annotating *annotating, enum text_tone tone, uint64_t value)
{
    const struct text_number share =
        text_percent((double)value, (double)annotating->annotated->whole);
    const char *text = value ? share.text : "";
    fprintf(annotating->out, "%*s", SHARE_COLUMNS - (int)text_width(text), "");
    text_put(annotating->out, annotating->style, tone, text);
}

static enum text_tone tone_of(const struct annotating *annotating, uint64_t self)
{
    if (self > 0 && self == annotating->hottest)
        return TEXT_HOT;
    return self * PART_OF_WARM >= annotating->annotated->self && self > 0 ? TEXT_WARM : TEXT_PLAIN;
}

static char *without_tabs(const char *text)
{
    char *spaced = NULL;
    size_t bytes = 0;
    FILE *out = memory_checked(open_memstream(&spaced, &bytes));
    for (unsigned column = 0; *text; text++) {
        const unsigned spaces = *text == '\t' ? TAB_COLUMNS - column % TAB_COLUMNS : 0;
        if (spaces)
            fprintf(out, "%*s", (int)spaces, "");
        else
            putc(*text, out);
        column += spaces ? spaces : 1;
    }
    fclose(out);
    return memory_checked(spaced);
}

// The rest of a line, of which `taken` columns are used.
static void put_rest(const struct annotating *annotating, enum text_tone tone, const char *text,
                     unsigned taken)
{
    const unsigned width = annotating->style->width;
    char *spaced = without_tabs(text), *safe = memory_text(text_safe(spaced));
    char *cut = text_cut(safe,
                         width == 0           ? 0
                         : width > taken + 10 ? width - taken
                                              : 10,
                         annotating->style);
    text_put(annotating->out, annotating->style, tone, cut);
    putc('\n', annotating->out);
    free(cut);
    free(safe);
    free(spaced);
}

static void put_note(const struct annotating *annotating, const char *text)
{
    struct text_style style = *annotating->style;
    style.width = style.width ? style.width : WRAP_USUAL_WIDTH;
    wrap_print(annotating->out, &style, TEXT_DIM, text, 0);
}

static void put_head(const struct annotating *annotating)
{
    const struct annotated *annotated = annotating->annotated;
    const struct functions *functions = annotating->analysis->functions;
    const struct function *function = functions_get(functions, annotated->function);
    const char *module = functions_module_name(functions, function->module);
    const char *metric = annotating->analysis->profile->metrics[annotated->metric].name;
    char *head = NULL;
    size_t bytes = 0;
    FILE *out = memory_checked(open_memstream(&head, &bytes));
    fprintf(out, "%s (%s): %s", text_safe(function->name), text_safe(module ? module : "no module"),
            text_amount(annotated->self, unit_of(annotating)).text);
    fprintf(out, " of %s by itself", text_safe(metric));
    fprintf(out, ", %s (%s) with all it calls",
            text_amount(annotated->total, unit_of(annotating)).text,
            text_percent((double)annotated->total, (double)annotated->whole).text);
    if (annotated->calls > 0)
        fprintf(out, ", %s call%s", text_count(annotated->calls).text,
                text_plural(annotated->calls));
    fclose(out);
    wrap_lines(annotating->out, annotating->style, TEXT_BOLD, memory_checked(head));
    free(head);
    if (annotated->others) {
        char *line = NULL;
        if (asprintf(&line, "Also matching: %s.", annotated->others) < 0)
            memory_checked(NULL);
        put_note(annotating, line);
        free(line);
    }
}

// Source

static unsigned digits_of(uint64_t number)
{
    unsigned digits = 1;
    for (; number >= 10; number /= 10)
        digits++;
    return digits;
}

static void put_line(const struct annotating *annotating, const struct annotated_line *cost,
                     unsigned number, unsigned digits, const char *text)
{
    const uint64_t self = cost ? cost->self : 0, total = cost ? cost->total : 0;
    const enum text_tone tone = tone_of(annotating, self);
    put_share(annotating, tone, self);
    fputc(' ', annotating->out);
    put_share(annotating, TEXT_PLAIN, total);
    char gutter[32];
    if (number > 0)
        snprintf(gutter, sizeof gutter, "  %*u%s", (int)digits, number, *text ? "  " : "");
    else
        snprintf(gutter, sizeof gutter, "  %s", annotating->style->unicode ? "–" : "-");
    text_put(annotating->out, annotating->style, TEXT_DIM, gutter);
    put_rest(annotating, cost ? tone : TEXT_DIM, text, 2 * SHARE_COLUMNS + 1 + digits + 4);
}

static void put_fold(const struct annotating *annotating, const char *what, size_t count)
{
    char line[64];
    snprintf(line, sizeof line, "%*s%s %zu %s%s", 2 * SHARE_COLUMNS + 3, "",
             annotating->style->unicode ? "⋮" : ":", count, what, count == 1 ? "" : "s");
    text_put(annotating->out, annotating->style, TEXT_DIM, line);
    putc('\n', annotating->out);
}

static bool is_near(const struct annotated_line *lines, size_t count, unsigned line)
{
    for (size_t i = 0; i < count; i++)
        if (line + NEAR_LINES >= lines[i].line && line <= lines[i].line + NEAR_LINES)
            return true;
    return false;
}

// The line of a function is that of its first instruction. The declaration is above it, with the
// name and a parenthesis; 0: it is not there.
static unsigned find_declaration(const struct source_file *source, const char *function,
                                 unsigned line)
{
    char *name = short_name(function, NAME_LAST_PART, false);
    const size_t length = strlen(name);
    unsigned found = 0;
    for (unsigned at = line, tries = 0; length > 0 && at > 0 && tries < DECLARATION_LINES && !found;
         at--, tries++)
        for (const char *text = source->lines[at - 1]; (text = strstr(text, name)); text += length)
            if (text[length + strspn(text + length, " ")] == '(')
                found = at;
    free(name);
    return found;
}

// The lines of a file that cost something, with those around them.
static void put_source(const struct annotating *annotating, const struct source_file *source,
                       const struct annotated_line *lines, size_t count, unsigned defined)
{
    const char *name =
        functions_get(annotating->analysis->functions, annotating->annotated->function)->name;
    const unsigned first = lines[0].line, last = lines[count - 1].line;
    const unsigned head = defined && defined <= first ? find_declaration(source, name, defined) : 0;
    const unsigned from = head ? head : first > NEAR_LINES ? first - NEAR_LINES : 1;
    unsigned to = last + NEAR_LINES;
    to = to > source->count ? (unsigned)source->count : to;
    const unsigned digits = digits_of(to);
    size_t at = 0, folded = 0;
    if (first == 0)
        put_line(annotating, &lines[0], 0, digits, "");
    for (unsigned line = from; line <= to; line++) {
        while (at < count && lines[at].line < line)
            at++;
        const bool costs = at < count && lines[at].line == line;
        if (!costs && line != head && !is_near(lines, count, line)) {
            folded++;
            continue;
        }
        if (folded > 0)
            put_fold(annotating, "line", folded);
        folded = 0;
        put_line(annotating, costs ? &lines[at] : NULL, line, digits, source->lines[line - 1]);
    }
}

static void put_file(const struct annotating *annotating, const struct annotated_line *lines,
                     size_t count)
{
    const struct functions *functions = annotating->analysis->functions;
    const struct profile *profile = annotating->analysis->profile;
    const struct function *function = functions_get(functions, annotating->annotated->function);
    const char *path = functions_file(functions, lines[0].file);
    const struct source_search search = {
        .path = path ? path : "",
        .program = function->module < profile->module_count
                       ? profile->modules[function->module].path
                       : NULL,
        .folder = annotating->options->folder,
        .lines = lines[count - 1].line,
    };
    struct source_file source = {0};
    const bool found = path && source_file_open(&source, &search);
    putc('\n', annotating->out);
    text_put(annotating->out, annotating->style, TEXT_DIM, "    own   total  ");
    text_put(annotating->out, annotating->style, TEXT_DIM,
             found  ? source.path
             : path ? path
                    : "no line known");
    putc('\n', annotating->out);
    if (found)
        put_source(annotating, &source, lines, count,
                   function->file == lines[0].file ? function->line : 0);
    for (size_t i = 0; i < count && !found; i++)
        put_line(annotating, &lines[i], lines[i].line, digits_of(lines[count - 1].line), "");
    if (path && !found)
        put_note(annotating, "This source is not at hand, so there are line numbers alone; "
                             "--source FOLDER says where sources are.");
    else if (found && profile->start_realtime_ns / 1000000000u < (uint64_t)source.changed)
        put_note(annotating, "This source has changed since the recording: lines may be others.");
    source_file_close(&source);
}

static void put_files(struct annotating *annotating)
{
    const struct annotated *annotated = annotating->annotated;
    annotating->hottest = 0;
    for (size_t i = 0; i < annotated->line_count; i++)
        if (annotated->lines[i].self > annotating->hottest)
            annotating->hottest = annotated->lines[i].self;
    for (size_t i = 0, next; i < annotated->line_count; i = next) {
        next = i + 1;
        while (next < annotated->line_count &&
               annotated->lines[next].file == annotated->lines[i].file)
            next++;
        put_file(annotating, annotated->lines + i, next - i);
    }
    if (annotated->line_count == 0)
        put_note(annotating, "Nothing of this metric was recorded in this function.");
}

// Machine code

static void put_instruction(const struct annotating *annotating, const struct code_lines *code,
                            size_t number)
{
    const struct disassembled *instruction = &code->code.instructions[number];
    const struct code_line *line = &code->lines[number];
    const enum text_tone tone = tone_of(annotating, line->self);
    put_share(annotating, tone, line->self);
    fputc(' ', annotating->out);
    put_share(annotating, TEXT_PLAIN, line->total);
    char gutter[32];
    const int width = snprintf(gutter, sizeof gutter, "  %llx  ",
                               (unsigned long long)(code->code.base + instruction->offset));
    text_put(annotating->out, annotating->style, TEXT_DIM, gutter);
    char *text = code_line_text(code, number);
    put_rest(annotating, line->total ? tone : TEXT_DIM, text,
             2 * SHARE_COLUMNS + 1 + (unsigned)width);
    free(text);
}

static bool is_shown(const struct code_lines *code, size_t number)
{
    if (code->code.count <= WHOLE_CODE)
        return true;
    const size_t from = number > NEAR_INSTRUCTIONS ? number - NEAR_INSTRUCTIONS : 0;
    for (size_t i = from; i < code->code.count && i <= number + NEAR_INSTRUCTIONS; i++)
        if (code->lines[i].total > 0)
            return true;
    return false;
}

static void put_code(struct annotating *annotating, const struct annotated_code *piece)
{
    char *error = NULL;
    struct code_lines code;
    putc('\n', annotating->out);
    if (code_lines_open(&code, annotating->analysis, piece, &error) < 0) {
        put_note(annotating, error);
        free(error);
        return;
    }
    annotating->hottest = 0;
    for (size_t i = 0; i < code.code.count; i++)
        if (code.lines[i].self > annotating->hottest)
            annotating->hottest = code.lines[i].self;
    text_put(annotating->out, annotating->style, TEXT_DIM, "    own   total  instruction");
    putc('\n', annotating->out);
    size_t folded = 0;
    for (size_t i = 0; i < code.code.count; i++) {
        if (!is_shown(&code, i)) {
            folded++;
            continue;
        }
        if (folded > 0)
            put_fold(annotating, "instruction", folded);
        folded = 0;
        put_instruction(annotating, &code, i);
    }
    if (folded > 0)
        put_fold(annotating, "instruction", folded);
    code_lines_close(&code);
}

// Problems of the file that the function is in, which keep names, lines and code away.
static void put_problems(const struct annotating *annotating)
{
    const struct analysis *analysis = annotating->analysis;
    const struct profile *profile = analysis->profile;
    const uint32_t module =
        functions_get(analysis->functions, annotating->annotated->function)->module;
    const char *path = module < profile->module_count ? profile->modules[module].path : NULL;
    const char *note;
    for (unsigned i = 0; path && *path && (note = analysis_note(analysis, i)); i++)
        if (strstr(note, path))
            put_note(annotating, note);
}

void annotate_print(FILE *out, const struct text_style *style, struct analysis *analysis,
                    const struct annotated *annotated, const struct annotate_options *options)
{
    struct annotating annotating = {.out = out,
                                    .style = style,
                                    .analysis = analysis,
                                    .annotated = annotated,
                                    .options = options};
    put_head(&annotating);
    const bool instead = !options->code && annotated->without_lines;
    if (!options->code && !instead)
        put_files(&annotating);
    if (instead)
        put_note(&annotating, annotated->code_count > 0
                                  ? "No lines are known: the program has no debug information. "
                                    "These are its instructions."
                                  : "No lines are known: the program has no debug information.");
    for (size_t i = 0; i < annotated->code_count; i++)
        put_code(&annotating, &annotated->code[i]);
    if ((options->code || instead) && annotated->code_count == 0)
        put_note(&annotating, "This function has no code of its own that was recorded: it was "
                              "inlined, or belongs to no file. Annotate its callers instead.");
    put_problems(&annotating);
}
