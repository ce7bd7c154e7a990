// SPDX-License-Identifier: MIT
#include "track/walk/marker.h"
#include "base/gc_hidden.h"
#include "loadmap/lookup.h"
#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <unwind.h>

// 16,384 entries of 32 bytes. marker_x86_64.S knows both numbers, and that `truth` comes first.
#define TABLE_SIZE 16384

struct marker_entry {
    _Atomic uintptr_t truth; // the true return address
    _Atomic uintptr_t cfa;   // of the marked frame: its slot is just below
    // The marker that placed it; NULL: free, but the words above stay until it is claimed again.
    // Claimed with a compare-exchange, so that two threads never write one entry.
    struct marker *_Atomic owner;
    uint64_t unused;
};

_Static_assert(sizeof(struct marker_entry) == 32, "the stub's unwind expression scales by 32");

__attribute__((visibility("hidden"))) struct marker_entry marker_table[TABLE_SIZE] GC_HIDDEN;

// Where markers go that were lost with their frame. Newest wins; read by a thread that
// meets a stub without an entry.
#define GRAVEYARD_SIZE 4096
static struct {
    _Atomic uintptr_t cfa, truth;
} graveyard[GRAVEYARD_SIZE] GC_HIDDEN;

// Near stack addresses stay near each other in the table; stacks of threads, whole pages apart, are
// spread.
static size_t marker_hash(uintptr_t cfa)
{
    return ((cfa >> 4) + (cfa >> 12) * 0x9e3b) & (TABLE_SIZE - 1);
}

bool marker_place(struct marker *marker, uintptr_t slot, uintptr_t expected)
{
    uintptr_t *word = (uintptr_t *)slot;
    if (*word != expected || marker->entry)
        return false;
    struct marker_entry *entry = &marker_table[marker_hash(slot + 8)];
    struct marker *nobody = NULL;
    // Acquire: the words are ours to write once the claim succeeded.
    if (!atomic_compare_exchange_strong_explicit(&entry->owner, &nobody, marker,
                                                 memory_order_acquire, memory_order_relaxed))
        return false;
    atomic_store_explicit(&entry->truth, expected, memory_order_relaxed);
    atomic_store_explicit(&entry->cfa, slot + 8, memory_order_relaxed);
    marker->entry = entry;
    marker->slot = slot;
    // The entry must be whole before the stub can be entered or unwound through: same thread, so
    // only the compiler could reorder.
    atomic_signal_fence(memory_order_seq_cst);
    __atomic_store_n(word, (uintptr_t)marker_stub, __ATOMIC_RELAXED);
    return true;
}

bool marker_is_mine(const struct marker *marker)
{
    return marker->entry &&
           atomic_load_explicit(&marker->entry->owner, memory_order_relaxed) == marker &&
           atomic_load_explicit(&marker->entry->cfa, memory_order_relaxed) == marker->slot + 8;
}

// Gives the entry back; the thread that wins the exchange was its last owner.
static void release(struct marker *marker)
{
    struct marker *mine = marker;
    // Release: the next owner's writes come after whatever we read of the entry.
    atomic_compare_exchange_strong_explicit(&marker->entry->owner, &mine, NULL,
                                            memory_order_release, memory_order_relaxed);
    marker->entry = NULL;
}

void marker_lift(struct marker *marker)
{
    if (!marker->entry)
        return;
    uintptr_t *word = (uintptr_t *)marker->slot;
    if (marker_is_mine(marker) && marker_is_stub(*word))
        __atomic_store_n(word, atomic_load_explicit(&marker->entry->truth, memory_order_relaxed),
                         __ATOMIC_RELAXED);
    release(marker);
}

