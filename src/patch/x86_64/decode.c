// SPDX-License-Identifier: MIT
#include "patch/x86_64/decode.h"
#include <string.h>

// The bytes that follow an opcode, by its first byte. Immediates: b one byte; z four, or two after
// 66; v as z, but eight with REX.W; w two; e two and one; a an address of eight (four after 67); r,
// d branch distances of one and of four bytes. Capital M: a ModRM byte alone; those with both are
// the letters of `both` below. A dot: nothing; !: no such instruction; p: a prefix or an escape. A
// comma, i, S: as a dot, b, M, but the instruction may lead elsewhere, or be padding.
static const char one_byte[257] = "MMMMbz!!MMMMbz!p"  // 00
                                  "MMMMbz!!MMMMbz!!"  // 10
                                  "MMMMbzp!MMMMbzp!"  // 20
                                  "MMMMbzp!MMMMbzp!"  // 30
                                  "pppppppppppppppp"  // 40: REX
                                  "................"  // 50
                                  "!!pMppppzZbB...."  // 60
                                  "rrrrrrrrrrrrrrrr"  // 70
                                  "BZ!BMMMMMMMMMMMS"  // 80
                                  ",.........!....."  // 90
                                  "aaaa....bz......"  // a0
                                  "bbbbbbbbvvvvvvvv"  // b0
                                  "BBw,ppBZe.w,,i!,"  // c0
                                  "MMMM!!!.MMMMMMMM"  // d0
                                  "rrrrbbbbdd!r...."  // e0
                                  "p,pp,.FG......MS"; // f0: F, G have an immediate if reg is 0 or 1

static const char two_byte[257] = "MMMM!,.,..!,!M.P"  // 00: P is 3DNow!
                                  "MMMMMMMMMMMMMMMS"  // 10
                                  "CCCC!!!!MMMMMMMM"  // 20: C takes registers only
                                  "....,,!.p!p!!!!!"  // 30
                                  "MMMMMMMMMMMMMMMM"  // 40
                                  "MMMMMMMMMMMMMMMM"  // 50
                                  "MMMMMMMMMMMMMMMM"  // 60
                                  "BBBBMMM.XM!!MMMM"  // 70: X depends on its prefix
                                  "dddddddddddddddd"  // 80
                                  "MMMMMMMMMMMMMMMM"  // 90
                                  "...MBMMM...MBMMM"  // a0
                                  "MMMMMMMMMSBMMMMM"  // b0
                                  "MMBMBBBM........"  // c0
                                  "MMMMMMMMMMMMMMMM"  // d0
                                  "MMMMMMMMMMMMMMMM"  // e0
                                  "MMMMMMMMMMMMMMMS"; // f0

struct code_cursor {
    const unsigned char *code;
    size_t at, bytes;
    bool failed;
};

static uint8_t next_byte(struct code_cursor *cursor)
{
    if (cursor->at >= cursor->bytes) {
        cursor->failed = true;
        return 0;
    }
    return cursor->code[cursor->at++];
}

static int64_t read_signed(struct code_cursor *cursor, size_t count)
{
    if (cursor->bytes - cursor->at < count) {
        cursor->failed = true;
        return 0;
    }
    uint64_t value = 0;
    memcpy(&value, cursor->code + cursor->at, count);
    cursor->at += count;
    const unsigned unused = 64 - 8 * (unsigned)count;
    return count == 0 ? 0 : (int64_t)(value << unused) >> unused;
}

static unsigned prefix_bit(uint8_t byte)
{
    switch (byte) {
    case 0x66:
        return PREFIX_OPERAND;
    case 0x67:
        return PREFIX_ADDRESS;
    case 0xf0:
        return PREFIX_LOCK;
    case 0xf2:
        return PREFIX_F2;
    case 0xf3:
        return PREFIX_F3;
    case 0x64:
    case 0x65:
        return PREFIX_FS_GS;
    case 0x26:
    case 0x2e:
    case 0x36:
    case 0x3e:
        return PREFIX_SEGMENT;
    }
    return 0;
}

