// SPDX-License-Identifier: MIT
#ifndef CAIRN_BASE_GC_HIDDEN_H
#define CAIRN_BASE_GC_HIDDEN_H

// Large tables of the agent's. Collectors of garbage that know no types (Boehm's: Guile, ECL,
// Inkscape) look through all that the program headers call writable, for pointers, and collect the
// less often the more of it there is. So these lie in a segment that is called readable, and that
// src/agent/session/gc_hidden.c makes writable.
//
// The compiler has no word for a section that takes no room in the file and is not writable: so the
// rest of what it would say is a comment to the assembler.
#ifdef CAIRN_AGENT
#define GC_HIDDEN __attribute__((section(".gc_hidden,\"a\",@nobits#")))
#else
#define GC_HIDDEN
#endif

#endif
