// SPDX-License-Identifier: MIT

#include "export/bars.h"
#include "analyze/report/name_set.h"
#include "base/memory.h"
#include "base/text/text.h"
#include <errno.h>
#include <math.h>

enum {
    LEFT = 92,
    TOP = 78,
    RIGHT = 24,
    HEIGHT = 300, // of the bars
    FOOT = 190,   // for the names below them
    LEAST_WIDTH = 560,
    WIDEST_PAIR = 40,
    NARROWEST_PAIR = 14,
    USUAL_WIDTH = 1000, // of all pairs
    LABEL_COLUMNS = 33,
};

#define LIGHT "#a9c9ea"
#define DARK "#1f4e79"
#define INK "#1b1f24"
#define FAINT "#6b7280"
#define LINE "#e3e6ea"

struct bars_picture {
    FILE *out;
    const struct comparison *comparison;
    double pair, width; // of a pair of bars, of the whole
};

// Text as XML can hold it: it forbids most control characters.
static void put_escaped(FILE *out, const char *text)
{
    for (text = text_safe(text); *text; text++) {
        switch (*text) {
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        case '&':
            fputs("&amp;", out);
            break;
        case '"':
            fputs("&quot;", out);
            break;
        default:
            fputc(*text, out);
        }
    }
}

static void put_head(const struct bars_picture *picture)
{
    FILE *out = picture->out;
    double height = TOP + HEIGHT + FOOT;
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
            "viewBox=\"0 0 %.0f %.0f\" font-family=\"system-ui, 'Helvetica Neue', Arial, "
            "sans-serif\" font-size=\"12\" fill=\"" INK "\">\n"
            "<style>.pair:hover .cover{fill:#000;fill-opacity:.06}</style>\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
            picture->width, height, picture->width, height);
}

static void put_correlation(FILE *out, const char *name, double value)
{
    if (!isnan(value))
        fprintf(out, ", %s %.4f", name, value);
}

static void put_title(const struct bars_picture *picture)
{
    FILE *out = picture->out;
    const struct comparison *comparison = picture->comparison;
    const struct compare_result *result = comparison->result;
    char *command = analysis_command(comparison->analysis[EXACT]->profile->command);
    struct text_style style = {.unicode = true};
    char *cut = text_cut(command, 60, &style);
    const struct profile *profile = comparison->analysis[EXACT]->profile;
    fprintf(out, "<text x=\"%d\" y=\"26\" font-size=\"16\" font-weight=\"600\">", LEFT);
    put_escaped(out, cut);
    fputs(": ", out);
    put_escaped(out, profile->metrics[comparison->alignment->metric[EXACT]].name);
    fprintf(out, " of the %u hottest edges</text>\n", result->top_count);
    fprintf(out, "<text x=\"%d\" y=\"46\" fill=\"" FAINT "\">overlap %.1f %%", LEFT,
            result->overlap * 100);
    put_correlation(out, "correlation", result->pearson);
    put_correlation(out, "of ranks", result->spearman);
    fprintf(out, ", distortion %.1f %%</text>\n", result->distortion);
    static const char *const colours[] = {LIGHT, DARK};
    double x = LEFT;
    for (unsigned side = 0; side < 2; side++) {
        char *label = NULL;
        const char *path = last_part(comparison->path[side]);
        if (asprintf(&label, "%s: %s", side == EXACT ? "exact" : "approximation", path) < 0)
            memory_checked(NULL);
        fprintf(out,
                "<rect x=\"%.1f\" y=\"55\" width=\"11\" height=\"11\" rx=\"2\" fill=\"%s\"/>"
                "<text x=\"%.1f\" y=\"65\">",
                x, colours[side], x + 17);
        put_escaped(out, label);
        fputs("</text>\n", out);
        x += 42 + 6.6 * text_width(label);
        free(label);
    }
    free(command);
    free(cut);
}

static double height_of(double share)
{
    return HEIGHT * fmax(0, fmin(1, share));
}

static void put_grid(const struct bars_picture *picture)
{
    double right = picture->width - RIGHT;
    for (unsigned percent = 0; percent <= 100; percent += 20) {
        double y = TOP + HEIGHT - height_of(percent / 100.0);
        fprintf(picture->out,
                "<line x1=\"%d\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\"/>"
                "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\" fill=\"" FAINT "\">%u %%</text>\n",
                LEFT - 4, y, right, y, percent ? LINE : FAINT, LEFT - 10, y + 4, percent);
    }
    fprintf(picture->out,
            "<text transform=\"translate(%d %d) rotate(-90)\" text-anchor=\"middle\" "
            "fill=\"" FAINT "\">per cent of the hottest edge</text>\n",
            LEFT - 56, TOP + HEIGHT / 2);
}

