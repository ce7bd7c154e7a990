// SPDX-License-Identifier: MIT
#ifndef CAIRN_LIVE_CHOICES_H
#define CAIRN_LIVE_CHOICES_H

// The words for what a recording can be made with: on the command line, in the options of
// cairn_start(), and in profiles.

#include "live/live.h"
#include <string.h>

enum live_choice {
    LIVE_TRACKERS, // enum live_tracker
    LIVE_TREES,    // enum live_tree_kind
    LIVE_MINERS,   // enum live_miner
    LIVE_PURGES,   // enum live_purge
    LIVE_SOURCES,  // enum live_source
};

// In the order of the enum. NULL ends them.
static inline const char *const *live_words(enum live_choice choice)
{
    static const char *const words[][5] = {
        [LIVE_TRACKERS] = {"walk", "calls", "encode"},
        [LIVE_TREES] = {"full", "hot", "bounded", "functions"},
        [LIVE_MINERS] = {"space-saving", "lossy", "sticky"},
        [LIVE_PURGES] = {"age", "all"},
        [LIVE_SOURCES] = {"auto", "sigtrap", "signal", "timer"},
    };
    return words[choice];
}

// The word of a value, which may come from damaged memory.
static inline const char *live_word(enum live_choice choice, unsigned value)
{
    const char *const *word = live_words(choice);
    while (value-- && *word)
        word++;
    return *word ? *word : "unknown";
}

// The value of a word; -1: it is none of them.
static inline int live_choice_of(enum live_choice choice, const char *text, size_t length)
{
    const char *const *words = live_words(choice);
    for (int value = 0; words[value]; value++)
        if (strlen(words[value]) == length && !memcmp(words[value], text, length))
            return value;
    // An alias: a list of functions is a list of hot ones.
    const char functions[] = "hot-functions";
    return choice == LIVE_TREES && length == sizeof functions - 1 &&
                   !memcmp(text, functions, length)
               ? LIVE_TREE_FUNCTIONS
               : -1;
}

#endif