// Prefixes up to the first byte of the opcode, which is returned.
static uint8_t read_prefixes(struct code_cursor *cursor, struct instruction *in)
{
    for (;;) {
        uint8_t byte = next_byte(cursor);
        unsigned bit = prefix_bit(byte);
        if (bit) {
            in->prefixes |= (uint8_t)bit;
            in->rex = 0; // one that does not stand right before the opcode is void
        } else if ((byte & 0xf0) == 0x40) {
            in->rex = byte;
        } else {
            return byte;
        }
        if (cursor->failed)
            return 0;
    }
}

static void read_sib(struct code_cursor *cursor, struct instruction *in, uint8_t extend)
{
    uint8_t sib = next_byte(cursor);
    uint8_t index = (sib >> 3 & 7) | (extend & 2 ? 8 : 0);
    in->index = index == 4 ? NO_REGISTER : index;
    in->scale = (uint8_t)(1u << (sib >> 6));
    if ((sib & 7) == 5 && in->mod == 0) {
        in->base = NO_REGISTER;
        in->disp_bytes = 4;
    } else {
        in->base = (sib & 7) | (extend & 1 ? 8 : 0);
    }
}

// `extend`: the bits R, X, B as REX has them.
static void read_modrm(struct code_cursor *cursor, struct instruction *in, uint8_t extend)
{
    uint8_t byte = next_byte(cursor);
    in->has_modrm = true;
    in->mod = byte >> 6;
    in->reg = (byte >> 3 & 7) | (extend & 4 ? 8 : 0);
    in->rm = (byte & 7) | (extend & 1 ? 8 : 0);
    in->base = in->index = NO_REGISTER;
    if (in->mod == 3)
        return;
    in->disp_bytes = in->mod == 1 ? 1 : in->mod == 2 ? 4 : 0;
    if ((byte & 7) == 4) {
        read_sib(cursor, in, extend);
    } else if ((byte & 7) == 5 && in->mod == 0) {
        in->rip_relative = true;
        in->disp_bytes = 4;
    } else {
        in->base = in->rm;
    }
    in->disp_at = (uint8_t)cursor->at;
    in->disp = (int32_t)read_signed(cursor, in->disp_bytes);
}

static void read_immediate(struct code_cursor *cursor, struct instruction *in, unsigned count)
{
    in->immediate_at = (uint8_t)cursor->at;
    in->immediate_bytes = (uint8_t)count;
    in->immediate = read_signed(cursor, count);
}

static unsigned width_z(const struct instruction *in)
{
    return in->prefixes & PREFIX_OPERAND && !(in->rex & 8) ? 2 : 4;
}

static void read_operands(struct code_cursor *cursor, struct instruction *in, char shape)
{
    const uint8_t extend = in->rex & 7;
    if (shape >= 'A' && shape <= 'Z')
        read_modrm(cursor, in, extend);
    switch (shape) {
    case '!':
        cursor->failed = true;
        break;
    case 'F':
        read_immediate(cursor, in, (in->reg & 7) < 2);
        break;
    case 'G':
        read_immediate(cursor, in, (in->reg & 7) < 2 ? width_z(in) : 0);
        break;
    case 'X':
        read_immediate(cursor, in, in->prefixes & (PREFIX_OPERAND | PREFIX_F2) ? 2 : 0);
        break;
    case 'B':
    case 'P':
    case 'b':
    case 'i':
    case 'r':
        read_immediate(cursor, in, 1);
        break;
    case 'Z':
    case 'z':
        read_immediate(cursor, in, width_z(in));
        break;
    case 'd':
        read_immediate(cursor, in, 4);
        break;
    case 'v':
        read_immediate(cursor, in, in->rex & 8 ? 8 : width_z(in));
        break;
    case 'w':
        read_immediate(cursor, in, 2);
        break;
    case 'e':
        read_immediate(cursor, in, 3);
        break;
    case 'a':
        read_immediate(cursor, in, in->prefixes & PREFIX_ADDRESS ? 4 : 8);
        break;
    }
}

