// SPDX-License-Identifier: MIT

#include "cmd/top/frame.h"
#include "analyze/names/short_name.h"
#include "base/memory.h"
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define NS_PER_S 1e9

enum { LEAST_COMMAND = 12 }; // columns

void top_frame_free(struct top_frame *frame)
{
    for (size_t i = 0; i < frame->count; i++)
        free(frame->lines[i].text);
    free(frame->lines);
    *frame = (struct top_frame){0};
}

static void add_line(struct top_frame *frame, enum top_tone tone, char *text)
{
    frame->lines =
        memory_grown(frame->lines, &frame->capacity, frame->count + 1, sizeof *frame->lines);
    frame->lines[frame->count++] = (struct top_line){.text = text, .tone = tone};
}

static void add(struct top_frame *frame, enum top_tone tone, const struct text_style *style,
                const char *format, ...) __attribute__((format(printf, 4, 5)));

static void add(struct top_frame *frame, enum top_tone tone, const struct text_style *style,
                const char *format, ...)
{
    char *text = NULL;
    va_list arguments;
    va_start(arguments, format);
    if (vasprintf(&text, format, arguments) < 0)
        memory_checked(NULL);
    va_end(arguments);
    add_line(frame, tone, text_cut(text, style->width, style));
    free(text);
}

static double per_second(uint64_t count, uint64_t before, uint64_t ns)
{
    return ns && count > before ? (double)(count - before) / ((double)ns / NS_PER_S) : 0;
}

static const char *state_text(const struct top_shown *shown)
{
    static const char *const states[] = {
        [TOP_RUNS] = "running for", [TOP_ENDED] = "ended after", [TOP_CUT] = "cut off after"};
    return shown->paused ? "paused at" : states[shown->model->state];
}

// The command gives way to what it does.
static void add_command(struct top_frame *frame, const struct top_shown *shown,
                        const struct text_style *style)
{
    const struct top_model *model = shown->model;
    char *command = analysis_command(model->analysis.profile->command), *state = NULL;
    if (asprintf(&state, ": %s %s, %u process%s, %s thread%s", state_text(shown),
                 text_duration(model->sums.duration_ns).text, model->totals.processes,
                 model->totals.processes == 1 ? "" : "es", text_count(model->totals.threads).text,
                 text_plural(model->totals.threads)) < 0)
        memory_checked(NULL);
    const unsigned taken = text_width(state);
    const unsigned width = style->width == 0                      ? 0
                           : style->width > taken + LEAST_COMMAND ? style->width - taken
                                                                  : LEAST_COMMAND;
    char *safe = memory_text(text_safe(command)), *cut = text_cut(safe, width, style);
    add(frame, TOP_BOLD, style, "%s%s", cut, state);
    free(cut);
    free(safe);
    free(state);
    free(command);
}

static void add_head(struct top_frame *frame, const struct top_shown *shown,
                     const struct text_style *style)
{
    static const char *const kinds[] = {"functions", "call tree", "callers"};
    const struct top_model *model = shown->model;
    const struct profile *profile = model->analysis.profile;
    const struct top_sums *now = &model->sums, *before = &model->sums_before;
    const uint64_t passed = now->duration_ns - before->duration_ns;
    add_command(frame, shown, style);
    add(frame, TOP_PLAIN, style, "now: %s samples/s, %s of a CPU; in all: %s samples, %s",
        text_count((uint64_t)per_second(now->samples, before->samples, passed)).text,
        text_percent(per_second(now->cost_ns, before->cost_ns, passed), NS_PER_S).text,
        text_count(now->samples).text, text_duration(now->cost_ns).text);
    add(frame, TOP_PLAIN, style, "cairn: handlers take %s of the time, memory %s, profile %s%s",
        text_percent((double)now->handler_ns, (double)now->cost_ns).text,
        text_bytes(model->totals.agent_bytes).text, text_bytes(profile->file_bytes).text,
        model->totals.lost ? "; samples were lost" : "");
    add(frame, TOP_DIM, style, "%s by %s %s%s%s", kinds[shown->view->kind],
        text_safe(profile->metrics[model->metric].name),
        shown->view->order == TOP_NOW ? "now" : "in all", shown->view->filter[0] ? ", like " : "",
        text_safe(shown->view->filter));
    const bool functions = shown->view->kind != TOP_TREE;
    add(frame, TOP_HEAD, style, "%8s %8s %8s  function", "now", "all",
        functions ? "total" : "self");
}

