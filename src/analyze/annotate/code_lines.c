// SPDX-License-Identifier: MIT

#include "analyze/annotate/code_lines.h"
#include "base/memory.h"

enum { AFTER_LAST = 16, TEXT_COLUMNS = 40 };

static void add_costs(struct code_lines *lines, const struct annotated_code *piece)
{
    size_t at = 0;
    for (size_t i = 0; i < piece->count; i++) {
        const struct annotated_place *place = &piece->places[i];
        while (at + 1 < lines->code.count &&
               lines->code.instructions[at + 1].offset <= place->offset)
            at++;
        if (at < lines->code.count && lines->code.instructions[at].offset <= place->offset) {
            lines->lines[at].self += place->self;
            lines->lines[at].total += place->total;
        }
    }
}

static bool is_elsewhere(const struct code_lines *lines, const struct disassembled *instruction)
{
    return instruction->target && (instruction->target < lines->code.begin ||
                                   instruction->target >= lines->code.end || instruction->calls);
}

static void name_all(struct code_lines *lines, struct analysis *analysis,
                     const struct annotated_code *piece)
{
    struct functions *functions = analysis->functions;
    for (size_t i = 0; i < lines->code.count; i++) {
        const struct disassembled *instruction = &lines->code.instructions[i];
        functions_want(functions, piece->process, place_make(piece->module, instruction->offset));
        if (is_elsewhere(lines, instruction))
            functions_want(functions, piece->process,
                           place_make(piece->module, instruction->target));
    }
    functions_resolve(functions);
    for (size_t i = 0; i < lines->code.count; i++) {
        const struct disassembled *instruction = &lines->code.instructions[i];
        const struct spot *here = functions_look_up(functions, piece->process,
                                                    place_make(piece->module, instruction->offset));
        if (here) {
            const struct located *innermost = functions_located(functions, here);
            lines->lines[i].file = functions_file(functions, innermost->file);
            lines->lines[i].line = innermost->line;
        }
        const struct spot *there =
            is_elsewhere(lines, instruction)
                ? functions_look_up(functions, piece->process,
                                    place_make(piece->module, instruction->target))
                : NULL;
        if (there)
            lines->lines[i].target =
                functions_get(functions,
                              functions_located(functions, there)[there->count - 1].function)
                    ->name;
    }
}

int code_lines_open(struct code_lines *lines, struct analysis *analysis,
                    const struct annotated_code *piece, char **error)
{
    *lines = (struct code_lines){0};
    const struct profile *profile = analysis->profile;
    const uint64_t last =
        piece->count ? piece->places[piece->count - 1].offset + AFTER_LAST : piece->begin;
    if (disassemble(&lines->code, &profile->modules[piece->module], piece->begin, last, error) < 0)
        return -1;
    lines->lines = memory_array(lines->code.count, sizeof *lines->lines);
    add_costs(lines, piece);
    name_all(lines, analysis, piece);
    return 0;
}

void code_lines_close(struct code_lines *lines)
{
    disassembly_free(&lines->code);
    free(lines->lines);
    *lines = (struct code_lines){0};
}

static bool same_line(const struct code_line *one, const struct code_line *other)
{
    return one->line == other->line && one->file == other->file;
}

char *code_line_text(const struct code_lines *lines, size_t number)
{
    const struct code_line *line = &lines->lines[number];
    const bool told = number > 0 && same_line(line, &lines->lines[number - 1]);
    char *instruction = NULL, *text = NULL;
    if (asprintf(&instruction, "%s%s%s%s", lines->code.instructions[number].text,
                 line->target ? " <" : "", line->target ? line->target : "",
                 line->target ? ">" : "") < 0)
        memory_checked(NULL);
    if ((told || !line->file || !line->line
             ? asprintf(&text, "%s", instruction)
             : asprintf(&text, "%-*s  %s:%u", TEXT_COLUMNS, instruction, last_part(line->file),
                        line->line)) < 0)
        memory_checked(NULL);
    free(instruction);
    return text;
}
