// SPDX-License-Identifier: MIT
#include "symbol/files/embedded.h"
#include "base/memory.h"
#include "symbol/files/unpacking.h"
#include <lzma.h>
#include <stdlib.h>

// The dictionary of xz: at most 8 MB at the usual level.
enum { MOST_DICTIONARY = 64 << 20, FIRST_ROOM = 1 << 16 };

// The unpacked stream, to be freed; NULL if it is damaged or too large.
static char *unpack(const void *packed, size_t packed_bytes, size_t *bytes)
{
    lzma_stream stream = LZMA_STREAM_INIT;
    struct unpacking sum = {.stored = packed_bytes};
    char *image = NULL;
    size_t capacity = 0;
    lzma_ret result = lzma_stream_decoder(&stream, MOST_DICTIONARY, 0);
    stream.next_in = packed;
    stream.avail_in = packed_bytes;
    while (result == LZMA_OK) {
        size_t done = stream.total_out;
        sum.unpacked = done;
        if (!unpacking_is_modest(&sum))
            break;
        image = memory_grown(image, &capacity, done + FIRST_ROOM, 1);
        stream.next_out = (uint8_t *)image + done;
        stream.avail_out = capacity - done;
        result = lzma_code(&stream, LZMA_FINISH);
    }
    *bytes = stream.total_out;
    lzma_end(&stream);
    if (result == LZMA_STREAM_END)
        return image;
    free(image);
    return NULL;
}

bool embedded_open(struct embedded *embedded, const struct object *program)
{
    GElf_Shdr header;
    Elf_Scn *section = object_section(program, ".gnu_debugdata", &header);
    Elf_Data *data = section ? elf_rawdata(section, NULL) : NULL;
    size_t bytes;
    *embedded = (struct embedded){.object.fd = -1};
    embedded->image = data && data->d_buf ? unpack(data->d_buf, data->d_size, &bytes) : NULL;
    if (!embedded->image)
        return false;
    embedded->object.elf = elf_memory(embedded->image, bytes);
    embedded->object.base = program->base;
    embedded->object.end = program->end;
    if (embedded->object.elf && elf_kind(embedded->object.elf) == ELF_K_ELF)
        return true;
    embedded_close(embedded);
    return false;
}

void embedded_close(struct embedded *embedded)
{
    object_close(&embedded->object);
    free(embedded->image);
    embedded->image = NULL;
}
