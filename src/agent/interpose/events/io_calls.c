// SPDX-License-Identifier: MIT
// The functions by which programs read, write, send, receive, open and flush files. Their work is
// done by the next definition in line. They are cancellation points as those are: nothing is held
// while the real one runs.

#undef _FILE_OFFSET_BITS // headers would give pread() the name of pread64(): both are wanted

#include "agent/interpose/dl_interpose.h"
#include "agent/interpose/events/io.h"
#include "agent/interpose/interposed.h"
#include "event/clock.h"
#include "track/runtimes/file_places.h"
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

// Names with __ are those that programs with checks of buffers (_FORTIFY_SOURCE), and old ones,
// call.

__attribute__((constructor(101))) static void look_up_io(void)
{
    interposed_look_up_all(INTERPOSED_GROUP(interposed_io));
}

struct interposed_group io_functions(void)
{
    return INTERPOSED_GROUP(interposed_io);
}

void io_tell_trackers(void)
{
    interposed_tell_trackers(io_functions());
}

// Whether the call is the program's, and counts. The agent uses files, too.
#define COUNTS (counted_is_on(LIVE_EVENT_IO) && !dl_interpose_is_ours(__builtin_return_address(0)))

// The rest of a function that does its work by `call`, and moves `bytes` of its `result`.
#define OPERATE(direction, call, bytes, descriptor)                                                \
    ({                                                                                             \
        const uint64_t begun = clock_now(LIVE_EVENT_WALL);                                         \
        const __typeof__(call) result = (call);                                                    \
        io_note(direction, (bytes), begun, __builtin_frame_address(0), (descriptor));              \
        result;                                                                                    \
    })

#define INTERPOSE(type, name, direction, bytes, descriptor, parameters, arguments)                 \
    type name parameters;                                                                          \
    INTERPOSED_FUNCTION(name, interposed_io);                                                      \
    INTERPOSED type name parameters                                                                \
    {                                                                                              \
        if (!COUNTS)                                                                               \
            return INTERPOSED_REAL(name) arguments;                                                \
        return OPERATE(direction, INTERPOSED_REAL(name) arguments, bytes, descriptor);             \
    }                                                                                              \
    _Static_assert(true, "")

// Functions that return how many bytes they have moved.
#define MOVES(name, direction, parameters, arguments)                                              \
    INTERPOSE(ssize_t, name, direction, (int64_t)result, fd, parameters, arguments)

// The same from one file to another: the first is named.
#define MOVES_ON(name, parameters, arguments)                                                      \
    INTERPOSE(ssize_t, name, IO_THROUGH, (int64_t)result, from, parameters, arguments)

// Functions that move none.
#define FLUSHES(name, parameters, arguments)                                                       \
    INTERPOSE(int, name, IO_OTHER, 0, fd, parameters, arguments)
#define OPENS_NEW(name, parameters, arguments)                                                     \
    INTERPOSE(int, name, IO_OTHER, 0, file_place_forget(result), parameters, arguments)
#define OPENS_STREAM(name, parameters, arguments)                                                  \
    INTERPOSE(FILE *, name, IO_OTHER, 0, result ? file_place_forget(fileno(result)) : -1,          \
              parameters, arguments)

MOVES(read, IO_IN, (int fd, void *to, size_t bytes), (fd, to, bytes));
MOVES(__read, IO_IN, (int fd, void *to, size_t bytes), (fd, to, bytes));
MOVES(__read_chk, IO_IN, (int fd, void *to, size_t bytes, size_t size), (fd, to, bytes, size));
MOVES(pread, IO_IN, (int fd, void *to, size_t bytes, off_t at), (fd, to, bytes, at));
MOVES(pread64, IO_IN, (int fd, void *to, size_t bytes, off64_t at), (fd, to, bytes, at));
MOVES(__pread64, IO_IN, (int fd, void *to, size_t bytes, off64_t at), (fd, to, bytes, at));
MOVES(__pread_chk, IO_IN, (int fd, void *to, size_t bytes, off_t at, size_t size),
      (fd, to, bytes, at, size));
MOVES(__pread64_chk, IO_IN, (int fd, void *to, size_t bytes, off64_t at, size_t size),
      (fd, to, bytes, at, size));
MOVES(readv, IO_IN, (int fd, const struct iovec *parts, int count), (fd, parts, count));
MOVES(preadv, IO_IN, (int fd, const struct iovec *parts, int count, off_t at),
      (fd, parts, count, at));
MOVES(preadv64, IO_IN, (int fd, const struct iovec *parts, int count, off64_t at),
      (fd, parts, count, at));
MOVES(preadv2, IO_IN, (int fd, const struct iovec *parts, int count, off_t at, int flags),
      (fd, parts, count, at, flags));
