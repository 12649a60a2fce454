"""Type rules of the ops on matrix fragments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..dtypes import FragmentType, Type, VectorType, f16, f32, i32, u16, u32
from .rules import int_scalar, memory_type, require
from .table import OpTypeError

Types = tuple[Type, ...]
Attrs = Mapping[str, Any]

# What a product may be made of: element types of a and b, of the sum, and the depth.
PRODUCTS: dict[tuple[str, str, str], int] = {
    ("f16", "f16", "f32"): 16,
    ("f16", "f16", "f16"): 16,
    ("bf16", "bf16", "f32"): 16,
    ("f32", "f32", "f32"): 8,
    **{(a, b, "i32"): 32 for a in ("i8", "u8") for b in ("i8", "u8")},
    **{(a, b, "f32"): 32 for a in ("f8e4m3", "f8e5m2") for b in ("f8e4m3", "f8e5m2")},
}
ROW_KINDS = ("add", "max", "min")


def fragment_type(t: Type, what: str, *roles: str) -> FragmentType:
    """`t`, which must be a fragment of one of these roles (any, if none is named)."""
    if not isinstance(t, FragmentType):
        raise OpTypeError(f"{what} must be a fragment, not {t}")
    wanted = " or ".join(roles)
    require(not roles or t.role in roles, f"{what} must have role {wanted}, not {t}")
    return t


def _wanted(wanted: Types | None, name: str) -> FragmentType:
    if wanted is None or len(wanted) != 1:
        raise OpTypeError(f"{name} needs the type of its result")
    return fragment_type(wanted[0], "the result")


def load_rule(operands: Types, attrs: Attrs, wanted: Types | None) -> Types:
    require(len(operands) in (3, 4), f"fragment_load takes 3 or 4 operands, not {len(operands)}")
    memory = memory_type(operands[0], "operand 1")
    int_scalar(operands[1], "an index")
    int_scalar(operands[2], "a stride")
    if len(operands) == 4:
        int_scalar(operands[3], "a column")
        require(attrs["layout"] == "row", "rows that are swizzled are laid out by rows")
    t = _wanted(wanted, "fragment_load")
    require(memory.space.value != "private", f"a subgroup shares no private memory ({memory})")
    require(memory.access.reads, f"load from {memory}, which may only be written")
    require(t.element == memory.element, f"load of {t} from {memory}")
    require(t.role != "row", f"{t} is made by a row reduction, not loaded")
    require(not t.element.is_bool, f"load of {t}: bools are no matrix elements")
    return (t,)


def store_rule(operands: Types, attrs: Attrs, wanted: Types | None) -> Types:
    memory = memory_type(operands[0], "operand 1")
    int_scalar(operands[1], "an index")
    int_scalar(operands[2], "a stride")
    t = fragment_type(operands[3], "operand 4", "acc")
    require(memory.space.value != "private", f"a subgroup shares no private memory ({memory})")
    require(memory.access.writes, f"store to {memory}, which may only be read")
    require(t.element == memory.element, f"store of {t} to {memory}")
    require(not t.element.is_bool, f"store of {t}: bools are no matrix elements")
    return ()


def mma_rule(operands: Types, attrs: Attrs, wanted: Types | None) -> Types:
    a = fragment_type(operands[0], "operand 1", "a")
    b = fragment_type(operands[1], "operand 2", "b")
    c = fragment_type(operands[2], "operand 3", "acc")
    depth = PRODUCTS.get((a.element.name, b.element.name, c.element.name))
    if depth is None:
        known = ", ".join(f"{x} x {y} + {z}" for x, y, z in PRODUCTS)
        found = f"{a.element} x {b.element} + {c.element}"
        raise OpTypeError(f"no product of fragments {found}; known: {known}")
    for t, k in ((a, a.columns), (b, b.rows)):
        require(k == depth, f"products of {t.element} are {depth} deep, not {k} (of {t})")
    return (c,)


def reduce_rule(operands: Types, attrs: Attrs, wanted: Types | None) -> Types:
    t = fragment_type(operands[0], "operand", "acc")
    require(attrs["kind"] in ROW_KINDS, f"a row reduction is one of {', '.join(ROW_KINDS)}")
    require(t.element in (f32, f16, i32, u32), f"no row reduction of {t}")
    return (FragmentType(t.element, "row", t.rows, 1),)


def broadcast_rule(operands: Types, attrs: Attrs, wanted: Types | None) -> Types:
    t = fragment_type(operands[0], "operand", "row")
    return (FragmentType(t.element, "acc", t.rows, 16),)


def cast_rule(operands: Types, attrs: Attrs, wanted: Types | None) -> Types:
    t = fragment_type(operands[0], "operand", "acc")
    return (FragmentType(t.element, "a", t.rows, t.columns),)


def coordinate_rule(operands: Types, attrs: Attrs, wanted: Types | None) -> Types:
    t = _wanted(wanted, "fragment_coordinate")
    require(t.element == i32, f"a coordinate is an i32, not {t.element}")
    return (t,)


def _words(t: Type, what: str, *counts: int) -> None:
    ok = isinstance(t, VectorType) and t.element == u32 and t.lanes in counts
    require(ok, f"{what} must be packed words, not {t}")


def nv_mma_rule(operands: Types, attrs: Attrs, wanted: Types | None) -> Types:
    a, b, c = operands
    if a != u32:
        _words(a, "operand 1", 2, 4)
    require(b == u32 or (isinstance(b, VectorType) and b.element == u32), f"operand 2 is {b}")
    require(isinstance(c, VectorType), f"operand 3 must be a vector, not {c}")
    return (c,)


def nv_ldmatrix_rule(operands: Types, attrs: Attrs, wanted: Types | None) -> Types:
    memory = memory_type(operands[0], "operand 1")
    int_scalar(operands[1], "an index")
    require(memory.space.value == "workgroup", f"ldmatrix reads workgroup memory, not {memory}")
    bits = memory.element.bits
    fits = bits == 16 or (bits == 8 and not attrs["transposed"])
    require(fits, f"ldmatrix moves 16-bit elements and whole rows of 8-bit ones, not {memory}")
    return (VectorType(u32, 4),)


def nv_unpack_rule(operands: Types, attrs: Attrs, wanted: Types | None) -> Types:
    require(operands[0] == u16, f"two 8-bit floats are a u16, not {operands[0]}")
    return (u32,)


def nv_pack_rule(operands: Types, attrs: Attrs, wanted: Types | None) -> Types:
    for n, t in enumerate(operands, 1):
        require(t == f32, f"operand {n} must be an f32, not {t}")
    return (u16,)
