// SPDX-License-Identifier: MIT

#include "cmd/diff/sides.h"
#include "base/memory.h"
#include <errno.h>
#include <unistd.h>

static int add_profile(struct sides *sides, const char *path, enum diff_side side,
                       const struct analysis_options *options)
{
    char *error = NULL;
    struct analysis *analysis = memory_array(1, sizeof *analysis);
    if (analysis_open(analysis, path, options, &error) < 0) {
        free(analysis);
        return misuse_of_file(error);
    }
    sides->inputs =
        memory_grown(sides->inputs, &sides->capacity, sides->count + 1, sizeof *sides->inputs);
    sides->inputs[sides->count++] =
        (struct diff_input){.analysis = analysis, .path = memory_text(path), .side = side};
    return 0;
}

int sides_add(struct sides *sides, const char *list, enum diff_side side,
              const struct analysis_options *options)
{
    if (access(list, F_OK) == 0)
        return add_profile(sides, list, side, options);
    char *copy = memory_text(list);
    int status = 0;
    for (char *rest = copy, *path; status == 0 && (path = strsep(&rest, ","));)
        status = add_profile(sides, path, side, options);
    free(copy);
    return status;
}

void sides_free(struct sides *sides)
{
    for (unsigned i = 0; i < sides->count; i++) {
        analysis_close(sides->inputs[i].analysis);
        free(sides->inputs[i].analysis);
        free((char *)sides->inputs[i].path);
    }
    free(sides->inputs);
    *sides = (struct sides){0};
}

static int parse_percent(const struct command *command, const char *option, const char *text,
                         double least, double *percent)
{
    char *end;
    errno = 0;
    *percent = strtod(text, &end);
    end += end != text && *end == '%';
    if (end == text || *end || errno || !(*percent >= least && *percent < 100))
        return misuse(command, "%s: --%s '%s' is not a percentage from %g to below 100",
                      command->name, option, text, least);
    return 0;
}

int sides_confidence(const struct command *command, const char *text, double *percent)
{
    return parse_percent(command, "confidence", text, 50, percent);
}

int sides_spread(const struct command *command, const char *text, double *spread)
{
    int status = parse_percent(command, "spread", text, 0, spread);
    *spread /= 100;
    return status;
}
