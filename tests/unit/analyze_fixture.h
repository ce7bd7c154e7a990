// SPDX-License-Identifier: MIT
#ifndef CAIRN_TESTS_ANALYZE_FIXTURE_H
#define CAIRN_TESTS_ANALYZE_FIXTURE_H

// A profile made by hand, and a symbol table behind symbol.h that knows what the test tells it.
// Functions are 256 bytes long; the line of an address is that of the function plus one for every
// 16 bytes.

#include "analyze/analysis.h"
#include "analyze/report/report.h"

enum { PROGRAM = MODULE_FIRST_FILE, LIBRARY, AGENT };

#define FUNCTION_BYTES 256

// The whole fixture is one set of static variables: a test begins with fixture_start().
struct analysis *fixture_start(void);
struct analysis *fixture_analysis(void); // the one that was started
void fixture_end(void);

// A function with lines in "/src/NAME.c", at offset in a module. Returns its place.
place_t fixture_function(unsigned module, uint64_t offset, const char *name, unsigned line);
// From `begin` to `end`, `name` is inlined (into what was inlined there before).
void fixture_inline(place_t begin, place_t end, const char *name, unsigned line);

void fixture_process(uint32_t pid, const char *command);
// A tree of the newest process; returns its root for the calls below.
uint32_t fixture_tree(place_t start, uint32_t tid);
uint32_t fixture_frame(uint32_t parent, place_t site, place_t function, uint64_t returns);
void fixture_statement(uint32_t parent, place_t pc, uint64_t cost);
// A step of a path on which threads were created, behind another one; its index.
uint32_t fixture_creation(uint32_t parent, place_t site, place_t function);

// main (line 10) calls a (20) and b (30), both call c (40), on the main thread. Costs: main 1, a 2,
// b 3, c under a 40, under b 54: 100 in all. Returns: c under a 7, under b 70.
void fixture_figure1(void);

// What a report prints, to be freed; NULL and the fixture's `error` if it fails.
char *fixture_report(struct report_options options);
char *fixture_styled_report(struct report_options options, struct text_style style);
// Runs a Python program on JSON: `d` is the parsed text.
void fixture_check_json(const char *json, const char *program);
struct report_options fixture_options(void);
struct pattern *fixture_pattern(const char *expression); // freed by fixture_end()
extern char *fixture_error;

// The node at the end of a path of names that begins under the root: "main;a;c". Fails the test if
// it is not there.
uint32_t fixture_find(const struct calltree *tree, const char *path);
bool fixture_has(const struct calltree *tree, const char *path);

#endif
