// SPDX-License-Identifier: MIT
#include "cmd/line/numbers.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool parse_number(const char *text, double *number, const char **rest)
{
    char *end;
    // strtod would take blanks, signs, hex, infinity and nan, too.
    if ((*text < '0' || *text > '9') && *text != '.')
        return false;
    if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X'))
        return false;
    *number = strtod(text, &end);
    *rest = end;
    return end != text && isfinite(*number);
}

bool parse_whole_number(const char *text, double *number)
{
    const char *rest = "";
    return parse_number(text, number, &rest) && *rest == 0 && *number == floor(*number);
}

double parse_time(const char *text)
{
    static const struct {
        const char *name;
        double ns;
    } units[] = {{"", 1}, {"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
    double number = 0;
    const char *unit = "";
    if (parse_number(text, &number, &unit))
        for (size_t i = 0; i < sizeof units / sizeof *units; i++)
            if (!strcmp(unit, units[i].name))
                return number * units[i].ns;
    return 0;
}

bool parse_size(const char *text, double *bytes)
{
    const char *unit = "";
    if (!parse_number(text, bytes, &unit))
        return false;
    switch (*unit ? *unit++ : 0) {
    case 0:
        break;
    case 'k':
    case 'K':
        *bytes *= 1 << 10;
        break;
    case 'm':
    case 'M':
        *bytes *= 1 << 20;
        break;
    case 'g':
    case 'G':
        *bytes *= 1 << 30;
        break;
    default:
        return false;
    }
    return *unit == 0 || !strcmp(unit, "B") || !strcmp(unit, "iB");
}
