// SPDX-License-Identifier: MIT
#include "base/text/unicode.h"
#include <locale.h>
#include <stddef.h>
#include <wchar.h>

unsigned unicode_read(const char *text, uint32_t *code)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *at = (const unsigned char *)text;
    const unsigned length = at[0] < 0x80                    ? 1
                            : at[0] >= 0xc2 && at[0] < 0xe0 ? 2
                            : at[0] >= 0xe0 && at[0] < 0xf0 ? 3
                            : at[0] >= 0xf0 && at[0] < 0xf5 ? 4
                                                            : 0;
    *code = length < 2 ? at[0] : at[0] & (0x7fu >> length);
    for (unsigned i = 1; i < length; i++) {
        if ((at[i] & 0xc0) != 0x80)
            return 0;
        *code = *code << 6 | (at[i] & 0x3fu);
    }
    const bool surrogate = *code >= 0xd800 && *code < 0xe000;
    return *code < least[length] || surrogate || *code > 0x10ffff ? 0 : length;
}

bool unicode_is_visible(uint32_t code)
{
    // Unicode's categories Cc, Cf, Zl and Zp, and letters that are defined to be blank.
    static const struct {
        uint32_t first, last;
    } hidden[] = {
        {0x00, 0x1f},       {0x7f, 0x9f},       {0xad, 0xad},       {0x34f, 0x34f},
        {0x600, 0x605},     {0x61c, 0x61c},     {0x6dd, 0x6dd},     {0x70f, 0x70f},
        {0x890, 0x891},     {0x8e2, 0x8e2},     {0x115f, 0x1160},   {0x17b4, 0x17b5},
        {0x180b, 0x180f},   {0x200b, 0x200f},   {0x2028, 0x202e},   {0x2060, 0x206f},
        {0x3164, 0x3164},   {0xfe00, 0xfe0f},   {0xfeff, 0xfeff},   {0xffa0, 0xffa0},
        {0xfff0, 0xfffb},   {0xfffe, 0xffff},   {0x110bd, 0x110bd}, {0x110cd, 0x110cd},
        {0x13430, 0x1343f}, {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a}, {0xe0000, 0xe0fff},
    };
    if (code >= 0x20 && code < 0x7f)
        return true;
    if ((code & 0xfffe) == 0xfffe || code > 0x10ffff) // the last two of each plane are none
        return false;
    for (size_t i = 0; i < sizeof hidden / sizeof *hidden && code >= hidden[i].first; i++)
        if (code <= hidden[i].last)
            return false;
    return true;
}

unsigned unicode_columns(uint32_t code)
{
    // The C library knows, but only in a locale of this encoding, which the user's need not be.
    static locale_t locale;
    static bool tried;
    if (code < 0x300) // the first combining mark
        return 1;
    if (!tried)
        locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", NULL);
    tried = true;
    if (!locale)
        return 1;
    const locale_t usual = uselocale(locale);
    const int columns = wcwidth((wchar_t)code);
    uselocale(usual);
    return columns < 0 ? 1 : (unsigned)columns;
}
