"""What LLVM 22 writes wrongly for Vulkan, or leaves out, put right in the binary.

- Barriers order nothing: their semantics lack storage classes, which goes unnoticed by the
  validator and makes results wrong. They get those of `backends.spirv`.
- Blocks are not decorated as such, storage of 8 and 16 bits is not declared (but arithmetic on it
  is, which only the bits of an f16 need), rounding to f16 is as the device likes, and products and
  sums may be fused.
- Signed integers have unsigned types, which the optimizer of some drivers takes at their word.
- The zero of an atomic's semantics has to be a plain constant, and the hints of a loop may be any
  number where they are to be zero.
- Some atomics and memory barriers do not exist: `sync` writes calls for them.
- Names, alignments, the source language and the linkage of those calls are of no use to a driver.
"""

from __future__ import annotations

from ..spirv.module import VERSIONS, text_words
from ..spirv.opcodes import Cap, Deco, Mode, Semantics, Storage
from ..spirv.opcodes import Op as S
from .binary import Binary, Instruction, text_of
from .sync import ATOMIC, FENCE

_SOURCE, _NAME, _MEMBER_NAME, _EXTENSION = 3, 5, 6, 10
_ENTRY_POINT, _EXECUTION_MODE, _CAPABILITY, _CALL = 15, 16, 17, 57
_LINKAGE, _LINKAGE_ATTRIBUTES = 5, 41
_BARRIER = Semantics.ACQUIRE_RELEASE | Semantics.UNIFORM_MEMORY | Semantics.WORKGROUP_MEMORY
_DROPPED = (_SOURCE, _NAME, _MEMBER_NAME)
_VALUES = (1, S.EXT_INST)  # OpUndef; beside those from the constants on
_FROM_SIGNED = (S.CONVERT_S_TO_F, S.S_CONVERT)
_TO_SIGNED = (S.CONVERT_F_TO_S, S.S_CONVERT)
_FUSED = (S.F_ADD, S.F_SUB, S.F_MUL)
# Width -> capability for arithmetic, and for storage alone.
_NARROW = {
    8: (Cap.INT8, Cap.STORAGE_BUFFER_8BIT_ACCESS),
    16: (Cap.INT16, Cap.STORAGE_BUFFER_16BIT_ACCESS),
}
# Capability, the extension that brings it, the version that has it in its core.
_EXTENSIONS = (
    (Cap.STORAGE_BUFFER_8BIT_ACCESS, "SPV_KHR_8bit_storage", 0x00010500),
    (Cap.ROUNDING_MODE_RTE, "SPV_KHR_float_controls", 0x00010400),
)
_ATOMICS = {
    **{"add": S.ATOMIC_I_ADD, "and": S.ATOMIC_AND, "or": S.ATOMIC_OR, "xor": S.ATOMIC_XOR},
    **{"min": S.ATOMIC_S_MIN, "umin": S.ATOMIC_U_MIN, "max": S.ATOMIC_S_MAX},
    **{"umax": S.ATOMIC_U_MAX, "xchg": S.ATOMIC_EXCHANGE, "swap_if": S.ATOMIC_COMPARE_EXCHANGE},
}
_DECORATIONS = (S.DECORATE, S.MEMBER_DECORATE)


def correct(binary: Binary, arch: str, entry: str, contract: bool) -> None:
    """Turn what `llc` wrote into a module for `arch` whose entry point is called `entry`.

    contract: products and sums may be fused. ValueError where a call is left over.
    """
    _Corrections(binary).run(arch, entry, contract)


