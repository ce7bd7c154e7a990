// SPDX-License-Identifier: MIT

// A request has a thread of its own, for browsers open connections that they do not use at once.

#include "cmd/view/view_server.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

enum { REQUEST_BYTES = 16 << 10, PATIENCE_SECONDS = 20, MOST_CONNECTIONS = 32 };

// Written and read by all threads; an early or late look at it does no harm.
static unsigned connections;

struct connection {
    const struct view_server *server;
    int socket;
    char request[REQUEST_BYTES];
    size_t bytes;
};

static void send_all(int socket, const char *data, size_t bytes)
{
    while (bytes > 0) {
        const ssize_t sent = send(socket, data, bytes, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return;
        data += sent;
        bytes -= (size_t)sent;
    }
}

static void answer(int socket, const char *status, const char *type, const char *body, size_t bytes)
{
    char head[512];
    const int length = snprintf(head, sizeof head,
                                "HTTP/1.1 %s\r\n"
                                "Content-Type: %s; charset=utf-8\r\n"
                                "Content-Length: %zu\r\n"
                                "Allow: GET\r\n"
                                "Cache-Control: no-store\r\n"
                                "Cross-Origin-Resource-Policy: same-origin\r\n"
                                "Referrer-Policy: no-referrer\r\n"
                                "X-Content-Type-Options: nosniff\r\n"
                                "X-Frame-Options: DENY\r\n"
                                "Connection: close\r\n\r\n",
                                status, type, bytes);
    send_all(socket, head, (size_t)length);
    send_all(socket, body, bytes);
}

static void refuse(int socket, const char *status)
{
    char body[64];
    const int length = snprintf(body, sizeof body, "%s\n", status);
    answer(socket, status, "text/plain", body, (size_t)length);
}

// False: no whole request came.
static bool receive(struct connection *connection)
{
    while (connection->bytes < REQUEST_BYTES - 1) {
        const ssize_t got = recv(connection->socket, connection->request + connection->bytes,
                                 REQUEST_BYTES - 1 - connection->bytes, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        connection->bytes += (size_t)got;
        connection->request[connection->bytes] = '\0';
        if (memmem(connection->request, connection->bytes, "\r\n\r\n", 4))
            return true;
    }
    return true;
}

// Whether the request names this server as its host, and once.
static bool names_this_host(const struct connection *connection)
{
    char expected[2][32];
    snprintf(expected[0], sizeof *expected, "127.0.0.1:%u", connection->server->port);
    snprintf(expected[1], sizeof *expected, "localhost:%u", connection->server->port);
    unsigned hosts = 0, right = 0;
    for (const char *line = strstr(connection->request, "\r\n"); line;
         line = strstr(line, "\r\n")) {
        line += 2;
        if (strncasecmp(line, "Host:", 5) != 0)
            continue;
        const char *host = line + 5 + strspn(line + 5, " \t");
        const size_t length = strcspn(host, " \t\r");
        hosts++;
        for (unsigned i = 0; i < 2; i++)
            right += length == strlen(expected[i]) && strncmp(host, expected[i], length) == 0;
    }
    return hosts == 1 && right == 1;
}

// Takes as long for a wrong token as for the right one.
static bool is_page(const struct connection *connection, const char *path, size_t length)
{
    char expected[sizeof connection->server->token + 2];
    const size_t bytes =
        (size_t)snprintf(expected, sizeof expected, "/%s/", connection->server->token);
    unsigned char differs = length != bytes;
    for (size_t i = 0; i < bytes && i < length; i++)
        differs |= (unsigned char)(path[i] ^ expected[i]);
    return !differs;
}

static void respond(const struct connection *connection)
{
    const char *method = connection->request;
    const size_t method_length = strcspn(method, " \r\n");
    const char *path = method + method_length + (method[method_length] == ' ');
    const size_t path_length = strcspn(path, " \r\n");
    const int socket = connection->socket;
    if (memchr(connection->request, '\0', connection->bytes) || method_length == 0 ||
        *path != '/' || strncmp(path + path_length, " HTTP/1.", 8) != 0 ||
        !strstr(path, "\r\n\r\n") || !names_this_host(connection))
        refuse(socket, "400 Bad Request");
    else if (method_length != 3 || strncmp(method, "GET", 3) != 0)
        refuse(socket, "405 Method Not Allowed");
    else if (!is_page(connection, path, path_length))
        refuse(socket, "404 Not Found");
    else
        answer(socket, "200 OK", "text/html", connection->server->page, connection->server->bytes);
}

static void *serve(void *argument)
{
    struct connection *connection = argument;
    if (receive(connection))
        respond(connection);
    // Bytes that nobody read would reset the connection, and the answer with it.
    shutdown(connection->socket, SHUT_WR);
    while (recv(connection->socket, connection->request, REQUEST_BYTES, 0) > 0)
        ;
    close(connection->socket);
    free(connection);
    __atomic_fetch_sub(&connections, 1, __ATOMIC_RELAXED);
    return NULL;
}

static void take_connection(const struct view_server *server)
{
    const int socket = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC);
    if (socket < 0)
        return;
    const struct timeval patience = {.tv_sec = PATIENCE_SECONDS};
    setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    struct connection *connection = calloc(1, sizeof *connection);
    pthread_t thread;
    if (connection && __atomic_fetch_add(&connections, 1, __ATOMIC_RELAXED) < MOST_CONNECTIONS) {
        *connection = (struct connection){.server = server, .socket = socket};
        if (pthread_create(&thread, NULL, serve, connection) == 0) {
            pthread_detach(thread);
            return;
        }
    }
    if (connection)
        __atomic_fetch_sub(&connections, 1, __ATOMIC_RELAXED);
    free(connection);
    close(socket);
}

static int listen_at(struct view_server *server, uint16_t port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof address;
    const int yes = 1;
    if (setsockopt(server->listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) ||
        bind(server->listener, (struct sockaddr *)&address, sizeof address) ||
        listen(server->listener, MOST_CONNECTIONS) ||
        getsockname(server->listener, (struct sockaddr *)&address, &bytes))
        return -errno;
    server->port = ntohs(address.sin_port);
    return 0;
}

// Written by the handler, read by the loop, in one thread.
static volatile sig_atomic_t ended;

static void end(int signal)
{
    (void)signal;
    ended = 1;
}

// The signals that end it come in ppoll() alone, so that none is missed.
static void hold_signals(struct view_server *server)
{
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &ends, &server->signals);
    sigdelset(&server->signals, SIGINT);
    sigdelset(&server->signals, SIGTERM);
    sigaction(SIGINT, &(struct sigaction){.sa_handler = end}, NULL);
    sigaction(SIGTERM, &(struct sigaction){.sa_handler = end}, NULL);
}

int view_server_open(struct view_server *server, uint16_t port)
{
    uint8_t random[(sizeof server->token - 1) / 2];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return -errno;
    for (size_t i = 0; i < sizeof random; i++)
        snprintf(server->token + 2 * i, 3, "%02x", random[i]);
    server->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (server->listener < 0)
        return -errno;
    const int error = listen_at(server, port);
    if (error) {
        close(server->listener);
        return error;
    }
    snprintf(server->address, sizeof server->address, "http://127.0.0.1:%u/%s/", server->port,
             server->token);
    hold_signals(server);
    return 0;
}

int view_server_run(struct view_server *server)
{
    int error = 0;
    while (!ended && !error) {
        struct pollfd listener = {.fd = server->listener, .events = POLLIN};
        if (ppoll(&listener, 1, NULL, &server->signals) > 0)
            take_connection(server);
        else if (errno != EINTR)
            error = -errno;
    }
    close(server->listener);
    return error;
}