MOVES(preadv64v2, IO_IN, (int fd, const struct iovec *parts, int count, off64_t at, int flags),
      (fd, parts, count, at, flags));

MOVES(write, IO_OUT, (int fd, const void *from, size_t bytes), (fd, from, bytes));
MOVES(__write, IO_OUT, (int fd, const void *from, size_t bytes), (fd, from, bytes));
MOVES(pwrite, IO_OUT, (int fd, const void *from, size_t bytes, off_t at), (fd, from, bytes, at));
MOVES(pwrite64, IO_OUT, (int fd, const void *from, size_t bytes, off64_t at),
      (fd, from, bytes, at));
MOVES(__pwrite64, IO_OUT, (int fd, const void *from, size_t bytes, off64_t at),
      (fd, from, bytes, at));
MOVES(writev, IO_OUT, (int fd, const struct iovec *parts, int count), (fd, parts, count));
MOVES(pwritev, IO_OUT, (int fd, const struct iovec *parts, int count, off_t at),
      (fd, parts, count, at));
MOVES(pwritev64, IO_OUT, (int fd, const struct iovec *parts, int count, off64_t at),
      (fd, parts, count, at));
MOVES(pwritev2, IO_OUT, (int fd, const struct iovec *parts, int count, off_t at, int flags),
      (fd, parts, count, at, flags));
MOVES(pwritev64v2, IO_OUT, (int fd, const struct iovec *parts, int count, off64_t at, int flags),
      (fd, parts, count, at, flags));

MOVES(recv, IO_IN, (int fd, void *to, size_t bytes, int flags), (fd, to, bytes, flags));
MOVES(__recv_chk, IO_IN, (int fd, void *to, size_t bytes, size_t size, int flags),
      (fd, to, bytes, size, flags));
MOVES(recvfrom, IO_IN,
      (int fd, void *to, size_t bytes, int flags, struct sockaddr *from, socklen_t *length),
      (fd, to, bytes, flags, from, length));
MOVES(__recvfrom_chk, IO_IN,
      (int fd, void *to, size_t bytes, size_t size, int flags, struct sockaddr *from,
       socklen_t *length),
      (fd, to, bytes, size, flags, from, length));
MOVES(recvmsg, IO_IN, (int fd, struct msghdr *message, int flags), (fd, message, flags));
MOVES(send, IO_OUT, (int fd, const void *from, size_t bytes, int flags), (fd, from, bytes, flags));
MOVES(__send, IO_OUT, (int fd, const void *from, size_t bytes, int flags),
      (fd, from, bytes, flags));
MOVES(sendto, IO_OUT,
      (int fd, const void *from, size_t bytes, int flags, const struct sockaddr *to,
       socklen_t length),
      (fd, from, bytes, flags, to, length));
MOVES(sendmsg, IO_OUT, (int fd, const struct msghdr *message, int flags), (fd, message, flags));

MOVES_ON(sendfile, (int to, int from, off_t *at, size_t bytes), (to, from, at, bytes));
MOVES_ON(sendfile64, (int to, int from, off64_t *at, size_t bytes), (to, from, at, bytes));
MOVES_ON(splice, (int from, off64_t *at, int to, off64_t *to_at, size_t bytes, unsigned flags),
         (from, at, to, to_at, bytes, flags));
MOVES_ON(tee, (int from, int to, size_t bytes, unsigned flags), (from, to, bytes, flags));
MOVES(vmsplice, IO_OUT, (int fd, const struct iovec *parts, size_t count, unsigned flags),
      (fd, parts, count, flags));
MOVES_ON(copy_file_range,
         (int from, off64_t *at, int to, off64_t *to_at, size_t bytes, unsigned flags),
         (from, at, to, to_at, bytes, flags));

// These return how many messages they have moved.
static int64_t message_bytes(const struct mmsghdr *messages, int count)
{
    int64_t bytes = 0;
    for (int i = 0; i < count; i++)
        bytes += messages[i].msg_len;
    return bytes;
}

INTERPOSE(int, recvmmsg, IO_IN, message_bytes(messages, result), fd,
          (int fd, struct mmsghdr *messages, unsigned count, int flags, struct timespec *timeout),
          (fd, messages, count, flags, timeout));
INTERPOSE(int, sendmmsg, IO_OUT, message_bytes(messages, result), fd,
          (int fd, struct mmsghdr *messages, unsigned count, int flags),
          (fd, messages, count, flags));

FLUSHES(fsync, (int fd), (fd));
FLUSHES(fdatasync, (int fd), (fd));
FLUSHES(syncfs, (int fd), (fd));
FLUSHES(sync_file_range, (int fd, off64_t from, off64_t bytes, unsigned flags),
        (fd, from, bytes, flags));