static void read_0f(struct code_cursor *cursor, struct instruction *in)
{
    in->opcode = next_byte(cursor);
    if (in->opcode == 0x38 || in->opcode == 0x3a) {
        in->map = in->opcode == 0x38 ? MAP_0F38 : MAP_0F3A;
        in->opcode = next_byte(cursor);
        read_operands(cursor, in, in->map == MAP_0F38 ? 'M' : 'B');
        return;
    }
    in->map = MAP_0F;
    const char shape = two_byte[in->opcode];
    // Control and debug registers: mod is ignored, there is never an address.
    if (shape == 'C') {
        uint8_t byte = next_byte(cursor);
        in->has_modrm = true;
        in->mod = 3;
        in->reg = byte >> 3 & 7;
        in->rm = byte & 7;
        in->base = in->index = NO_REGISTER;
        return;
    }
    read_operands(cursor, in, shape);
}

// VEX and EVEX have the maps of the old instructions, with the same immediates.
static void read_vector_operands(struct code_cursor *cursor, struct instruction *in, unsigned map,
                                 uint8_t extend)
{
    in->vector = true;
    in->opcode = next_byte(cursor);
    in->map = (uint8_t)(map <= MAP_0F3A ? map : MAP_OTHER);
    if (map == MAP_0F && in->opcode == 0x77)
        return; // vzeroupper
    if (map == MAP_0F && in->opcode >= 0x80 && in->opcode <= 0x8f)
        cursor->failed = true; // branches of a processor that is no more
    read_modrm(cursor, in, extend);
    static const unsigned char with_byte[] = {0x70, 0x71, 0x72, 0x73, 0xc2, 0xc4, 0xc5, 0xc6};
    if (map == MAP_0F3A || (map == MAP_0F && memchr(with_byte, in->opcode, sizeof with_byte)))
        read_immediate(cursor, in, 1);
}

static uint8_t inverted_rxb(uint8_t byte)
{
    return (uint8_t)(~byte >> 5 & 7);
}

static void read_vex(struct code_cursor *cursor, struct instruction *in, uint8_t first)
{
    uint8_t byte = next_byte(cursor);
    unsigned map = MAP_0F;
    uint8_t extend = (uint8_t)(~byte >> 5 & 4);
    if (first == 0xc4) {
        map = byte & 0x1f;
        extend = inverted_rxb(byte);
        next_byte(cursor);
    }
    if (map < MAP_0F || map > MAP_0F3A)
        cursor->failed = true;
    read_vector_operands(cursor, in, map, extend);
}

static void read_evex(struct code_cursor *cursor, struct instruction *in)
{
    uint8_t byte = next_byte(cursor);
    const unsigned map = byte & 7;
    const uint8_t second = next_byte(cursor);
    next_byte(cursor);
    // Bits that are fixed; maps 5 and 6 are for half floats.
    if (!(second & 4) || byte & 8 || map == 0 || map == 4 || map == 7)
        cursor->failed = true;
    read_vector_operands(cursor, in, map, inverted_rxb(byte));
}

static void read_xop(struct code_cursor *cursor, struct instruction *in, uint8_t byte)
{
    const unsigned map = byte & 0x1f;
    next_byte(cursor);
    in->vector = true;
    in->map = MAP_OTHER;
    in->opcode = next_byte(cursor);
    if (map > 10)
        cursor->failed = true;
    read_modrm(cursor, in, inverted_rxb(byte));
    read_immediate(cursor, in, map == 8 ? 1 : map == 10 ? 4 : 0);
}

// Escapes that are not prefixes in this mode. False: an ordinary opcode.
static bool read_escape(struct code_cursor *cursor, struct instruction *in, uint8_t first)
{
    const uint8_t second = cursor->at < cursor->bytes ? cursor->code[cursor->at] : 0;
    switch (first) {
    case 0x0f:
        read_0f(cursor, in);
        return true;
    case 0xc4:
    case 0xc5:
        read_vex(cursor, in, first);
        break;
    case 0x62:
        read_evex(cursor, in);
        break;
    case 0x8f:
        if ((second & 0x1f) < 8)
            return false;
        read_xop(cursor, in, next_byte(cursor));
        break;
    default:
        return false;
    }
    // They bring their own.
    if (in->rex || in->prefixes & (PREFIX_OPERAND | PREFIX_F2 | PREFIX_F3 | PREFIX_LOCK))
        cursor->failed = true;
    return true;
}

