// SPDX-License-Identifier: MIT
#ifndef CAIRN_BENCH_UNWIND_MICRO_H
#define CAIRN_BENCH_UNWIND_MICRO_H

#define CHAINS 100
#define CHAIN_LENGTH 41

typedef void (*bottom_function)(void);
typedef void (*chain_function)(bottom_function bottom);

extern const chain_function chains_plain[CHAINS];         // without frame pointers
extern const chain_function chains_frame_pointer[CHAINS]; // with

#endif
