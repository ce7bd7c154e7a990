// SPDX-License-Identifier: MIT
#include "cmd/line/config.h"
#include "base/memory.h"
#include "cmd/line/command.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST_BYTES (1 << 20)
#define BLANKS " \t\r\n"

// The path that the environment names, NULL: none.
static char *path_of(const char *variable, const char *rest)
{
    const char *folder = getenv(variable);
    char *path = NULL;
    if (!folder || folder[0] != '/')
        return NULL;
    return memory_checked(asprintf(&path, "%s/%s", folder, rest) < 0 ? NULL : path);
}

static char *choose_path(void)
{
    char *path = path_of("XDG_CONFIG_HOME", "cairn/config");
    return path ? path : path_of("HOME", ".config/cairn/config");
}

static int complain_unreadable(const char *path, const char *why)
{
    complain("%s cannot be read: %s (CAIRN_CONFIG names it)", path, why);
    return STATUS_MISUSE;
}

static bool is_trusted(const char *path, const struct stat *status)
{
    const bool own = status->st_uid == geteuid() || status->st_uid == 0;
    if (own && !(status->st_mode & S_IWOTH))
        return true;
    complain(own ? "%s is not read, as everybody may write to it: 'chmod o-w' changes that"
                 : "%s is not read, as it belongs to another user: --no-config says that it need "
                   "not be",
             path);
    return false;
}

// A file that is looked for may be missing or out of reach; one that is named may not.
enum config_origin { LOOKED_FOR, NAMED };

static int open_config(const char *path, enum config_origin origin, FILE **in)
{
    struct stat status;
    *in = NULL;
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (file < 0 || fstat(file, &status)) {
        const int error = errno;
        if (file >= 0)
            close(file);
        return origin == LOOKED_FOR ? 0 : complain_unreadable(path, strerror(error));
    }
    if (!S_ISREG(status.st_mode) || status.st_size > MOST_BYTES) {
        close(file);
        return complain_unreadable(path, S_ISREG(status.st_mode) ? "it is larger than 1 MB"
                                                                 : "it is no file");
    }
    if (is_trusted(path, &status))
        *in = memory_checked(fdopen(file, "r"));
    else
        close(file);
    return 0;
}

// Without blanks around it; changes the text.
static char *trim(char *text)
{
    text += strspn(text, BLANKS);
    for (size_t length = strlen(text); length && strchr(BLANKS, text[length - 1]); length--)
        text[length - 1] = 0;
    return text;
}

static int complain_of_line(const struct config *config, unsigned line, const char *what)
{
    complain("%s:%u: %s", config->path, line, what);
    return STATUS_MISUSE;
}

static int read_section(struct config *config, unsigned line, char *text, char **section)
{
    const size_t length = strlen(text);
    if (text[length - 1] != ']')
        return complain_of_line(config, line, "a section is a command in brackets, as in [record]");
    text[length - 1] = 0;
    free(*section);
    *section = memory_text(trim(text + 1));
    if (!**section)
        return complain_of_line(config, line, "a section is a command in brackets, as in [record]");
    return 0;
}

static int read_setting(struct config *config, unsigned line, char *text, const char *section)
{
    char *equals = strchr(text, '=');
    if (!equals || equals == text)
        return complain_of_line(config, line,
                                "an option and its value are meant, as in "
                                "frequency = 499");
    *equals = 0;
    config->settings = memory_grown(config->settings, &config->capacity, config->count + 1,
                                    sizeof *config->settings);
    config->settings[config->count++] = (struct setting){.command = memory_text(section),
                                                         .name = memory_text(trim(text)),
                                                         .value = memory_text(trim(equals + 1)),
                                                         .line = line};
    return 0;
}

static int read_lines(struct config *config, FILE *in)
{
    char *line = NULL, *section = memory_text("");
    size_t capacity = 0;
    int status = 0;
    ssize_t length;
    for (unsigned number = 1; !status && (length = getline(&line, &capacity, in)) >= 0; number++) {
        const bool is_text = strlen(line) == (size_t)length;
        char *text = trim(line);
        if (!is_text)
            status = complain_of_line(config, number, "a zero byte: this is no text");
        else if (*text == '[')
            status = read_section(config, number, text, &section);
        else if (*text && *text != '#' && *text != ';')
            status = read_setting(config, number, text, section);
    }
    free(section);
    free(line);
    return status;
}

static int read_file(struct config *config)
{
    const char *named = getenv("CAIRN_CONFIG");
    const bool is_named = named && *named;
    if (is_named && !strcmp(named, "off"))
        return 0;
    char *path = is_named ? memory_text(named) : choose_path();
    FILE *in = NULL;
    const int status = path ? open_config(path, is_named ? NAMED : LOOKED_FOR, &in) : 0;
    if (!in) {
        free(path);
        return status;
    }
    config->path = path;
    const int read = read_lines(config, in);
    fclose(in);
    return read;
}

int config_read(const struct config **config)
{
    static struct config only;
    static bool done;
    static int status;
    if (!done)
        status = read_file(&only);
    done = true;
    *config = &only;
    return status;
}
