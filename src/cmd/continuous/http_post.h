// SPDX-License-Identifier: MIT
#ifndef CAIRN_CMD_CONTINUOUS_HTTP_POST_H
#define CAIRN_CMD_CONTINUOUS_HTTP_POST_H

// One POST by plain HTTP/1.1, with a limit on its time.

#include <stddef.h>

// Of "http://HOST[:PORT][/PATH[?QUERY]]".
struct http_url {
    char host[256], port[8];
    char path[1024]; // with the query; "/" at least
};

// NULL, or why it is none that can be used.
const char *http_parse(const char *text, struct http_url *url);

struct http_body {
    const char *type; // Content-Type
    const void *bytes;
    size_t length;
};

enum { HTTP_REASON_BYTES = 160 };

// The status of the answer, as 200; or -1 and `reason`, if there was none. `reason` has the
// server's own words otherwise. It takes `seconds` at most, beside the search for the host's
// address.
int http_post(const struct http_url *url, const struct http_body *body, unsigned seconds,
              char reason[HTTP_REASON_BYTES]);

#endif
