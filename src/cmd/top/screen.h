// SPDX-License-Identifier: MIT
#ifndef CAIRN_CMD_TOP_SCREEN_H
#define CAIRN_CMD_TOP_SCREEN_H

// `cairn top` on a terminal, until the user quits.

#include "cmd/top/frame.h"

struct top_settings {
    uint64_t interval_ns; // between two readings
    bool unicode;
    const char *saved; // the name that what is saved begins with; NULL: that of the profile
};

// The model was read once. Returns 0, or -1 if the terminal cannot be used.
int top_screen(struct top_model *model, struct top_view *view, const struct top_settings *settings);

#endif
