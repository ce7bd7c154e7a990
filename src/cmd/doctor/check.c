// SPDX-License-Identifier: MIT

#include "cmd/doctor/check.h"
#include "base/memory.h"
#include "base/text/json.h"
#include "base/text/wrap.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const mark_names[] = {
    [CHECK_OK] = "ok", [CHECK_LIMITED] = "limited", [CHECK_NO] = "no"};

enum { MARK_WIDTH = 9, NAME_WIDTH = 13 };

struct check *checks_add(struct checks *checks, const char *name, enum check_mark mark,
                         const char *format, ...)
{
    checks->list =
        memory_grown(checks->list, &checks->capacity, checks->count + 1, sizeof *checks->list);
    struct check *check = &checks->list[checks->count++];
    *check = (struct check){.name = name, .mark = mark};
    va_list arguments;
    va_start(arguments, format);
    if (vasprintf(&check->finding, format, arguments) < 0)
        check->finding = memory_checked(strdup(""));
    va_end(arguments);
    return check;
}

void check_remedy(struct check *check, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    free(check->remedy);
    if (vasprintf(&check->remedy, format, arguments) < 0)
        check->remedy = NULL;
    va_end(arguments);
}

void checks_free(struct checks *checks)
{
    for (size_t i = 0; i < checks->count; i++) {
        free(checks->list[i].finding);
        free(checks->list[i].remedy);
    }
    free(checks->list);
}

bool checks_pass(const struct checks *checks)
{
    for (size_t i = 0; i < checks->count; i++)
        if (checks->list[i].essential && checks->list[i].mark == CHECK_NO)
            return false;
    return true;
}

void checks_print(const struct checks *checks, const struct text_style *style)
{
    static const enum text_tone tones[] = {
        [CHECK_OK] = TEXT_DIM, [CHECK_LIMITED] = TEXT_WARM, [CHECK_NO] = TEXT_HOT};
    const unsigned indent = MARK_WIDTH + NAME_WIDTH;
    for (size_t i = 0; i < checks->count; i++) {
        const struct check *check = &checks->list[i];
        const char *mark = mark_names[check->mark];
        text_put(stdout, style, tones[check->mark], mark);
        printf("%*s%-*s", MARK_WIDTH - (int)strlen(mark), "", NAME_WIDTH, check->name);
        wrap_print(stdout, style, TEXT_PLAIN, check->finding, indent);
        if (check->remedy) {
            printf("%*s%s", (int)indent - 3, "", style->unicode ? "→  " : "-> ");
            wrap_print(stdout, style, TEXT_BOLD, check->remedy, indent);
        }
    }
}

void checks_print_json(const struct checks *checks)
{
    struct json json;
    json_start(&json, stdout);
    json_object(&json);
    json_put_bool(&json, "ok", checks_pass(checks));
    json_key(&json, "checks");
    json_spread_array(&json);
    for (size_t i = 0; i < checks->count; i++) {
        const struct check *check = &checks->list[i];
        json_object(&json);
        json_put_string(&json, "name", check->name);
        json_put_string(&json, "mark", mark_names[check->mark]);
        json_put_bool(&json, "essential", check->essential);
        json_put_string(&json, "finding", check->finding);
        json_put_string(&json, "remedy", check->remedy);
        json_end_object(&json);
    }
    json_end_array(&json);
    json_end_object(&json);
    json_finish(&json);
}
