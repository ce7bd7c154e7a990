// SPDX-License-Identifier: MIT

#include "export/export.h"
#include <string.h>

const struct export_format *const export_formats[] = {&export_folded, NULL};

const struct export_format *export_find(const char *name)
{
    for (size_t i = 0; export_formats[i]; i++)
        if (strcmp(export_formats[i]->name, name) == 0)
            return export_formats[i];
    return NULL;
}
