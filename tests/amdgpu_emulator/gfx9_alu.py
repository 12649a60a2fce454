"""Vector arithmetic that only gfx9 has: multiply-add in two roundings, forms that clear the upper
half, packed minima of gfx950.
"""

from __future__ import annotations

from . import packed16
from .decode import Instruction
from .exact import fma
from .operands import B16, B32, F16, F32, I16, OUTPUT_MODIFIERS, U16, Kind, source, target
from .registry import Build, Step, register
from .state import Arch, Machine
from .valu import clears_upper
from .valu_float import TERNARY, multiply_add


def _three(kind: Kind, f: object, accumulates: bool = False) -> Build:
    """x, y and z, in the order of the text; a result of 16 bits clears the upper half."""

    def build(i: Instruction, arch: Arch) -> Step:
        if len(i.operands) != (3 if accumulates else 4):
            raise i.unknown(f"{len(i.operands)} operands")
        reads = [source(i, k, kind) for k in ((1, 2, 0) if accumulates else (1, 2, 3))]
        write = target(i, kind, clears_upper(i, arch, kind))

        def step(m: Machine) -> None:
            write(m, f(*(read(m) for read in reads)))  # type: ignore[operator]

        return step

    return build


_INTEGER = frozenset(("op_sel",))
register("v_mad_legacy_u16", _three(U16, multiply_add), _INTEGER, (9,))
register("v_mad_legacy_i16", _three(I16, multiply_add), _INTEGER, (9,))
register("v_mad_legacy_f16", _three(F16, multiply_add), OUTPUT_MODIFIERS, (9,))
register("v_fma_legacy_f16", _three(F16, fma), OUTPUT_MODIFIERS, (9,))
register("v_mac_f16", _three(F16, multiply_add, True), OUTPUT_MODIFIERS, (9,))
for _kind in (F16, F32):
    for _name in ("v_madmk", "v_madak"):
        register(f"{_name}_{_kind.name.lower()}", _three(_kind, multiply_add), (), (9, 10))


def _bit_operation(kind: Kind) -> Build:
    """v_bitop3: bit 4a + 2b + c of the table is the result for bits a, b and c."""

    def build(i: Instruction, arch: Arch) -> Step:
        table = i.number("bitop3")
        reads = [source(i, k, kind) for k in (1, 2, 3)]
        write = target(i, kind)

        def step(m: Machine) -> None:
            a, b, c = (read(m) for read in reads)
            result = (a ^ a) & (b ^ b) & (c ^ c)
            for row in range(8):
                if table >> row & 1:
                    result = result | (
                        (a if row & 4 else ~a) & (b if row & 2 else ~b) & (c if row & 1 else ~c)
                    )
            write(m, result)

        return step

    return build


register("v_bitop3_b32", _bit_operation(B32), ("bitop3",), (9,))
register("v_bitop3_b16", _bit_operation(B16), ("bitop3", "op_sel"), (9,))
for _name in ("minimum3", "maximum3"):
    _packed = packed16._packed(F16, TERNARY[_name], 3)
    register(f"v_pk_{_name}_f16", _packed, packed16.MODIFIERS, (9,))