static enum flow flow_of_group(const struct instruction *in, struct code_cursor *cursor)
{
    switch (in->reg & 7) {
    case 2:
        return FLOW_CALL_INDIRECT;
    case 4:
        return FLOW_JUMP_INDIRECT;
    case 3:
    case 5:
        cursor->failed |= in->mod == 3;
        return FLOW_ODD;
    case 7:
        cursor->failed = true;
    }
    return FLOW_NEXT;
}

static enum flow flow_of_one(const struct instruction *in, struct code_cursor *cursor)
{
    if (in->opcode >= 0x70 && in->opcode <= 0x7f)
        return FLOW_BRANCH;
    switch (in->opcode) {
    case 0xe0:
    case 0xe1:
    case 0xe2:
    case 0xe3:
        return FLOW_BRANCH;
    case 0xe8:
        return FLOW_CALL;
    case 0xe9:
    case 0xeb:
        return FLOW_JUMP;
    case 0xff:
        return flow_of_group(in, cursor);
    case 0xc2:
    case 0xc3:
        return FLOW_RETURN;
    case 0xcc:
    case 0xf1:
    case 0xf4:
        return FLOW_STOP;
    case 0xca:
    case 0xcb:
    case 0xcd:
    case 0xcf:
        return FLOW_ODD;
    case 0xc6: // xabort
    case 0xc7: // xbegin
        return (in->reg & 7) == 7 ? FLOW_ODD : FLOW_NEXT;
    }
    return FLOW_NEXT;
}

static enum flow flow_of(const struct instruction *in, struct code_cursor *cursor)
{
    if (in->vector || in->map > MAP_0F)
        return FLOW_NEXT;
    if (in->map == MAP_ONE)
        return flow_of_one(in, cursor);
    if (in->opcode >= 0x80 && in->opcode <= 0x8f)
        return FLOW_BRANCH;
    switch (in->opcode) {
    case 0x05:
    case 0x07:
    case 0x34:
    case 0x35:
        return FLOW_ODD;
    case 0x0b:
    case 0xb9:
    case 0xff:
        return FLOW_STOP;
    }
    return FLOW_NEXT;
}

static int64_t load_signed(const unsigned char *code, unsigned count)
{
    int32_t four;
    int64_t eight;
    switch (count) {
    case 1:
        return (int8_t)*code;
    case 4:
        memcpy(&four, code, sizeof four);
        return four;
    case 8:
        memcpy(&eight, code, sizeof eight);
        return eight;
    }
    return 0;
}

// How many bytes of immediate go with a shape, in instructions without a prefix of the old kind;
// -1: it is none of the usual shapes.
static int usual_immediate(char shape, uint8_t rex)
{
    switch (shape) {
    case 'M':
    case 'S':
    case '.':
    case ',':
        return 0;
    case 'B':
    case 'b':
    case 'i':
    case 'r':
        return 1;
    case 'Z':
    case 'z':
    case 'd':
        return 4;
    case 'v':
        return rex & 8 ? 8 : 4;
    }
    return -1;
}

