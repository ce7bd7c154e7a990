// SPDX-License-Identifier: MIT

// `cairn record` before anything runs: its options, and which commands it refuses and why.

#include "cmd/record/launch/launch.h"
#include "cmd/record/options/record_options.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
// cmocka wants those above first.
#include <cmocka.h>
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const struct command command_record = {
    .name = "record", .help = "usage", .options = record_rows, .ends_at_word = true};

static char said[sizeof(struct launch){0}.refusal]; // on stderr, by the last call, or of a launch

// Runs the call with stderr in `said`.
#define HEARD(call)                                                                                \
    ({                                                                                             \
        int kept_ = hear();                                                                        \
        int result_ = (call);                                                                      \
        stop_hearing(kept_);                                                                       \
        result_;                                                                                   \
    })

static FILE *ear;

static int hear(void)
{
    fflush(stderr);
    int kept = dup(STDERR_FILENO);
    ear = tmpfile();
    dup2(fileno(ear), STDERR_FILENO);
    return kept;
}

static void stop_hearing(int kept)
{
    fflush(stderr);
    dup2(kept, STDERR_FILENO);
    close(kept);
    rewind(ear);
    said[fread(said, 1, sizeof said - 1, ear)] = 0;
    fclose(ear);
}

static struct record_options options;

// Parses "record" and the words of a line, which are separated by one blank each.
static int parse(const char *line)
{
    static char words[512];
    char *argv[64] = {"record"};
    int argc = 1;
    snprintf(words, sizeof words, "%s", line);
    for (char *word = strtok(words, " "); word; word = strtok(NULL, " "))
        argv[argc++] = word;
    int result = HEARD(parse_record_options(argc, argv, &options));
    if (result == STATUS_MISUSE) { // one line that says what, and where the help is
        assert_ptr_equal(strstr(said, "cairn: record: "), said);
        assert_ptr_equal(strchr(said, '\n'), said + strlen(said) - 1);
    } else {
        assert_string_equal(said, "");
    }
    return result;
}

static void test_a_command_alone_takes_the_defaults(void **state)
{
    (void)state;
    static char *argv[] = {"record", "true", "-F", "3", NULL};
    assert_int_equal(parse_record_options(4, argv, &options), PROCEED);
    assert_int_equal(options.event, LIVE_EVENT_CPU);
    assert_int_equal(options.period_ns, 1000000);
    assert_int_equal(options.memory, 256 << 20);
    assert_string_equal(options.output, "cairn.out");
    assert_true(options.marker && options.follow_fork);
    assert_false(options.per_thread || options.quiet || options.json || options.empty_handler);
    // What follows the command is its own.
    assert_ptr_equal(options.command, argv + 1);
}

static void test_values_are_read_with_their_units(void **state)
{
    (void)state;
    assert_int_equal(parse("-F 10000 x"), PROCEED);
    assert_int_equal(options.period_ns, 100000);
    assert_int_equal(parse("-e wall:2.5ms -o p --marker=off --follow-fork no x"), PROCEED);
    assert_int_equal(options.period_ns, 2500000);
    assert_int_equal(options.event, LIVE_EVENT_WALL);
    assert_string_equal(options.event_name, "wall");
    assert_string_equal(options.output, "p");
    assert_false(options.marker || options.follow_fork);
    assert_int_equal(parse("-c 200000 --marker on --memory 2G --delay 0.5 --duration 3 -q -- x"),
                     PROCEED);
    assert_int_equal(options.period_ns, 200000);
    assert_true(options.marker && options.quiet);
    assert_true(options.memory == UINT64_C(2) << 30);
    assert_int_equal(options.delay_ns, 500000000);
    assert_true(options.duration_ns == UINT64_C(3000000000));
    assert_int_equal(parse("--track walk --tree full --per-thread --json --source=timer x"),
                     PROCEED);
    assert_true(options.per_thread && options.json);
    assert_int_equal(options.source, LIVE_SOURCE_TIMER);
}

