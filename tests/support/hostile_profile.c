// SPDX-License-Identifier: MIT

// hostile_profile FILE PID TEXT: writes a profile in which every text is TEXT. Functions of
// generated code get their names from /tmp/perf-PID.map, which the caller writes.

#include "make_profile.h"
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    const char *text = argv[3];
    struct profile *profile = make_profile(text, text, 1000000);
    make_text(&profile->metrics[0].source, text);
    make_text(&profile->tracker, text);
    make_text(&profile->tree_kind, text);
    make_text(&profile->command[0], text);
    make_note(profile, text);
    profile->start_realtime_ns = 0;
    const unsigned module = make_module(profile, text);
    for (uint32_t i = 0; i < 2; i++) {
        const unsigned process = make_process(profile, (uint32_t)atoi(argv[2]) + i, 1, text);
        const place_t start = i ? place_make(module, 0x5000) : 0;
        const unsigned tree = make_tree(profile, process, start);
        snprintf(profile->trees[tree].phase, sizeof profile->trees[tree].phase, "%s", text);
        memcpy(profile->trees[tree].name, text, strnlen(text, THREAD_NAME_BYTES - 1));
        uint32_t node = 0;
        for (uint32_t frame = 1; frame <= 6; frame++) {
            const unsigned in = frame % 2 ? MODULE_ANONYMOUS : module;
            node = make_frame(profile, tree, node, place_make(in, frame * 0x100 - 0x80),
                              place_make(in, frame * 0x100));
            make_statement(profile, tree, node, place_make(in, frame * 0x100 + 0x10), 5000000);
        }
    }
    const int error = profile_write(profile, argv[1]);
    profile_free(profile);
    return error ? 1 : 0;
}