// Operands in memory, as read_modrm() has them. Returns where they end.
static const unsigned char *load_address(const unsigned char *code, const unsigned char *at,
                                         struct instruction *in)
{
    const unsigned low = in->rm & 7;
    if (low == 4) {
        const uint8_t sib = *at++;
        const uint8_t index = (sib >> 3 & 7) | (in->rex & 2 ? 8 : 0);
        in->index = index == 4 ? NO_REGISTER : index;
        in->scale = (uint8_t)(1u << (sib >> 6));
        in->base = (sib & 7) == 5 && in->mod == 0 ? NO_REGISTER : (sib & 7) | (in->rex & 1 ? 8 : 0);
        in->disp_bytes = in->base == NO_REGISTER ? 4 : 0;
    } else if (low == 5 && in->mod == 0) {
        in->rip_relative = true;
        in->disp_bytes = 4;
    } else {
        in->base = in->rm;
    }
    if (in->mod)
        in->disp_bytes = in->mod == 1 ? 1 : 4;
    in->disp_at = (uint8_t)(at - code);
    in->disp = (int32_t)load_signed(at, in->disp_bytes);
    return at + in->disp_bytes;
}

// Decodes the usual form, where the end of the code is not near: an opcode of one or two bytes,
// perhaps after REX, with the usual operands. It takes a third of the time. False: it is another.
static bool decode_usual(const unsigned char *code, struct instruction *in)
{
    const unsigned char *at = code;
    struct code_cursor cursor = {.failed = false};
    in->rex = (*at & 0xf0) == 0x40 ? *at++ : 0;
    in->opcode_at = (uint8_t)(at - code);
    in->opcode = *at++;
    char shape = one_byte[in->opcode];
    if (in->opcode == 0x0f) {
        in->map = MAP_0F;
        in->opcode = *at++;
        shape = two_byte[in->opcode];
    } else if (in->opcode == 0x8f) {
        return false; // XOP, perhaps
    }
    const int bytes = usual_immediate(shape, in->rex);
    if (bytes < 0)
        return false;
    if (shape == 'M' || shape == 'S' || shape == 'B' || shape == 'Z') {
        const uint8_t byte = *at++;
        in->has_modrm = true;
        in->mod = byte >> 6;
        in->reg = (byte >> 3 & 7) | (in->rex & 4 ? 8 : 0);
        in->rm = (byte & 7) | (in->rex & 1 ? 8 : 0);
        if (in->mod != 3)
            at = load_address(code, at, in);
    }
    if (bytes) {
        in->immediate_at = (uint8_t)(at - code);
        in->immediate_bytes = (uint8_t)bytes;
        in->immediate = load_signed(at, (unsigned)bytes);
        at += bytes;
    }
    in->flow = (uint8_t)flow_of(in, &cursor);
    in->length = (uint8_t)(at - code);
    return !cursor.failed;
}

// Direct branches, which are a sixth of all instructions, and what callers look for. False: it is
// none.
static bool decode_branch(const unsigned char *code, struct instruction *in)
{
    const bool two = *code == 0x0f;
    const uint8_t opcode = code[two];
    if (two ? (opcode & 0xf0) != 0x80
            : (opcode & 0xf0) != 0x70 && (opcode & 0xfe) != 0xe8 && opcode != 0xeb)
        return false;
    const bool near = !two && (opcode & 0xfe) != 0xe8;
    in->map = two ? MAP_0F : MAP_ONE;
    in->opcode = opcode;
    in->opcode_at = 0;
    in->flow = opcode == 0xe8                     ? FLOW_CALL
               : opcode == 0xe9 || opcode == 0xeb ? FLOW_JUMP
                                                  : FLOW_BRANCH;
    in->immediate_at = (uint8_t)(two + 1);
    in->immediate_bytes = near ? 1 : 4;
    in->immediate = load_signed(code + in->immediate_at, in->immediate_bytes);
    in->length = in->immediate_at + in->immediate_bytes;
    return true;
}

bool decode(const unsigned char *code, size_t bytes, struct instruction *in)
{
    memset(in, 0, sizeof *in);
    in->base = in->index = NO_REGISTER;
    if (bytes >= INSTRUCTION_MOST && (decode_branch(code, in) || decode_usual(code, in)))
        return true;
    struct code_cursor cursor = {code, 0, bytes < INSTRUCTION_MOST ? bytes : INSTRUCTION_MOST,
                                 false};
    memset(in, 0, sizeof *in);
    in->base = in->index = NO_REGISTER;
    const uint8_t first = read_prefixes(&cursor, in);
    in->opcode_at = (uint8_t)(cursor.at - 1);
    if (cursor.failed)
        return false;
    if (!read_escape(&cursor, in, first)) {
        in->opcode = first;
        read_operands(&cursor, in, one_byte[first]);
    }
    in->flow = (uint8_t)flow_of(in, &cursor);
    in->length = (uint8_t)cursor.at;
    return !cursor.failed;
}

