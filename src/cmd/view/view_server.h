// SPDX-License-Identifier: MIT
#ifndef CAIRN_CMD_VIEW_VIEW_SERVER_H
#define CAIRN_CMD_VIEW_VIEW_SERVER_H

// Serves one page to browsers of this machine:
//
//   http://127.0.0.1:PORT/TOKEN/
//
// It listens on loopback alone. Other pages in the browser cannot guess the token, and a request
// must name this host, so that no foreign name that resolves to loopback leads here.

#include <signal.h>
#include <stddef.h>
#include <stdint.h>

struct view_server {
    const char *page;
    size_t bytes;
    int listener;
    uint16_t port;
    char token[33];
    char address[64]; // of the page
    sigset_t signals; // that were blocked before
};

// Begins to listen on that port, 0: any that is free, and from here on holds the signals that end
// it back. 0 or -errno.
int view_server_open(struct view_server *server, uint16_t port);
// Answers until SIGINT or SIGTERM. 0 or -errno.
int view_server_run(struct view_server *server);

#endif
