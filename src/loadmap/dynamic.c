// SPDX-License-Identifier: MIT
#include "loadmap/dynamic.h"
#include <string.h>

bool dynamic_holds(const struct dynamic *dynamic, uintptr_t start, size_t bytes)
{
    return start >= dynamic->start && start < dynamic->end && bytes <= dynamic->end - start;
}

static uintptr_t relocated(const struct dynamic *dynamic, uintptr_t value)
{
    // The loader adds the base where it may write; to addresses alone.
    return value < dynamic->bias ? value + dynamic->bias : value;
}

static void take_tag(struct dynamic *dynamic, const ElfW(Dyn) * entry)
{
    const uintptr_t value = entry->d_un.d_ptr;
    switch (entry->d_tag) {
    case DT_SYMTAB:
        dynamic->symbols = relocated(dynamic, value);
        break;
    case DT_STRTAB:
        dynamic->strings = relocated(dynamic, value);
        break;
    case DT_STRSZ:
        dynamic->string_bytes = value;
        break;
    case DT_GNU_HASH:
        dynamic->hash = relocated(dynamic, value);
        break;
    case DT_RELA:
        dynamic->relocations[0] = relocated(dynamic, value);
        break;
    case DT_RELASZ:
        dynamic->bytes[0] = value;
        break;
    case DT_JMPREL:
        dynamic->relocations[1] = relocated(dynamic, value);
        break;
    case DT_PLTGOT:
        dynamic->linkage = relocated(dynamic, value);
        break;
    case DT_VERDEF:
        dynamic->versions = relocated(dynamic, value);
        break;
    case DT_PLTRELSZ:
        dynamic->bytes[1] = value;
        break;
    }
}

bool dynamic_read(struct dynamic *dynamic, const struct module_ref *ref, uintptr_t bias,
                  const ElfW(Phdr) * headers, unsigned count)
{
    *dynamic = (struct dynamic){.start = ref->start, .end = ref->end, .bias = bias};
    for (unsigned i = 0; i < count; i++) {
        const uintptr_t start = bias + headers[i].p_vaddr;
        if (headers[i].p_type != PT_DYNAMIC || !dynamic_holds(dynamic, start, headers[i].p_memsz))
            continue;
        const ElfW(Dyn) *entry = (const void *)start;
        const size_t entries = headers[i].p_memsz / sizeof *entry;
        for (size_t k = 0; k < entries && entry[k].d_tag != DT_NULL; k++)
            take_tag(dynamic, &entry[k]);
        return dynamic_holds(dynamic, dynamic->symbols, sizeof(ElfW(Sym))) &&
               dynamic_holds(dynamic, dynamic->strings, dynamic->string_bytes);
    }
    return false;
}

static uint32_t hash_of(const char *name)
{
    uint32_t hash = 5381;
    for (; *name; name++)
        hash = hash * 33 + (unsigned char)*name;
    return hash;
}

static bool read_word(const struct dynamic *dynamic, uintptr_t at, uint32_t *word)
{
    if (!dynamic_holds(dynamic, at, sizeof *word))
        return false;
    memcpy(word, (const void *)at, sizeof *word);
    return true;
}

static bool defines(const struct dynamic *dynamic, uint32_t index, const char *name,
                    uintptr_t *address)
{
    const size_t length = strlen(name);
    const uintptr_t at = dynamic->symbols + index * sizeof(ElfW(Sym));
    ElfW(Sym) symbol;
    if (!dynamic_holds(dynamic, at, sizeof symbol))
        return false;
    memcpy(&symbol, (const void *)at, sizeof symbol);
    *address = dynamic->bias + symbol.st_value;
    return symbol.st_shndx != SHN_UNDEF && symbol.st_name < dynamic->string_bytes &&
           length < dynamic->string_bytes - symbol.st_name &&
           !memcmp((const char *)dynamic->strings + symbol.st_name, name, length + 1);
}

// A filter that says no for most names, then buckets that lead into chains of hashes, one for each
// symbol from the first exported one on; the lowest bit ends a chain.
bool dynamic_find(const struct dynamic *dynamic, const char *name, uintptr_t *address)
{
    const uint32_t hash = hash_of(name);
    const unsigned bits = 8 * sizeof(ElfW(Addr));
    uint32_t head[4], index, link;
    ElfW(Addr) filter;
    if (!dynamic->hash || !dynamic_holds(dynamic, dynamic->hash, sizeof head))
        return false;
    memcpy(head, (const void *)dynamic->hash, sizeof head);
    const uint32_t buckets = head[0], first = head[1], words = head[2], shift = head[3] % 32;
    if (!buckets || !words)
        return false;
    const uintptr_t filters = dynamic->hash + sizeof head;
    const uintptr_t bucket = filters + words * sizeof filter, chain = bucket + 4 * (size_t)buckets;
    const uintptr_t at = filters + hash / bits % words * sizeof filter;
    if (!dynamic_holds(dynamic, at, sizeof filter))
        return false;
    memcpy(&filter, (const void *)at, sizeof filter);
    if (!(filter >> hash % bits & filter >> (hash >> shift) % bits & 1) ||
        !read_word(dynamic, bucket + 4 * (size_t)(hash % buckets), &index) || index < first)
        return false;
    for (;; index++) {
        if (!read_word(dynamic, chain + 4 * (size_t)(index - first), &link))
            return false;
        if ((link | 1) == (hash | 1) && defines(dynamic, index, name, address))
            return true;
        if (link & 1)
            return false;
    }
}

bool dynamic_exports(const struct dynamic *dynamic, const char *name)
{
    uintptr_t address;
    return dynamic_find(dynamic, name, &address);
}

static bool is_version_of_libc(const struct dynamic *dynamic, uint32_t name)
{
    static const char begin[] = "GLIBC_";
    return name < dynamic->string_bytes && sizeof begin - 1 <= dynamic->string_bytes - name &&
           !memcmp((const char *)dynamic->strings + name, begin, sizeof begin - 1);
}

// Each definition leads to its names, of which the first is its own, and to the next definition.
bool dynamic_is_libc(const struct dynamic *dynamic)
{
    ElfW(Verdef) version = {.vd_next = 0};
    ElfW(Verdaux) name;
    bool any = false;
    uintptr_t at = dynamic->versions;
    do {
        if (!at || !dynamic_holds(dynamic, at, sizeof version))
            return false;
        memcpy(&version, (const void *)at, sizeof version);
        if (!dynamic_holds(dynamic, at + version.vd_aux, sizeof name))
            return false;
        memcpy(&name, (const void *)(at + version.vd_aux), sizeof name);
        const bool is_file = version.vd_flags & VER_FLG_BASE; // named for the file itself
        if (!is_file && !is_version_of_libc(dynamic, name.vda_name))
            return false;
        any |= !is_file;
        at += version.vd_next;
    } while (version.vd_next);
    return any;
}
