// SPDX-License-Identifier: MIT

// Comma separated values, with quotes as in RFC 4180 and lines as in Unix: a row for each node of
// the call tree, parents before children.

#include "base/memory.h"
#include "base/text/text.h"
#include "export/export.h"
#include <errno.h>

// Text always has quotes, so that a reader need not guess what a name like 1e5 is.
static void put_text(FILE *out, const char *text)
{
    fputc('"', out);
    for (text = text_safe(text ? text : ""); *text; text++) {
        if (*text == '"')
            fputc('"', out);
        fputc(*text, out);
    }
    fputc('"', out);
}

static void put_known(FILE *out, uint32_t number)
{
    if (number && number != LINE_SEVERAL)
        fprintf(out, "%u", number);
}

static void put_head(FILE *out, const struct export_input *input)
{
    const struct profile *profile = input->analysis->profile;
    static const char *const sums[] = {"self", "total"};
    fputs("id,parent,depth,kind,function,module,file,line,call_line", out);
    for (unsigned sum = 0; sum < 2; sum++)
        for (unsigned i = 0; i < input->metric_count; i++) {
            const struct profile_metric *metric = &profile->metrics[input->metrics[i]];
            char *title = NULL;
            if (asprintf(&title, "%s %s (%s)", sums[sum], metric->name, metric->unit) < 0)
                memory_checked(NULL);
            fputc(',', out);
            put_text(out, title);
            free(title);
        }
    fputs("\n", out);
}

// `ids` has the row of each node's parent.
static void put_node(FILE *out, const struct export_input *input, const struct calltree_walk *walk,
                     const uint32_t *ids)
{
    const struct calltree *tree = input->tree;
    const uint32_t number = walk->node;
    const struct call_node *node = &tree->nodes[number];
    const struct function *function = calltree_function(tree, number);
    fprintf(out, "%u,", ids[number]);
    if (node->parent != CALL_NONE)
        fprintf(out, "%u", ids[node->parent]);
    fprintf(out, ",%u,%s,", walk->depth, call_kind_name((enum call_kind)node->kind));
    put_text(out, function->name);
    fputc(',', out);
    put_text(out, functions_module_name(tree->functions, function->module));
    fputc(',', out);
    put_text(out, functions_file(tree->functions, function->file));
    fputc(',', out);
    put_known(out, function->line);
    fputc(',', out);
    put_known(out, node->call_line);
    for (unsigned i = 0; i < input->metric_count; i++)
        fprintf(out, ",%llu", (unsigned long long)calltree_self(tree, number, input->metrics[i]));
    for (unsigned i = 0; i < input->metric_count; i++)
        fprintf(out, ",%llu", (unsigned long long)calltree_total(tree, number, input->metrics[i]));
    fputs("\n", out);
}

static int write_csv(FILE *out, const struct export_input *input)
{
    uint32_t *ids = memory_array(input->tree->count, sizeof *ids), next = 0;
    struct calltree_walk walk;
    put_head(out, input);
    calltree_walk_start(&walk, input->tree);
    for (enum walk_event event; (event = calltree_walk_next(&walk)) != WALK_END;)
        if (event == WALK_ENTER) {
            ids[walk.node] = next++;
            put_node(out, input, &walk, ids);
        }
    calltree_walk_end(&walk);
    free(ids);
    return ferror(out) ? -EIO : 0;
}

const struct export_format export_csv = {
    .name = "csv",
    .summary = "spreadsheets, pandas, SQL: a row for each node of the call tree",
    .detail = EXPORT_LINES,
    .several_metrics = true,
    .write = write_csv,
};
