// SPDX-License-Identifier: MIT
#include "loadmap/image.h"
#include "loadmap/dynamic.h"
#include <string.h>

#define PAGE ((uintptr_t)4096)

static void take_note(struct image *image, const ElfW(Nhdr) * note, const unsigned char *name,
                      const unsigned char *content)
{
    if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 && !memcmp(name, "GNU", 4) &&
        note->n_descsz <= BUILD_ID_MOST && !image->build_id_bytes) {
        image->build_id_bytes = note->n_descsz;
        memcpy(image->build_id, content, note->n_descsz);
    } else if (note->n_namesz >= 3 && !memcmp(name, "Go", 3)) {
        image->ref.runtime = RUNTIME_GO;
    }
}

static void take_notes(struct image *image, const unsigned char *note, size_t bytes)
{
    const size_t head = sizeof(ElfW(Nhdr));
    while (bytes >= head) {
        ElfW(Nhdr) header;
        memcpy(&header, note, head);
        size_t name = ((size_t)header.n_namesz + 3) & ~(size_t)3;
        size_t content = ((size_t)header.n_descsz + 3) & ~(size_t)3;
        if (name > bytes - head || content > bytes - head - name)
            return;
        take_note(image, &header, note + head, note + head + name);
        note += head + name + content;
        bytes -= head + name + content;
    }
}

static bool holds(const ElfW(Phdr) * load, const ElfW(Phdr) * part)
{
    return load->p_type == PT_LOAD && (load->p_flags & PF_R) && part->p_vaddr >= load->p_vaddr &&
           part->p_memsz <= load->p_filesz &&
           part->p_vaddr - load->p_vaddr <= load->p_filesz - part->p_memsz;
}

static const ElfW(Phdr) *
    segment_of(const ElfW(Phdr) * headers, unsigned count, const ElfW(Phdr) * part)
{
    for (unsigned i = 0; i < count; i++)
        if (holds(&headers[i], part))
            return &headers[i];
    return NULL;
}

static void add_segment(struct image *image, uintptr_t bias, const ElfW(Phdr) * load)
{
    struct module_ref *ref = &image->ref;
    uintptr_t start = bias + (load->p_vaddr & ~(PAGE - 1));
    uintptr_t end = (bias + load->p_vaddr + load->p_memsz + PAGE - 1) & ~(PAGE - 1);
    if (ref->start == 0 || start < ref->start) {
        ref->start = start;
        image->first_end = (bias + load->p_vaddr + load->p_filesz + PAGE - 1) & ~(PAGE - 1);
    }
    if (end > ref->end)
        ref->end = end;
    uintptr_t code = bias + load->p_vaddr;
    // A module with several executable segments is rare; return addresses without a table are
    // checked against the largest.
    if ((load->p_flags & PF_X) && load->p_filesz > ref->code_end - ref->code_start) {
        ref->code_start = code;
        ref->code_end = code + load->p_filesz;
    }
}

void image_from_headers(struct image *image, uintptr_t bias, const ElfW(Phdr) * headers,
                        unsigned count)
{
    memset(image, 0, sizeof *image);
    struct module_ref *ref = &image->ref;
    for (unsigned i = 0; i < count; i++)
        if (headers[i].p_type == PT_LOAD && headers[i].p_memsz != 0)
            add_segment(image, bias, &headers[i]);
    ref->base = ref->start;
    for (unsigned i = 0; i < count; i++) {
        const ElfW(Phdr) *part = &headers[i];
        if (part->p_type != PT_GNU_EH_FRAME && part->p_type != PT_NOTE)
            continue;
        const ElfW(Phdr) *load = segment_of(headers, count, part);
        if (!load)
            continue;
        const unsigned char *content = (const unsigned char *)(bias + part->p_vaddr);
        if (part->p_type == PT_GNU_EH_FRAME) {
            ref->eh_frame_hdr = content;
            ref->tables_start = bias + load->p_vaddr;
            ref->tables_end = ref->tables_start + load->p_filesz;
        } else {
            take_notes(image, content, part->p_memsz);
        }
    }
}

