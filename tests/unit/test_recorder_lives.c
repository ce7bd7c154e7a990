// SPDX-License-Identifier: MIT
#include "recorder_fixture.h"

static void wait_until_gone(pid_t child)
{
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0); // stays a zombie
}

static void test_death_gives_memory_back(void **state)
{
    (void)state;
    struct fake_live live = fake_live_new(SLICE, 4);
    int control[2];
    assert_int_equal(pipe(control), 0);
    pid_t child = fork();
    if (child == 0) {
        struct fake_process process = new_process(&live, getpid(), "child");
        struct live_thread *thread = fake_thread(&process, 0);
        for (unsigned i = 0; i < 5000; i++)
            fake_sample(&process, thread, (uint64_t[]){i % 100 * 16, i % 70}, 2, i % 100 * 16 + 2,
                        10);
        char byte = 'r';
        if (write(control[1], &byte, 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    char byte;
    assert_int_equal(read(control[0], &byte, 1), 1);
    struct recorder *recorder = open_recorder(&live);
    struct recorder_totals totals;
    assert_int_equal(recorder_update(recorder), 0);
    recorder_totals(recorder, &totals);
    assert_int_equal(totals.live_processes, 1);
    assert_int_equal(totals.samples, 5000);
    assert_true(held_bytes(&live) > 40000);
    kill(child, SIGKILL);
    wait_until_gone(child);
    assert_int_equal(recorder_update(recorder), 0);
    recorder_totals(recorder, &totals);
    assert_int_equal(totals.live_processes, 0);
    assert_int_equal(totals.samples, 5000);
    assert_true(held_bytes(&live) <= 4096); // the session's page
    assert_int_equal(recorder_close(recorder), 0);
    waitpid(child, NULL, 0);
    struct profile *profile = read_back();
    assert_int_equal(total_cost(profile), 50000);
    assert_true(profile->processes[0].ended);
    assert_true(profile->processes[0].end_ns > 0);
    profile_free(profile);
    close(control[0]);
    close(control[1]);
    fake_live_free(&live);
}

// A process that ends, with a goodbye if it says one.
static void end_with_goodbye(struct fake_live *live, int to, bool say)
{
    struct fake_process process = new_process(live, getpid(), "child");
    struct live_thread *thread = fake_thread(&process, 0);
    fake_sample(&process, thread, (uint64_t[]){16}, 1, 20, 1000);
    if (say) {
        process.process->goodbye =
            (struct live_goodbye){.cpu_ns = 1200, .cost_ns = 900, .children_ns = 5000};
        atomic_store(&process.process->end_ns, 1);
    }
    char byte = 0;
    _exit(write(to, &byte, 1) == 1 ? 0 : 1);
}

static void record_end(bool say, uint64_t cpu_ns, uint64_t expected)
{
    struct fake_live live = fake_live_new(SLICE, 4);
    struct recorder *recorder = open_recorder(&live);
    int control[2];
    char byte;
    assert_int_equal(pipe(control), 0);
    const pid_t child = fork();
    if (child == 0)
        end_with_goodbye(&live, control[1], say);
    assert_int_equal(read(control[0], &byte, 1), 1);
    wait_until_gone(child);
    assert_int_equal(recorder_update(recorder), 0);
    waitpid(child, NULL, 0);
    recorder_command_ended(recorder, (uint32_t)child + 1, 1000000); // another
    assert_int_equal(recorder_update(recorder), 0);
    recorder_command_ended(recorder, (uint32_t)child, cpu_ns);
    assert_int_equal(recorder_update(recorder), 0);
    assert_int_equal(recorder_update(recorder), 0);
    struct recorder_totals totals;
    recorder_totals(recorder, &totals);
    assert_int_equal(totals.cost_ns, expected);
    assert_int_equal(recorder_close(recorder), 0);
    struct profile *profile = read_back();
    assert_int_equal(total_cost(profile), expected);
    assert_int_equal(profile->processes[0].cost_ns, expected);
    assert_int_equal(profile->tree_count, expected > 1000 ? 2 : 1);
    if (expected > 1000) {
        assert_int_equal(profile->trees[1].nodes[1].function, PLACE_EXIT);
        assert_int_equal(profile->trees[1].stats.residue_ns, expected - 1000);
    }
    profile_free(profile);
    close(control[0]);
    close(control[1]);
    fake_live_free(&live);
}

// 1,000 are in the tree, 100 of them after the goodbye. 1,200 were used up to that, and 5,000 by
// children.
static void test_end_is_charged(void **state)
{
    (void)state;
    record_end(true, 7000, 1000 + 7000 - 5000 - 1200 - 100);
    record_end(true, 6300, 1000); // nothing more
    record_end(true, 6000, 1000); // the books do not fit
    record_end(true, 100, 1000);
    record_end(false, 7000, 1000); // killed: nobody knows
}

// Four samples of a start-up: two at one instruction, one in the kernel, one where no module is.
static bool sample_startup(void *context, uint32_t pid, struct startup_samples *samples)
{
    static const uint64_t addresses[] = {0x400020, 0, 0x999000, 0x400020};
    if (pid != *(uint32_t *)context)
        return false;
    samples->addresses = malloc(sizeof addresses);
    memcpy(samples->addresses, addresses, sizeof addresses);
    samples->count = 4;
    samples->period_ns = 100;
    return true;
}

// The value of the statement at a place, below a frame of that function, below another.
static uint64_t value_at(const struct profile_tree *tree, place_t outer, place_t inner,
                         place_t site)
{
    uint64_t value = 0;
    for (uint32_t i = 1; i < tree->count; i++) {
        const struct profile_node *node = &tree->nodes[i], *frame = &tree->nodes[node->parent];
        if (node->function == 0 && node->site == site && node->parent > 0 &&
            frame->function == (inner ? inner : outer) &&
            (!inner || tree->nodes[frame->parent].function == outer))
            value += tree->values[i];
    }
    return value;
}

static void record_startup(uint64_t startup_ns, uint64_t weight)
{
    struct fake_live live = fake_live_new(SLICE, 4);
    struct recorder *recorder = open_recorder(&live);
    uint32_t sampled = (uint32_t)getpid();
    recorder_startup(recorder, sample_startup, &sampled);
    struct fake_process first = new_process(&live, getpid(), "first");
    fake_sample(&first, fake_thread(&first, 0), (uint64_t[]){16}, 1, 20, 1000);
    first.process->startup_ns = startup_ns;
    struct fake_process other = new_process(&live, getppid(), "other");
    fake_sample(&other, fake_thread(&other, 0), (uint64_t[]){16}, 1, 20, 1000);
    other.process->startup_ns = 70;
    assert_int_equal(recorder_update(recorder), 0);
    assert_int_equal(recorder_update(recorder), 0);
    struct recorder_totals totals;
    recorder_totals(recorder, &totals);
    assert_int_equal(totals.cost_ns, 2000 + startup_ns + 70);
    assert_int_equal(recorder_close(recorder), 0);
    struct profile *profile = read_back();
    assert_int_equal(total_cost(profile), 2000 + startup_ns + 70);
    assert_int_equal(profile->processes[0].cost_ns, 1000 + startup_ns);
    assert_int_equal(profile->processes[1].cost_ns, 1000 + 70);
    uint64_t loader = 0, kernel = 0, rest = 0;
    for (unsigned i = 0; i < profile->tree_count; i++) {
        const struct profile_tree *tree = &profile->trees[i];
        loader +=
            value_at(tree, PLACE_STARTUP, place_make(3, PLACE_OFFSET_UNKNOWN), place_make(3, 0x20));
        kernel += value_at(tree, PLACE_STARTUP, PLACE_STARTUP_KERNEL, 0);
        rest += value_at(tree, PLACE_STARTUP, 0, 0);
    }
    assert_int_equal(loader, 2 * weight);
    assert_int_equal(kernel, weight);
    assert_int_equal(rest, startup_ns + 70 - 3 * weight);
    profile_free(profile);
    fake_process_free(&first);
    fake_process_free(&other);
    fake_live_free(&live);
}

static void test_startup_is_told_apart(void **state)
{
    (void)state;
    record_startup(1000, 100);
    record_startup(200, 50); // the samples' clock was ahead
}

// A shell that starts thousands of programs a second: each end is charged.
static void test_many_ends_are_charged(void **state)
{
    (void)state;
    enum { CHILDREN = 3000, SMALL = 64 << 10 };
    struct fake_live live = fake_live_new(SMALL, CHILDREN + 1);
    struct recorder *recorder = open_recorder(&live);
    struct fake_process parent = new_process(&live, getpid(), "shell");
    for (unsigned i = 0; i < CHILDREN; i++) {
        const pid_t pid = NO_SUCH_PID + (pid_t)i;
        struct fake_process child = new_process(&live, pid, "true");
        child.process->parent_pid = (uint32_t)getpid();
        fake_sample(&child, fake_thread(&child, 0), (uint64_t[]){16}, 1, 20, 1000);
        child.process->goodbye = (struct live_goodbye){.cpu_ns = 1200, .cost_ns = 1000};
        atomic_store(&child.process->end_ns, 1);
        fake_process_free(&child);
        const ref_t ref = arena_alloc(&parent.arena, sizeof(struct live_reaped));
        assert_true(ref);
        struct live_reaped *reaped = arena_at(&parent.arena, ref);
        *reaped = (struct live_reaped){.pid = (uint32_t)pid, .cpu_ns = 1500};
        live_push(&parent.process->reaped, &reaped->next, ref);
    }
    assert_int_equal(recorder_update(recorder), 0);
    assert_int_equal(recorder_close(recorder), 0);
    struct profile *profile = read_back();
    assert_int_equal(total_cost(profile), CHILDREN * 1300);
    profile_free(profile);
    fake_process_free(&parent);
    fake_live_free(&live);
}

// In a child, since what counts is which slices the process has mapped, and the recorder maps all.
static void live_three_lives(struct fake_live *live, int from, int to)
{
    char byte = 0;
    struct fake_process old = new_process(live, getpid(), "old");
    fake_sample(&old, fake_thread(&old, 0), (uint64_t[]){16}, 1, 20, 10);
    bool told = write(to, &byte, 1) == 1 && read(from, &byte, 1) == 1;
    // A second slice under the same pid while the first is still mapped, as if in a pid namespace.
    struct fake_process other = new_process(live, getpid(), "other");
    fake_sample(&other, fake_thread(&other, 0), (uint64_t[]){16}, 1, 20, 10);
    told = told && write(to, &byte, 1) == 1 && read(from, &byte, 1) == 1;
    // As after an exec: the old image is unmapped.
    fake_process_free(&old);
    struct fake_process new = new_process(live, getpid(), "new");
    fake_sample(&new, fake_thread(&new, 0), (uint64_t[]){16}, 1, 20, 10);
    _exit(told && write(to, &byte, 1) == 1 && read(from, &byte, 1) == 1 ? 0 : 1);
}

static void test_exec_ends_the_older(void **state)
{
    (void)state;
    static const unsigned expected[] = {1, 2, 2};
    struct fake_live live = fake_live_new(SLICE, 4);
    int to_child[2], to_us[2];
    assert_true(pipe(to_child) == 0 && pipe(to_us) == 0);
    pid_t child = fork();
    if (child == 0)
        live_three_lives(&live, to_child[0], to_us[1]);
    struct recorder *recorder = open_recorder(&live);
    for (unsigned life = 0; life < 3; life++) {
        char byte;
        assert_int_equal(read(to_us[0], &byte, 1), 1);
        assert_int_equal(recorder_update(recorder), 0);
        assert_int_equal(recorder_update(recorder), 0);
        struct recorder_totals totals;
        recorder_totals(recorder, &totals);
        assert_int_equal(totals.live_processes, expected[life]);
        if (life < 2)
            assert_int_equal(write(to_child[1], &byte, 1), 1);
    }
    assert_int_equal(recorder_close(recorder), 0);
    struct profile *profile = read_back();
    assert_int_equal(profile->process_count, 3);
    assert_true(profile->processes[0].ended);
    assert_false(profile->processes[1].ended);
    assert_false(profile->processes[2].ended);
    assert_int_equal(total_cost(profile), 30);
    profile_free(profile);
    assert_int_equal(write(to_child[1], "", 1), 1);
    waitpid(child, NULL, 0);
    for (unsigned end = 0; end < 2; end++) {
        close(to_child[end]);
        close(to_us[end]);
    }
    fake_live_free(&live);
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void test_fork_storm(void **state)
{
    (void)state;
    enum { ROUNDS = 12, EACH = 1000, SMALL = 64 << 10 };
    struct fake_live live = fake_live_new(SMALL, ROUNDS * EACH + 1);
    struct recorder *recorder = open_recorder(&live);
    struct fake_process parent = new_process(&live, getpid(), "storm");
    struct live_thread *thread = fake_thread(&parent, 0);
    uint64_t cost = 0, most_held = 0;
    double start = seconds();
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < EACH; i++) {
            struct fake_process child = new_process(&live, NO_SUCH_PID + (pid_t)(round * EACH + i),
                                                    i % 5 ? "storm" : "helper");
            child.process->forked = 1;
            struct live_thread *only = fake_thread(&child, 0);
            for (unsigned n = 0; n < 10; n++, cost += 100)
                fake_sample(&child, only, (uint64_t[]){16, 32 + n % 7 * 16}, 2, 40, 100);
            fake_process_free(&child);
        }
        fake_sample(&parent, thread, (uint64_t[]){16, 1600 + round * 16}, 2, 40, 1000000);
        cost += 1000000;
        uint64_t held = held_bytes(&live);
        most_held = held > most_held ? held : most_held;
        assert_int_equal(recorder_update(recorder), 0);
    }
    struct recorder_totals totals;
    recorder_totals(recorder, &totals);
    assert_int_equal(totals.processes, ROUNDS * EACH + 1);
    assert_int_equal(totals.cost_ns, cost);
    assert_true(held_bytes(&live) <= most_held / 4 + (1100u << 14));
    assert_int_equal(recorder_close(recorder), 0);
    double spent = seconds() - start;
    struct profile *profile = read_back();
    assert_true(profile->complete);
    assert_int_equal(profile->note_count, 0);
    assert_int_equal(profile->process_count, ROUNDS * EACH + 1);
    assert_int_equal(total_cost(profile), cost);
    assert_true(profile->tree_count <= 1024 + 1);
    struct profile_totals sums;
    profile_sum(profile, &sums);
    assert_int_equal(sums.samples, ROUNDS * (EACH * 10 + 1));
    uint64_t own = 0;
    for (unsigned i = 0; i < profile->process_count; i++)
        own += profile->processes[i].samples;
    assert_int_equal(own, sums.samples); // per process totals are all still there
    print_message("%u processes: %.0f us each, file %u KB, memory held at most %u MB\n",
                  ROUNDS * EACH, spent * 1e6 / (ROUNDS * EACH),
                  (unsigned)(profile->file_bytes >> 10), (unsigned)(most_held >> 20));
    profile_free(profile);
    fake_process_free(&parent);
    fake_live_free(&live);
}

static void test_full_disk(void **state)
{
    (void)state;
    struct fake_live live = fake_live_new(SLICE, 2);
    struct recorder *recorder = open_recorder(&live);
    struct fake_process process = new_process(&live, getpid(), "app");
    struct live_thread *thread = fake_thread(&process, 0);
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit normal, tight;
    getrlimit(RLIMIT_FSIZE, &normal);
    struct stat status;
    stat(path, &status);
    tight = normal;
    tight.rlim_cur = (rlim_t)status.st_size + 10;
    uint64_t cost = 0;
    for (unsigned round = 0; round < 10; round++) {
        for (unsigned i = 0; i < 100; i++, cost += i)
            fake_sample(&process, thread, (uint64_t[]){round * 16, i * 16}, 2, 40, i + 1);
        setrlimit(RLIMIT_FSIZE, round < 5 ? &tight : &normal);
        assert_int_equal(recorder_update(recorder), round < 5 ? -EFBIG : 0);
        struct recorder_totals totals; // what is seen does not depend on what can be written
        recorder_totals(recorder, &totals);
        assert_int_equal(totals.cost_ns, cost);
        struct profile *profile = read_back(); // whole up to the last update that worked
        assert_int_equal(total_cost(profile), round < 5 ? 0 : cost);
        assert_false(says(profile, "damaged"));
        profile_free(profile);
    }
    assert_int_equal(recorder_close(recorder), 0);
    struct profile *profile = read_back();
    assert_int_equal(total_cost(profile), cost);
    assert_true(profile->complete);
    profile_free(profile);

    // No room for the compact copy beside it: the file that is there is ended in place.
    recorder = open_recorder(&live);
    assert_int_equal(recorder_update(recorder), 0);
    stat(path, &status);
    tight.rlim_cur = (rlim_t)status.st_size;
    for (unsigned i = 0; i < 100; i++, cost += i)
        fake_sample(&process, thread, (uint64_t[]){16, i * 16}, 2, 40, i + 1);
    setrlimit(RLIMIT_FSIZE, &tight);
    assert_int_equal(recorder_close(recorder), -EFBIG);
    setrlimit(RLIMIT_FSIZE, &normal);
    profile = read_back();
    assert_false(profile->complete); // as it was before, and nothing else in the folder
    assert_int_equal(total_cost(profile) + 5050, cost);
    profile_free(profile);
    fake_process_free(&process);
    fake_live_free(&live);
}

// More than the recorder keeps: it stops writing for good, and reads on.
static void test_disk_that_stays_full(void **state)
{
    (void)state;
    enum { LARGE = 2 << 20, COMMAND = 1 << 20, PROCESSES = 70 };
    struct fake_live live = fake_live_new(LARGE, PROCESSES);
    struct recorder *recorder = open_recorder(&live);
    struct rlimit normal, tight;
    struct stat status, after;
    char *noise = malloc(COMMAND); // that cannot be compressed
    assert_non_null(noise);
    for (size_t i = 0; i < COMMAND; i++)
        noise[i] = (char)(next_random() % 255 + 1);
    noise[COMMAND - 1] = '\0';
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &normal);
    stat(path, &status);
    tight = normal;
    tight.rlim_cur = (rlim_t)status.st_size + 10;
    for (unsigned i = 0; i < PROCESSES; i++) {
        struct fake_process process = fake_process_new(&live, getpid(), noise, COMMAND);
        fake_sample(&process, fake_thread(&process, 0), (uint64_t[]){16}, 1, 40, 1);
        setrlimit(RLIMIT_FSIZE, i + 1 < PROCESSES ? &tight : &normal);
        assert_int_equal(recorder_update(recorder), -EFBIG);
        struct recorder_totals totals;
        recorder_totals(recorder, &totals);
        assert_int_equal(totals.samples, i + 1);
        fake_process_free(&process);
    }
    free(noise);
    assert_int_equal(recorder_close(recorder), -EFBIG);
    stat(path, &after);
    assert_int_equal(after.st_size, status.st_size);
    struct profile *profile = read_back();
    assert_false(profile->complete);
    profile_free(profile);
    fake_live_free(&live);
}

// A program that writes over the shared memory can spoil its own profile, and no more than that.
static void test_scribbled_memory(void **state)
{
    (void)state;
    enum { SMALL = 64 << 10 };
    unsigned noted = 0;
    for (unsigned round = 0; round < 200; round++) {
        struct fake_live live = fake_live_new(SMALL, 2);
        struct fake_process good = new_process(&live, getpid(), "good");
        struct fake_process bad = new_process(&live, getpid(), "bad");
        fake_sample(&good, fake_thread(&good, 0), (uint64_t[]){16}, 1, 20, 4711);
        struct recorder *recorder = open_recorder(&live);
        struct live_thread *thread = fake_thread(&bad, 0);
        fake_note(&bad, "hello");
        for (unsigned step = 0; step < 4; step++) {
            // Scribbling in between may make tree.c itself misbehave: grow only before.
            if (step == 0)
                for (unsigned i = 0; i < 200; i++)
                    fake_sample(&bad, thread, (uint64_t[]){i % 9 * 16, i % 13 * 16}, 2, i, 5);
            assert_int_equal(recorder_update(recorder), 0);
            size_t used = atomic_load(&bad.process->arena.used);
            size_t range = used > SMALL || used == 0 ? SMALL : used;
            if (round % 2)
                range = sizeof(struct live_process) + 2500;
            for (uint64_t flips = 1 + next_random() % 20; flips > 0; flips--) {
                size_t at = next_random() % range;
                ((uint8_t *)bad.process)[at < SMALL ? at : 0] = (uint8_t)next_random();
            }
            bad.process->pid = (uint32_t)getpid();
        }
        assert_int_equal(recorder_close(recorder), 0);
        struct profile *profile = read_back();
        assert_true(profile->complete);
        assert_false(says(profile, "damaged"));
        assert_true(profile->tree_count >= 1);
        // The other one may have made itself a tree that forgets: then there are errors, all 0.
        assert_true(profile->trees[0].count == 4 &&
                    profile->trees[0].values[3 * profile->metric_count] == 4711);
        noted += says(profile, "wrote over the profiler's memory");
        profile_free(profile);
        fake_process_free(&good);
        fake_process_free(&bad);
        fake_live_free(&live);
    }
    assert_true(noted > 5); // how many, is chance: 28 to 43
}

static unsigned long resident_pages(void)
{
    unsigned long all = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%lu %lu", &all, &resident), 2);
    fclose(file);
    return resident;
}

// The session's page lies in the program, too, and says how many slices there are.
static void test_scribbled_session(void **state)
{
    (void)state;
    struct fake_live live = fake_live_new(SLICE, 1 << 22);
    struct fake_process good = new_process(&live, getpid(), "good");
    fake_sample(&good, fake_thread(&good, 0), (uint64_t[]){16}, 1, 20, 4711);
    struct recorder *recorder = open_recorder(&live);
    const unsigned long before = resident_pages();
    memset(live.session, 0x5a, LIVE_SESSION_BYTES);
    assert_int_equal(recorder_update(recorder), 0);
    // One that begins then has a slice far away.
    atomic_store(&live.session->slices, 3000000);
    struct fake_process later = new_process(&live, getpid(), "later");
    fake_sample(&later, fake_thread(&later, 0), (uint64_t[]){32}, 1, 40, 42);
    assert_int_equal(recorder_update(recorder), 0);
    assert_true(resident_pages() < before + (32 << 20) / 4096);
    assert_int_equal(recorder_close(recorder), 0);
    struct profile *profile = read_back();
    assert_true(profile->complete);
    assert_int_equal(profile->process_count, 2);
    assert_int_equal(profile->tree_count, 2);
    profile_free(profile);
    fake_process_free(&good);
    fake_process_free(&later);
    fake_live_free(&live);
}

static void test_memory_cannot_be_cut(void **state)
{
    (void)state;
    struct fake_live live = fake_live_new(SLICE, 2);
    struct recorder *recorder = open_recorder(&live);
    assert_int_equal(ftruncate(live.fd, 0), -1);
    assert_int_equal(errno, EPERM);
    assert_int_equal(recorder_close(recorder), 0);
    fake_live_free(&live);
}

// The tool itself is killed at any moment: what is in the file can be read.
static void test_killed_recorder(void **state)
{
    (void)state;
    struct fake_live live = fake_live_new(SLICE, 2);
    uint64_t last = 0;
    _Atomic unsigned *updates =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(updates, MAP_FAILED);
    for (unsigned round = 0; round < 15; round++) {
        atomic_store(updates, 0);
        pid_t child = fork();
        if (child == 0) {
            struct recorder *recorder = open_recorder(&live);
            struct fake_process process = new_process(&live, getpid(), "app");
            atomic_store(&live.session->slices, 0);
            struct live_thread *thread = fake_thread(&process, 0);
            atomic_store(&live.session->slices, 1);
            for (uint64_t i = 0;; i++) {
                fake_sample(&process, thread, (uint64_t[]){i * i % 97 * 16, i % 13 * 16}, 2, i % 50,
                            1);
                recorder_update(recorder);
                atomic_fetch_add(updates, 1);
            }
        }
        // It begins when it gets to run. Some are killed before they have written anything.
        while (access(path, F_OK) < 0 || (round % 2 && atomic_load(updates) == 0))
            usleep(500);
        usleep(3000 + round * 1700);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        struct profile *profile = read_back();
        struct profile_totals totals;
        profile_sum(profile, &totals);
        assert_int_equal(total_cost(profile), totals.cost_ns);
        assert_false(profile->complete);
        assert_false(says(profile, "damaged"));
        last += totals.samples;
        profile_free(profile);
        memset(live.session + 1, 0, LIVE_SESSION_BYTES - sizeof *live.session);
        assert_int_equal(fallocate(live.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                   LIVE_SESSION_BYTES, SLICE * 2),
                         0);
        atomic_store(&live.session->slices, 0);
    }
    assert_true(last > 0);
    munmap(updates, 4096);
    fake_live_free(&live);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_death_gives_memory_back, clear_folder),
        cmocka_unit_test_setup(test_end_is_charged, clear_folder),
        cmocka_unit_test_setup(test_startup_is_told_apart, clear_folder),
        cmocka_unit_test_setup(test_many_ends_are_charged, clear_folder),
        cmocka_unit_test_setup(test_exec_ends_the_older, clear_folder),
        cmocka_unit_test_setup(test_fork_storm, clear_folder),
        cmocka_unit_test_setup(test_full_disk, clear_folder),
        cmocka_unit_test_setup(test_disk_that_stays_full, clear_folder),
        cmocka_unit_test_setup(test_scribbled_memory, clear_folder),
        cmocka_unit_test_setup(test_scribbled_session, clear_folder),
        cmocka_unit_test_setup(test_memory_cannot_be_cut, clear_folder),
        cmocka_unit_test_setup(test_killed_recorder, clear_folder),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
