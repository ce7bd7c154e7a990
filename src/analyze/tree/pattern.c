// SPDX-License-Identifier: MIT

#include "analyze/tree/pattern.h"
#include "base/memory.h"
#include <regex.h>

enum pattern_answer { NOT_ASKED, NO, YES };

struct pattern {
    char *text;
    bool of_places;
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
    if (asprintf(error, "'%s' is not a regular expression (%s)", expression, reason) < 0)
        memory_checked(NULL);
    free(pattern);
    return NULL;
}

struct pattern *pattern_new_of_places(const char *expression, const char *title, char **error)
{
    struct pattern *pattern = pattern_new(expression, error);
    if (!pattern)
        return NULL;
    free(pattern->text);
    pattern->text = memory_text(title);
    pattern->of_places = true;
    return pattern;
}

static bool matches_text(const struct pattern *pattern, const char *text)
{
    return text && regexec(&pattern->expression, text, 0, NULL, 0) == 0;
}

static bool matches(const struct pattern *pattern, const struct functions *functions,
                    const struct function *function)
{
    if (matches_text(pattern, function->name))
        return true;
    // Names are full of +, ( and *: one that is pasted as it is should match itself.
    if (!pattern->of_places)
        return strstr(function->name, pattern->text) != NULL;
    return matches_text(pattern, functions_file(functions, function->file)) ||
           (function->module != MODULE_NONE &&
            matches_text(pattern, functions_module_name(functions, function->module)));
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
    if (*answer == NOT_ASKED)
        *answer = matches(pattern, functions, functions_get(functions, function)) ? YES : NO;
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
