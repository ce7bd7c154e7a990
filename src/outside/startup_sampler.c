// SPDX-License-Identifier: MIT
#include "outside/startup_sampler.h"
#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PERIOD_NS 200000 // of CPU time: a sample costs some 2 us
#define PAGE 4096
#define BUFFER_PAGES 16 // 4096 samples: those of 0.8 s
#define BUFFER_BYTES ((size_t)BUFFER_PAGES * PAGE)

static int open_event(bool exclude_kernel)
{
    struct perf_event_attr attributes = {
        .size = sizeof attributes,
        .type = PERF_TYPE_SOFTWARE,
        .config = PERF_COUNT_SW_TASK_CLOCK,
        .sample_period = PERIOD_NS,
        .sample_type = PERF_SAMPLE_IP,
        .disabled = 1,
        .enable_on_exec = 1,
        .exclude_kernel = exclude_kernel,
        .exclude_hv = 1,
    };
    return (int)syscall(SYS_perf_event_open, &attributes, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

// A message of one byte, and a descriptor if there is one.
union with_descriptor {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
};

static void send_event(int channel, int event)
{
    char byte = 0;
    struct iovec content = {&byte, 1};
    union with_descriptor control = {0};
    struct msghdr message = {.msg_iov = &content, .msg_iovlen = 1};
    if (event >= 0) {
        message.msg_control = &control;
        message.msg_controllen = sizeof control;
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(sizeof event);
        memcpy(CMSG_DATA(&control.header), &event, sizeof event);
    }
    sendmsg(channel, &message, MSG_NOSIGNAL);
}

static int receive_event(int channel)
{
    char byte;
    struct iovec content = {&byte, 1};
    union with_descriptor control = {0};
    struct msghdr message = {.msg_iov = &content,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof control};
    ssize_t length;
    do
        length = recvmsg(channel, &message, MSG_CMSG_CLOEXEC);
    while (length < 0 && errno == EINTR);
    int event = -1;
    if (length == 1 && CMSG_FIRSTHDR(&message) && control.header.cmsg_len == CMSG_LEN(sizeof event))
        memcpy(&event, CMSG_DATA(&control.header), sizeof event);
    return event;
}

void startup_sampler_offer(int channel)
{
    int event = open_event(false);
    if (event < 0)
        event = open_event(true);
    send_event(channel, event);
    char byte;
    while (event >= 0 && recv(channel, &byte, 1, 0) < 0 && errno == EINTR) {
    }
    if (event >= 0)
        close(event);
}

void startup_sampler_take(struct startup_sampler *sampler, pid_t pid, int channel)
{
    sampler->pid = pid;
    sampler->event = receive_event(channel);
    if (sampler->event < 0)
        return;
    sampler->buffer =
        mmap(NULL, PAGE + BUFFER_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, sampler->event, 0);
    if (sampler->buffer == MAP_FAILED) {
        close(sampler->event);
        sampler->event = -1;
    }
    const char go_on = 0;
    send(channel, &go_on, 1, MSG_NOSIGNAL);
}

void startup_sampler_close(struct startup_sampler *sampler)
{
    if (sampler->event < 0)
        return;
    munmap(sampler->buffer, PAGE + BUFFER_BYTES);
    close(sampler->event);
    sampler->event = -1;
}

// Records are of 16 bytes, or of a multiple of 8 if they are of another kind: none is in two parts.
static void read_buffer(const struct startup_sampler *sampler, struct startup_samples *samples)
{
    const struct perf_event_mmap_page *head = sampler->buffer;
    const char *data = (const char *)sampler->buffer + PAGE;
    // Acquire: the records up to there are whole.
    const uint64_t end = __atomic_load_n(&head->data_head, __ATOMIC_ACQUIRE);
    for (uint64_t at = 0; at + sizeof(struct perf_event_header) <= end && at < BUFFER_BYTES;) {
        struct {
            struct perf_event_header header;
            uint64_t address;
        } record;
        memcpy(&record, data + at, sizeof record);
        if (record.header.size < sizeof record.header)
            return;
        if (record.header.type == PERF_RECORD_SAMPLE && at + sizeof record <= BUFFER_BYTES) {
            const unsigned mode = record.header.misc & PERF_RECORD_MISC_CPUMODE_MASK;
            samples->addresses[samples->count++] =
                mode == PERF_RECORD_MISC_USER ? record.address : 0;
        }
        at += record.header.size;
    }
}

bool startup_sampler_read(void *context, uint32_t pid, struct startup_samples *samples)
{
    struct startup_sampler *sampler = context;
    if (sampler->event < 0 || pid != (uint32_t)sampler->pid)
        return false;
    *samples = (struct startup_samples){
        .addresses = calloc(BUFFER_BYTES / 16, sizeof *samples->addresses),
        .period_ns = PERIOD_NS,
    };
    if (samples->addresses)
        read_buffer(sampler, samples);
    startup_sampler_close(sampler);
    return samples->addresses != NULL;
}
