// SPDX-License-Identifier: MIT
#include "track/runtimes/file_places.h"
#include "base/gc_hidden.h"
#include "track/runtimes/runtime_names.h"
#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_BYTES 512
#define NOT_KNOWN ((place_t)1) // it was looked up, and has no name

// By descriptor; 0: not looked up yet. Relaxed: an entry stands for itself. A thread that looks one
// up while another closes it may keep the old name until the next close.
static _Atomic place_t places[FILE_PLACES_DESCRIPTORS] GC_HIDDEN;
static _Atomic unsigned names; // that were told

// "/proc/self/fd/17"
static void write_link(char *to, unsigned number)
{
    char digits[12];
    size_t count = 0;
    do
        digits[count++] = (char)('0' + number % 10);
    while (number /= 10);
    memcpy(to, "/proc/self/fd/", 14);
    to += 14;
    while (count)
        *to++ = digits[--count];
    *to = '\0';
}

// The name of what a descriptor stands for. Its length; 0: it has none.
static size_t read_name(int descriptor, char *name)
{
    char link[32];
    struct stat status;
    if (fstat(descriptor, &status))
        return 0;
    const char *kind = S_ISFIFO(status.st_mode)   ? "[pipe]"
                       : S_ISSOCK(status.st_mode) ? "[socket]"
                                                  : NULL;
    if (kind) {
        strcpy(name, kind);
        return strlen(kind);
    }
    write_link(link, (unsigned)descriptor);
    const ssize_t bytes = readlink(link, name, PATH_BYTES);
    return bytes > 0 ? (size_t)bytes : 0;
}

static place_t place_of(const char *name, size_t bytes)
{
    uint64_t hash = bytes;
    for (size_t i = 0; i < bytes; i++)
        hash = runtime_hash(hash, (unsigned char)name[i]);
    return runtime_place(MODULE_FILES, hash);
}

static bool tell(place_t place, const char *text, size_t bytes)
{
    struct live_name *name = runtime_name_new(bytes, 0);
    if (!name)
        return false;
    name->place = name->function = place;
    memcpy(name->text, text, bytes);
    runtime_name_push(name);
    return true;
}

// Its place, which has a name.
static place_t named(const char *text, size_t bytes)
{
    static const char others[] = "[other files]";
    if (atomic_load_explicit(&names, memory_order_relaxed) >= FILE_PLACES_MOST) {
        text = others;
        bytes = sizeof others - 1;
    }
    const place_t place = place_of(text, bytes);
    if (!runtime_names_lack(place))
        return place;
    atomic_fetch_add_explicit(&names, 1, memory_order_relaxed);
    return tell(place, text, bytes) ? place : 0;
}

place_t file_place(int descriptor)
{
    char name[PATH_BYTES];
    if (descriptor < 0 || descriptor >= FILE_PLACES_DESCRIPTORS)
        return 0;
    place_t place = atomic_load_explicit(&places[descriptor], memory_order_relaxed);
    if (place)
        return place == NOT_KNOWN ? 0 : place;
    const int saved_errno = errno;
    const size_t bytes = read_name(descriptor, name);
    if (bytes)
        place = named(name, bytes);
    atomic_store_explicit(&places[descriptor], place ? place : NOT_KNOWN, memory_order_relaxed);
    errno = saved_errno;
    return place;
}

int file_place_forget(int descriptor)
{
    if (descriptor >= 0 && descriptor < FILE_PLACES_DESCRIPTORS)
        atomic_store_explicit(&places[descriptor], 0, memory_order_relaxed);
    return descriptor;
}

void file_places_forget(unsigned first, unsigned last)
{
    for (unsigned i = first; i <= last && i < FILE_PLACES_DESCRIPTORS; i++)
        file_place_forget((int)i);
}

void file_places_forget_all(void)
{
    file_places_forget(0, FILE_PLACES_DESCRIPTORS - 1);
    atomic_store_explicit(&names, 0, memory_order_relaxed);
}
