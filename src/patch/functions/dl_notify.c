// SPDX-License-Identifier: MIT
#include "patch/functions/dl_notify.h"
#include "loadmap/loadmap.h"
#include "patch/write/code_write.h"
#include "patch/write/edits.h"
#include <errno.h>
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
    const int error = edits_add(from, jump, sizeof jump, 0);
    return error ? error : edits_commit(THREADS_NONE);
}

// The last library of the loader's list that is known. New ones are appended.
static const struct link_map *newest;
static bool has_gone;
static void (*tell)(enum dl_event event);
static bool watched;

// The last one of the list, or `keep` if that is in it.
static const struct link_map *last_of(const struct link_map *map, const struct link_map *keep)
{
    while (map && map != keep && map->l_next)
        map = map->l_next;
    return map;
}

// The program headers of a library, where most have them: behind the first bytes that are mapped.
static bool read_headers(const struct link_map *map, struct dl_phdr_info *info)
{
    const Elf64_Ehdr *head = (const Elf64_Ehdr *)map->l_addr;
    if (!map->l_addr || map->l_addr % 4096 || !loadmap_readable(map->l_addr) ||
        memcmp(head->e_ident, ELFMAG, SELFMAG) || head->e_phentsize != sizeof(Elf64_Phdr) ||
        head->e_phoff % 8 || head->e_phoff + head->e_phnum * sizeof(Elf64_Phdr) > 4096)
        return false;
    *info = (struct dl_phdr_info){.dlpi_addr = map->l_addr,
                                  .dlpi_name = map->l_name,
                                  .dlpi_phdr = (const void *)(map->l_addr + head->e_phoff),
                                  .dlpi_phnum = head->e_phnum};
    for (unsigned i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            return map->l_addr + info->dlpi_phdr[i].p_vaddr == (uintptr_t)map->l_ld;
    return false;
}

void dl_each_new(int (*each)(struct dl_phdr_info *info, size_t size, void *context), void *context)
{
    bool all = false;
    for (const struct link_map *map = newest->l_next; map; newest = map, map = map->l_next) {
        struct dl_phdr_info info;
        if (read_headers(map, &info))
            each(&info, sizeof info, context);
        else
            all = true;
    }
    if (all)
        dl_iterate_phdr(each, context);
}

static void on_change(void)
{
    const int state = _r_debug.r_state;
    if (state == RT_DELETE) {
        has_gone = true;
        tell(LOADER_REMOVES);
    }
    if (state != RT_CONSISTENT)
        return;
    const bool gone = has_gone;
    has_gone = false;
    if (gone)
        newest = last_of(_r_debug.r_map, newest); // it may have been the one
    tell(gone ? LOADER_REMOVED : LOADER_ADDED);
}

bool dl_is_watched(void)
{
    return watched;
}

int dl_watch(void (*changed)(enum dl_event event))
{
    tell = changed;
    newest = last_of(_r_debug.r_map, NULL);
    if (!newest)
        return -ENOTSUP;
    const uintptr_t target = (uintptr_t)_r_debug.r_brk;
    if (!target || !is_empty_function((const unsigned char *)target))
        return -ENOTSUP;
    unsigned char relay[CODE_RELAY_BYTES];
    code_make_relay(relay, on_change);
    void *page = code_page_near(target, target, relay, sizeof relay);
    const int error = page ? write_jump(target, (uintptr_t)page) : -ENOMEM;
    watched = !error;
    return error;
}