static void test_kinds_of_trees_are_read_and_named(void **state)
{
    (void)state;
    struct live_options live = {0};
    assert_int_equal(parse("x"), PROCEED);
    assert_string_equal(tree_name(&options.trees).text, "full");
    fill_tree_options(&live, &options.trees);
    assert_int_equal(live.tree, LIVE_TREE_FULL);
    assert_int_equal(live.hot_counters, 50000); // for what comes when the memory is full
    assert_int_equal(parse("--tree hot x"), PROCEED);
    assert_string_equal(tree_name(&options.trees).text, "hot:0.0001,2e-05");
    assert_int_equal(parse("--tree hot:1e-3,3e-4 --miner lossy x"), PROCEED);
    assert_string_equal(tree_name(&options.trees).text, "hot:0.001,0.0003,lossy");
    fill_tree_options(&live, &options.trees);
    assert_int_equal(live.tree, LIVE_TREE_HOT);
    assert_int_equal(live.miner, LIVE_MINER_LOSSY);
    assert_int_equal(live.hot_counters, 3334); // rounded up
    assert_int_equal(parse("--tree hot:0.01 --miner sticky -e calls x"), PROCEED);
    fill_tree_options(&live, &options.trees);
    assert_int_equal(live.hot_counters, 500);
    assert_int_equal(live.sticky_items, 6908); // 500 ln 10^6
    assert_int_equal(parse("--tree bounded:8 --tree-memory 64k --purge all -e calls:59 x"),
                     PROCEED);
    assert_string_equal(tree_name(&options.trees).text, "bounded:8");
    fill_tree_options(&live, &options.trees);
    assert_int_equal(live.bounded_depth, 8);
    assert_int_equal(live.bounded_bytes, 65536);
    assert_int_equal(live.purge, LIVE_PURGE_ALL);
    assert_int_equal(parse("--tree bounded x"), PROCEED);
    fill_tree_options(&live, &options.trees);
    assert_int_equal(live.bounded_depth, 16);
    assert_int_equal(live.bounded_bytes, 1 << 20);
    assert_int_equal(parse("--tree hot-functions x"), PROCEED);
    assert_string_equal(tree_name(&options.trees).text, "functions");
}

static void test_several_events(void **state)
{
    (void)state;
    assert_int_equal(parse("-e alloc -e cpu:2ms x"), PROCEED);
    assert_int_equal(options.event, LIVE_EVENT_CPU);
    assert_int_equal(options.also, 1 << LIVE_EVENT_ALLOC);
    assert_int_equal(options.period_ns, 2000000);
    assert_int_equal(options.event_count, 2);
    assert_int_equal(options.events[0],
                     LIVE_EVENT_ALLOC); // the profile has them as they were named
    assert_int_equal(options.tracker, LIVE_TRACKER_WALK);
    assert_int_equal(parse("-e wall -e alloc -F 500 --track encode --verify x"), PROCEED);
    assert_int_equal(options.event, LIVE_EVENT_WALL);
    assert_int_equal(parse("-e wall -e cpu -F 500 x"), PROCEED);
    assert_int_equal(options.event, LIVE_EVENT_CPU);
    assert_int_equal(options.also, 1 << LIVE_EVENT_WALL);
    assert_int_equal(parse("-e calls -e cpu x"), PROCEED);
    assert_int_equal(options.event, LIVE_EVENT_CPU);
    assert_int_equal(options.tracker, LIVE_TRACKER_CALLS);
    assert_int_equal(parse("-e alloc -e calls --fold-recursion x"), PROCEED);
    assert_int_equal(options.event, LIVE_EVENT_ALLOC);
    assert_int_equal(options.tracker, LIVE_TRACKER_CALLS);
    assert_int_equal(parse("-e cpu -e calls-by-function:59 --random-periods x"), PROCEED);
    assert_int_equal(options.trigger, LIVE_TRIGGER_BY_FUNCTION);
    assert_int_equal(options.tracker, LIVE_TRACKER_WALK);
    assert_int_equal(parse("-e cpu -e wall -e alloc -e calls x"), PROCEED);
    assert_int_equal(options.event_count, 4);
    const struct live_options live = {.event = options.event, .also = options.also};
    assert_int_equal(live_values(&live), LIVE_ALLOC_VALUES + 2);
    assert_int_equal(live_time_value(&live), LIVE_ALLOC_VALUES);
    // A node of one event has one value.
    assert_int_equal(parse("--track calls -e wall x"), PROCEED);
    const struct live_options one = {.event = options.event, .also = options.also};
    assert_int_equal(live_values(&one), 1);
}

