// SPDX-License-Identifier: MIT

#include "import/import.h"
#include "base/memory.h"
#include "base/text/text.h"
#include "profile/chunks/chunk.h"
#include <errno.h>
#include <libdeflate.h>

const struct import_format *const import_formats[] = {
    &import_pprof, &import_speedscope, &import_callgrind, &import_perf, &import_folded, NULL,
};

static struct profile *fail(char **error, const char *name, const char *why)
{
    if (asprintf(error, "%s: %s", name, why) < 0)
        memory_checked(NULL);
    return NULL;
}

static struct profile *cannot_read(char **error, const char *path)
{
    if (asprintf(error, "cannot read %s: %s", path, strerror(errno)) < 0)
        memory_checked(NULL);
    return NULL;
}

static bool is_packed(const uint8_t *data, size_t size)
{
    return size > 18 && data[0] == 0x1f && data[1] == 0x8b;
}

// All members of a gzip file; NULL if it is damaged, or unpacks to too much.
static char *unpack(const uint8_t *data, size_t size, size_t *unpacked)
{
    struct libdeflate_decompressor *inflater = memory_checked(libdeflate_alloc_decompressor());
    const size_t most = UNPACK_FREE + UNPACK_RATIO * size;
    size_t room = 8 * size < most ? 8 * size : most, done = 0;
    char *text = memory_checked(malloc(room + 1));
    while (is_packed(data, size)) {
        size_t taken = 0, made = 0;
        const enum libdeflate_result result = libdeflate_gzip_decompress_ex(
            inflater, data, size, text + done, room - done, &taken, &made);
        if (result == LIBDEFLATE_INSUFFICIENT_SPACE && room < most) {
            room = room * 2 < most ? room * 2 : most;
            text = memory_checked(realloc(text, room + 1));
            continue;
        }
        if (result != LIBDEFLATE_SUCCESS) {
            free(text);
            text = NULL;
            break;
        }
        done += made;
        data += taken;
        size -= taken;
    }
    libdeflate_free_decompressor(inflater);
    *unpacked = done;
    return text;
}

static struct profile *read_file(const struct import_file *file, const char *name,
                                 const struct import_format **format,
                                 const struct import_options *options, char **error)
{
    for (size_t i = 0; !*format && import_formats[i]; i++)
        if (import_formats[i]->matches(file))
            *format = import_formats[i];
    if (!*format)
        return fail(error, name, "no format that cairn can import; -f names one");
    struct importer importer;
    importer_start(&importer, (*format)->name, file->size);
    (*format)->read(&importer, file, options);
    struct profile *profile = importer_finish(&importer);
    if (!profile && asprintf(error, "%s is not a %s profile: %s", name, (*format)->name,
                             text_safe(importer.error)) < 0)
        memory_checked(NULL);
    free(importer.error);
    return profile;
}

struct profile *import_bytes(const void *data, size_t size, const char *name,
                             const struct import_format **format,
                             const struct import_options *options, char **error)
{
    struct import_file file = {.size = size};
    char *text;
    if (chunk_check_file_head(data, size) != HEAD_FOREIGN)
        return fail(error, name, "a profile of cairn's own: all commands read it as it is");
    if (is_packed(data, size)) {
        text = unpack(data, size, &file.size);
        if (!text)
            return fail(error, name, "damaged, or unpacks to far more than its size");
    } else {
        text = memory_checked(malloc(size + 1));
        if (size)
            memcpy(text, data, size);
    }
    text[file.size] = '\0';
    file.data = text;
    struct profile *profile = read_file(&file, name, format, options, error);
    free(text);
    return profile;
}

// A pipe has no size.
static char *load(FILE *in, size_t *size)
{
    char *data = NULL;
    size_t capacity = 0, count = 0;
    *size = 0;
    do {
        data = memory_grown(data, &capacity, *size + (1 << 16), 1);
        count = fread(data + *size, 1, capacity - *size, in);
        *size += count;
    } while (count);
    return data;
}

struct profile *import_read(const char *path, const struct import_format **format,
                            const struct import_options *options, char **error)
{
    const bool is_stdin = strcmp(path, "-") == 0;
    FILE *in = is_stdin ? stdin : fopen(path, "re");
    if (!in)
        return cannot_read(error, path);
    size_t size;
    char *data = load(in, &size);
    struct profile *profile = ferror(in) ? cannot_read(error, path)
                                         : import_bytes(data, size, path, format, options, error);
    free(data);
    if (!is_stdin)
        fclose(in);
    return profile;
}
