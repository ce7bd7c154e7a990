// SPDX-License-Identifier: MIT

// `cairn-as`: the assembler, for gcc. The no-op that each function begins with becomes one of five
// bytes, which costs next to nothing, where gcc has five of one:
//
//     .LPFE7:                                  .LPFE7:
//         nop                              →       .byte 0x0f, 0x1f, 0x44, 0x00, 0x00
//         nop
//         ...
//
// Where the compiler aligns functions, the code behind the no-op is aligned, as it would be
// without: the speed of code depends on its place. A no-op of six bytes does that, since functions
// must begin at even addresses (pointers to members of C++ classes have another use for the lowest
// bit).
//
//         .p2align 4                               .fill   ..., 1, 0x90
//         .globl  f                        →       .globl  f
//     f:                                       f:
//     .LPFE7:                                  .LPFE7:
//         nop                                      .byte 0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00
//
// It lies in what would be padding, if there are six bytes of that, else a cache line is added. So
// all code lies where it would in its line: loops that are split among two lines, or fit into one,
// take up to a fifth more or less. In sections that hold one function alone (templates) the linker
// decides, and it would cost a line each: there, alignment to 16 bytes must do.
//
// And gcc before version 13 puts the entries of all functions of a file into one section that goes
// with the first function. But other files may have that one, too (templates, inline functions), or
// it is unused: when the linker drops it, the entries of all go with it, and when it drops another
// one, linking fails. Here each entry gets a section that goes with its own function, and belongs
// to its group ("?"):
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
#define ONE_LONG_NO_OP "\t.byte\t0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00\n"
#define LONG_BYTES 6u
#define CACHE_LINE 64u
#define PLACE_LENGTH 120 // of the line that an alignment becomes, with blanks behind it
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

// A section line has been read. The lines up to the label tell which function's entry it is.
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

// Sections that gcc fills with functions one by one.
static const char *const sections[] = {".text", ".text.startup", ".text.exit", ".text.hot",
                                       ".text.unlikely"};
#define SECTIONS (int)(sizeof sections / sizeof *sections)

// The function whose head is being read, as far as it is known.
struct as_head {
    int no_ops;        // so far, that follow the label of an entry; -1: the last line was neither
    bool is_long;      // its no-op has six bytes
    long place;        // in the output, of its alignment; -1: it has none
    unsigned boundary; // that it is aligned to
    bool must_align;   // more than the compiler thinks useful
    int section;       // one of the above; -1: another one
    bool in_asm;       // of the program's own: it may change sections as it likes
    unsigned count;    // of functions that were moved
    struct {
        unsigned number; // of the first of them; 0: none
        unsigned boundary;
    } begin[SECTIONS];
};

// Follows from section to section.
static void note_section(struct as_head *head, const char *line)
{
    char name[64], end;
    if (!strncmp(line, "#APP", 4) || !strncmp(line, "#NO_APP", 7))
        head->in_asm = line[1] == 'A';
    if (head->in_asm && strstr(line, "section"))
        head->section = -1; // until the compiler names one
    if (head->in_asm || line[0] != '\t')
        return;
    if (strncmp(line, "\t.text", 6) && strncmp(line, "\t.section\t", 10) &&
        strncmp(line, "\t.data", 6) && strncmp(line, "\t.bss", 5))
        return;
    head->section = -1;
    if (sscanf(line, "\t.section\t%63[^,\n]%c", name, &end) != 2 && strcmp(line, "\t.text\n"))
        return;
    for (int i = 0; i < SECTIONS; i++)
        if (!strcmp(line[1] == '.' && line[2] == 't' ? ".text" : name, sections[i]))
            head->section = i;
}

// Lines that stand between the alignment of a function and the label of its entry.
static bool is_of_head(const char *line)
{
    static const char *const words[] = {
        ".globl",    ".type",  ".weak", ".hidden",         ".protected",
        ".internal", ".local", ".text", ".cfi_",           ".loc",
        ".file",     ".align", ".quad", ".section\t.text", ".section\t__patchable",
        "endbr64"};
    const size_t length = strlen(line);
    if (line[0] != '\t')
        return length > 2 && line[length - 2] == ':' && !strpbrk(line, " \t#;\"");
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strncmp(line + 1, words[i], strlen(words[i])))
            return true;
    return false;
}