static void test_misuse_is_refused_with_what_to_do(void **state)
{
    (void)state;
    static const struct {
        const char *line, *word; // a word that must be said
    } cases[] = {
        {"", "command"},
        {"-F 0 x", "10000"},
        {"-F 10001 x", "10000"},
        {"-F -5 x", "rate"},
        {"-F 1e3x x", "rate"},
        {"-F nan x", "rate"},
        {"-F 0x10 x", "rate"},
        {"-c 0 x", "period"},
        {"-c 99999 x", "100us"},
        {"-c 2s x", "100us"},
        {"-e cpu: x", "period"},
        {"-e cpu:1h x", "period"},
        {"-e cylces x", "cycles"},
        {"-e cp x", "there is no event 'cp'"},
        {"-e cpu -e wall -e cpu x", "twice"},
        {"-e calls -e calls:59 x", "twice"},
        {"-e cpu:1ms -e wall:1ms x", "one clock"},
        {"-e alloc:1ms x", "no distance"},
        {"-e cpu -e io:5 x", "no period"},
        {"-e alloc -F 100 x", "every block"},
        {"-e alloc -e calls -F 100 x", "every block"},
        {"-e cpu -e alloc --tree hot x", "--tree full"},
        {"-e cpu -e wall --tree bounded x", "--tree full"},
        {"-e cpu -e calls --tree functions x", "--tree full"},
        {"-e cpu -e calls --track walk x", "--track calls"},
        {"-e cpu -e calls:59 --track encode x", "--track walk"},
        {"-e alloc -e calls:59 x", "every call"},
        {"-e cpu -e calls --burst 20ms/2ms x", "-e calls alone"},
        {"-F 100 -c 1000000 x", "exclude"},
        {"-F 100 -e cpu:1ms x", "exclude"},
        {"-c 1000000 -e cpu:1ms x", "twice"},
        {"--memory 4k x", "1M"},
        {"--memory 64G x", "16G"},
        {"--memory lots x", "size"},
        {"--memory 1Q x", "size"},
        {"--marker maybe x", "on, off, yes or no"},
        {"--follow-fork 1 x", "on, off, yes or no"},
        {"--delay soon x", "seconds"},
        {"--duration 0 x", "nothing"},
        {"-e calls:0 x", "whole number"},
        {"-e calls:2.5 x", "whole number"},
        {"-e calls:59 --track calls x", "--track walk"},
        {"-e calls -F 100 x", "-F"},
        {"-e calls:59 --delay 1 x", "--delay"},
        {"-e calls --burst 20ms/2ms --duration 1 x", "--duration"},
        {"--burst 20ms/2ms x", "goes with -e calls"},
        {"-e calls --burst 2ms/20ms x", "INTERVAL/LENGTH"},
        {"-e calls --burst 20ms x", "INTERVAL/LENGTH"},
        {"-e calls --burst 20ms/2ms,often x", "adaptive"},
        {"-e calls --burst 20ms/2ms,adaptive:1 x", "adaptive"},
        {"-e calls:59 --burst 20ms/2ms x", "not with calls:N"},
        {"--weights last x", "-e calls:N"},
        {"-e calls:59 --weights some x", "last or all-new"},
        {"--random-periods x", "-e calls:N"},
        {"--fold-recursion x", "--track calls"},
        {"--fold-recursion x", "cairn report --fold-recursion"},
        {"-e calls-by-function x", "calls-by-function:59"},
        {"--track encode --tree functions x", "no contexts"},
        {"--track guess x", "walk"},
        {"--tree oak x", "functions"},
        {"--tree full:3 x", "no number"},
        {"--tree functions:3 x", "no number"},
        {"--tree hot: x", "hot:1e-4"},
        {"--tree hot:1e-4; x", "hot:1e-4"},
        {"--tree hot:-1 x", "hot:1e-4"},
        {"--tree hot:1e-4, x", "hot:1e-4,2e-5"},
        {"--tree hot:1e-4,1e-5,3 x", "hot:1e-4,2e-5"},
        {"--tree hot:0 x", "between 5e-08 and 1"},
        {"--tree hot:1 x", "between 5e-08 and 1"},
        {"--tree hot:1e-4,0 x", "between 1e-08 and PHI"},
        {"--tree hot:1e-4,1 x", "between 1e-08 and PHI"},
        {"--tree hot:1e-4,1e-4 x", "2e-05"},
        {"--tree hot:1e-4,1e-3 x", "smaller than PHI"},
        {"--tree hot:1e-9 x", "5e-08"},
        {"--tree hot:1e-4,1e-9 x", "1e-08"},
        {"--tree hot --memory 1M x", "--memory 4M"},
        {"--tree hot:1e-5 --memory 8M x", "--memory 31M"},
        {"--tree bounded:0 x", "from 1 to 4096"},
        {"--tree bounded:1.5 x", "whole number"},
        {"--tree bounded:9999 x", "4096"},
        {"--tree bounded: x", "whole number"},
        {"--tree bounded --tree-memory 1k x", "--tree-memory 16k"},
        {"--tree bounded:1000 --tree-memory 16k x", "--tree-memory 250k"},
        {"--tree bounded --tree-memory much x", "size"},
        {"--tree bounded --tree-memory 8M --memory 2M x", "--memory 9M"},
        {"--tree-memory 2M x", "--tree bounded"},
        {"--purge age x", "--tree bounded"},
        {"--tree bounded --purge some x", "age or all"},
        {"--miner lossy x", "--tree hot"},
        {"--tree hot --miner gold x", "space-saving"},
        {"--tree bounded --track calls x", "for samples"},
        {"--tree bounded -e calls x", "for samples"},
        {"--tree functions --track calls -e cpu x", "for samples"},
        {"--verify x", "encode"},
        {"--verify x", "alloc"},
        {"--source dice x", "sigtrap"},
        {"--bogus x", "--bogus"},
        {"--json=1 x", "takes no value"},
        {"--quiet --z x", "--z"},
        {"-z x", "-z"},
        {"-qz x", "-z"},
        {"--json -z x", "-z"},
        {"-o", "-o needs a value"},
        {"--output", "--output needs a value"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (parse(cases[i].line) != STATUS_MISUSE)
            fail_msg("accepted: %s", cases[i].line);
        if (!strstr(said, cases[i].word))
            fail_msg("%s: '%s' is not in: %s", cases[i].line, cases[i].word, said);
    }
}

static char folder[] = "/tmp/cairn-test-XXXXXX";

static char *make_file(const char *name, const void *content, size_t bytes, mode_t mode)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0 && write(fd, content, bytes) == (ssize_t)bytes);
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
    return path;
}

