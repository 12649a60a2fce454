"""The product of AMD's matrix instructions, as passes for HSACO ask for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..dtypes import DTYPES, DType, Type, VectorType, f16, f32, i32, u32
from .rules import require
from .table import Effect, OpRow, define

Types = tuple[Type, ...]
Attrs = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Family:
    """size: lanes of the subgroup. apart: groups of 16 lanes that hold different parts of the
    depth of an operand. depths: of one instruction, by the bits of an element of a."""

    size: int
    apart: int
    depths: dict[int, tuple[int, ...]]

    @property
    def sums(self) -> int:
        """Elements of the sum in a lane."""
        return 256 // self.size


FAMILIES = {
    "wmma11": Family(32, 1, {16: (16,), 8: (16,)}),
    "wmma12": Family(32, 2, {16: (16,), 8: (16,)}),
    "mfma": Family(64, 4, {32: (4, 8), 16: (8, 16, 32), 8: (16, 32, 64)}),
}


def sum_of(t: DType) -> tuple[DType, ...]:
    """The element types of a sum of products of `t`."""
    if t.is_int:
        return (i32,)
    return (f32, f16) if t == f16 else (f32,)


def mma_rule(operands: Types, attrs: Attrs, wanted: Types | None) -> Types:
    """Words of a and b, elements of the sum."""
    family, a, b = FAMILIES[attrs["family"]], DTYPES[attrs["a"]], DTYPES[attrs["b"]]
    depth = attrs["depth"]
    require(a.bits == b.bits, f"a product of {a} and {b}")
    require(depth in family.depths.get(a.bits, ()), f"no product of {a} is {depth} deep")
    words = depth // family.apart * a.bits // 32
    for n, t in enumerate(operands[:2], 1):
        held = u32 if words == 1 else VectorType(u32, words)
        require(t == held, f"operand {n} must be {held}, not {t}")
    kinds = [VectorType(t, family.sums) for t in sum_of(a)]
    require(operands[2] in kinds, f"operand 3 must be {kinds[0]}, not {operands[2]}")
    return (operands[2],)


define(
    OpRow(
        "amd_mma",
        3,
        mma_rule,
        effect=Effect.CONVERGENT,
        doc="a @ b + sum, 16 x 16: attr family wmma11, wmma12 or mfma, attrs a and b (element"
        " types), attr depth; words of a and b",
    )
)
