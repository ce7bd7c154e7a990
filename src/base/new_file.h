// SPDX-License-Identifier: MIT
#ifndef CAIRN_BASE_NEW_FILE_H
#define CAIRN_BASE_NEW_FILE_H

// A file that is replaced as a whole or not at all. The new one is written beside the old one and
// takes its name at the end. So a full disk or a crash leaves the old one as it was.
//
//   struct new_file file;
//   int error = new_file_open(&file, path, 0600);
//   if (!error) {
//       error = write_all(file.fd);
//       error = new_file_end(&file, error, NEW_FILE_ON_DISK);
//       close(file.fd);
//   }
//
// Others may write to the folder (/tmp): the new file has a random name, and no link is followed to
// it. A symbolic link under the final name is followed, as far as the kernel allows: its target is
// replaced, not the link.

#include <sys/types.h>

struct new_file {
    int fd;       // open for reading and appending, closes on exec
    char *path;   // that it will have
    char *beside; // that it has until then
};

// The permissions of the new file: those of the file that it replaces if that is ours, else `mode`,
// less what the umask forbids. 0 or -errno; new_file_error() has words for it.
int new_file_open(struct new_file *file, const char *path, mode_t mode);

enum new_file_durability { NEW_FILE_IN_CACHE, NEW_FILE_ON_DISK };

// Puts the file in place if `error`, which writing it came to, is 0; else removes it. The
// descriptor stays open in either case. Returns that error, or -errno.
int new_file_end(struct new_file *file, int error, enum new_file_durability durability);

// Why a file could not be written: as strerror() says it, or better.
const char *new_file_error(int error);

#endif