// OCaml has no note, but a table of frames that plugins are to find in the program, and a header in
// each plugin.
void image_find_runtime(struct image *image, uintptr_t bias, const ElfW(Phdr) * headers,
                        unsigned count)
{
    struct dynamic dynamic;
    if (image->ref.runtime != RUNTIME_NONE ||
        !dynamic_read(&dynamic, &image->ref, bias, headers, count))
        return;
    if (dynamic_exports(&dynamic, "caml_frametable") ||
        dynamic_exports(&dynamic, "caml_plugin_header"))
        image->ref.runtime = RUNTIME_OCAML;
    // libunwind, or a library that has it inside and shows it.
    image->ref.remembers = dynamic_exports(&dynamic, "_Ux86_64_getcontext");
    // Every unwinder shows this to language runtimes: libgcc_s, LLVM's and GNU's libunwind.
    image->ref.unwinds = image->ref.remembers || dynamic_exports(&dynamic, "_Unwind_GetIP");
}

// The program headers are used in place, so they must be mapped: they are, if the segment that
// holds the ELF header holds them too. (A tool may have moved them to where nothing of ours is
// mapped.)
static bool headers_are_mapped(const ElfW(Ehdr) * file, const ElfW(Phdr) * headers, uintptr_t start,
                               uintptr_t end, uintptr_t *bias)
{
    size_t need = file->e_phoff + (size_t)file->e_phnum * sizeof(ElfW(Phdr));
    bool first = false;
    for (unsigned i = 0; i < file->e_phnum; i++) {
        const ElfW(Phdr) *load = &headers[i];
        if (load->p_type != PT_LOAD)
            continue;
        if (load->p_filesz > load->p_memsz || load->p_memsz > end - start)
            return false;
        if (load->p_offset == 0 && !first) {
            if (load->p_filesz < need || !(load->p_flags & PF_R))
                return false;
            *bias = start - load->p_vaddr;
            first = true;
        }
    }
    return first;
}

static bool inside(const struct image *image, uintptr_t start, uintptr_t end)
{
    const struct module_ref *ref = &image->ref;
    return ref->start == start && ref->end > start && ref->end <= ((end + PAGE - 1) & ~(PAGE - 1));
}

bool image_from_memory(struct image *image, uintptr_t start, uintptr_t end, const uintptr_t *bias)
{
    const ElfW(Ehdr) *file = (const ElfW(Ehdr) *)start;
    if (start % PAGE || end - start < PAGE || !loadmap_readable(start))
        return false;
    if (memcmp(file->e_ident, ELFMAG, SELFMAG) != 0 ||
        file->e_ident[EI_CLASS] != (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32) ||
        file->e_phentsize != sizeof(ElfW(Phdr)) || file->e_phoff % 8 || file->e_phoff > PAGE ||
        file->e_phnum == 0 || file->e_phnum > (PAGE - file->e_phoff) / sizeof(ElfW(Phdr)))
        return false;
    const ElfW(Phdr) *headers = (const ElfW(Phdr) *)(start + file->e_phoff);
    uintptr_t found = 0;
    if (!headers_are_mapped(file, headers, start, end, &found))
        return false;
    if (bias && *bias != found)
        return false;
    // Garbage that passed for headers must not lead anywhere else: take_notes reads what they say.
    for (unsigned i = 0; i < file->e_phnum; i++)
        if (headers[i].p_type == PT_LOAD &&
            (found + headers[i].p_vaddr < start ||
             found + headers[i].p_vaddr + headers[i].p_memsz > ((end + PAGE - 1) & ~(PAGE - 1))))
            return false;
    image_from_headers(image, found, headers, file->e_phnum);
    if (bias)
        image_find_runtime(image, found, headers, file->e_phnum);
    return inside(image, start, end);
}