// ---- lengths alone

// The bytes behind the opcode of a plain instruction, by its shape: those of an immediate, and
// these.
enum {
    PLAIN = 0x10,
    PLAIN_MODRM = 0x20,
    PLAIN_WIDE = 0x40,   // an immediate of z or v
    PLAIN_WIDEST = 0x80, // of v
};
static const uint8_t plain_shapes[128] = {
    ['.'] = PLAIN,
    ['M'] = PLAIN | PLAIN_MODRM,
    ['b'] = PLAIN | 1,
    ['B'] = PLAIN | PLAIN_MODRM | 1,
    ['z'] = PLAIN | PLAIN_WIDE | 4,
    ['Z'] = PLAIN | PLAIN_MODRM | PLAIN_WIDE | 4,
    ['v'] = PLAIN | PLAIN_WIDE | PLAIN_WIDEST | 4,
};

// Of a ModRM byte and what it brings, by mod and rm; the base of an index may bring four more.
static const uint8_t address_bytes[4][8] = {
    {1, 1, 1, 1, 2, 5, 1, 1},
    {2, 2, 2, 2, 3, 2, 2, 2},
    {5, 5, 5, 5, 6, 5, 5, 5},
    {1, 1, 1, 1, 1, 1, 1, 1},
};

unsigned decode_plain_length(const unsigned char *code)
{
    const unsigned char *at = code;
    uint8_t shape = plain_shapes[(unsigned char)one_byte[*at]], rex = 0;
    if (!shape) {
        // One prefix of those that are a part of the opcode, mostly; others are seldom.
        const bool prefix = *at == 0x66 || *at == 0xf2 || *at == 0xf3;
        const bool narrow = *at == 0x66;
        at += prefix;
        rex = (*at & 0xf0) == 0x40 ? *at++ : 0;
        if (*at == 0x0f)
            shape = plain_shapes[(unsigned char)two_byte[*++at]];
        else
            shape = plain_shapes[(unsigned char)one_byte[*at]];
        if (!shape || (narrow && shape & PLAIN_WIDE))
            return 0;
    }
    unsigned length = (unsigned)(at - code) + 1 + (shape & 0xf);
    if (shape & PLAIN_MODRM) {
        const unsigned mod = at[1] >> 6, rm = at[1] & 7;
        if ((*at & 0xfe) == 0xc6 && (at[1] & 0x38) == 0x38)
            return 0; // xabort, xbegin
        length += address_bytes[mod][rm];
        if (rm == 4 && mod == 0 && (at[2] & 7) == 5)
            length += 4;
    }
    return shape & PLAIN_WIDEST && rex & 8 ? length + 4 : length;
}

bool decode_is_landing_pad(const struct instruction *in)
{
    return in->map == MAP_0F && in->opcode == 0x1e && in->prefixes == PREFIX_F3 && in->mod == 3 &&
           in->reg == 7 && in->rm == 2;
}

bool decode_is_padding(const struct instruction *in)
{
    if (in->vector)
        return false;
    if (in->map == MAP_ONE)
        return in->opcode == 0xcc ||
               (in->opcode == 0x90 && !(in->rex & 1) && !(in->prefixes & PREFIX_F3));
    return in->map == MAP_0F && in->opcode == 0x1f;
}

bool decode_restores_stack(const struct instruction *in)
{
    if (in->map != MAP_ONE || in->vector)
        return false;
    const bool adds = (in->opcode == 0x81 || in->opcode == 0x83) && (in->reg & 7) == 0;
    return (in->opcode & 0xf8) == 0x58 || in->opcode == 0xc9 ||
           (adds && in->mod == 3 && in->rm == REGISTER_STACK);
}
