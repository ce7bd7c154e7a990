// SPDX-License-Identifier: MIT

// `cairn cc`: a compiler that leaves room for a hook at the begin of every function.

#include "base/text/json.h"
#include "base/text/text.h"
#include "cmd/line/options.h"
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

// Five bytes, for a call. After inlining, before anything else of the function.
#define ENTRY_FLAG "-fpatchable-function-entry=5"
#define CLANG_SCOPES 14 // the first clang with --start-no-unused-arguments

extern char **environ;

// The compiler's description of itself, for the machine that the arguments choose.
struct compiler {
    bool answers; // it can preprocess C
    bool x86_64;
    unsigned clang; // its version, 0: not a clang
};

// Programs that run the compiler that their first argument names.
static bool is_launcher(const char *word)
{
    static const char *const names[] = {"ccache", "sccache",  "distcc", "icecc",
                                        "pump",   "colorgcc", "env",    NULL};
    const char *name = last_part(word);
    for (size_t i = 0; names[i]; i++)
        if (!strcmp(name, names[i]))
            return true;
    return false;
}

// How many words come before the compiler's arguments.
static int count_command(int argc, char **argv)
{
    int words = 0;
    while (words < argc && (is_launcher(argv[words]) || strchr(argv[words], '=')))
        words++;
    return words < argc ? words + 1 : words;
}

// Arguments that choose the machine to compile for; the number of words, 0 if it is none.
static int target_words(const char *argument)
{
    if (!strcmp(argument, "-target") || !strcmp(argument, "-arch"))
        return 2;
    return !strcmp(argument, "-m16") || !strcmp(argument, "-m32") || !strcmp(argument, "-mx32") ||
           !strcmp(argument, "-m64") || !strncmp(argument, "--target=", 9);
}

static void read_macros(FILE *output, struct compiler *compiler)
{
    char line[512];
    bool wide = true;
    while (fgets(line, sizeof line, output)) {
        unsigned version;
        compiler->answers |= !strncmp(line, "#define __STDC__ ", 17);
        compiler->x86_64 |= !strncmp(line, "#define __x86_64__ ", 19);
        wide &= strncmp(line, "#define __ILP32__ ", 18) != 0;
        if (sscanf(line, "#define __clang_major__ %u", &version) == 1)
            compiler->clang = version;
    }
    compiler->x86_64 &= wide;
}

// Runs the compiler with nothing to read and nothing to say; its output, NULL if it cannot be
// started.
static FILE *start_asking(char **argv, pid_t *pid, int *error)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC)) {
        *error = errno;
        return NULL;
    }
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    *error = posix_spawnp(pid, argv[0], &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    FILE *output = *error ? NULL : fdopen(ends[0], "r");
    if (!output)
        close(ends[0]);
    return output;
}

static bool stop_asking(FILE *output, pid_t pid)
{
    int status = 0;
    fclose(output);
    return waitpid(pid, &status, 0) == pid && status == 0;
}

// Asks the compiler for its macros: that costs a few milliseconds, and compiles nothing. 0 or the
// errno of starting it.
static int ask(char **command, int words, char **arguments, const char *flag,
               struct compiler *compiler)
{
    static char *const question[] = {"-dM", "-E", "-x", "c", "/dev/null", NULL};
    size_t count = 0, total = 16 + (size_t)words;
    for (char **word = arguments; *word; word++)
        total++;
    char **argv = calloc(total, sizeof *argv);
    *compiler = (struct compiler){.answers = false};
    if (!argv)
        return ENOMEM;
    for (int i = 0; i < words; i++)
        argv[count++] = command[i];
    for (char **word = arguments; *word; word++)
        for (int more = target_words(*word); more > 0 && *word; more--) {
            argv[count++] = *word;
            word += more > 1;
        }
    if (flag)
        argv[count++] = (char *)flag;
    memcpy(argv + count, question, sizeof question);
    pid_t pid;
    int error;
    FILE *output = start_asking(argv, &pid, &error);
    if (output) {
        read_macros(output, compiler);
        compiler->answers &= stop_asking(output, pid);
    }
    free(argv);
    return error;
}

// Lets gcc run our assembler, which runs the one that gcc would have run. The option for that, NULL
// if there is none.
static char *find_assembler(char **command, int words)
{
    char *argv[16] = {NULL}, name[4096] = "", *option = NULL;
    char tool[4096];
    pid_t pid;
    int error;
    for (int i = 0; i < words && i < 14; i++)
        argv[i] = command[i];
    argv[words < 14 ? words : 14] = "-print-prog-name=as";
    FILE *output = start_asking(argv, &pid, &error);
    if (output) {
        if (!fgets(name, sizeof name, output))
            *name = 0;
        stop_asking(output, pid);
    }
    name[strcspn(name, "\n")] = 0;
    ssize_t length = readlink("/proc/self/exe", tool, sizeof tool - 1);
    if (length <= 0)
        return NULL;
    tool[length] = 0;
    *strrchr(tool, '/') = 0;
    const char *const folders[] = {"", AGENT_FROM_TOOL};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        const bool absolute = folders[i][0] == '/';
        if (asprintf(&option, "-B%s%s%s/cairn-", absolute ? "" : tool,
                     absolute || !folders[i][0] ? "" : "/", folders[i]) < 0)
            return NULL;
        char path[8192];
        snprintf(path, sizeof path, "%sas", option + 2);
        if (!access(path, X_OK)) {
            setenv("CAIRN_AS", name, 1);
            return option;
        }
        free(option);
    }
    return NULL;
}