static struct launch launch;

static int check(char *path)
{
    char *command[] = {path, NULL};
    const int status = launch_examine(&launch, command);
    snprintf(said, sizeof said, "%s", launch.refusal);
    return status;
}

static void test_what_can_run(void **state)
{
    (void)state;
    assert_int_equal(check("sh"), 0);
    assert_int_equal(launch.path[0], '/');
    assert_int_equal(check("/lib64/ld-linux-x86-64.so.2"), 0); // preloads, though it has no loader
    assert_int_equal(check(make_file("script", "#!/bin/sh -e\n", 13, 0755)), 0);
    assert_false(launch.through_shell);
    assert_int_equal(check(make_file("bare", "echo\n", 5, 0755)), 0);
    assert_true(launch.through_shell);
}

static void test_what_cannot_run(void **state)
{
    (void)state;
    assert_int_equal(check("no-such-command-anywhere"), STATUS_NOT_FOUND);
    assert_non_null(strstr(said, "command not found"));
    assert_int_equal(check(""), STATUS_NOT_FOUND);
    assert_int_equal(check("/no/such/file"), STATUS_NOT_FOUND);
    assert_int_equal(check(folder), STATUS_NOT_EXECUTABLE);
    assert_int_equal(check(make_file("text", "hello", 5, 0644)), STATUS_NOT_EXECUTABLE);
    assert_int_equal(check(make_file("lost", "#!/no/such/interpreter\n", 23, 0755)),
                     STATUS_NOT_FOUND);
    assert_non_null(strstr(said, "/no/such/interpreter"));
    char line[300];
    int length = snprintf(line, sizeof line, "#!%s/circle\n", folder);
    assert_int_equal(check(make_file("circle", line, (size_t)length, 0755)), STATUS_NOT_EXECUTABLE);
}

