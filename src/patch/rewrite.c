// SPDX-License-Identifier: MIT
#include "base/gc_hidden.h"
#include "base/lock.h"
#include "patch/code_write.h"
#include "patch/displace.h"
#include "patch/functions.h"
#include "patch/lock.h"
#include "patch/stub.h"
#include "patch/x86_64/relocate.h"
#include <errno.h>
#include <linux/membarrier.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TRAP 0xcc
#define FEW 512        // changes that need no memory of their own
#define EDITS_OF_ONE 3 // at most, of a change: island, site, and what makes room for it
#define CHUNK 4096     // bytes of code that one system call writes

// One place in the code, and what it shall be.
struct edit {
    uintptr_t address;
    uint8_t bytes, starts; // as in struct site, and the first byte
    unsigned char code[DISPLACED_MOST];
};

struct code_batch {
    struct edit *edit;
    size_t count;
    int fd;
    enum company company;
};

// ---- what is to be written

static void add_edit(struct code_batch *batch, uintptr_t address, const void *code, size_t bytes,
                     uint8_t starts)
{
    struct edit *edit = &batch->edit[batch->count++];
    edit->address = address;
    edit->bytes = (uint8_t)bytes;
    edit->starts = starts | 1;
    memcpy(edit->code, code, bytes);
}

static size_t bytes_replaced(const struct site *site)
{
    switch (site->form) {
    case FORM_TRAP:
        return 1;
    case FORM_NEAR:
    case FORM_DISPLACED:
        return SHORT_JUMP_BYTES;
    }
    return JUMP_BYTES;
}

// The site's jump of two bytes will lead into the middle of it.
static int lead_away(struct code_batch *batch, const struct displacement *displacement)
{
    if (displace_is_done(displacement))
        return 0;
    const int error = displace_open_door(displacement, batch->fd);
    if (error)
        return error;
    // Alone, by itself: a signal's handler may run between two pieces of the batch.
    if (batch->company == COMPANY_NONE)
        return code_write(batch->fd, displacement->victim, displacement->code,
                          displace_bytes(displacement));
    add_edit(batch, displacement->victim, displacement->code, displace_bytes(displacement), 0);
    return 0;
}

// The jump from a short site to its stub is made of two, or three.
static int lead_by_island(struct code_batch *batch, struct site *site, uintptr_t entry)
{
    unsigned char jump[JUMP_BYTES];
    const uintptr_t island = site->room;
    if (!relocate_jump(jump, island, entry))
        return -ERANGE;
    if (atomic_load(&site->island)) {
        add_edit(batch, island, jump, JUMP_BYTES, 0);
    } else {
        // No thread can be there yet.
        int error = code_write(batch->fd, island, jump, JUMP_BYTES);
        error = error ? error : index_put(&patch_sites, island, site);
        if (error)
            return error;
        atomic_store(&site->island, (unsigned char *)island);
    }
    if (atomic_load(&site->stub))
        return 0;
    const struct displacement *displacement =
        site->form == FORM_DISPLACED ? site->displacement : NULL;
    const int error = displacement ? lead_away(batch, displacement) : 0;
    if (error)
        return error;
    if (site->form != FORM_BORROWED) {
        const uintptr_t end = site->address + SHORT_JUMP_BYTES;
        const uintptr_t to = displacement ? displace_inside(displacement) : island;
        const unsigned char near[SHORT_JUMP_BYTES] = {0xeb, (unsigned char)(to - end)};
        add_edit(batch, site->address, near, sizeof near, 0);
    } else {
        relocate_jump(jump, site_start(site), island);
        add_edit(batch, site_start(site), jump, JUMP_BYTES, site->starts);
    }
    return 0;
}

static int add_change(struct code_batch *batch, const struct site_change *change)
{
    static const unsigned char trap = TRAP;
    struct site *site = change->site;
    if (atomic_load(&site->stub) == change->stub)
        return 0;
    if (!change->stub) {
        add_edit(batch, site_start(site), site->original, bytes_replaced(site), site->starts);
        return 0;
    }
    if (change->stub->site != site || change->stub->is_free)
        return -EINVAL;
    // Before the first trap is written.
    atomic_store_explicit(&site->shelter, change->stub, memory_order_release);
    const uintptr_t entry = change->stub->code + STUB_ENTRY;
    unsigned char jump[JUMP_BYTES];
    int error = 0;
    switch (site->form) {
    case FORM_JUMP:
        if (!relocate_jump(jump, site_start(site), entry))
            return -ERANGE;
        add_edit(batch, site_start(site), jump, JUMP_BYTES, 0);
        break;
    case FORM_BORROWED:
    case FORM_NEAR:
    case FORM_DISPLACED:
        error = lead_by_island(batch, site, entry);
        break;
    }
    if (site->form == FORM_TRAP)
        add_edit(batch, site_start(site), &trap, 1, 0);
    return error;
}

// ---- in order of address, in place, and without libc

static void sift(struct edit *edit, size_t at, size_t count)
{
    for (size_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && edit[child + 1].address > edit[child].address)
            child++;
        if (edit[at].address >= edit[child].address)
            return;
        const struct edit swap = edit[at];
        edit[at] = edit[child];
        edit[child] = swap;
    }
}

static void sort(struct edit *edit, size_t count)
{
    bool sorted = true;
    for (size_t i = 1; i < count && sorted; i++)
        sorted = edit[i - 1].address <= edit[i].address;
    if (sorted)
        return;
    for (size_t i = count / 2; i-- > 0;)
        sift(edit, i, count);
    for (size_t left = count; left-- > 1;) {
        const struct edit swap = edit[0];
        edit[0] = edit[left];
        edit[left] = swap;
        sift(edit, 0, left);
    }
}

// ---- writing

