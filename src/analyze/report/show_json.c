// SPDX-License-Identifier: MIT

#include "analyze/metric_ratios.h"
#include "analyze/report/show_row.h"
#include "base/memory.h"
#include "profile/queries/kind.h"
#include "profile/queries/sampling_error.h"

static void put_known(struct json *json, const char *key, uint64_t value)
{
    json_key(json, key);
    if (value)
        json_unsigned(json, value);
    else
        json_null(json);
}

// Errors are members of their own, beside the values that they bound.
static bool is_told(const struct show_options *options, unsigned metric)
{
    return metric >= options->profile->metric_count || // made of others
           !profile_is_error(&options->profile->metrics[metric]);
}

static void put_values(struct json *json, const struct show_options *options, const char *key,
                       const uint64_t *values, unsigned metrics)
{
    json_key(json, key);
    json_array(json);
    for (unsigned i = 0; i < metrics; i++)
        if (is_told(options, i))
            json_unsigned(json, values[i]);
    json_end_array(json);
}

// By how much each value of `self` may be too large, or where blocks were sampled, off; null where
// a profile knows no errors.
static void put_errors(struct json *json, const struct show_options *options, const uint64_t *self,
                       unsigned metrics)
{
    bool any = false;
    for (unsigned i = 0; i < metrics; i++)
        any |= !is_told(options, i) ||
               (i < options->profile->metric_count && profile_is_estimated(options->profile, i));
    json_key(json, "error");
    if (!any) {
        json_null(json);
        return;
    }
    json_array(json);
    for (unsigned i = 0; i < metrics; i++) {
        const unsigned known = options->profile->metric_count;
        const unsigned error = i < known ? profile_error_of(options->profile, i) : known;
        if (is_told(options, i))
            json_unsigned(json, error < known ? self[error]
                                : i < known
                                    ? (uint64_t)profile_sampling_error(options->profile, i, self)
                                    : 0);
    }
    json_end_array(json);
}

// Of the totals; null where nothing is to be divided by.
static void put_ratios(struct json *json, const struct show_options *options, const uint64_t *total)
{
    if (options->ratio_count == 0)
        return;
    json_key(json, "ratios");
    json_array(json);
    for (unsigned i = 0; i < options->ratio_count; i++) {
        const struct show_metric *ratio = &options->ratios[i];
        if (total[ratio->over] == 0)
            json_null(json);
        else
            json_real(json,
                      metric_ratio_value(ratio->unit, total[ratio->index], total[ratio->over]));
    }
    json_end_array(json);
}

// A row of a tree or a list.
struct costs {
    const uint64_t *self, *total; // per metric
    unsigned metrics;
    bool counted; // its calls and returns can be known
    uint64_t returns;
    size_t row; // of the spread over ranks
};

// How the total is spread over ranks.
static void put_spread(struct json *json, const struct spread *spread, const struct spread_row *row)
{
    json_key(json, "spread");
    json_object(json);
    json_put_unsigned(json, "min", row->least);
    json_put_real(json, "mean", spread_mean(spread, row));
    json_put_unsigned(json, "max", row->most);
    json_put_real(json, "imbalance", spread_imbalance(spread, row));
    json_put_string(json, "max_in", spread->profile->ranks[row->rank].name);
    json_end_object(json);
}

// Its costs; calls and returns, where they are known, and the cost of a call in each metric.
static void put_costs(struct json *json, const struct show_options *options,
                      const struct costs *costs)
{
    const uint64_t *self = costs->self;
    const unsigned metrics = costs->metrics;
    const bool called = costs->counted && options->has_calls;
    put_values(json, options, "self", self, metrics);
    put_values(json, options, "total", costs->total, metrics);
    json_key(json, "calls");
    if (called)
        json_unsigned(json, self[options->calls]);
    else
        json_null(json);
    json_key(json, "returns");
    if (costs->counted && options->returns)
        json_unsigned(json, costs->returns);
    else
        json_null(json);
    put_errors(json, options, self, metrics);
    put_ratios(json, options, costs->total);
    if (options->spread)
        put_spread(json, options->spread, &options->spread->rows[costs->row]);
    if (!called || metrics < 2)
        return;
    json_key(json, "per_call");
    json_array(json);
    for (unsigned i = 0; i < metrics; i++) {
        if (!is_told(options, i))
            continue;
        if (self[options->calls] == 0 || i == options->calls)
            json_null(json);
        else
            json_real(json, show_per_call(options, i, costs->total[i], self[options->calls]));
    }
    json_end_array(json);
}

// The members that describe a function, in the JSON of each of its nodes.
struct function_members {
    char *text; // NULL: not made yet
    size_t bytes;
};

struct tree_writer {
    struct json *json;
    struct function_members *functions; // by number
    const struct calltree *tree;
    const struct show_options *options;
    uint32_t *ids; // per node
    uint32_t *first_line, *lines;
};

static void put_lines(struct tree_writer *writer, uint32_t node)
{
    const struct calltree *tree = writer->tree;
    json_key(writer->json, "lines");
    json_array(writer->json);
    for (uint32_t i = writer->first_line[node]; i < writer->first_line[node + 1]; i++) {
        const struct call_line *line = &tree->lines[writer->lines[i]];
        json_object(writer->json);
        json_put_string(writer->json, "file", functions_file(tree->functions, line->file));
        put_known(writer->json, "line", line->line);
        put_values(writer->json, writer->options, "self",
                   tree->line_values + (size_t)writer->lines[i] * tree->metrics, tree->metrics);
        json_end_object(writer->json);
    }
    json_end_array(writer->json);
}

