// SPDX-License-Identifier: MIT

#include "export/page/page.h"
#include "base/memory.h"
#include "export/gzip.h"
#include <errno.h>
#include <page_template.h>

enum { PIECE = 3 << 12 };

void page_options(struct build_options *options)
{
    options->processes = PROCESSES_APART;
    options->threads = THREADS_APART;
    options->phases = true;
    options->lines = true;
}

static void put_base64(FILE *out, const void *bytes, size_t size)
{
    const uint8_t *data = bytes;
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char text[PIECE / 3 * 4] = {0};
    while (size > 0) {
        size_t put = 0;
        for (size_t read = 0; read < PIECE && size > 0; read += 3) {
            const size_t some = size < 3 ? size : 3;
            const uint32_t bits = (uint32_t)data[0] << 16 |
                                  (some > 1 ? (uint32_t)data[1] << 8 : 0) |
                                  (some > 2 ? (uint32_t)data[2] : 0);
            text[put++] = digits[bits >> 18];
            text[put++] = digits[bits >> 12 & 63];
            text[put++] = some > 1 ? digits[bits >> 6 & 63] : '=';
            text[put++] = some > 2 ? digits[bits & 63] : '=';
            data += some;
            size -= some;
        }
        fwrite(text, 1, put, out);
    }
}

// Browsers unpack gzip themselves.
static void put_compressed(FILE *out, struct bytes *data)
{
    char *packed = NULL;
    size_t bytes = 0;
    FILE *stream = memory_checked(open_memstream(&packed, &bytes));
    gzip_write(stream, data);
    fclose(stream);
    put_base64(out, memory_checked(packed), bytes);
    free(packed);
}

int page_write(FILE *out, const struct page_input *input)
{
    struct bytes data = page_data(input);
    fwrite(page_before_data, 1, page_before_data_bytes, out);
    put_compressed(out, &data);
    fwrite(page_after_data, 1, page_after_data_bytes, out);
    bytes_free(&data);
    return ferror(out) ? -EIO : 0;
}
