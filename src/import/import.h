// SPDX-License-Identifier: MIT
#ifndef CAIRN_IMPORT_IMPORT_H
#define CAIRN_IMPORT_IMPORT_H

// Other people's profiles as cairn's own: one file per foreign format, all in one table.

#include "import/importer.h"

// A file, unpacked. A byte 0 stands behind it.
struct import_file {
    char *data; // read() may change it
    size_t size;
};

// For formats that do not say what they count. NULL: samples.
struct import_options {
    const char *metric, *unit;
};

struct import_format {
    const char *name;
    const char *summary;                             // the tools that write it
    bool (*matches)(const struct import_file *file); // whether it looks like one
    void (*read)(struct importer *importer, const struct import_file *file,
                 const struct import_options *options);
};

extern const struct import_format import_perf, import_pprof, import_callgrind, import_speedscope,
    import_folded;

// In the order in which they are tried. Ends with NULL.
extern const struct import_format *const import_formats[];

// Reads a file, which may be compressed by gzip. A profile, or NULL and one line in *error, to be
// freed. format NULL: the first one that the file looks like; the one that was chosen, afterwards.
struct profile *import_bytes(const void *data, size_t size, const char *name,
                             const struct import_format **format,
                             const struct import_options *options, char **error);

// The same for a file; "-" is stdin.
struct profile *import_read(const char *path, const struct import_format **format,
                            const struct import_options *options, char **error);

#endif