// An alignment may be that of a function: leaves room for what it would become. True if it was
// written.
static bool take_alignment(struct as_head *head, FILE *to, const char *line)
{
    unsigned power, bytes;
    char rest;
    if (sscanf(line, "\t.align %u", &bytes) == 1) {
        head->must_align = bytes > 2;
        return false;
    }
    const bool must_align = head->must_align;
    head->must_align = false;
    if (sscanf(line, "\t.p2align %u%c", &power, &rest) != 2) {
        if (!is_of_head(line) && strncmp(line, ENTRY_LABEL, sizeof ENTRY_LABEL - 1))
            head->place = -1;
        return false;
    }
    head->place = -1;
    if (rest != '\n' || power < 4 || power > 6 || must_align)
        return false;
    head->boundary = 1u << power;
    head->place = ftell(to);
    fprintf(to, "\t.p2align %-*u\n", PLACE_LENGTH, power);
    return true;
}

// Replaces the alignment of a function: the no-op that follows ends where the function would have
// begun, or a line later.
static void write_place(struct as_head *head, FILE *to)
{
    char line[2 * PLACE_LENGTH];
    const unsigned number = ++head->count, edge = head->boundary - 1;
    const int power = head->boundary == 16 ? 4 : head->boundary == 32 ? 5 : 6;
    const bool kept = head->section >= 0;
    const unsigned begin = kept ? head->begin[head->section].number : 0;
    if (!begin || head->boundary > head->begin[head->section].boundary)
        snprintf(line, sizeof line, "\t.p2align %d; .Lcairn%u: .fill %u, 1, 0x90", power, number,
                 (kept ? CACHE_LINE : head->boundary) - LONG_BYTES);
    else // a comparison that holds is -1
        snprintf(
            line, sizeof line,
            ".Lcairn%u: .fill ((.Lcairn%u-.Lcairn%u-%u)&%u)-%u*(((.Lcairn%u-.Lcairn%u)&%u)<%u), "
            "1, 0x90",
            number, begin, number, LONG_BYTES, edge, CACHE_LINE - head->boundary, begin, number,
            edge, LONG_BYTES);
    if (kept && !begin) {
        head->begin[head->section].number = number;
        head->begin[head->section].boundary = head->boundary;
    }
    fprintf(to, "%-*s", PLACE_LENGTH + 10, line);
}

// The head has ended: the no-op comes.
static void take_label(struct as_head *head, FILE *to)
{
    head->no_ops = 0;
    head->is_long = false;
    if (head->place >= 0 && !fseek(to, head->place, SEEK_SET)) {
        write_place(head, to);
        head->is_long = !fseek(to, 0, SEEK_END);
    }
    head->place = -1;
}

// True if the line is a no-op of an entry; the last one writes one for all.
static bool take_no_op(struct as_head *head, FILE *to, const char *line, bool *changed)
{
    if (head->no_ops >= 0 && !strcmp(line, NO_OP)) {
        if (++head->no_ops == NO_OPS) {
            fputs(head->is_long ? ONE_LONG_NO_OP : ONE_NO_OP, to);
            head->no_ops = -1;
            *changed = true;
        }
        return true;
    }
    for (; head->no_ops > 0; --head->no_ops) // fewer: they stay what they are
        fputs(NO_OP, to);
    head->no_ops = -1;
    if (!strncmp(line, ENTRY_LABEL, sizeof ENTRY_LABEL - 1))
        take_label(head, to);
    return false;
}

// A copy with a section for each entry, and one no-op for five. False if it could not be made;
// *changed if it is of any use.
static bool rewrite(FILE *from, FILE *to, bool *changed)
{
    char *line = NULL;
    size_t capacity = 0;
    ssize_t length;
    struct as_head head = {.no_ops = -1, .place = -1, .section = -1};
    while ((length = getline(&line, &capacity, from)) > 0) {
        note_section(&head, line);
        if (take_no_op(&head, to, line, changed) || take_alignment(&head, to, line))
            continue;
        if (strncmp(line, SECTION, sizeof SECTION - 1)) {
            fwrite(line, 1, (size_t)length, to);
            continue;
        }
        *changed = true;
        line[strcspn(line, "\n")] = 0;
        rewrite_entry(from, to, line);
    }
    take_no_op(&head, to, "", changed);
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
    // The assembler describes errors in the file better; but standard input is used up.
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
