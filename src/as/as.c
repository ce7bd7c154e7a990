// SPDX-License-Identifier: MIT

// `cairn-as`: the assembler, for gcc. The no-op that each function begins with becomes one of five
// bytes, which costs next to nothing, where gcc has five of one:
//
//     .LPFE7:                                  .LPFE7:
//         nop                              →       .byte 0x0f, 0x1f, 0x44, 0x00, 0x00
//         nop
//         ...
//
// And gcc before version 13 puts the entries of all functions of a file into one section that goes
// with the first function. But other files may have that one, too (templates, inline functions), or
// nobody uses it: when the linker drops it, the entries of all go with it, and when it drops
// another one, linking fails. Here each entry gets a section that goes with its own function, and
// belongs to its group ("?"):
//
//     .section __patchable_function_entries,"awo",@progbits,first     →  "awo?",@progbits,.LPFE7
//     .align 8
//     .quad .LPFE7
//
// Everything else is passed on as it is. gcc runs it because of `cairn cc`'s -B.

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SECTION "\t.section\t__patchable_function_entries,\"awo\",@progbits,"
#define QUAD "\t.quad\t"
#define ENTRY_LABEL ".LPFE"
#define NO_OP "\tnop\n"
#define NO_OPS 5
#define ONE_NO_OP "\t.byte\t0x0f, 0x1f, 0x44, 0x00, 0x00\n"
#define REAL_ASSEMBLER "CAIRN_AS"

// The argument that names the file to assemble; -1: standard input.
static int find_input(int argc, char **argv)
{
    for (int i = argc - 1; i > 0; i--) {
        const size_t length = strlen(argv[i]);
        const bool of_option = i > 1 && (!strcmp(argv[i - 1], "-o") || !strcmp(argv[i - 1], "-I"));
        if (argv[i][0] != '-' && !of_option && length > 2 && !strcmp(argv[i] + length - 2, ".s"))
            return i;
    }
    return -1;
}

// One line, without its end. False at the end of the file.
static bool read_line(FILE *from, char **line, size_t *capacity)
{
    ssize_t length = getline(line, capacity, from);
    if (length <= 0)
        return false;
    if ((*line)[length - 1] == '\n')
        (*line)[length - 1] = 0;
    return true;
}

// A section line has been read. What follows up to the label tells whose entry it is.
static void rewrite_entry(FILE *from, FILE *to, const char *section)
{
    char *lines[2] = {NULL, NULL};
    size_t capacities[2] = {0, 0};
    bool whole =
        read_line(from, &lines[0], &capacities[0]) && read_line(from, &lines[1], &capacities[1]);
    const char *label =
        whole && !strncmp(lines[1], QUAD, sizeof QUAD - 1) ? lines[1] + sizeof QUAD - 1 : NULL;
    if (label)
        fprintf(to, "\t.section\t__patchable_function_entries,\"awo?\",@progbits,%s\n", label);
    else
        fprintf(to, "%s\n", section);
    for (int i = 0; i < 2; i++) {
        if (lines[i] && (whole || i == 0))
            fprintf(to, "%s\n", lines[i]);
        free(lines[i]);
    }
}

// *count: of the no-ops so far that follow the label of an entry; -1: the last line was neither.
// True if the line is one more of them; the last one writes one for all.
static bool take_no_op(int *count, FILE *to, const char *line, bool *changed)
{
    if (*count >= 0 && !strcmp(line, NO_OP)) {
        if (++*count == NO_OPS) {
            fputs(ONE_NO_OP, to);
            *count = -1;
            *changed = true;
        }
        return true;
    }
    for (; *count > 0; --*count) // fewer: they stay what they are
        fputs(NO_OP, to);
    *count = strncmp(line, ENTRY_LABEL, sizeof ENTRY_LABEL - 1) ? -1 : 0;
    return false;
}

// A copy with a section for each entry, and one no-op for five. False if it could not be made;
// *changed if it is of any use.
static bool rewrite(FILE *from, FILE *to, bool *changed)
{
    char *line = NULL;
    size_t capacity = 0;
    ssize_t length;
    int no_ops = -1;
    while ((length = getline(&line, &capacity, from)) > 0) {
        if (take_no_op(&no_ops, to, line, changed))
            continue;
        if (strncmp(line, SECTION, sizeof SECTION - 1)) {
            fwrite(line, 1, (size_t)length, to);
            continue;
        }
        *changed = true;
        line[strcspn(line, "\n")] = 0;
        rewrite_entry(from, to, line);
    }
    take_no_op(&no_ops, to, "", changed);
    free(line);
    return !ferror(from) && !fflush(to);
}

static int run(char **argv)
{
    const char *real = getenv(REAL_ASSEMBLER);
    argv[0] = (char *)(real && *real ? real : "as");
    execvp(argv[0], argv);
    fprintf(stderr, "cairn-as: cannot run %s: %s\n", argv[0], strerror(errno));
    return 127;
}

int main(int argc, char **argv)
{
    const int input = find_input(argc, argv);
    FILE *from = input < 0 ? stdin : fopen(argv[input], "r");
    int copy = memfd_create("cairn-as", 0);
    int second = copy < 0 ? -1 : dup(copy);
    FILE *to = second < 0 ? NULL : fdopen(second, "w");
    bool changed = false;
    // Whatever is wrong with the file, the assembler says it better; but standard input is used up.
    if (!from || !to || !rewrite(from, to, &changed) || (!changed && input >= 0)) {
        if (input < 0)
            return 1;
        return run(argv);
    }
    char path[64];
    lseek(copy, 0, SEEK_SET);
    if (input < 0) {
        dup2(copy, STDIN_FILENO);
    } else {
        snprintf(path, sizeof path, "/proc/self/fd/%d", copy);
        argv[input] = path;
    }
    return run(argv);
}
