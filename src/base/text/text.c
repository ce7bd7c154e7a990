// SPDX-License-Identifier: MIT

#include "base/text/text.h"
#include "base/memory.h"
#include "base/text/unicode.h"
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <unistd.h>

struct text_number text_count(uint64_t count)
{
    struct text_number number = {""};
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%llu", (unsigned long long)count);
    char *to = number.text;
    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0)
            *to++ = ',';
        *to++ = digits[i];
    }
    *to = '\0';
    return number;
}

// Three significant digits, as many as one reads at a glance.
static struct text_number scaled(double value, const char *unit)
{
    struct text_number number;
    int decimals = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
    snprintf(number.text, sizeof number.text, "%.*f %s", decimals, value, unit);
    return number;
}

struct text_number text_duration(uint64_t ns)
{
    if (ns < 1000) {
        struct text_number number;
        snprintf(number.text, sizeof number.text, "%u ns", (unsigned)ns);
        return number;
    }
    double value = (double)ns;
    if (value < 999.5e3)
        return scaled(value / 1e3, "us");
    if (value < 999.5e6)
        return scaled(value / 1e6, "ms");
    if (value < 999.5e9)
        return scaled(value / 1e9, "s");
    if (value < 100 * 60e9)
        return scaled(value / 60e9, "min");
    return scaled(value / 3600e9, "h");
}

struct text_number text_bytes(uint64_t bytes)
{
    static const char *const units[] = {"kB", "MB", "GB", "TB"};
    if (bytes < 1000) {
        struct text_number number;
        snprintf(number.text, sizeof number.text, "%u B", (unsigned)bytes);
        return number;
    }
    double value = (double)bytes / 1e3;
    unsigned unit = 0;
    for (; value >= 999.5 && unit < 3; unit++)
        value /= 1e3;
    return scaled(value, units[unit]);
}

struct text_number text_percent(double part, double whole)
{
    struct text_number number;
    snprintf(number.text, sizeof number.text, "%.1f %%", whole > 0 ? 100 * part / whole : 0.0);
    return number;
}

struct text_number text_amount(uint64_t amount, const char *unit)
{
    if (unit && strcmp(unit, "ns") == 0)
        return text_duration(amount);
    if (unit && strcmp(unit, "s") == 0)
        return text_duration(amount * UINT64_C(1000000000));
    if (unit && (strcmp(unit, "bytes") == 0 || strcmp(unit, "B") == 0))
        return text_bytes(amount);
    return text_count(amount);
}

static bool locale_is_utf8(void)
{
    static const char *const variables[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (unsigned i = 0; i < 3; i++) {
        const char *value = getenv(variables[i]);
        if (value && *value)
            return strcasestr(value, "utf-8") || strcasestr(value, "utf8");
    }
    return false;
}

bool text_can_rewrite(FILE *out)
{
    const char *terminal = getenv("TERM");
    int fd = fileno(out);
    return fd >= 0 && isatty(fd) && terminal && *terminal && strcmp(terminal, "dumb") != 0;
}

bool text_parse_width(const char *text, unsigned *width)
{
    char *end;
    const unsigned long columns = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || columns > TEXT_WIDEST ||
        (columns && columns < TEXT_NARROWEST))
        return false;
    *width = (unsigned)columns;
    return true;
}

static bool is_set(const char *variable)
{
    const char *value = getenv(variable);
    return value && *value;
}

static bool has_colour(FILE *out)
{
    if (is_set("NO_COLOR"))
        return false;
    if (is_set("CLICOLOR_FORCE") && strcmp(getenv("CLICOLOR_FORCE"), "0") != 0)
        return true;
    return text_can_rewrite(out);
}

static unsigned width_of(FILE *out)
{
    unsigned width;
    struct winsize size;
    const char *columns = getenv("COLUMNS");
    if (columns && text_parse_width(columns, &width) && width)
        return width;
    if (fileno(out) < 0 || !isatty(fileno(out)))
        return 0;
    return ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col >= TEXT_NARROWEST ? size.ws_col
                                                                                       : 80;
}

struct text_style text_style(FILE *out)
{
    return (struct text_style){
        .colour = has_colour(out), .unicode = locale_is_utf8(), .width = width_of(out)};
}

// Malformed bytes are as wide as the escape that shows them.
static unsigned next_character(const char *text, unsigned *columns)
{
    uint32_t code;
    const unsigned length = unicode_read(text, &code);
    *columns = length ? unicode_columns(code) : 1;
    return length ? length : 1;
}

unsigned text_width(const char *text)
{
    unsigned width = 0;
    for (unsigned columns; *text; width += columns)
        text += next_character(text, &columns);
    return width;
}

const char *text_skip(const char *text, unsigned width)
{
    for (unsigned seen = 0, columns; *text && seen < width; seen += columns)
        text += next_character(text, &columns);
    return text;
}

static bool is_harmless(const char *text)
{
    uint32_t code;
    for (unsigned length; *text; text += length) {
        length = unicode_read(text, &code);
        if (!length || !unicode_is_visible(code))
            return false;
    }
    return true;
}

static void put_harmless(FILE *out, const char *text)
{
    uint32_t code;
    for (unsigned length; *text; text += length ? length : 1) {
        length = unicode_read(text, &code);
        if (length && unicode_is_visible(code))
            fwrite(text, 1, length, out);
        else if (!length || code < 0x80)
            fprintf(out, "\\x%02x", (unsigned char)*text);
        else
            fprintf(out, "\\u%04x", code);
    }
}

const char *text_safe(const char *text)
{
    static char *kept[TEXT_SAFE_KEPT];
    static unsigned next;
    size_t bytes = 0;
    if (is_harmless(text))
        return text;
    char *made = NULL;
    FILE *out = memory_checked(open_memstream(&made, &bytes));
    put_harmless(out, text);
    fclose(out);
    memory_checked(made);
    char **slot = &kept[next++ % TEXT_SAFE_KEPT];
    free(*slot);
    return *slot = made;
}

char *text_cut(const char *text, unsigned width, const struct text_style *style)
{
    text = text_safe(text);
    if (width == 0 || text_width(text) <= width)
        return memory_text(text);
    const char *dots = style->unicode ? "…" : "...";
    unsigned dots_width = text_width(dots);
    unsigned keep = width > dots_width ? width - dots_width : 0;
    const char *end = text;
    // Marks that combine with the last character are part of it.
    for (unsigned seen = 0, columns, length; *end; end += length, seen += columns) {
        length = next_character(end, &columns);
        if (seen + columns > keep)
            break;
    }
    char *cut = NULL;
    if (asprintf(&cut, "%.*s%s", (int)(end - text), text, dots) < 0)
        memory_checked(NULL);
    return cut;
}

void text_put(FILE *out, const struct text_style *style, enum text_tone tone, const char *text)
{
    text = text_safe(text);
    static const char *const codes[] = {"",           "\033[2m",  "\033[1m",
                                        "\033[1;31m", "\033[33m", "\033[32m"};
    if (!style->colour || tone == TEXT_PLAIN)
        fputs(text, out);
    else
        fprintf(out, "%s%s\033[0m", codes[tone], text);
}
