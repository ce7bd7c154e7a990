// SPDX-License-Identifier: MIT
#ifndef CAIRN_LOADMAP_PAGES_H
#define CAIRN_LOADMAP_PAGES_H

// Pages that no module has, as found out lately. Walks through generated code ask for the same ones
// over and over, and the whole way through the table and the loader would lead to the same answer
// each time. Good for some thousand questions, since nothing reports when a library takes their
// place. Callers that must not be wrong ask the loader. All signal-safe.

#include "loadmap/loadmap.h"

enum page_kind {
    PAGE_UNKNOWN,
    PAGE_GENERATED, // code of no file
    PAGE_EMPTY,     // no code that is known
};

enum page_kind pages_recall(uintptr_t address);
void pages_remember(uintptr_t address, enum page_kind kind);

#endif
