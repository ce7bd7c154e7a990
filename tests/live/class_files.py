# SPDX-License-Identifier: MIT
"""Which methods a Java method may call, by its bytecode: a truth about call paths that no profiler has a hand in."""

import os
import struct

# Bytes of operands by opcode; the others have none. 0xaa, 0xab (switches) and 0xc4 (wide) are apart.
OPERANDS = {**dict.fromkeys((0x10, 0x12, *range(0x15, 0x1a), *range(0x36, 0x3b), 0xa9, 0xbc), 1),
            **dict.fromkeys((0x11, 0x13, 0x14, 0x84, *range(0x99, 0xa9), *range(0xb2, 0xb9), 0xbb, 0xbd, 0xc0, 0xc1, 0xc6,
                             0xc7), 2),
            0xc5: 3, **dict.fromkeys((0xb9, 0xba, 0xc8, 0xc9), 4)}
INVOKES = range(0xb6, 0xba)
INVOKE_DYNAMIC = 0xba
CONSTANT_BYTES = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4, 18: 4, 19: 2,
                  20: 2}


# Classes that the machine makes for lambdas and method handles.
FOUND_AT_RUN_TIME = ("$$Lambda", "LambdaForm", "java.lang.invoke.", "jdk.internal.reflect.Generated")


def split_method(name):
    """Class and name; names of constructors have a dot before them as others do."""
    of, _, method = name.rpartition(".")
    return of, method


class Calls:
    """Of one method, or of all that have its name in its class."""

    def __init__(self):
        self.names = set()
        self.dynamic = False  # calls what is found at run time


class Reader:
    def __init__(self, data):
        self.data = data
        self.at = 0

    def take(self, form):
        values = struct.unpack_from(">" + form, self.data, self.at)
        self.at += struct.calcsize(">" + form)
        return values[0] if len(values) == 1 else values


def read_constants(reader):
    constants, index, count = {}, 1, reader.take("H")
    while index < count:
        tag = reader.take("B")
        if tag == 1:
            length = reader.take("H")
            constants[index] = reader.data[reader.at:reader.at + length].decode("utf-8", "replace")
            reader.at += length
        else:
            constants[index] = reader.data[reader.at:reader.at + CONSTANT_BYTES[tag]]
            reader.at += CONSTANT_BYTES[tag]
        index += 2 if tag in (5, 6) else 1
    return constants


def called_name(constants, index):
    """The name of a method by the number of its entry: (class, (name, type))."""
    pair = struct.unpack(">HH", constants[index])[1]
    return constants[struct.unpack(">HH", constants[pair])[0]]


def next_instruction(code, at):
    opcode = code[at]
    if opcode == 0xc4:
        return at + (6 if code[at + 1] == 0x84 else 4)
    if opcode not in (0xaa, 0xab):
        return at + 1 + OPERANDS.get(opcode, 0)
    at = (at + 4) & ~3
    if opcode == 0xab:
        return at + 8 + 8 * struct.unpack_from(">i", code, at + 4)[0]
    low, high = struct.unpack_from(">ii", code, at + 4)
    return at + 12 + 4 * (high - low + 1)


def read_code(code, constants, calls):
    at = 0
    while at < len(code):
        if code[at] in INVOKES:
            calls.names.add(called_name(constants, struct.unpack_from(">H", code, at + 1)[0]))
        calls.dynamic |= code[at] == INVOKE_DYNAMIC
        at = next_instruction(code, at)


def skip_attributes(reader):
    for _ in range(reader.take("H")):
        _, length = reader.take("HI")
        reader.at += length


def read_class(data):
    """A class file: its name, and what its methods call by their names."""
    reader, methods = Reader(data), {}
    if reader.take("IHH")[0] != 0xcafebabe:
        raise ValueError("no class file")
    constants = read_constants(reader)
    _, this, _, interfaces = reader.take("HHHH")
    reader.at += 2 * interfaces
    for _ in range(reader.take("H")):
        reader.take("HHH")
        skip_attributes(reader)
    for _ in range(reader.take("H")):
        _, name, _ = reader.take("HHH")
        calls = methods.setdefault(constants[name], Calls())
        for _ in range(reader.take("H")):
            attribute, length = reader.take("HI")
            end = reader.at + length
            if constants[attribute] == "Code":
                code_length = reader.take("HHI")[2]
                read_code(reader.data[reader.at:reader.at + code_length], constants, calls)
            reader.at = end
    name = constants[struct.unpack(">H", constants[this])[0]].replace("/", ".")
    return name, methods


class Classes:
    """All classes below some folders, read when they are asked for."""

    def __init__(self, *folders):
        self.paths = {}
        self.known = {}
        for top in folders:
            for folder, _, files in os.walk(top):
                for file in files:
                    if file.endswith(".class"):
                        self.paths.setdefault(file, []).append(os.path.join(folder, file))

    def methods(self, name):
        """What the methods of a class call; None: there is no such class."""
        if name not in self.known:
            self.known[name] = None
            for path in self.paths.get(name.rpartition(".")[2] + ".class", ()):
                with open(path, "rb") as file:
                    found, methods = read_class(file.read())
                self.known[found] = methods
        return self.known[name]

    def may_call(self, caller, callee):
        """Whether a method may call another one, both as class.name. None: that is not known."""
        (of, name), called = split_method(caller), split_method(callee)[1]
        calls = (self.methods(of) or {}).get(name)
        if calls is None or any(word in callee + " " + caller for word in FOUND_AT_RUN_TIME):
            return None
        if called in calls.names:
            return True
        return None if calls.dynamic else False
