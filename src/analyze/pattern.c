// SPDX-License-Identifier: MIT

#include "analyze/pattern.h"
#include "base/memory.h"
#include <regex.h>

enum pattern_answer { NOT_ASKED, NO, YES };

struct pattern {
    char *text;
    regex_t expression;
    uint8_t *answers; // enum pattern_answer, per function
    size_t capacity;
};

struct pattern *pattern_new(const char *expression, char **error)
{
    struct pattern *pattern = memory_array(1, sizeof *pattern);
    int failed = regcomp(&pattern->expression, expression, REG_EXTENDED | REG_NOSUB);
    if (!failed) {
        pattern->text = memory_text(expression);
        return pattern;
    }
    char reason[128];
    regerror(failed, &pattern->expression, reason, sizeof reason);
    if (asprintf(error, "'%s' is no regular expression (%s)", expression, reason) < 0)
        memory_checked(NULL);
    free(pattern);
    return NULL;
}

bool pattern_matches(struct pattern *pattern, const struct functions *functions, uint32_t function)
{
    if (function >= pattern->capacity) {
        size_t before = pattern->capacity;
        pattern->answers = memory_grown(pattern->answers, &pattern->capacity,
                                        (size_t)functions_count(functions) + 1, 1);
        memset(pattern->answers + before, NOT_ASKED, pattern->capacity - before);
    }
    uint8_t *answer = &pattern->answers[function];
    if (*answer == NOT_ASKED) {
        const char *name = functions_get(functions, function)->name;
        // Names are full of +, ( and *: one that is pasted as it is should match itself.
        bool matches = regexec(&pattern->expression, name, 0, NULL, 0) == 0 ||
                       strstr(name, pattern->text) != NULL;
        *answer = matches ? YES : NO;
    }
    return *answer == YES;
}

const char *pattern_text(const struct pattern *pattern)
{
    return pattern->text;
}

void pattern_free(struct pattern *pattern)
{
    if (!pattern)
        return;
    regfree(&pattern->expression);
    free(pattern->text);
    free(pattern->answers);
    free(pattern);
}