// 0, or the exit status after a message to the user.
static int check_compiler(char **command, int words, char **arguments, struct compiler *compiler)
{
    const char *name = command[words - 1];
    int error = ask(command, words, arguments, ENTRY_FLAG, compiler);
    if (error) {
        complain("cc: cannot run %s: %s", command[0], strerror(error));
        return error == ENOENT ? STATUS_NOT_FOUND : STATUS_NOT_EXECUTABLE;
    }
    if (compiler->answers && compiler->x86_64)
        return 0;
    struct compiler plain;
    if (compiler->answers)
        complain("cc: %s compiles for another machine here, and calls can be followed on x86-64 "
                 "only",
                 name);
    else if (!ask(command, words, arguments, NULL, &plain) && plain.answers)
        complain("cc: %s does not know " ENTRY_FLAG ": gcc knows it since version 8, clang since "
                 "version 10",
                 name);
    else
        complain("cc: cairn does not know the compiler %s: it takes gcc, g++, clang and clang++",
                 name);
    return STATUS_MISUSE;
}

// The command with our flag at the end of its options, where no later one overrides it.
static char **make_command(int argc, char **argv, const struct compiler *compiler, char *assembler)
{
    char **command = calloc((size_t)argc + 5, sizeof *command);
    if (!command)
        return NULL;
    int count = 0, next = 0;
    while (next < argc && strcmp(argv[next], "--"))
        command[count++] = argv[next++];
    // A clang that only links, or assembles, would warn of a flag that it has no use for.
    if (compiler->clang >= CLANG_SCOPES)
        command[count++] = "--start-no-unused-arguments";
    else if (compiler->clang)
        command[count++] = "-Qunused-arguments";
    command[count++] = ENTRY_FLAG;
    if (assembler)
        command[count++] = assembler;
    if (compiler->clang >= CLANG_SCOPES)
        command[count++] = "--end-no-unused-arguments";
    while (next < argc)
        command[count++] = argv[next++];
    return command;
}

static const struct option_row rows[] = {
    OPTION_TITLE("Options"),
    {256, "json", NULL, "Print the command that would be run as JSON, and do not run it."},
    OPTION_TABLE_END,
};

static void print_json(char **command, bool clang)
{
    struct json json;
    json_start(&json, stdout);
    json_object(&json);
    json_put_string(&json, "compiler", clang ? "clang" : "gcc");
    json_put_string(&json, "flag", ENTRY_FLAG);
    json_put_words(&json, "command", command);
    json_end_object(&json);
    json_finish(&json);
}

static int run_cc(int argc, char **argv)
{
    struct option_scan scan = option_scan(&command_cc, argc, argv);
    bool json = false;
    // Short options are the compiler's, and a long one that is not ours may be meant for it.
    if (argc > 1 && argv[1][0] == '-' && argv[1][1] != '-' && strcmp(argv[1], "-h"))
        return misuse(&command_cc, "cc: the compiler comes first, and '%s' is an option", argv[1]);
    for (int option; (option = option_next(&scan)) != OPTION_END;) {
        if (option == OPTION_EXIT)
            return scan.status;
        json = true;
    }
    argc -= optind - 1;
    argv += optind - 1;
    if (argc < 2)
        return misuse(&command_cc, "cc: name the compiler: cairn cc COMPILER [ARG...]");
    int words = count_command(argc - 1, argv + 1);
    struct compiler compiler;
    int status = check_compiler(argv + 1, words, argv + 1 + words, &compiler);
    if (status)
        return status;
    char *assembler = compiler.clang == 0 ? find_assembler(argv + 1, words) : NULL;
    char **command = make_command(argc - 1, argv + 1, &compiler, assembler);
    if (command && json) {
        print_json(command, compiler.clang != 0);
        free(command);
        free(assembler);
        return finish_output("cc");
    }
    if (command)
        execvp(command[0], command);
    complain("cc: cannot run %s: %s", argv[1], strerror(errno));
    free(command);
    free(assembler);
    return STATUS_NOT_EXECUTABLE;
}

static const char help[] =
    "Runs COMPILER (gcc, g++, clang, clang++) so that every function that is left\n"
    "after inlining begins with a no-op of five or six bytes. Such a program runs as\n"
    "fast as before; 'cairn record --track calls' turns the no-ops into hooks, and\n"
    "follows every call.\n"
    "\n"
    "    cairn cc gcc -O2 -o program program.c\n"
    "    make CC='cairn cc gcc' CXX='cairn cc g++'\n"
    "    ./configure CC='cairn cc ccache gcc'\n"
    "    cairn record --track calls ./program\n";

static const char notes[] =
    "\n"
    "All arguments are COMPILER's own; the one that is added is\n" ENTRY_FLAG
    ". Output and exit status are COMPILER's. A compiler\n"
    "that does not know the flag, or compiles for another machine than x86-64, is\n"
    "refused with exit status 2.\n";

const struct command command_cc = {
    .name = "cc",
    .summary = "compile a program so that its calls can be followed",
    .usage = "[OPTION...] COMPILER [ARG...]",
    .help = help,
    .notes = notes,
    .options = rows,
    .ends_at_word = true,
    .run = run_cc,
};
