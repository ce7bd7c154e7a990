// SPDX-License-Identifier: MIT
#include "patch/loader.h"
#include "patch/text.h"
#include <errno.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define JUMP_BYTES 5

// Room for a jump: a return and padding up to the next function, or endbr and a return.
static bool is_empty_function(const unsigned char *code)
{
    static const unsigned char marked[JUMP_BYTES] = {0xf3, 0x0f, 0x1e, 0xfa, 0xc3};
    static const unsigned char padding[] = {0x66, 0x2e, 0x0f, 0x1f, 0x84, 0x80,
                                            0x44, 0x40, 0x00, 0x90, 0xcc};
    if (!memcmp(code, marked, sizeof marked))
        return true;
    if (code[0] != 0xc3 || (uintptr_t)code % 16)
        return false;
    for (unsigned i = 1; i < JUMP_BYTES; i++)
        if (!memchr(padding, code[i], sizeof padding))
            return false;
    return true;
}

static int write_jump(uintptr_t from, uintptr_t to)
{
    unsigned char jump[JUMP_BYTES] = {0xe9};
    int32_t distance = (int32_t)(to - (from + JUMP_BYTES));
    memcpy(jump + 1, &distance, sizeof distance);
    int fd = text_open();
    if (fd < 0)
        return fd;
    int error = text_write(fd, from, jump, sizeof jump);
    text_close(fd);
    return error;
}

int loader_watch(void (*changed)(void))
{
    const uintptr_t target = (uintptr_t)_r_debug.r_brk;
    if (!target || !is_empty_function((const unsigned char *)target))
        return -ENOTSUP;
    unsigned char relay[TEXT_RELAY_BYTES];
    text_make_relay(relay, changed);
    void *page = text_page_near(target, target, relay, sizeof relay);
    return page ? write_jump(target, (uintptr_t)page) : -ENOMEM;
}