class _Corrections:
    def __init__(self, binary: Binary) -> None:
        self.binary = binary
        self.extra: list[Instruction] = []  # types and constants
        self.decorations: list[Instruction] = []
        self.constants: dict[int, int] = {}
        self.signed_types: dict[int, int] = {}
        self.rounds = False  # to f16

    @property
    def code(self) -> list[Instruction]:
        return self.binary.instructions

    @code.setter
    def code(self, value: list[Instruction]) -> None:
        self.binary.instructions = value

    def run(self, arch: str, entry: str, contract: bool) -> None:
        names = {i.words[0]: text_of(i.words[1:])[0] for i in self.code if i.op == _NAME}
        self.replace_calls(names)
        self.code = [i for i in self.code if i.op not in _DROPPED and not _is_linkage(i)]
        self.halves()
        self.signed_numbers()
        self.barriers()
        self.merges()
        self.plain_accesses()
        self.zeros()
        self.blocks()
        if not contract:
            self.unfused()
        self.insert()
        self.binary.version = VERSIONS[arch]
        self.capabilities()
        self.entry(entry)

    def word(self, value: int) -> int:
        """A u32 constant."""
        if value not in self.constants:
            self.constants[value] = self.binary.id()
            kind = self.u32()
            self.extra.append(Instruction(S.CONSTANT, [kind, self.constants[value], value]))
        return self.constants[value]

    def u32(self) -> int:
        return next(i.words[0] for i in self.code if i.op == S.TYPE_INT and i.words[1:] == [32, 0])

    def replace_calls(self, names: dict[int, str]) -> None:
        """Calls of functions that exist nowhere become what they stand for."""
        atomics: dict[int, Instruction] = {}  # by their results
        kept: list[Instruction] = []
        for i in _without_declarations(self.code):
            if i.op == _CALL:
                name = names.get(i.words[2], "")
                if name.startswith(ATOMIC):
                    atomics[i.words[1]] = self.atomic(name, i.words)
                    continue
                if not name.startswith(FENCE):
                    raise ValueError(f"a call of {name or 'a function'} is left over")
                numbers = map(int, name.removeprefix(FENCE).split("."))
                i = Instruction(S.MEMORY_BARRIER, [self.word(n) for n in numbers])
            elif i.op == S.STORE and i.words[1] in atomics:
                made = atomics.pop(i.words[1])
                made.words.insert(2, i.words[0])
                i = made
            kept.append(i)
        if atomics:
            raise ValueError("an atomic is left over")
        self.code = kept

    def atomic(self, name: str, words: list[int]) -> Instruction:
        """The instruction that a call stands for, without its pointer."""
        kind, scope, _ = name.removeprefix(ATOMIC).split(".")
        result_type, result, _, *operands = words
        semantics = [self.word(0)]
        if kind == "swap_if":
            expected, desired = operands
            semantics, operands = semantics * 2, [desired, expected]
        words = [result_type, result, self.word(int(scope)), *semantics, *operands]
        return Instruction(_ATOMICS[kind], words)

    def halves(self) -> None:
        """Conversions to f16 round to nearest, which a device else may do as it likes."""
        if any(i.op == S.TYPE_FLOAT and i.words[1] == 16 for i in self.code):
            at, mode = next((n, i) for n, i in enumerate(self.code) if i.op == _EXECUTION_MODE)
            words = [mode.words[0], Mode.ROUNDING_MODE_RTE, 16]
            self.code.insert(at + 1, Instruction(_EXECUTION_MODE, words))
            self.rounds = True

    def signed_numbers(self) -> None:
        """Conversions of signed integers have signed types: SPIRV-Tools' optimizer, which some
        drivers run, goes by the type when it folds one of a constant."""
        widths = {i.words[0]: i.words[1] for i in self.code if i.op == S.TYPE_INT}
        values = [i.words for i in self.code if i.op in _VALUES or i.op >= S.CONSTANT_TRUE]
        types = {w[1]: w[0] for w in values if len(w) > 1 and w[0] in widths}
        kept: list[Instruction] = []
        for i in self.code:
            if i.op in _FROM_SIGNED and widths[types[i.words[2]]] >= 32:
                made = self.binary.id()
                bitcast = [self.signed(widths[types[i.words[2]]]), made, i.words[2]]
                kept.append(Instruction(S.BITCAST, bitcast))
                i.words[2] = made
            kept.append(i)
            if i.op in _TO_SIGNED and widths[i.words[0]] >= 32:
                (kind, result), made = i.words[:2], self.binary.id()
                i.words[:2] = [self.signed(widths[kind]), made]
                kept.append(Instruction(S.BITCAST, [kind, result, made]))
        self.code = kept

    def signed(self, bits: int) -> int:
        """The signed integer type of a width."""
        if bits not in self.signed_types:
            self.signed_types[bits] = self.binary.id()
            self.extra.append(Instruction(S.TYPE_INT, [self.signed_types[bits], bits, 1]))
        return self.signed_types[bits]

    def barriers(self) -> None:
        for i in self.code:
            if i.op == S.CONTROL_BARRIER:
                i.words[2] = self.word(_BARRIER)

    def merges(self) -> None:
        """No hints: in a module with atomics LLVM writes any number for the zero that says so."""
        for i in self.code:
            if i.op == S.LOOP_MERGE:
                i.words[2:] = [0]

    def plain_accesses(self) -> None:
        """Loads and stores without what they say about alignment."""
        for i in self.code:
            if i.op in (S.LOAD, S.STORE):
                del i.words[3 if i.op == S.LOAD else 2 :]

    def zeros(self) -> None:
        """The zero of an integer type is a plain constant."""
        widths = {i.words[0]: i.words[1] for i in self.code if i.op == S.TYPE_INT}
        for i in self.code:
            if i.op == S.CONSTANT_NULL and i.words[0] in widths:
                i.op = S.CONSTANT
                i.words += [0] * (2 if widths[i.words[0]] == 64 else 1)

    def blocks(self) -> None:
        pointees = {i.words[0]: i.words[2] for i in self.code if i.op == S.TYPE_POINTER}
        found = [
            pointees[i.words[0]]
            for i in self.code
            if i.op == S.VARIABLE and i.words[2] == Storage.UNIFORM
        ]
        # Also those whose variables LLVM has left out, since nothing uses them.
        open_ended = {i.words[0] for i in self.code if i.op == S.TYPE_RUNTIME_ARRAY}
        found += [
            i.words[0] for i in self.code if i.op == S.TYPE_STRUCT and i.words[1] in open_ended
        ]
        for struct in found:
            self.decorations.append(Instruction(S.DECORATE, [struct, Deco.BLOCK]))

    def unfused(self) -> None:
        for i in self.code:
            if i.op in _FUSED:
                words = [i.words[1], Deco.NO_CONTRACTION]
                self.decorations.append(Instruction(S.DECORATE, words))

    def insert(self) -> None:
        """Put new decorations behind the others, new constants before the first function."""
        last = max(n for n, i in enumerate(self.code) if i.op in _DECORATIONS)
        self.code[last + 1 : last + 1] = self.decorations
        first = next(n for n, i in enumerate(self.code) if i.op == S.FUNCTION)
        self.code[first:first] = self.extra

    def capabilities(self) -> None:
        """Exactly those that the module needs, sorted, and their extensions."""
        have = {i.words[0] for i in self.code if i.op == _CAPABILITY} - {_LINKAGE}
        if self.wide_atomics():
            have.add(Cap.INT64_ATOMICS)
        widths = {i.words[1] for i in self.code if i.op == S.TYPE_INT}
        for width, (arithmetic, storage) in _NARROW.items():
            if not (width == 16 and self.rounds):  # the bits of an f16 are an integer
                have.discard(arithmetic)
            if width in widths:
                have.add(storage)
        if self.rounds:
            have.add(Cap.ROUNDING_MODE_RTE)
        rest = [i for i in self.code if i.op != _CAPABILITY]
        made = [Instruction(_CAPABILITY, [number]) for number in sorted(have)]
        for capability, name, core in _EXTENSIONS:
            if capability in have and self.binary.version < core:
                made.append(Instruction(_EXTENSION, list(text_words(name))))
        self.code = made + rest

    def wide_atomics(self) -> bool:
        wide = {i.words[0] for i in self.code if i.op == S.TYPE_INT and i.words[1] == 64}
        return any(i.op in _ATOMICS.values() and i.words[0] in wide for i in self.code)

    def entry(self, name: str) -> None:
        """The entry point by its name, with the interface that the version wants."""
        storage = {i.words[1]: i.words[2] for i in self.code if i.op == S.VARIABLE}
        for i in self.code:
            if i.op == _ENTRY_POINT:
                listed = i.words[2 + text_of(i.words[2:])[1] :]
                if self.binary.version < 0x00010400:
                    listed = [number for number in listed if storage[number] == Storage.INPUT]
                i.words[2:] = [*text_words(name), *listed]


def _is_linkage(i: Instruction) -> bool:
    return i.op == S.DECORATE and i.words[1] == _LINKAGE_ATTRIBUTES


def _without_declarations(code: list[Instruction]) -> list[Instruction]:
    """The instructions without functions that have no body."""
    kept: list[Instruction] = []
    begin = 0
    for i in code:
        if i.op == S.FUNCTION:
            begin = len(kept)
        kept.append(i)
        if i.op == S.FUNCTION_END and not any(j.op == S.LABEL for j in kept[begin:]):
            del kept[begin:]
    return kept
