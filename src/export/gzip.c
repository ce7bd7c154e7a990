// SPDX-License-Identifier: MIT

#include "export/gzip.h"
#include "base/memory.h"
#include <errno.h>
#include <libdeflate.h>

enum {
    LEVEL = 6,
    LARGE = 64 << 20, // some readers know the first member alone: few files have another
};

int gzip_write(FILE *out, struct bytes *bytes)
{
    if (bytes->failed)
        memory_checked(NULL);
    struct libdeflate_compressor *compressor = memory_checked(libdeflate_alloc_compressor(LEVEL));
    const size_t room = libdeflate_gzip_compress_bound(compressor, bytes->size);
    void *packed = memory_array(room, 1);
    const size_t size =
        libdeflate_gzip_compress(compressor, bytes->data, bytes->size, packed, room);
    fwrite(packed, 1, size, out);
    free(packed);
    libdeflate_free_compressor(compressor);
    bytes->size = 0;
    return ferror(out) ? -EIO : 0;
}

int gzip_write_large(FILE *out, struct bytes *bytes)
{
    return bytes->size < LARGE ? 0 : gzip_write(out, bytes);
}