// A program of one segment, with or without a loader.
static char *make_elf(unsigned char class, unsigned machine, const char *loader)
{
    struct {
        Elf64_Ehdr head;
        Elf64_Phdr segment;
        char loader[64];
    } file = {
        .head = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, class, ELFDATA2LSB, EV_CURRENT},
                 .e_type = ET_EXEC,
                 .e_machine = (Elf64_Half)machine,
                 .e_phoff = sizeof(Elf64_Ehdr),
                 .e_phentsize = sizeof(Elf64_Phdr),
                 .e_phnum = 1},
        .segment = {.p_type = loader ? PT_INTERP : PT_LOAD,
                    .p_offset = offsetof(typeof(file), loader),
                    .p_filesz = sizeof file.loader},
    };
    if (loader)
        strcpy(file.loader, loader);
    return make_file("program", &file, sizeof file, 0755);
}

static void test_what_cannot_be_profiled(void **state)
{
    (void)state;
    assert_int_equal(check(make_elf(ELFCLASS64, EM_X86_64, NULL)), STATUS_MISUSE);
    assert_non_null(strstr(said, "statically linked"));
    assert_int_equal(check(make_elf(ELFCLASS32, EM_386, NULL)), STATUS_MISUSE);
    assert_non_null(strstr(said, "32-bit"));
    assert_int_equal(check(make_elf(ELFCLASS64, EM_PPC64, "/lib/ld.so")), STATUS_MISUSE);
    assert_non_null(strstr(said, "another machine"));
    assert_int_equal(check(make_elf(ELFCLASS64, EM_X86_64, "/lib/ld-musl-x86_64.so.1")),
                     STATUS_MISUSE);
    assert_non_null(strstr(said, "musl"));
    assert_int_equal(check(make_elf(ELFCLASS64, EM_X86_64, "/no/loader")), STATUS_NOT_FOUND);
    assert_int_equal(check(make_elf(ELFCLASS64, EM_X86_64, "/lib64/ld-linux-x86-64.so.2")), 0);
    // A script is what its interpreter is.
    char line[300];
    make_elf(ELFCLASS64, EM_X86_64, NULL);
    int length = snprintf(line, sizeof line, "#! %s/program\n", folder);
    assert_int_equal(check(make_file("script", line, (size_t)length, 0755)), STATUS_MISUSE);
}

static void test_programs_that_gain_rights_are_refused(void **state)
{
    (void)state;
    char *path = make_elf(ELFCLASS64, EM_X86_64, "/lib64/ld-linux-x86-64.so.2");
    if (geteuid() != 0)
        skip(); // only root can give a file away
    assert_int_equal(chown(path, 65534, 0), 0);
    assert_int_equal(chmod(path, 04755), 0);
    assert_int_equal(check(path), STATUS_MISUSE);
    assert_non_null(strstr(said, "setuid"));
    // To gain one's own rights is no gain, and changes nothing.
    assert_int_equal(chown(path, 0, 0), 0);
    assert_int_equal(chmod(path, 04755), 0);
    assert_int_equal(check(path), 0);
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

int main(void)
{
    setenv("CAIRN_CONFIG", "off", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_command_alone_takes_the_defaults),
        cmocka_unit_test(test_values_are_read_with_their_units),
        cmocka_unit_test(test_kinds_of_trees_are_read_and_named),
        cmocka_unit_test(test_misuse_is_refused_with_what_to_do),
        cmocka_unit_test(test_what_can_run),
        cmocka_unit_test(test_what_cannot_run),
        cmocka_unit_test(test_what_cannot_be_profiled),
        cmocka_unit_test(test_programs_that_gain_rights_are_refused),
        cmocka_unit_test(test_several_events),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
