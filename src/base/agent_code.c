// SPDX-License-Identifier: MIT
#include "base/agent_code.h"

__thread uint32_t agent_code;
