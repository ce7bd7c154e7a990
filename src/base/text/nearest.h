// SPDX-License-Identifier: MIT
#ifndef CAIRN_BASE_TEXT_NEAREST_H
#define CAIRN_BASE_TEXT_NEAREST_H

// Which word was meant by one that does not exist.

// The fewest edits from one word to the other: a character inserted, deleted, replaced, or swapped
// with its neighbour (the Damerau-Levenshtein distance of words that are edited once in a place).
unsigned word_distance(const char *a, const char *b);

// The one of `words` (ends with NULL) that was most likely meant, or NULL if none is near.
const char *nearest_word(const char *word, const char *const *words);

#endif
