// SPDX-License-Identifier: MIT

#include "analyze/annotate/annotate.h"
#include "analyze/annotate/code_lines.h"
#include <stdlib.h>

static void put_lines(struct json *json, const struct analysis *analysis,
                      const struct annotated *annotated)
{
    json_key(json, "lines");
    json_spread_array(json);
    for (size_t i = 0; i < annotated->line_count; i++) {
        const struct annotated_line *line = &annotated->lines[i];
        json_object(json);
        json_put_string(json, "file", functions_file(analysis->functions, line->file));
        json_put_unsigned(json, "line", line->line);
        json_put_unsigned(json, "self", line->self);
        json_put_unsigned(json, "total", line->total);
        json_end_object(json);
    }
    json_end_array(json);
}

static void put_piece(struct json *json, struct analysis *analysis,
                      const struct annotated_code *piece)
{
    struct code_lines code;
    char *error = NULL;
    json_put_string(json, "module", analysis->profile->modules[piece->module].path);
    if (code_lines_open(&code, analysis, piece, &error) < 0) {
        json_put_string(json, "error", error);
        free(error);
        return;
    }
    json_key(json, "instructions");
    json_spread_array(json);
    for (size_t i = 0; i < code.code.count; i++) {
        const struct disassembled *instruction = &code.code.instructions[i];
        json_object(json);
        json_put_unsigned(json, "address", code.code.base + instruction->offset);
        json_put_string(json, "text", instruction->text);
        json_put_string(json, "target", code.lines[i].target);
        json_put_string(json, "file", code.lines[i].file);
        json_put_unsigned(json, "line", code.lines[i].line);
        json_put_unsigned(json, "self", code.lines[i].self);
        json_put_unsigned(json, "total", code.lines[i].total);
        json_end_object(json);
    }
    json_end_array(json);
    code_lines_close(&code);
}

void annotate_print_json(FILE *out, struct analysis *analysis, const struct annotated *annotated,
                         const struct annotate_options *options)
{
    const struct function *function = functions_get(analysis->functions, annotated->function);
    const struct profile_metric *metric = &analysis->profile->metrics[annotated->metric];
    struct json json;
    json_start(&json, out);
    json_object(&json);
    json_put_string(&json, "function", function->name);
    json_put_string(&json, "module", functions_module_name(analysis->functions, function->module));
    json_put_string(&json, "metric", metric->name);
    json_put_string(&json, "unit", metric->unit);
    json_put_unsigned(&json, "whole", annotated->whole);
    json_put_unsigned(&json, "self", annotated->self);
    json_put_unsigned(&json, "total", annotated->total);
    json_key(&json, "calls");
    if (annotated->has_calls)
        json_unsigned(&json, annotated->calls);
    else
        json_null(&json);
    put_lines(&json, analysis, annotated);
    if (options->code) {
        json_key(&json, "code");
        json_array(&json);
        for (size_t i = 0; i < annotated->code_count; i++) {
            json_object(&json);
            put_piece(&json, analysis, &annotated->code[i]);
            json_end_object(&json);
        }
        json_end_array(&json);
    }
    json_end_object(&json);
    json_finish(&json);
}