static char *name_of(const struct top_shown *shown, const struct top_row *row,
                     const struct text_style *style)
{
    const struct functions *functions = shown->model->analysis.functions;
    return short_name(functions_get(functions, row->function)->name, NAME_WITHOUT_PARAMETERS,
                      style->unicode);
}

static void add_row(struct top_frame *frame, const struct top_shown *shown, size_t index,
                    const struct text_style *style)
{
    enum { DEEPEST = 24 }; // columns of an indentation
    const struct top_row *row = &shown->rows->rows[index];
    const uint64_t *whole = shown->rows->whole;
    const unsigned deep = row->depth * 2 < DEEPEST ? row->depth * 2 : DEEPEST;
    const char *sign = !row->has_children ? " " : row->is_open ? "-" : "+";
    char *name = name_of(shown, row, style);
    add(frame, index == shown->chosen ? TOP_CHOSEN : TOP_PLAIN, style, "%8s %8s %8s  %*s%s%s%s",
        row->value[TOP_NOW] ? text_percent((double)row->value[TOP_NOW], (double)whole[TOP_NOW]).text
                            : "",
        text_percent((double)row->value[TOP_ALL], (double)whole[TOP_ALL]).text,
        row->other ? text_percent((double)row->other, (double)whole[shown->view->order]).text : "",
        (int)deep, "", shown->view->kind == TOP_FUNCTIONS ? "" : sign,
        shown->view->kind == TOP_FUNCTIONS ? "" : " ", text_safe(name));
    free(name);
}

struct top_frame top_frame_make(const struct top_shown *shown, const struct text_style *style)
{
    static const char keys[] =
        "enter open  / filter  v view  m metric  t now/all  s save  ? help  q quit";
    struct top_frame frame = {0};
    add_head(&frame, shown, style);
    frame.first_row = frame.count;
    for (size_t i = shown->from; i < shown->from + shown->count && i < shown->rows->count; i++)
        add_row(&frame, shown, i, style);
    if (shown->rows->count == 0)
        add(&frame, TOP_DIM, style, "  %s",
            shown->view->filter[0] ? "nothing is like that" : "nothing was sampled");
    while (frame.count < frame.first_row + shown->count)
        add_line(&frame, TOP_PLAIN, memory_text(""));
    if (shown->chosen != SIZE_MAX)
        add(&frame, TOP_DIM, style, "%s", shown->message ? text_safe(shown->message) : keys);
    return frame;
}

struct top_frame top_help(void)
{
    static const char *const lines[] = {
        "Keys of cairn top",
        "",
        "  up, k        the row above         page up, home",
        "  down, j      the row below         page down, end",
        "  enter, right open or close a row   left  close it",
        "  /            show functions that match; enter to end, escape for all",
        "  v            view: functions, call tree, callers",
        "  m            the next metric",
        "  t            sort by what came since the last reading, or by all",
        "  s            save the profile as it is now",
        "  space        pause",
        "  q            quit",
        "",
        "now:    since the reading before, as a share of what came since then",
        "all:    since the recording began",
        "total:  of a function, with all that it calls (by now or all, as sorted)",
        "self:   of a row of the call tree, without what it calls",
        "",
        "Any key goes back.",
    };
    struct top_frame frame = {0};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        add_line(&frame, i == 0 ? TOP_BOLD : TOP_PLAIN, memory_text(lines[i]));
    return frame;
}
