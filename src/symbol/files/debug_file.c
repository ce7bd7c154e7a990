// SPDX-License-Identifier: MIT
#include "symbol/files/debug_file.h"
#include <elfutils/libdwelf.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char system_folder[] = "/usr/lib/debug";

void debugfile_hex(const uint8_t *build_id, unsigned bytes, char *text)
{
    static const char digits[] = "0123456789abcdef";
    for (unsigned i = 0; i < bytes; i++) {
        *text++ = digits[build_id[i] >> 4];
        *text++ = digits[build_id[i] & 15];
    }
    *text = '\0';
}

static bool has_id(const struct object *object, const uint8_t *build_id, unsigned bytes)
{
    return object->build_id_bytes == bytes && memcmp(object->build_id, build_id, bytes) == 0;
}

// With ".debug" it is a debug file, without it is the program itself, kept for later.
static bool try_id(struct object *debug, const char *folder, const char *hex,
                   const uint8_t *build_id, unsigned bytes)
{
    static const char *const endings[] = {".debug", ""};
    for (size_t i = 0; i < 2; i++) {
        char path[PATH_MAX];
        int length =
            snprintf(path, sizeof path, "%s/.build-id/%.2s/%s%s", folder, hex, hex + 2, endings[i]);
        if (length >= (int)sizeof path || object_open(debug, path) != 0)
            continue;
        if (has_id(debug, build_id, bytes))
            return true;
        object_close(debug);
    }
    return false;
}

bool debugfile_by_id(struct object *debug, const uint8_t *build_id, unsigned bytes)
{
    char hex[2 * BUILD_ID_LIMIT + 1];
    if (bytes < 2 || bytes > BUILD_ID_LIMIT)
        return false;
    debugfile_hex(build_id, bytes, hex);
    const char *folders = getenv("CAIRN_DEBUG_PATH");
    char *copy = folders ? strdup(folders) : NULL, *state = NULL;
    bool found = false;
    for (char *folder = copy ? strtok_r(copy, ":", &state) : NULL; folder && !found;
         folder = strtok_r(NULL, ":", &state))
        found = try_id(debug, folder, hex, build_id, bytes);
    free(copy);
    return found || try_id(debug, system_folder, hex, build_id, bytes);
}

// The checksum that .gnu_debuglink means: CRC-32 as in zlib, over the whole file.
static uint32_t checksum(uint32_t crc, const unsigned char *data, size_t length)
{
    static uint32_t table[256];
    if (!table[1])
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t value = i;
            for (int bit = 0; bit < 8; bit++)
                value = value & 1 ? value >> 1 ^ 0xedb88320u : value >> 1;
            table[i] = value;
        }
    crc = ~crc;
    for (size_t i = 0; i < length; i++)
        crc = table[(crc ^ data[i]) & 0xff] ^ crc >> 8;
    return ~crc;
}

static bool file_has_checksum(const struct object *object, uint32_t expected)
{
    static unsigned char buffer[1 << 16];
    uint32_t crc = 0;
    off_t at = 0;
    ssize_t got;
    while ((got = pread(object->fd, buffer, sizeof buffer, at)) > 0) {
        crc = checksum(crc, buffer, (size_t)got);
        at += got;
    }
    return got == 0 && crc == expected;
}

static bool belongs(const struct object *debug, const struct object *main, uint32_t expected)
{
    if (main->build_id_bytes && debug->build_id_bytes)
        return has_id(debug, main->build_id, main->build_id_bytes);
    return file_has_checksum(debug, expected);
}

bool debugfile_by_link(struct object *debug, const struct object *main)
{
    GElf_Word expected;
    const char *link =
        main->elf && main->fd >= 0 ? dwelf_elf_gnu_debuglink(main->elf, &expected) : NULL;
    char *real = link && *link && !strchr(link, '/') ? realpath(main->path, NULL) : NULL;
    if (!real)
        return false;
    const char *folder = dirname(real);
    const char *const places[][2] = {{"", ""}, {"", "/.debug"}, {system_folder, ""}};
    bool found = false;
    for (size_t i = 0; i < 3 && !found; i++) {
        char path[PATH_MAX];
        int length =
            snprintf(path, sizeof path, "%s%s%s/%s", places[i][0], folder, places[i][1], link);
        if (length >= (int)sizeof path || object_open(debug, path) != 0)
            continue;
        found = belongs(debug, main, expected);
        if (!found)
            object_close(debug);
    }
    free(real);
    return found;
}
