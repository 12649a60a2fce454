"""What a module offers and asks for, read from its words: entry point, bindings, features."""

from __future__ import annotations

from dataclasses import dataclass

from ..spirv.opcodes import Cap, Deco, Mode, Storage
from ..spirv.opcodes import Op as S
from .binary import Binary, text_of

_ENTRY_POINT, _MODE, _CAPABILITY = 15, 16, 17
_COMPUTE = 5
ATOMICS = range(S.ATOMIC_EXCHANGE, S.ATOMIC_XOR + 1)
# Capability -> feature of `ir.targets` that a device needs for it.
FEATURES = {
    Cap.SHADER: "",
    Cap.FLOAT16: "f16",
    Cap.FLOAT64: "f64",
    Cap.INT16: "i16",
    Cap.INT64: "i64",
    Cap.GROUP_NON_UNIFORM: "subgroup_basic",
    Cap.GROUP_NON_UNIFORM_VOTE: "subgroup_vote",
    Cap.GROUP_NON_UNIFORM_ARITHMETIC: "subgroup_arithmetic",
    Cap.GROUP_NON_UNIFORM_BALLOT: "subgroup_ballot",
    Cap.GROUP_NON_UNIFORM_SHUFFLE: "subgroup_shuffle",
    Cap.STORAGE_BUFFER_16BIT_ACCESS: "storage16",
    Cap.STORAGE_BUFFER_8BIT_ACCESS: "storage8",
    Cap.ROUNDING_MODE_RTE: "float_controls_rte16",
}


@dataclass(frozen=True, slots=True)
class Interface:
    """What a launch meets. bindings: pairs of number and storage class, all of set 0."""

    entry: str
    workgroup: tuple[int, ...]
    bindings: frozenset[tuple[int, int]]


def requires(binary: Binary) -> tuple[str, ...]:
    """The features that a device needs. ValueError names a capability that no device here has."""
    numbers = {i.words[0] for i in binary.instructions if i.op == _CAPABILITY}
    wide = _wide_atomics(binary) if Cap.INT64_ATOMICS in numbers else set()
    numbers.discard(Cap.INT64_ATOMICS)
    if odd := sorted(numbers - FEATURES.keys()):
        raise ValueError(f"the module asks for capability {', '.join(map(str, odd))}")
    return tuple(sorted({FEATURES[n] for n in numbers} - {""} | wide))


def _wide_atomics(binary: Binary) -> set[str]:
    """The features for atomics of 64 bits, by where they are."""
    code = binary.instructions
    wide = {i.words[0] for i in code if i.op == S.TYPE_INT and i.words[1] == 64}
    shared = {
        i.words[0]: "atomic_shared_i64" if i.words[1] == Storage.WORKGROUP else "atomic_i64"
        for i in code
        if i.op == S.TYPE_POINTER and i.words[2] in wide
    }
    pointers = {i.words[1]: i.words[0] for i in code if i.op == S.ACCESS_CHAIN}
    atomics = [i.words for i in code if i.op in ATOMICS and i.words[0] in wide]
    return {shared[pointers[words[2]]] for words in atomics}


def check_interface(binary: Binary, entry: str, workgroup: tuple[int, ...], buffers: int) -> None:
    """ValueError unless the module has this one entry point, and nothing bound but its buffers, the
    parameter block behind them and the fault bitmap behind that."""
    found = read(binary)
    allowed = {(n, Storage.STORAGE_BUFFER) for n in range(buffers + 2) if n != buffers}
    odd = sorted(found.bindings - allowed - {(buffers, Storage.UNIFORM)})
    for name, has, wanted in (
        ("its entry point is", found.entry, entry),
        ("its workgroup is", found.workgroup, workgroup),
        ("unexpected bindings (number, storage class)", odd, []),
    ):
        if has != wanted:
            raise ValueError(f"{name} {has}, not {wanted}")


def read(binary: Binary) -> Interface:
    """The interface of a module. ValueError where it has no single compute shader."""
    code = binary.instructions
    entries = [i.words for i in code if i.op == _ENTRY_POINT]
    if len(entries) != 1 or entries[0][0] != _COMPUTE:
        raise ValueError(f"{len(entries)} entry points, not one compute shader")
    sizes = [tuple(i.words[2:]) for i in code if i.op == _MODE and i.words[1] == Mode.LOCAL_SIZE]
    notes: dict[tuple[int, int], int] = {}
    for i in code:
        if i.op == S.DECORATE and i.words[1] in (Deco.BINDING, Deco.DESCRIPTOR_SET):
            notes[i.words[0], i.words[1]] = i.words[2]
    bindings = set()
    for i in code:
        if i.op == S.VARIABLE and i.words[2] in (Storage.STORAGE_BUFFER, Storage.UNIFORM):
            number = notes.get((i.words[1], Deco.BINDING))
            group = notes.get((i.words[1], Deco.DESCRIPTOR_SET))
            if number is None or group != 0:
                raise ValueError(f"a variable of set {group}, binding {number}")
            bindings.add((number, i.words[2]))
    name = text_of(entries[0][2:])[0]
    return Interface(name, sizes[0] if len(sizes) == 1 else (), frozenset(bindings))
