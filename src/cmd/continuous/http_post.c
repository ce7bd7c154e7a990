// SPDX-License-Identifier: MIT
#include "cmd/continuous/http_post.h"
#include "base/now.h"
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define NS_PER_S UINT64_C(1000000000)

static bool copy_part(char *to, size_t room, const char *from, size_t length)
{
    if (!length || length >= room)
        return false;
    memcpy(to, from, length);
    to[length] = 0;
    return true;
}

const char *http_parse(const char *text, struct http_url *url)
{
    if (strncmp(text, "https://", 8) == 0)
        return "https is not supported: send to a collector or a proxy on this machine by http";
    if (strncmp(text, "http://", 7) != 0)
        return "it must begin with http://";
    for (const char *at = text; *at; at++)
        if (*at <= ' ' || *at >= 0x7f)
            return "a URL has no blanks, and none but ASCII characters";
    const char *host = text + 7, *end = host + strcspn(host, "/?#");
    if (memchr(host, '@', (size_t)(end - host)))
        return "users and passwords would be sent unencrypted";
    const char *host_end = *host == '[' ? memchr(host, ']', (size_t)(end - host)) : NULL;
    if (*host == '[' && !host_end)
        return "an address in brackets needs both of them";
    const char *colon =
        memchr(host_end ? host_end : host, ':', (size_t)(end - (host_end ? host_end : host)));
    const char *name_end = colon ? colon : end;
    const bool bracket = host_end != NULL;
    if (!copy_part(url->host, sizeof url->host, host + bracket,
                   (size_t)(name_end - host) - 2 * bracket))
        return "it names no host";
    if (!copy_part(url->port, sizeof url->port, colon ? colon + 1 : "80",
                   colon ? (size_t)(end - colon - 1) : 2) ||
        strspn(url->port, "0123456789") != strlen(url->port))
        return "its port is no number";
    const size_t path = strcspn(end, "#");
    const int written =
        snprintf(url->path, sizeof url->path, "%s%.*s", *end == '/' ? "" : "/", (int)path, end);
    return written < (int)sizeof url->path ? NULL : "it is too long";
}

// A connection, with the moment when all must be done.
struct http_connection {
    int fd;
    uint64_t until_ns;
};

static int wait_for(const struct http_connection *connection, short events)
{
    const uint64_t now = now_ns(CLOCK_MONOTONIC);
    if (now >= connection->until_ns)
        return -ETIMEDOUT;
    struct pollfd waited = {.fd = connection->fd, .events = events};
    const int ready = poll(&waited, 1, (int)((connection->until_ns - now) / 1000000) + 1);
    return ready > 0 ? 0 : ready == 0 ? -ETIMEDOUT : -errno;
}

static int connect_to(struct http_connection *connection, const struct addrinfo *address)
{
    connection->fd =
        socket(address->ai_family, address->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (connection->fd < 0)
        return -errno;
    int error = connect(connection->fd, address->ai_addr, address->ai_addrlen) ? -errno : 0;
    if (error == -EINPROGRESS && !(error = wait_for(connection, POLLOUT))) {
        socklen_t bytes = sizeof error;
        getsockopt(connection->fd, SOL_SOCKET, SO_ERROR, &error, &bytes);
        error = -error;
    }
    if (error)
        close(connection->fd);
    return error;
}

// The first of the host's addresses that answers. 0, or -1 and the reason.
static int open_connection(struct http_connection *connection, const struct http_url *url,
                           char *reason)
{
    struct addrinfo *addresses = NULL;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    const int unknown = getaddrinfo(url->host, url->port, &hints, &addresses);
    if (unknown) {
        snprintf(reason, HTTP_REASON_BYTES, "%s", gai_strerror(unknown));
        return -1;
    }
    int error = -EHOSTUNREACH;
    for (const struct addrinfo *one = addresses; one && error; one = one->ai_next)
        error = connect_to(connection, one);
    freeaddrinfo(addresses);
    if (error)
        snprintf(reason, HTTP_REASON_BYTES, "%s", strerror(-error));
    return error ? -1 : 0;
}

static int send_all(const struct http_connection *connection, const void *bytes, size_t length)
{
    const char *at = bytes;
    while (length > 0) {
        const ssize_t sent = send(connection->fd, at, length, MSG_NOSIGNAL);
        if (sent > 0) {
            at += sent;
            length -= (size_t)sent;
            continue;
        }
        if (errno != EAGAIN && errno != EINTR)
            return -errno;
        const int error = wait_for(connection, POLLOUT);
        if (error)
            return error;
    }
    return 0;
}

static int receive_head(const struct http_connection *connection, char *head, size_t room)
{
    size_t length = 0;
    while (length + 1 < room && !memchr(head, '\n', length)) {
        const ssize_t got = recv(connection->fd, head + length, room - length - 1, 0);
        if (got == 0)
            return -ECONNRESET;
        if (got > 0) {
            length += (size_t)got;
            continue;
        }
        if (errno != EAGAIN && errno != EINTR)
            return -errno;
        const int error = wait_for(connection, POLLIN);
        if (error)
            return error;
    }
    head[length] = 0;
    return 0;
}

// "HTTP/1.1 503 Service Unavailable". -1: something else.
static int parse_status(char *head, char *reason)
{
    int status = 0, words = 0;
    if (sscanf(head, "HTTP/1.%*c %3d%n", &status, &words) != 1 || status < 100) {
        snprintf(reason, HTTP_REASON_BYTES, "the answer is not HTTP");
        return -1;
    }
    head[strcspn(head, "\r\n")] = 0;
    snprintf(reason, HTTP_REASON_BYTES, "%.150s", head);
    return status;
}

static int exchange(const struct http_connection *connection, const struct http_url *url,
                    const struct http_body *body, char *reason)
{
    char *request = NULL, head[512];
    const bool numeric = strchr(url->host, ':') != NULL;
    const int length = asprintf(&request,
                                "POST %s HTTP/1.1\r\nHost: %s%s%s:%s\r\nUser-Agent: cairn\r\n"
                                "Content-Type: %s\r\nContent-Length: %zu\r\n"
                                "Connection: close\r\n\r\n",
                                url->path, numeric ? "[" : "", url->host, numeric ? "]" : "",
                                url->port, body->type, body->length);
    int error = length < 0 ? -ENOMEM : send_all(connection, request, (size_t)length);
    if (length >= 0)
        free(request);
    if (!error)
        error = send_all(connection, body->bytes, body->length);
    // A server that refuses answers before it has read all, and closes.
    const int answered = error == -ENOMEM ? error : receive_head(connection, head, sizeof head);
    if (!answered)
        return parse_status(head, reason);
    snprintf(reason, HTTP_REASON_BYTES, "%s", strerror(error ? -error : -answered));
    return -1;
}

int http_post(const struct http_url *url, const struct http_body *body, unsigned seconds,
              char reason[HTTP_REASON_BYTES])
{
    struct http_connection connection = {.fd = -1,
                                         .until_ns = now_ns(CLOCK_MONOTONIC) + seconds * NS_PER_S};
    if (open_connection(&connection, url, reason))
        return -1;
    const int status = exchange(&connection, url, body, reason);
    close(connection.fd);
    return status;
}
