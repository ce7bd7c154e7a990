// SPDX-License-Identifier: MIT
// A program that asks for its context at random points of a random walk through its functions, and
// knows the answer: each function notes that it has been entered. Calls of all kinds, recursion,
// exceptions, longjmp, callbacks of libc, signal handlers, coroutines, threads.
//
//   asking MODE SEED COUNT [FILE]    MODE: plain, all, threads, fork, kill, few, crowd, own
//
// Writes a line for each: the context as text, and the path, outermost function first. What it
// cannot know itself ("*") is what backtrace() says. Decodes all of them at the end, too.

#include <cairn.h>

#include <csetjmp>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <string>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>
#include <vector>

#define APART extern "C" __attribute__((noinline, noipa))

enum { FUNCTIONS = 10, MOST_DEPTH = 60 };

struct known {
    struct cairn_context context;
    std::vector<uintptr_t> path; // functions, innermost first; empty: not known
    std::string names;
};

// What a thread knows of itself.
struct self {
    uint64_t random;
    long left; // contexts to ask for
    unsigned depth;
    const char *name[MOST_DEPTH + 20];
    uintptr_t function[MOST_DEPTH + 20];
    std::string creators; // names, with a separator behind
    jmp_buf *landing;
    std::vector<known> asked;
    long wrong, unknown;
};

static thread_local struct self *self;
static bool is_noisy;   // exceptions, jumps, signals, coroutines
static bool is_shallow; // the same contexts come again and again
static pthread_mutex_t output = PTHREAD_MUTEX_INITIALIZER;

static unsigned pick(unsigned below)
{
    self->random ^= self->random << 13;
    self->random ^= self->random >> 7;
    self->random ^= self->random << 17;
    return (unsigned)(self->random >> 33) % below;
}

struct here {
    unsigned before;
    jmp_buf *landing;
    here(const char *name, uintptr_t function) : before(self->depth), landing(self->landing)
    {
        self->name[self->depth] = name;
        self->function[self->depth++] = function;
    }
    ~here()
    {
        self->depth = before;
        self->landing = landing;
    }
};

static std::string names_of(const char *more)
{
    std::string names = self->creators;
    for (unsigned i = 0; i < self->depth; i++)
        names += std::string(i ? ";" : "") + self->name[i];
    return names + more;
}

// Whether cairn_decode() says so. Of the path of a creator, nothing is known here.
static bool is_right(const struct known *known)
{
    struct cairn_frame frames[MOST_DEPTH + 60];
    const int count = cairn_decode(known->context, frames, sizeof frames / sizeof *frames);
    if (count < (int)known->path.size() || count == 0)
        return false;
    for (size_t i = 0; i < known->path.size(); i++)
        if (frames[i].function != known->path[i])
            return false;
    return known->path.empty() || frames[known->path.size() - 1].site == 0;
}

// Call sites by the unwinder of libgcc, from the caller's on. A stub that stands for a site is in
// no file.
static bool is_backtrace(struct cairn_context context)
{
    struct cairn_frame frames[MOST_DEPTH + 60];
    void *addresses[MOST_DEPTH + 60];
    Dl_info info;
    const int count = cairn_decode(context, frames, sizeof frames / sizeof *frames);
    const int walked = backtrace(addresses, sizeof addresses / sizeof *addresses);
    // Behind us: note(), and who asked. Where a signal came, the instruction was not a call.
    for (int i = 0; i < count && i + 3 < walked && frames[i].site; i++) {
        const uintptr_t site = (uintptr_t)addresses[i + 3];
        if (frames[i].site - site > 1 && dladdr((void *)site, &info) && info.dli_fname &&
            !strstr(info.dli_fname, "libcairn"))
            return false;
    }
    return count > 0;
}

enum how { KNOWN, BY_BACKTRACE };

APART void note(struct cairn_context context, enum how how, const char *more)
{
    struct known known = {context, {}, how == KNOWN ? names_of("") : "*" + names_of(more)};
    self->left--;
    if (!context.handle) {
        self->unknown++;
        return;
    }
    for (unsigned i = self->depth; how == KNOWN && i-- > 0;)
        known.path.push_back(self->function[i]);
    if (!is_backtrace(context) || !is_right(&known)) {
        self->wrong++;
        char text[CAIRN_CONTEXT_TEXT];
        fprintf(stderr, "wrong: %s %s\n", cairn_context_text(context, text, sizeof text),
                known.names.c_str());
    }
    self->asked.push_back(known);
}

