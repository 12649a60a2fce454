"""Private memory through the scratch buffer resource, as gfx906 to gfx90a and gfx10 have it.

Only the resource that a dispatch sets up is known. It is swizzled: vector address and instruction
offset count the bytes of a lane, the scalar offset (a frame) counts those of all lanes of the wave.
"""

from __future__ import annotations

import re

import numpy as np

from .decode import Instruction
from .errors import EmulationError
from .launch import SCRATCH_RESOURCE
from .operands import U32, U64, raw_scalar, raw_source, vector_index
from .registry import Step, register
from .state import Arch, Array, Machine
from .vmem import CACHE, SIZES, Address, ScratchSpace, extended, read_stored, write_loaded

_NAME = re.compile(r"buffer_(load|store)_(\w+?)(_d16(?:_hi)?)?")


def _address(i: Instruction) -> Address:
    """m -> int64[k]: byte offsets into the private memory of each active lane."""
    _, vector, resource, frame = i.operands
    if (vector.kind == "v") != ("offen" in i.modifiers):
        raise i.unknown("a vector address goes with offen")
    base, offset = raw_scalar(i, resource, U64), i.number("offset")
    scalar = raw_scalar(i, frame, U32)
    lane = raw_source(i, vector, U32) if vector.kind == "v" else None

    def address(m: Machine) -> Array:
        if (base(m) != SCRATCH_RESOURCE).any():
            raise EmulationError(f"{resource.text} is not the resource of scratch memory")
        wave = scalar(m).astype(np.int64)
        if (wave % m.lanes).any():
            raise EmulationError(f"a frame at {wave} does not hold whole bytes of every lane")
        total = np.broadcast_to((wave // m.lanes + offset)[:, None], m.mask.shape)
        if lane is not None:
            total = total + lane(m).view(np.int32)
        return m.active(total)

    return address


def access(i: Instruction, arch: Arch) -> Step:
    found = _NAME.fullmatch(i.mnemonic)
    assert found is not None
    width, size, d16 = found[2], SIZES[found[2]], found[3]
    half = None if d16 is None else "h" if "hi" in d16 else "l"
    address, data = _address(i), i.operands[0]
    if found[1] == "store":
        stored = read_stored(i, data, size, half)

        def store(m: Machine) -> None:
            where = address(m)
            if len(where):
                ScratchSpace.store(m, where, size, stored(m))

        return store
    first = vector_index(data)

    def load(m: Machine) -> None:
        where = address(m)
        if len(where):
            words = extended(ScratchSpace.load(m, where, size), width)
            write_loaded(m, first, words, half)

    return load


_LOADS = "ubyte sbyte ushort sshort dword dwordx2 dwordx3 dwordx4".split()  # noqa: SIM905
_LOADS += ["ubyte_d16", "sbyte_d16", "short_d16", "ubyte_d16_hi", "sbyte_d16_hi", "short_d16_hi"]
_STORES = "byte short dword dwordx2 dwordx3 dwordx4 byte_d16_hi short_d16_hi".split()  # noqa: SIM905
for _width in _LOADS:
    register(f"buffer_load_{_width}", access, ("offset", "offen", *CACHE), (9, 10))
for _width in _STORES:
    register(f"buffer_store_{_width}", access, ("offset", "offen", *CACHE), (9, 10))
