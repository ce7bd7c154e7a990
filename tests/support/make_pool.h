// SPDX-License-Identifier: MIT
#ifndef CAIRN_TESTS_MAKE_POOL_H
#define CAIRN_TESTS_MAKE_POOL_H

// A pool from malloc, each piece by itself, so that the sanitizers watch its bounds.

#include "encode/graph/pool.h"

extern struct pool test_pool;

struct pool make_pool(void); // another one

void test_pool_fail_after(unsigned maps); // the next ones succeed, then none; UINT_MAX: all do
void test_pool_free(void);                // everything that was taken

#endif
