// SPDX-License-Identifier: MIT
#include "patch/sites.h"
#include "base/gc_hidden.h"
#include "base/system/agent_map.h"
#include "patch/functions/displace.h"
#include "patch/functions/modules.h"
#include "patch/functions/scan.h"
#include "patch/functions/unpatchable.h"
#include "patch/write/code_write.h"
#include "patch/write/edits.h"
#include "patch/x86_64/assemble.h"
#include <errno.h>
#include <linux/membarrier.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

struct address_index patch_sites;

// ---- start

static int try_writing(void)
{
    static const unsigned char probe[4] = {0xc3, 0xcc, 0xc3, 0xcc};
    const uintptr_t here = (uintptr_t)&sites_start & ~(uintptr_t)4095;
    void *page = code_map_near(here, here + 4096, 4096);
    if (!page)
        return -ENOMEM;
    int error = edits_write_now((uintptr_t)page, probe, sizeof probe);
    edits_drop();
    if (!error && memcmp(page, probe, sizeof probe))
        error = -EIO;
    syscall(SYS_munmap, page, 4096);
    agent_map_release(4096, AGENT_MAP_SHARED);
    return error;
}

int sites_start(void)
{
    const int saved = errno;
    const long commands = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
    int error = -ENOSYS;
    if (commands >= 0 && commands & MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE)
        error = try_writing();
    if (!error)
        unpatchable_start();
    errno = saved;
    return error;
}

// ---- finding

int sites_find(uintptr_t pc, struct site_list *list, struct site_counts *counts)
{
    struct site_counts ignored = {0};
    *list = (struct site_list){NULL, 0};
    struct patch_function *function = functions_at(pc);
    if (!function)
        return -ENOENT;
    if (function->module->refused)
        return -EPERM;
    if (!function->searched) {
        int error = scan_function(function, counts ? counts : &ignored);
        for (unsigned i = 0; i < function->sites.count && !error; i++) {
            struct site *site = &function->sites.site[i];
            error = index_put(&patch_sites, site->address, site);
            if (site->lead && !error)
                error = index_put(&patch_sites, site_start(site), site);
        }
        if (error)
            return error;
    }
    *list = function->sites;
    return 0;
}

// .eh_frame_hdr: a version, three encodings, the section, the count, then pairs in order.
int sites_functions(uintptr_t address, int (*each)(uintptr_t function, void *context),
                    void *context)
{
    static const unsigned char usual[4] = {1, 0x1b, 0x03, 0x3b};
    struct module_ref module;
    int result = -ENOTSUP;
    loadmap_enter();
    if (loadmap_peek(address, &module) && module.eh_frame_hdr &&
        !memcmp(module.eh_frame_hdr, usual, sizeof usual)) {
        uint32_t count;
        memcpy(&count, module.eh_frame_hdr + 8, sizeof count);
        const size_t room = module.tables_end - (uintptr_t)module.eh_frame_hdr;
        result = count > (room - 12) / 8 ? -EINVAL : 0;
        for (uint32_t i = 0; i < count && !result; i++) {
            int32_t start;
            memcpy(&start, module.eh_frame_hdr + 12 + 8 * i, sizeof start);
            result = each((uintptr_t)module.eh_frame_hdr + (uintptr_t)(intptr_t)start, context);
        }
    }
    loadmap_leave();
    return result;
}

struct site *sites_at(uintptr_t address)
{
    struct site *site = index_find(&patch_sites, address);
    return site && site->address == address ? site : NULL;
}

struct site *sites_before(uintptr_t return_address)
{
    for (unsigned length = 2; length <= 8; length++) {
        struct site *site = sites_at(return_address - length);
        if (site && site->length == length)
            return site;
    }
    return NULL;
}

// ---- stubs

int stub_make(struct site *site, const struct stub_plan *plan, struct stub **made)
{
    struct patch_module *module = functions_module(site->address);
    const size_t size = assemble_size(site, plan);
    if (!module || size == 0)
        return -ENOTSUP;
    struct stub *stub = region_take(module->ref.start, module->ref.end, size);
    if (!stub)
        return -ENOMEM;
    static unsigned char code[STUB_MOST] GC_HIDDEN; // under the lock
    stub->site = site;
    const size_t bytes = assemble(stub, plan, code);
    int error =
        bytes ? edits_write_later(stub->code, code, bytes, UINT64_C(1) << stub->shift) : -ENOTSUP;
    if (error)
        region_give_back(stub);
    else
        *made = stub;
    return error;
}

static void release(struct stub *stub)
{
    struct stub *expected = stub;
    // No trap may send a thread there any more.
    atomic_compare_exchange_strong(&stub->site->shelter, &expected, NULL);
    region_give_back(stub);
}

// ---- unloading

static void forget_site(struct site *site)
{
    const uintptr_t island = (uintptr_t)atomic_load(&site->island);
    index_put(&patch_sites, site->address, NULL);
    index_put(&patch_sites, site_start(site), NULL);
    if (island)
        index_put(&patch_sites, island, NULL);
    island_give_back(site->room);
    const struct displacement *displacement = site->displacement;
    if (displacement && atomic_load(&displacement->stub)) {
        index_put(&patch_sites, (uintptr_t)atomic_load(&displacement->door), NULL);
        island_give_back((uintptr_t)atomic_load(&displacement->door));
        index_put(&patch_sites, displacement->victim, NULL);
        index_put(&patch_sites, displace_inside(displacement), NULL);
    }
    bump_give_back(site->displacement, sizeof *site->displacement);
}

void sites_forget(uintptr_t start, uintptr_t end)
{
    const struct region *region;
    for (size_t i = 0; (region = region_number(i)); i++)
        for (uint32_t k = 0; k < region->used; k++) {
            struct stub *stub = atomic_load_explicit(&region->stub[k], memory_order_relaxed);
            // Nothing can return to code that is gone.
            if (!stub->is_free && stub->site->address >= start && stub->site->address < end) {
                atomic_store(&stub->site->stub, NULL);
                release(stub);
            }
        }
    functions_forget(start, end, forget_site);
}

uint64_t sites_bytes(void)
{
    return bump_bytes() + island_bytes() + region_bytes();
}
