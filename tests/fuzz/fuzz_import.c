// SPDX-License-Identifier: MIT
// Files of other tools: each is refused, or becomes a profile that can be written, read and shown.
// The first byte chooses the format; one beyond the last leaves it to be guessed.

#include "analyze/analysis.h"
#include "import/import.h"
#include "profile/reader.h"
#include "profile/write_records.h"
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FORMATS = 5 };

static void show(struct profile *profile)
{
    struct symbols_options options = {0};
    struct symbols *symbols = symbols_new(profile, &options);
    struct functions *functions = functions_new(profile, symbols);
    const struct build_options build = {.lines = true, .sites = true};
    build_resolve(functions, profile, &build);
    calltree_free(build_calltree(functions, profile, &build));
    functions_free(functions);
    symbols_free(symbols);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    const struct import_format *format =
        data[0] % (FORMATS + 1) < FORMATS ? import_formats[data[0] % (FORMATS + 1)] : NULL;
    char *error = NULL;
    const struct import_options options = {0};
    struct profile *profile = import_bytes(data + 1, size - 1, "input", &format, &options, &error);
    if (!profile) {
        if (!error)
            abort();
        free(error);
        return 0;
    }
    struct batch batch = {0};
    write_profile(&batch, profile);
    struct profile *again =
        profile_parse(batch.out.data, batch.out.size, WRITER_NONE, "written", &error);
    if (!again)
        abort();
    show(again);
    profile_free(again);
    batch_free(&batch);
    profile_free(profile);
    return 0;
}
