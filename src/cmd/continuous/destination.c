// SPDX-License-Identifier: MIT
#include "cmd/continuous/destination.h"
#include "base/text/text.h"
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { POST_SECONDS = 15 };

const char *destination_parse(const char *name, struct interval_destination *destination)
{
    destination->name = name;
    destination->is_server = strstr(name, "://") != NULL;
    if (destination->is_server)
        return http_parse(name, &destination->url);
    struct stat status;
    return !*name                                             ? "it has no name"
           : !stat(name, &status) && !S_ISDIR(status.st_mode) ? "it is no folder"
                                                              : NULL;
}

void destination_name_program(struct interval_destination *destination, const char *command)
{
    snprintf(destination->program, sizeof destination->program, "%s", last_part(command));
    for (char *at = destination->program; *at; at++)
        if (!isalnum((unsigned char)*at) && !strchr("._-", *at))
            *at = '_';
    if (*destination->program == '.')
        *destination->program = '_';
}

const char *interval_ending(enum interval_format format)
{
    return format == INTERVAL_PPROF ? "pb.gz" : format == INTERVAL_OTLP ? "otlp" : "out";
}

static enum delivery move_to_folder(const struct interval_destination *destination,
                                    const char *path, const struct interval_file *interval,
                                    char *reason)
{
    char *target = NULL, moment[32];
    struct tm parts;
    const time_t from = (time_t)interval->from;
    strftime(moment, sizeof moment, "%Y%m%dT%H%M%SZ", gmtime_r(&from, &parts));
    if (asprintf(&target, "%s/%s-%s-%04u.%s", destination->name, destination->program, moment,
                 interval->number, interval_ending(destination->format)) < 0)
        return DELIVERY_LATER;
    const int error = rename(path, target) ? errno : 0;
    free(target);
    if (error)
        snprintf(reason, HTTP_REASON_BYTES, "%s", strerror(error));
    return error ? DELIVERY_LATER : DELIVERED;
}

static char *read_whole(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "re");
    struct stat status;
    char *content = NULL;
    if (file && !fstat(fileno(file), &status) && (content = malloc((size_t)status.st_size + 1)))
        *bytes = fread(content, 1, (size_t)status.st_size, file);
    if (file)
        fclose(file);
    return content;
}

#define BOUNDARY "cairn-interval-6d1f0c52b7e94a38"
static const char part_head[] = "--" BOUNDARY "\r\n"
                                "Content-Disposition: form-data; name=\"profile\"; "
                                "filename=\"profile.pprof\"\r\n"
                                "Content-Type: application/octet-stream\r\n\r\n";
static const char part_end[] = "\r\n--" BOUNDARY "--\r\n";

// The form that Pyroscope's /ingest takes a file in.
static char *wrap_part(const char *content, size_t *bytes)
{
    const size_t head = sizeof part_head - 1, end = sizeof part_end - 1;
    char *wrapped = malloc(head + *bytes + end);
    if (!wrapped)
        return NULL;
    memcpy(wrapped, part_head, head);
    memcpy(wrapped + head, content, *bytes);
    memcpy(wrapped + head + *bytes, part_end, end);
    *bytes += head + end;
    return wrapped;
}

static bool path_is(const struct http_url *url, const char *wanted)
{
    const size_t length = strcspn(url->path, "?"), ending = strlen(wanted);
    return length >= ending && strncmp(url->path + length - ending, wanted, ending) == 0;
}

// Where a collector takes profiles, if the user has named none but its host.
static void complete_path(struct http_url *url, enum interval_format format)
{
    if (strcmp(url->path, "/") == 0)
        strcpy(url->path, format == INTERVAL_OTLP ? "/v1development/profiles" : "/ingest");
}

// Pyroscope wants to know the name and the times. The user's own parameters come first.
static bool add_parameters(struct http_url *url, const struct interval_destination *destination,
                           const struct interval_file *interval)
{
    char more[256];
    const bool named = strstr(url->path, "?name=") || strstr(url->path, "&name=");
    snprintf(more, sizeof more, "%c%s%s%sfrom=%lu&until=%lu&format=pprof&spyName=cairn",
             strchr(url->path, '?') ? '&' : '?',
             named ? "" : "name=", named ? "" : destination->program, named ? "" : "&",
             (unsigned long)interval->from, (unsigned long)interval->until);
    if (strlen(url->path) + strlen(more) >= sizeof url->path)
        return false;
    strcat(url->path, more);
    return true;
}

static bool may_be_taken_later(int status)
{
    return status < 400 ? status < 300 : status >= 500 || status == 408 || status == 429;
}

static enum delivery post(const struct interval_destination *destination, const char *path,
                          const struct interval_file *interval, char *reason)
{
    struct http_url url = destination->url;
    size_t bytes = 0;
    char *content = read_whole(path, &bytes);
    if (!content) {
        snprintf(reason, HTTP_REASON_BYTES, "%s: %s", path, strerror(errno));
        return DELIVERY_LATER;
    }
    complete_path(&url, destination->format);
    const bool form = destination->format == INTERVAL_PPROF && path_is(&url, "/ingest");
    const char *type = form ? "multipart/form-data; boundary=" BOUNDARY
                       : destination->format == INTERVAL_OTLP ? "application/x-protobuf"
                                                              : "application/octet-stream";
    char *wrapped = form ? wrap_part(content, &bytes) : NULL;
    int status = -1;
    if (form && (!wrapped || !add_parameters(&url, destination, interval)))
        snprintf(reason, HTTP_REASON_BYTES, "the request is too long");
    else
        status = http_post(&url,
                           &(struct http_body){
                               .type = type, .bytes = wrapped ? wrapped : content, .length = bytes},
                           POST_SECONDS, reason);
    free(wrapped);
    free(content);
    if (status >= 200 && status < 300) {
        unlink(path);
        return DELIVERED;
    }
    return status < 0 || may_be_taken_later(status) ? DELIVERY_LATER : DELIVERY_REFUSED;
}

enum delivery destination_deliver(const struct interval_destination *destination, const char *path,
                                  const struct interval_file *interval,
                                  char reason[HTTP_REASON_BYTES])
{
    return destination->is_server ? post(destination, path, interval, reason)
                                  : move_to_folder(destination, path, interval, reason);
}
