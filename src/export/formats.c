// SPDX-License-Identifier: MIT

#include "export/export.h"

const struct export_format *const export_formats[] = {&export_folded, NULL};
