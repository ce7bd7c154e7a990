// SPDX-License-Identifier: MIT

#include "export/export.h"

const struct export_format *const export_formats[] = {
    &export_folded,     &export_pprof,  &export_callgrind,
    &export_speedscope, &export_chrome, &export_firefox,
    &export_otlp,       &export_dot,    &export_csv,
    &export_cairn,      NULL,
};
