// SPDX-License-Identifier: MIT
#ifndef CAIRN_LIVE_ATTACH_H
#define CAIRN_LIVE_ATTACH_H

// The contract between the tool and an agent that it loads into a running process.
//
// The tool has a thread of the process call the agent's one entry with a request (src/inject/). It
// reads live_attached, a variable of the agent's, to see what the agent does.

#include <stdatomic.h>
#include <stdint.h>

#define LIVE_ATTACH_MAGIC UINT64_C(0x006863617474616e) // "nattach"
#define LIVE_ATTACH_VERSION 3
#define LIVE_ATTACH_TICKED 512
#define LIVE_ATTACH_ENTRY "cairn_attach_1" // long cairn_attach_1(struct live_attach_request *)
#define LIVE_ATTACH_STATE "cairn_attached" // struct live_attached

// The agents: with the functions that programs allocate by, that they use files and locks by, and
// both. The last one comes into running processes: the next recording there may want any event.
#define AGENT_NAME "libcairn.so"
#define ALLOC_AGENT_NAME "libcairn-alloc.so"
#define IO_AGENT_NAME "libcairn-io.so"
#define ALLOC_IO_AGENT_NAME "libcairn-alloc-io.so"

enum live_attach_state {
    LIVE_ATTACH_IDLE,      // loaded, and nothing more
    LIVE_ATTACH_LINKED,    // the program is linked with it, and may begin a recording of its own
    LIVE_ATTACH_RECORDED,  // by 'cairn record COMMAND', or by the program itself
    LIVE_ATTACH_RECORDING, // by 'cairn record -p'
};

struct live_attached {
    uint64_t magic;
    uint32_t version;
    _Atomic uint32_t state; // enum live_attach_state; the agent writes, the tool reads
};

enum live_attach_wish {
    LIVE_ATTACH_BEGIN,
    LIVE_ATTACH_LEAVE,
    LIVE_ATTACH_SAMPLE, // of the thread that makes the call: the last one, where it waits
    LIVE_ATTACH_FORGET, // afterwards, when no tick can come any more: the handlers of signals
};

#define LIVE_ATTACH_REGISTERS 17

struct live_attach_request {
    uint32_t version;
    uint32_t wish; // enum live_attach_wish
    // The memory that the call is made in, and the word in it that is 1 when the call has returned.
    // The agent gives it back some calls later, when the thread is no longer in it for sure.
    uint64_t scratch, scratch_bytes, done;
    // For LIVE_ATTACH_SAMPLE, of the thread: by their DWARF numbers, and the flags.
    uint64_t registers[LIVE_ATTACH_REGISTERS], flags;
    uint32_t own_thread; // the call is made in a thread of its own, which then ends
    // After LIVE_ATTACH_LEAVE, from the agent: threads that a tick may still be on its way to. More
    // than there is room for: any.
    uint32_t ticked_count;
    int32_t ticked[LIVE_ATTACH_TICKED];
    char session_path[256];
};

#endif