void marker_take_away(struct marker *marker)
{
    if (!marker->entry)
        return;
    uintptr_t stub = (uintptr_t)marker_stub;
    const uintptr_t truth = atomic_load_explicit(&marker->entry->truth, memory_order_relaxed);
    // An exchange: the slot may be another frame's by now, and hold something else.
    if (marker_is_mine(marker))
        __atomic_compare_exchange_n((uintptr_t *)marker->slot, &stub, truth, false,
                                    __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
    release(marker);
}

void marker_bury(struct marker *marker)
{
    if (!marker->entry)
        return;
    if (marker_is_mine(marker)) {
        uintptr_t cfa = marker->slot + 8;
        size_t grave = marker_hash(cfa) % GRAVEYARD_SIZE;
        // Relaxed: a torn pair fails the comparison of cfa, or belongs to a program that races on
        // its own stack.
        atomic_store_explicit(&graveyard[grave].cfa, 0, memory_order_relaxed);
        atomic_store_explicit(&graveyard[grave].truth,
                              atomic_load_explicit(&marker->entry->truth, memory_order_relaxed),
                              memory_order_relaxed);
        atomic_store_explicit(&graveyard[grave].cfa, cfa, memory_order_release);
    }
    release(marker);
}

uintptr_t marker_truth(uintptr_t cfa)
{
    const struct marker_entry *entry = &marker_table[marker_hash(cfa)];
    if (atomic_load_explicit(&entry->cfa, memory_order_relaxed) == cfa)
        return atomic_load_explicit(&entry->truth, memory_order_relaxed);
    size_t grave = marker_hash(cfa) % GRAVEYARD_SIZE;
    if (atomic_load_explicit(&graveyard[grave].cfa, memory_order_acquire) == cfa)
        return atomic_load_explicit(&graveyard[grave].truth, memory_order_relaxed);
    return 0;
}

// Called by the stub when a marked frame has returned; cfa is the stack pointer after the return.
// Leaves the true return address in the word below cfa, where the stub and its unwind table find
// it.
__attribute__((visibility("hidden"))) void marker_returned(uintptr_t cfa)
{
    uintptr_t truth = marker_truth(cfa);
    if (!truth)
        __builtin_trap(); // the return address is lost: the program cannot go on
    __atomic_store_n((uintptr_t *)(cfa - 8), truth, __ATOMIC_RELAXED);
    struct marker_entry *entry = &marker_table[marker_hash(cfa)];
    if (atomic_load_explicit(&entry->cfa, memory_order_relaxed) != cfa)
        return;
    struct marker *owner = atomic_load_explicit(&entry->owner, memory_order_relaxed);
    if (owner && walk_marker_returned(owner, cfa))
        return;
    // Another thread's marker, on a stack that has moved here: free the entry; the owner notices.
    if (owner)
        atomic_compare_exchange_strong_explicit(&entry->owner, &owner, NULL, memory_order_release,
                                                memory_order_relaxed);
}

// The unwinder that marker_resume continues with.
__attribute__((visibility("hidden"))) void (*marker_resume_target)(struct _Unwind_Exception *);

// The program's own version of an unwinder's function, if it shows one: contexts differ between
// unwinders. A program that links libgcc statically shows none; then our own copy knows the layout.
#define UNWINDER(name)                                                                             \
    ({                                                                                             \
        void *theirs = lookup_symbol(RTLD_DEFAULT, #name);                                         \
        theirs ? (__typeof__(&name))theirs : &name;                                                \
    })

static _Unwind_Reason_Code stop_at_once(int version, _Unwind_Action actions,
                                        _Unwind_Exception_Class class,
                                        struct _Unwind_Exception *exception,
                                        struct _Unwind_Context *context, void *unused)
{
    (void)version, (void)actions, (void)class, (void)exception, (void)context, (void)unused;
    return _URC_FATAL_PHASE2_ERROR;
}

void marker_start(void)
{
    // Our copy of the unwinder fills its register table on first use; _Unwind_SetGR needs it.
    struct _Unwind_Exception nothing = {0};
    _Unwind_ForcedUnwind(&nothing, stop_at_once, NULL);
}

// The personality routine of the stub's pseudo frame: an exception that passes takes the marker
// away.
__attribute__((visibility("hidden"))) _Unwind_Reason_Code
marker_personality(int version, _Unwind_Action actions, _Unwind_Exception_Class class,
                   struct _Unwind_Exception *exception, struct _Unwind_Context *context)
{
    (void)version;
    (void)class;
    uintptr_t truth = walk_lift_for_exception();
    if (!truth || !(actions & _UA_HANDLER_FRAME))
        return _URC_CONTINUE_UNWIND;
    // The handler's frame has the same CFA as this pseudo frame, and the unwinder, which knows
    // frames by that, will not go on. Land in marker_resume, which begins the second phase anew
    // from the handler's frame.
    extern const unsigned char marker_resume[];
    marker_resume_target = UNWINDER(_Unwind_Resume);
    __typeof__(&_Unwind_SetGR) set_register = UNWINDER(_Unwind_SetGR);
    set_register(context, __builtin_eh_return_data_regno(0), (_Unwind_Word)exception);
    set_register(context, __builtin_eh_return_data_regno(1), truth);
    UNWINDER(_Unwind_SetIP)(context, (_Unwind_Ptr)marker_resume);
    return _URC_INSTALL_CONTEXT;
}
