"""A SPIR-V module under construction: numbers, types, constants, decorations, and its bytes.

Integer types are unsigned throughout; where the sign matters the instruction says so. Types and
constants are kept once each, and everything is numbered in the order of first use, so that equal
kernels give equal bytes.
"""

from __future__ import annotations

import array
import struct
import sys
from functools import lru_cache

from .opcodes import Cap, Deco, Mode, Op, Storage

MAGIC = 0x07230203
VERSIONS = {"vulkan1.1": 0x00010300, "vulkan1.3": 0x00010600}


@lru_cache(4096)
def text_words(text: str) -> tuple[int, ...]:
    """A literal string: UTF-8, terminated and padded with zero bytes."""
    data = text.encode() + b"\0"
    data += b"\0" * (-len(data) % 4)
    return struct.unpack(f"<{len(data) // 4}I", data)


class Module:
    """Everything of a module but the instructions of its one function."""

    def __init__(self, arch: str, entry: str) -> None:
        self.version = VERSIONS[arch]
        self.bound = 1
        self.capabilities = {Cap.SHADER}
        self.extensions: set[str] = set()
        self.modes: list[tuple[int, ...]] = []
        self.names: list[int] = []
        self.decorations: list[int] = []
        self.globals: list[int] = []
        self.interface: list[int] = []
        self._known: dict[tuple[object, ...], int] = {}
        self.glsl = 0
        self.vulkan_memory = False  # the Vulkan memory model; else GLSL450
        self.entry = entry
        self.function = self.id()
        self.void = self.type(Op.TYPE_VOID)
        self.bool_ = self.type(Op.TYPE_BOOL)
        self.u32 = self.int_type(32)
        self.name(self.function, entry)

    # numbers, names, decorations

    def id(self) -> int:
        """A fresh result id."""
        self.bound += 1
        return self.bound - 1

    def name(self, target: int, text: str) -> None:
        words = text_words(text)
        self.names += ((len(words) + 2) << 16 | 5, target, *words)

    def decorate(self, target: int, decoration: int, *words: int) -> None:
        self.decorations += ((len(words) + 3) << 16 | Op.DECORATE, target, decoration, *words)

    def mode(self, mode: int, *words: int) -> None:
        """An execution mode of the entry point."""
        if (mode, *words) not in self.modes:
            self.modes.append((mode, *words))

    def extension_in(self, name: str, core_since: int) -> None:
        """Declare an extension unless this SPIR-V version has it in its core."""
        if self.version < core_since:
            self.extensions.add(name)

    # types

    def type(self, opcode: int, *words: int) -> int:
        """The type with these operands, declared at first use."""
        key = (opcode, *words)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self.id()
            self.globals += ((len(words) + 2) << 16 | opcode, known, *words)
        return known

    def int_type(self, bits: int) -> int:
        if bits == 64:
            self.capabilities.add(Cap.INT64)
        return self.type(Op.TYPE_INT, bits, 0)

    def float_type(self, bits: int) -> int:
        if bits == 64:
            self.capabilities.add(Cap.FLOAT64)
        return self.type(Op.TYPE_FLOAT, bits)

    def vector_type(self, element: int, lanes: int) -> int:
        return element if lanes == 1 else self.type(Op.TYPE_VECTOR, element, lanes)

    def pointer(self, storage: int, pointee: int) -> int:
        return self.type(Op.TYPE_POINTER, storage, pointee)

    def array_type(self, element: int, count: int) -> int:
        return self.type(Op.TYPE_ARRAY, element, self.constant(self.u32, count))

    def block(self, element: int, stride: int, count: int | None, storage: int) -> int:
        """Pointer type to a new block that holds one array: `count` elements, or run-time sized.

        Every variable gets its own: NVIDIA's compiler takes NonWritable of one variable for a
        fact about its type, and then moves loads of other variables across their stores.
        """
        items = self.id()
        if count is None:
            self.globals += (3 << 16 | Op.TYPE_RUNTIME_ARRAY, items, element)
        else:
            length = self.constant(self.u32, count)
            self.globals += (4 << 16 | Op.TYPE_ARRAY, items, element, length)
        self.decorate(items, Deco.ARRAY_STRIDE, stride)
        struct = self.id()
        self.globals += (3 << 16 | Op.TYPE_STRUCT, struct, items)
        self.decorate(struct, Deco.BLOCK)
        self.decorations += (5 << 16 | Op.MEMBER_DECORATE, struct, 0, Deco.OFFSET, 0)
        return self.pointer(storage, struct)

    # constants

    def constant(self, type_: int, bits: int, width: int = 32) -> int:
        """A scalar constant of at most 64 bits, given by its bit pattern."""
        key = (Op.CONSTANT, type_, bits)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self.id()
            words = (bits,) if width <= 32 else (bits & 0xFFFFFFFF, bits >> 32)
            self.globals += ((len(words) + 3) << 16 | Op.CONSTANT, type_, known, *words)
        return known

    def word(self, value: int) -> int:
        """A u32 constant."""
        return self.constant(self.u32, value & 0xFFFFFFFF)

    def boolean(self, value: bool) -> int:
        return self._declared(Op.CONSTANT_TRUE if value else Op.CONSTANT_FALSE, self.bool_)

    def null(self, type_: int) -> int:
        """The zero of any type."""
        return self._declared(Op.CONSTANT_NULL, type_)

    def splat(self, type_: int, count: int, item: int) -> int:
        """A constant vector or array with one constant in every place."""
        return self._declared(Op.CONSTANT_COMPOSITE, type_, *(item,) * count)

    def _declared(self, opcode: int, type_: int, *words: int) -> int:
        key = (opcode, type_, *words)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self.id()
            self.globals += ((len(words) + 3) << 16 | opcode, type_, known, *words)
        return known

    # global variables

    def variable(self, pointer: int, storage: int) -> int:
        """A module-scope variable; it joins the interface where this version wants it there."""
        result = self.id()
        self.globals += (4 << 16 | Op.VARIABLE, pointer, result, storage)
        if storage == Storage.INPUT or self.version >= 0x00010400:
            self.interface.append(result)
        return result

    def glsl_set(self) -> int:
        """The id of the GLSL.std.450 instruction set."""
        self.glsl = self.glsl or self.id()
        return self.glsl

    # bytes

    def assemble(self, code: list[int], workgroup: tuple[int, int, int]) -> bytes:
        """The module's bytes, with `code` as the words between OpFunction and OpFunctionEnd."""
        function_type = self.type(Op.TYPE_FUNCTION, self.void)
        out = [MAGIC, self.version, 0, self.bound, 0]
        for capability in sorted(self.capabilities):
            out += (2 << 16 | 17, capability)
        for extension in sorted(self.extensions):
            words = text_words(extension)
            out += ((len(words) + 1) << 16 | 10, *words)
        if self.glsl:
            words = text_words("GLSL.std.450")
            out += ((len(words) + 2) << 16 | 11, self.glsl, *words)
        out += (3 << 16 | 14, 0, 3 if self.vulkan_memory else 1)  # addressing Logical
        words = text_words(self.entry)
        head = 3 + len(words) + len(self.interface)
        out += (head << 16 | 15, 5, self.function, *words, *self.interface)
        for mode in ((Mode.LOCAL_SIZE, *workgroup), *self.modes):
            out += ((len(mode) + 2) << 16 | 16, self.function, *mode)
        out += self.names
        out += self.decorations
        out += self.globals
        out += (5 << 16 | Op.FUNCTION, self.void, self.function, 0, function_type)
        out += code
        out.append(1 << 16 | Op.FUNCTION_END)
        out[3] = self.bound
        data = array.array("I", out)
        if sys.byteorder == "big":
            data.byteswap()
        return data.tobytes()