static double share_of_hottest(const struct bars_picture *picture, uint32_t number,
                               enum compare_side side)
{
    const struct comparison *comparison = picture->comparison;
    uint64_t hottest = comparison->result->hottest[side];
    return hottest ? (double)comparison->alignment->tree->contexts[number].weight[side] /
                         (double)hottest
                   : 0;
}

// The text at a pair of bars under the pointer.
static void put_tooltip(const struct bars_picture *picture, unsigned rank, uint32_t number)
{
    FILE *out = picture->out;
    const struct comparison *comparison = picture->comparison;
    const struct alignment *alignment = comparison->alignment;
    const struct compare_context *context = &alignment->tree->contexts[number];
    const char *where = alignment->sites[context->site].where;
    char *path = compare_path(comparison, number, " > ");
    fprintf(out, "<title>%u. ", rank + 1);
    put_escaped(out, path);
    if (where) {
        fputs("\ncalled at ", out);
        put_escaped(out, where);
    }
    for (unsigned side = 0; side < 2; side++) {
        const char *unit =
            comparison->analysis[side]->profile->metrics[alignment->metric[side]].unit;
        fprintf(out, "\n%s: ", side == EXACT ? "exact" : "approximation");
        if (context->has[side])
            fprintf(out, "%s, %.2f %% of its hottest",
                    text_amount(context->weight[side], unit).text,
                    share_of_hottest(picture, number, (enum compare_side)side) * 100);
        else
            fputs("missing", out);
    }
    fputs("</title>", out);
    free(path);
}

static void put_label(const struct bars_picture *picture, double x, uint32_t number)
{
    struct text_style style = {.unicode = true};
    const char *name = compare_name(picture->comparison, number);
    const char *caller = compare_caller(picture->comparison, number);
    unsigned room = LABEL_COLUMNS - 3, long_name = text_width(name),
             long_caller = text_width(caller);
    // The callee matters more; the caller gets the remaining room.
    unsigned for_name = long_name + long_caller <= room ? long_name
                        : long_name < room * 2 / 3      ? long_name
                                                        : room * 2 / 3;
    if (long_caller < room - for_name)
        for_name = room - long_caller;
    char *shown_name = name_in_columns(name, for_name, &style);
    char *shown_caller = name_in_columns(
        caller, room > text_width(shown_name) + 3 ? room - text_width(shown_name) : 3, &style);
    fprintf(picture->out,
            "<text transform=\"translate(%.1f %d) rotate(-65)\" text-anchor=\"end\" "
            "font-size=\"10.5\"><tspan fill=\"" FAINT "\">",
            x + 4, TOP + HEIGHT + 14);
    put_escaped(picture->out, shown_caller);
    fputs("\u00a0›\u00a0</tspan>", picture->out);
    put_escaped(picture->out, shown_name);
    fputs("</text>", picture->out);
    free(shown_name);
    free(shown_caller);
}

static void put_pair(const struct bars_picture *picture, unsigned rank)
{
    static const char *const colours[] = {LIGHT, DARK};
    uint32_t number = picture->comparison->result->top[rank];
    double x = LEFT + rank * picture->pair, bar = picture->pair * 0.4;
    fputs("<g class=\"pair\">", picture->out);
    put_tooltip(picture, rank, number);
    fprintf(picture->out,
            "<rect class=\"cover\" x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\" "
            "fill=\"#fff\" fill-opacity=\"0\"/>",
            x, TOP, picture->pair, HEIGHT);
    for (unsigned side = 0; side < 2; side++) {
        double height = height_of(share_of_hottest(picture, number, (enum compare_side)side));
        fprintf(picture->out,
                "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"%s\"/>",
                x + picture->pair * 0.1 + side * bar, TOP + HEIGHT - height, bar, height,
                colours[side]);
    }
    put_label(picture, x + picture->pair / 2, number);
    fputs("</g>\n", picture->out);
}

int bars_write(FILE *out, const struct comparison *comparison)
{
    struct bars_picture picture = {.out = out, .comparison = comparison};
    unsigned count = comparison->result->top_count;
    picture.pair =
        fmax(NARROWEST_PAIR, fmin(WIDEST_PAIR, (double)USUAL_WIDTH / (count ? count : 1)));
    picture.width = fmax(LEAST_WIDTH, LEFT + count * picture.pair + RIGHT);
    put_head(&picture);
    put_title(&picture);
    put_grid(&picture);
    for (unsigned i = 0; i < count; i++)
        put_pair(&picture, i);
    fputs("</svg>\n", out);
    return ferror(out) ? -EIO : 0;
}