// ---- where it asks

extern "C" {
static void on_signal(int)
{
    note(cairn_context(), BY_BACKTRACE, ";on_signal");
    __asm__ volatile("" ::: "memory"); // no jump: its frame stays
}

static int compare(const void *one, const void *other)
{
    note(cairn_context(), BY_BACKTRACE, ";compare");
    return *(const int *)one - *(const int *)other;
}

static thread_local ucontext_t outside, inside;

static void coroutine(void)
{
    note(cairn_context(), BY_BACKTRACE, ";coroutine");
    swapcontext(&inside, &outside);
}
}

APART void switch_stacks(void)
{
    static thread_local char stack[256 << 10];
    struct here here("switch_stacks", (uintptr_t)switch_stacks);
    getcontext(&inside);
    inside.uc_stack.ss_sp = stack;
    inside.uc_stack.ss_size = sizeof stack;
    inside.uc_link = &outside;
    makecontext(&inside, coroutine, 0);
    swapcontext(&outside, &inside);
    note(cairn_context(), KNOWN, "");
}

typedef void step_function(unsigned);
static step_function *const *table(void);

// The body of each function, so that each has call sites of its own.
#define CALLS(choice, deeper)                                                                      \
    switch (choice) {                                                                              \
    case 0:                                                                                        \
        step0(deeper);                                                                             \
        break;                                                                                     \
    case 1:                                                                                        \
        step1(deeper);                                                                             \
        break;                                                                                     \
    case 2:                                                                                        \
        step2(deeper);                                                                             \
        break;                                                                                     \
    case 3:                                                                                        \
        step3(deeper);                                                                             \
        break;                                                                                     \
    case 4:                                                                                        \
        step4(deeper);                                                                             \
        break;                                                                                     \
    case 5:                                                                                        \
        step5(deeper);                                                                             \
        break;                                                                                     \
    case 6:                                                                                        \
        step6(deeper);                                                                             \
        break;                                                                                     \
    default:                                                                                       \
        table()[pick(FUNCTIONS)](deeper);                                                          \
        break;                                                                                     \
    }

APART void make_noise(unsigned choice)
{
    struct here here("make_noise", (uintptr_t)make_noise);
    int numbers[] = {3, 1, 2};
    if (choice == 0)
        throw 1;
    if (choice == 1 && self->landing)
        longjmp(*self->landing, 1);
    if (choice == 2)
        raise(SIGUSR1);
    if (choice == 3)
        qsort(numbers, 3, sizeof *numbers, compare);
    if (choice == 4)
        switch_stacks();
}