// Traps first, wherever an instruction begins or began; then what lies between; then these.
enum rewrite_pass { PASS_TRAPS, PASS_REST, PASS_WHOLE };

static void make_pass(const struct edit *edit, enum rewrite_pass pass, unsigned char *code)
{
    memcpy(code, pass == PASS_TRAPS ? (const void *)edit->address : edit->code, edit->bytes);
    for (unsigned i = 0; i < edit->bytes && pass != PASS_WHOLE; i++)
        if (edit->starts >> i & 1)
            code[i] = TRAP;
}

// One system call for all edits within a chunk; the bytes between them are written as they are.
static int write_pass(const struct code_batch *batch, enum rewrite_pass pass)
{
    static unsigned char chunk[CHUNK] GC_HIDDEN; // under the lock
    for (size_t i = 0; i < batch->count;) {
        const uintptr_t start = batch->edit[i].address;
        size_t used = 0;
        for (; i < batch->count && batch->edit[i].address - start <= CHUNK - DISPLACED_MOST; i++) {
            const size_t offset = batch->edit[i].address - start;
            memcpy(chunk + used, (const void *)(start + used), offset - used);
            make_pass(&batch->edit[i], pass, chunk + offset);
            used = offset + batch->edit[i].bytes;
        }
        int error = code_write(batch->fd, start, chunk, used);
        if (error)
            return error;
    }
    return 0;
}

// Every thread has seen all code written so far before it runs on.
static int synchronise_cores(void)
{
    return syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0) ? -ENOSYS : 0;
}

// Traps are in the code, and threads that must not meet one. Sequentially consistent: of one who
// begins to write and one who cannot bear it, one sees the other.
static _Atomic bool trapping;
static _Atomic uint32_t holds;

bool sites_hold_traps(void)
{
    atomic_fetch_add(&holds, 1);
    if (!atomic_load(&trapping))
        return true;
    atomic_fetch_sub(&holds, 1);
    return false;
}

void sites_end_traps(void)
{
    struct patience patience = {0};
    while (!sites_hold_traps())
        if (!patience_lasts(&patience))
            return;
}

void sites_release_traps(void)
{
    atomic_fetch_sub(&holds, 1);
}

void sites_forget_traps(void)
{
    atomic_store(&trapping, false);
}

static int write_with_traps(const struct code_batch *batch)
{
    // Again and again: a forked child has to say so anew.
    if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0))
        return -ENOSYS;
    static const enum rewrite_pass passes[] = {PASS_TRAPS, PASS_REST, PASS_WHOLE};
    int error = synchronise_cores(); // stubs and islands that were written just now
    for (size_t i = 0; i < sizeof passes / sizeof *passes && !error; i++) {
        error = write_pass(batch, passes[i]);
        error = error ? error : synchronise_cores();
    }
    return error;
}

static int write_batch(const struct code_batch *batch)
{
    if (batch->company == COMPANY_NONE)
        return write_pass(batch, PASS_WHOLE);
    atomic_store(&trapping, true);
    int error = atomic_load(&holds) ? -EAGAIN : write_with_traps(batch);
    atomic_store(&trapping, false);
    return error;
}

static int apply_locked(struct code_batch *batch, const struct site_change *changes, size_t count)
{
    int error = region_flush_to(batch->fd);
    for (size_t i = 0; i < count && !error; i++)
        error = add_change(batch, &changes[i]);
    if (error || batch->count == 0)
        return error;
    sort(batch->edit, batch->count);
    error = write_batch(batch);
    for (size_t i = 0; i < count && !error; i++)
        atomic_store_explicit(&changes[i].site->stub, changes[i].stub, memory_order_release);
    return error;
}

int sites_apply(struct site_change *changes, size_t count, enum company company)
{
    const int saved = errno;
    int error = patch_lock();
    if (error || count == 0) {
        if (!error)
            patch_unlock();
        return error;
    }
    static struct edit few[EDITS_OF_ONE * FEW] GC_HIDDEN; // under the lock
    const size_t bytes = EDITS_OF_ONE * count * sizeof(struct edit);
    long memory = (long)few;
    if (count > FEW)
        memory =
            syscall(SYS_mmap, 0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct code_batch batch = {
        .edit = (struct edit *)memory, .fd = code_open(), .company = company};
    if (memory == -1)
        error = -ENOMEM;
    else if (batch.fd < 0)
        error = batch.fd;
    else
        error = apply_locked(&batch, changes, count);
    if (batch.fd >= 0)
        code_close(batch.fd);
    if (memory != -1 && count > FEW)
        syscall(SYS_munmap, memory, bytes);
    patch_unlock();
    errno = saved;
    return error;
}

uintptr_t sites_trapped(uintptr_t pc)
{
    const uintptr_t address = pc - 1;
    for (unsigned i = 0; i < JUMP_BYTES; i++) {
        struct site *site = index_find(&patch_sites, address - i);
        if (!site)
            continue;
        const struct displacement *displacement = i == 0 ? site->displacement : NULL;
        const struct stub *displaced = displacement && displacement->victim == address
                                           ? atomic_load(&displacement->stub)
                                           : NULL;
        if (displaced)
            return displaced->code + STUB_ENTRY;
        const bool by_island = i == 0 && (uintptr_t)atomic_load(&site->island) == address;
        const bool at_start = site_start(site) == address - i;
        if (!by_island && !(at_start && (i == 0 || site->starts >> i & 1)))
            continue;
        struct stub *shelter = atomic_load_explicit(&site->shelter, memory_order_acquire);
        // A chain has no place for who comes back from the call.
        if (i && shelter && shelter->otherwise)
            shelter = shelter->otherwise;
        if (shelter)
            return shelter->code + (i ? shelter->moved[i] : STUB_ENTRY);
    }
    return 0;
}
