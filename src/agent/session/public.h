// SPDX-License-Identifier: MIT
#ifndef CAIRN_AGENT_SESSION_PUBLIC_H
#define CAIRN_AGENT_SESSION_PUBLIC_H

// The functions of include/cairn.h, as libcairn.so shows them. A new version of one gets a new
// number, and the old one stays.

#include <cairn.h>

#define API __attribute__((visibility("default")))

#endif