#define STEP(number)                                                                               \
    APART void step##number(unsigned left)                                                         \
    {                                                                                              \
        struct here here("step" #number, (uintptr_t)step##number);                                 \
        const unsigned depth = self->depth;                                                        \
        jmp_buf own;                                                                               \
        if (number % 4 == 1 && is_noisy) {                                                         \
            setjmp(own);                                                                           \
            self->landing = &own;                                                                  \
            self->depth = depth;                                                                   \
        }                                                                                          \
        for (unsigned times = 1 + pick(3); times > 0 && self->left > 0; times--) {                 \
            if (pick(3) == 0)                                                                      \
                note(cairn_context(), KNOWN, "");                                                  \
            try {                                                                                  \
                if (is_noisy && pick(4) == 0)                                                      \
                    make_noise(pick(40));                                                          \
                if (left > 0)                                                                      \
                    CALLS(pick(8), left - 1)                                                       \
            } catch (int) {                                                                        \
                if (number % 3)                                                                    \
                    throw;                                                                         \
                note(cairn_context(), KNOWN, "");                                                  \
            }                                                                                      \
        }                                                                                          \
    }

APART void step0(unsigned left);
APART void step1(unsigned left);
APART void step2(unsigned left);
APART void step3(unsigned left);
APART void step4(unsigned left);
APART void step5(unsigned left);
APART void step6(unsigned left);
STEP(0)
STEP(1)
STEP(2)
STEP(3)
STEP(4)
STEP(5)
STEP(6)
STEP(7)
STEP(8)
STEP(9)

static step_function *const *table(void)
{
    static step_function *const steps[FUNCTIONS] = {step0, step1, step2, step3, step4,
                                                    step5, step6, step7, step8, step9};
    return steps;
}

APART void walk(void)
{
    struct here here("walk", (uintptr_t)walk);
    while (self->left > 0) {
        try {
            step0(is_shallow ? pick(4) : 4 + pick(MOST_DEPTH - 20));
        } catch (int) {
        }
    }
}

// ---- the end of it

static void write_all(void)
{
    char text[CAIRN_CONTEXT_TEXT];
    pthread_mutex_lock(&output);
    for (const struct known &known : self->asked) {
        if (!is_right(&known))
            self->wrong++; // by now, perhaps after many encodings
        printf("%s %s\n", cairn_context_text(known.context, text, sizeof text),
               known.names.c_str());
    }
    fprintf(stderr, "asked %zu wrong %ld unknown %ld\n", self->asked.size(), self->wrong,
            self->unknown);
    fflush(stdout);
    pthread_mutex_unlock(&output);
}

struct job {
    uint64_t seed;
    long count;
    std::string creators;
    long wrong;
};

extern "C" {
static void *worker(void *argument)
{
    struct job *job = (struct job *)argument;
    struct self own = {};
    own.random = job->seed * 7919 + 1;
    own.left = job->count;
    own.creators = job->creators;
    self = &own;
    struct here here("worker", (uintptr_t)worker);
    walk();
    write_all();
    job->wrong = own.wrong;
    return NULL;
}
}

APART long run_threads(uint64_t seed, long count)
{
    struct here here("run_threads", (uintptr_t)run_threads);
    enum { THREADS = 4, ROUNDS = 2 };
    long wrong = 0;
    for (unsigned round = 0; round < ROUNDS; round++) {
        pthread_t threads[THREADS];
        struct job jobs[THREADS];
        for (unsigned i = 0; i < THREADS; i++) {
            jobs[i] = {seed + i + round * THREADS, count / THREADS / ROUNDS, names_of(";"), 0};
            pthread_create(&threads[i], NULL, worker, &jobs[i]);
        }
        for (unsigned i = 0; i < THREADS; i++) {
            pthread_join(threads[i], NULL);
            wrong += jobs[i].wrong;
        }
    }
    return wrong;
}

// The child tells of its parent's contexts, and of its own.
APART long run_child(long count)
{
    struct here here("run_child", (uintptr_t)run_child);
    struct cairn_frame frames[8];
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        for (const struct known &known : self->asked)
            self->wrong += cairn_decode(known.context, frames, 8) != -116; // ESTALE
        std::vector<struct known> inherited;
        inherited.swap(self->asked);
        self->left = count;
        walk();
        write_all();
        for (const struct known &known : inherited) {
            char text[CAIRN_CONTEXT_TEXT];
            printf("%s %s\n", cairn_context_text(known.context, text, sizeof text),
                   known.names.c_str());
        }
        fflush(stdout);
        _exit(self->wrong != 0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return status;
}

int main(int argc, char **argv)
{
    static struct self own;
    const std::string mode = argc > 1 ? argv[1] : "plain";
    const uint64_t seed = argc > 2 ? (uint64_t)atoll(argv[2]) : 1;
    own.random = seed * 104729 + 1;
    own.left = argc > 3 ? atol(argv[3]) : 1000;
    const long count = own.left;
    self = &own;
    is_noisy = mode != "plain";
    is_shallow = mode == "few" || mode == "crowd";
    signal(SIGUSR1, on_signal);
    struct here here("main", (uintptr_t)main);
    if (mode == "own" && cairn_start("tree=full", NULL, 0))
        return 2;
    walk();
    long wrong = 0;
    if (mode == "threads" || mode == "crowd")
        wrong = run_threads(seed, count);
    if (mode == "fork")
        wrong = run_child(count / 4);
    write_all();
    if (mode == "own" && cairn_snapshot(argv[4]))
        return 3;
    if (mode == "kill")
        raise(SIGKILL);
    return own.wrong || wrong;
}
