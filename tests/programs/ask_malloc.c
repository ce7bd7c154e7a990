// SPDX-License-Identifier: MIT
// A library to be preloaded into any program: asks for the context of every so many calls of
// malloc() and realloc(), compares its path with what libgcc's unwinder sees, and writes it to the
// file that ASK_MALLOC names:
//
//   c:... offset;offset;...      where the functions begin in their files, innermost first
//
// and in the end how many were asked for, wrong and not known.

#include <cairn.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 400, EVERY = 7 };

static FILE *out;
static pid_t owner;
static long calls, asked, wrong, unknown;
static __thread int busy;

__attribute__((constructor)) static void begin(void)
{
    void *addresses[4];
    const char *path = getenv("ASK_MALLOC");
    busy = 1;
    backtrace(addresses, 4); // loads the unwinder, if it must
    if (path && cairn_present())
        out = fopen(path, "w");
    owner = getpid();
    busy = 0;
}

__attribute__((destructor)) static void end(void)
{
    busy = 1;
    if (out && getpid() == owner)
        fprintf(out, "asked %ld wrong %ld unknown %ld\n", asked, wrong, unknown);
    if (out && getpid() == owner)
        fclose(out);
    out = NULL;
}

// The call sites, as far as they are in files: a stub that stands for one is not.
static int is_true(const struct cairn_frame *frames, int count, void **addresses, int walked)
{
    Dl_info info;
    for (int i = 0; i < count && i + 2 < walked && frames[i].site; i++) {
        const uintptr_t site = (uintptr_t)addresses[i + 2];
        if (frames[i].site - site > 1 && dladdr((void *)site, &info) && info.dli_fname &&
            !strstr(info.dli_fname, "libcairn"))
            return 0;
    }
    return count > 0;
}

__attribute__((noinline)) static void note(struct cairn_context context)
{
    static struct cairn_frame frames[MOST];
    void *addresses[MOST];
    char text[CAIRN_CONTEXT_TEXT];
    asked++;
    if (!context.handle) {
        unknown++;
        return;
    }
    const int count = cairn_decode(context, frames, MOST);
    const int walked = backtrace(addresses, MOST);
    if (!is_true(frames, count, addresses, walked)) {
        wrong++;
        fprintf(out, "wrong ");
    }
    fprintf(out, "%s ", cairn_context_text(context, text, sizeof text));
    for (int i = 0; i < count && i < MOST; i++)
        fprintf(out, "%s%llx", i ? ";" : "", (unsigned long long)frames[i].offset);
    fprintf(out, "\n");
}

// Of glibc: no need to look them up, which would allocate.
void *__libc_malloc(size_t bytes);
void *__libc_realloc(void *block, size_t bytes);

static int is_due(void)
{
    return out && !busy && __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED) % EVERY == 0;
}

void *malloc(size_t bytes)
{
    if (is_due()) {
        busy = 1;
        note(cairn_context());
        busy = 0;
    }
    return __libc_malloc(bytes);
}

void *realloc(void *block, size_t bytes)
{
    if (is_due()) {
        busy = 1;
        note(cairn_context());
        busy = 0;
    }
    return __libc_realloc(block, bytes);
}