OPENS_NEW(creat, (const char *path, mode_t mode), (path, mode));
OPENS_NEW(creat64, (const char *path, mode_t mode), (path, mode));
OPENS_NEW(__open_2, (const char *path, int flags), (path, flags));
OPENS_NEW(__open64_2, (const char *path, int flags), (path, flags));
OPENS_NEW(__openat_2, (int folder, const char *path, int flags), (folder, path, flags));
OPENS_NEW(__openat64_2, (int folder, const char *path, int flags), (folder, path, flags));
OPENS_NEW(mkstemp, (char *path), (path));
OPENS_NEW(mkstemp64, (char *path), (path));
OPENS_NEW(mkostemp, (char *path, int flags), (path, flags));
OPENS_NEW(mkostemp64, (char *path, int flags), (path, flags));
OPENS_NEW(mkstemps, (char *path, int suffix), (path, suffix));
OPENS_NEW(mkstemps64, (char *path, int suffix), (path, suffix));
OPENS_NEW(mkostemps, (char *path, int suffix, int flags), (path, suffix, flags));
OPENS_NEW(mkostemps64, (char *path, int suffix, int flags), (path, suffix, flags));
OPENS_STREAM(tmpfile, (void), ());
OPENS_STREAM(tmpfile64, (void), ());
OPENS_STREAM(fopen, (const char *path, const char *mode), (path, mode));
OPENS_STREAM(fopen64, (const char *path, const char *mode), (path, mode));
OPENS_STREAM(freopen, (const char *path, const char *mode, FILE *file), (path, mode, file));
OPENS_STREAM(freopen64, (const char *path, const char *mode, FILE *file), (path, mode, file));

// The mode is given only where a file may be made.
#define MODE_BEHIND(flags)                                                                         \
    ({                                                                                             \
        mode_t mode = 0;                                                                           \
        if ((flags)&O_CREAT || ((flags)&O_TMPFILE) == O_TMPFILE) {                                 \
            va_list more;                                                                          \
            va_start(more, flags);                                                                 \
            mode = va_arg(more, mode_t);                                                           \
            va_end(more);                                                                          \
        }                                                                                          \
        mode;                                                                                      \
    })

#define OPENS(name, parameters, arguments)                                                         \
    int name parameters;                                                                           \
    INTERPOSED_FUNCTION(name, interposed_io);                                                      \
    INTERPOSED int name parameters                                                                 \
    {                                                                                              \
        const mode_t mode = MODE_BEHIND(flags);                                                    \
        if (!COUNTS)                                                                               \
            return INTERPOSED_REAL(name) arguments;                                                \
        return OPERATE(IO_OTHER, INTERPOSED_REAL(name) arguments, 0, file_place_forget(result));   \
    }                                                                                              \
    _Static_assert(true, "")

OPENS(open, (const char *path, int flags, ...), (path, flags, mode));
OPENS(open64, (const char *path, int flags, ...), (path, flags, mode));
OPENS(__open, (const char *path, int flags, ...), (path, flags, mode));
OPENS(__open64, (const char *path, int flags, ...), (path, flags, mode));
OPENS(openat, (int folder, const char *path, int flags, ...), (folder, path, flags, mode));
OPENS(openat64, (int folder, const char *path, int flags, ...), (folder, path, flags, mode));

// Descriptors that stand for something else afterwards. None of this is an operation.

#define FORGETS(type, name, forget, parameters, arguments)                                         \
    type name parameters;                                                                          \
    INTERPOSED_FUNCTION(name, interposed_io);                                                      \
    INTERPOSED type name parameters                                                                \
    {                                                                                              \
        if (COUNTS)                                                                                \
            forget;                                                                                \
        return INTERPOSED_REAL(name) arguments;                                                    \
    }                                                                                              \
    _Static_assert(true, "")

FORGETS(int, close, file_place_forget(fd), (int fd), (fd));
FORGETS(int, __close, file_place_forget(fd), (int fd), (fd));
FORGETS(int, close_range, file_places_forget(first, last),
        (unsigned first, unsigned last, int flags), (first, last, flags));
FORGETS(int, dup2, file_place_forget(to), (int from, int to), (from, to));
FORGETS(int, dup3, file_place_forget(to), (int from, int to, int flags), (from, to, flags));
FORGETS(int, fclose, file_place_forget(fileno_unlocked(file)), (FILE * file), (file));
FORGETS(int, pclose, file_place_forget(fileno_unlocked(file)), (FILE * file), (file));

void closefrom(int first);
INTERPOSED_FUNCTION(closefrom, interposed_io);
INTERPOSED void closefrom(int first)
{
    if (COUNTS)
        file_places_forget(first < 0 ? 0 : (unsigned)first, FILE_PLACES_DESCRIPTORS - 1);
    INTERPOSED_REAL(closefrom)(first);
}