static void put_function(struct tree_writer *writer, uint32_t number)
{
    struct function_members *members = &writer->functions[number];
    if (!members->text) {
        const struct functions *functions = writer->tree->functions;
        const struct function *function = functions_get(functions, number);
        FILE *out = memory_checked(open_memstream(&members->text, &members->bytes));
        struct json json;
        json_start(&json, out);
        json_put_string(&json, "function", function->name);
        json_put_string(&json, "module", functions_module_name(functions, function->module));
        json_put_string(&json, "file", functions_file(functions, function->file));
        put_known(&json, "line", function->line);
        json_finish(&json);
        fclose(out);
        memory_checked(members->text);
        members->bytes--; // the last newline
    }
    json_put_members(writer->json, members->text, members->bytes);
}

static void put_node(struct tree_writer *writer, uint32_t node)
{
    const struct calltree *tree = writer->tree;
    struct json *json = writer->json;
    const struct call_node *call = &tree->nodes[node];
    json_object(json);
    json_put_unsigned(json, "id", writer->ids[node]);
    json_key(json, "parent");
    if (call->parent == CALL_NONE)
        json_null(json);
    else
        json_unsigned(json, writer->ids[call->parent]);
    put_function(writer, call->function);
    put_known(json, "call_line", call->call_line == LINE_SEVERAL ? 0 : call->call_line);
    put_costs(json, writer->options,
              &(struct costs){
                  .self = tree->self + (size_t)node * tree->metrics,
                  .total = tree->total + (size_t)node * tree->metrics,
                  .metrics = tree->metrics,
                  .counted = call->kind == CALL_FUNCTION || call->kind == CALL_STARTED,
                  .returns = calltree_returns(tree, node),
                  .row = node,
              });
    json_put_string(json, "kind", call_kind_name((enum call_kind)call->kind));
    if (tree->keep_lines)
        put_lines(writer, node);
    json_end_object(json);
}

static bool is_shown(const struct tree_writer *writer, uint32_t node, unsigned depth)
{
    const struct calltree *tree = writer->tree;
    const struct show_options *options = writer->options;
    if (node == 0)
        return true;
    uint64_t cost = options->order == ORDER_SELF ? calltree_self(tree, node, options->metric)
                                                 : calltree_total(tree, node, options->metric);
    return cost >= options->least && (options->depth == 0 || depth <= options->depth);
}

void show_tree_json(struct json *json, const struct calltree *tree,
                    const struct show_options *options)
{
    struct tree_writer writer = {.json = json, .tree = tree, .options = options};
    writer.ids = memory_array(tree->count, sizeof *writer.ids);
    const size_t functions = functions_count(tree->functions);
    writer.functions = memory_array(functions, sizeof *writer.functions);
    if (tree->keep_lines)
        writer.first_line = calltree_lines(tree, &writer.lines);
    uint32_t next = 0;
    struct calltree_walk walk;
    json_spread_array(json);
    calltree_walk_start(&walk, tree);
    for (enum walk_event event; (event = calltree_walk_next(&walk)) != WALK_END;) {
        if (event != WALK_ENTER)
            continue;
        if (!is_shown(&writer, walk.node, walk.depth)) {
            calltree_walk_skip(&walk);
            continue;
        }
        writer.ids[walk.node] = next++;
        put_node(&writer, walk.node);
    }
    calltree_walk_end(&walk);
    json_end_array(json);
    free(writer.ids);
    for (size_t i = 0; i < functions; i++)
        free(writer.functions[i].text);
    free(writer.functions);
    free(writer.first_line);
    free(writer.lines);
}

struct flat_writer {
    struct json *json;
    const struct flat *flat;
    const struct functions *functions;
    const struct show_options *options;
};

static void put_row(const struct flat_writer *writer, uint32_t id, uint32_t number)
{
    const struct flat *flat = writer->flat;
    const struct functions *functions = writer->functions;
    struct json *json = writer->json;
    const struct flat_row *row = &flat->rows[number];
    const struct function *function = functions_get(functions, row->function);
    bool by_line = flat->by == FLAT_LINE;
    json_object(json);
    json_put_unsigned(json, "id", id);
    json_key(json, "parent"); // for readers of trees: a list has none
    json_null(json);
    json_put_string(json, "function", row->function ? function->name : NULL);
    json_put_string(json, "module", functions_module_name(functions, row->module));
    json_put_string(json, "file", functions_file(functions, by_line ? row->file : function->file));
    put_known(json, "line", by_line ? row->line : function->line);
    put_known(json, "call_line", 0);
    put_costs(json, writer->options,
              &(struct costs){
                  .self = flat->self + (size_t)number * flat->metrics,
                  .total = flat->total + (size_t)number * flat->metrics,
                  .metrics = flat->metrics,
                  .counted = flat->by == FLAT_FUNCTION && !row->inlined,
                  .returns = row->returns,
                  .row = number,
              });
    if (flat->by == FLAT_FUNCTION || by_line)
        json_put_string(json, "kind", row->inlined ? "inlined" : "function");
    json_end_object(json);
}

void show_flat_json(struct json *json, const struct flat *flat, const struct functions *functions,
                    const struct show_options *options)
{
    const uint64_t *values = options->order == ORDER_SELF ? flat->self : flat->total;
    const struct flat_writer writer = {json, flat, functions, options};
    json_spread_array(json);
    for (size_t i = 0; i < flat->count; i++) {
        uint32_t number = flat->order[i];
        if (values[(size_t)number * flat->metrics + options->metric] >= options->least)
            put_row(&writer, (uint32_t)i, number);
    }
    json_end_array(json);
}
