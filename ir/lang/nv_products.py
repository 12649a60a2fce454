"""Products by warpgroups, their registers and the waits for them; `HANDLERS` by name."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..core import Attr, Value
from ..dtypes import DTYPES, DType, u32
from ..ops.nv import ATOM_BYTES, STEP_BYTES, SUMS, WARP_SUMS, sums_of
from .memory import cells
from .nv_copies import Handler, array_of, place_of
from .values import Entry, Registers, describe

if TYPE_CHECKING:
    from .tracer import Tracer

WARPGROUP, WARP = 128, 32  # invocations


def whole_warpgroups(t: Tracer, node: ast.AST) -> None:
    count = t.workgroup[0] * t.workgroup[1] * t.workgroup[2]
    if count % WARPGROUP:
        t.fail(node, f"a warpgroup has {WARPGROUP} invocations: a workgroup of {count} has no "
                     "whole number of them")  # fmt: skip


def _total(t: Tracer, node: ast.AST, entry: Entry) -> Registers:
    if not isinstance(entry, Registers):
        t.fail(node, f"a sum is an array made by registers(...), found {describe(entry)}")
    return entry


def _wgmma(
    t: Tracer,
    node: ast.AST,
    total: Entry,
    a: Entry,
    a_index: Entry,
    b: Entry,
    b_index: Entry,
    depth: Entry,
    transposed: Entry,
    accumulate: Entry,
) -> Entry:
    whole_warpgroups(t, node)
    sums = _total(t, node, total)
    right = array_of(t, node, b, "the second operand of a product")
    element = right.type.element
    if element.name not in SUMS:
        known = ", ".join(SUMS)
        t.fail(node, f"products of {element} are not known; known: {known}")
    if sums.type not in SUMS[element.name]:
        wanted = sums_of(element.name)
        t.fail(node, f"products of {element} are summed in {wanted}, found {sums.type}")
    columns = 2 * sums.count
    if columns % 8 or not 8 <= columns <= 256:
        t.fail(node, f"a sum has 4, 8, .. or 128 registers (8 to 256 columns), found {sums.count}")
    row = 128 // element.bytes
    deep = row if depth is None else t.static_int(node, depth, "the depth of a product")
    step = STEP_BYTES // element.bytes
    if deep % step or not 0 < deep <= row:
        t.fail(node, f"a product of {element} is {step}, {2 * step} .. {row} deep, found {deep}")
    t.require_static(node, transposed, "whether b is transposed")
    t.require_static(node, accumulate, "whether a product is added to the sum")
    if transposed and element.bits != 16:
        t.fail(node, f"a transposed tile holds 16-bit elements, found {element}")
    operands = _left(t, node, a, a_index, element, deep)
    operands += [right.value, place_of(t, node, right, b_index, ATOM_BYTES)]
    attrs: dict[str, Attr] = {
        "accumulate": bool(accumulate),
        "columns": columns,
        "depth": deep,
        "element": element.name,
        "registers": isinstance(a, Registers),
        "transposed": bool(transposed),
    }
    made = t.op(node, "nv_wgmma", (*operands, *cells(t, node, sums)), attrs)
    for n, value in enumerate(made.results):
        t.state[(sums.number, n)] = value
    return None


def _left(
    t: Tracer, node: ast.AST, a: Entry, index: Entry, element: DType, depth: int
) -> list[Value]:
    if isinstance(a, Registers):
        words = depth * element.bytes // STEP_BYTES * 4
        if a.type != u32 or a.count != words:
            t.fail(node, f"a in registers is {words} words of u32, found {a.count} of {a.type}")
        return cells(t, node, a)
    tile = array_of(t, node, a, "the first operand of a product")
    if tile.type.element != element:
        t.fail(node, f"a product of {tile.type.element} and {element}")
    return [tile.value, place_of(t, node, tile, index, ATOM_BYTES)]


def _mma(t: Tracer, node: ast.AST, total: Entry, a: Entry, b: Entry, element: Entry) -> Entry:
    from .intrinsics import subgroup

    if (size := subgroup(t, node)) != WARP:
        t.fail(node, f"nv.mma is of subgroups of {WARP}, found SUBGROUP = {size}")
    kinds = element if isinstance(element, tuple) else (element, element)
    names = [k.name if isinstance(k, DType) else describe(k) for k in kinds]
    mixed = len(names) == 2 and (names[0] == names[1] or {*names} <= {"i8", "u8"})
    if not mixed or not {*names} <= WARP_SUMS.keys():
        known = ", ".join(WARP_SUMS)
        t.fail(node, f"nv.mma multiplies {known}, or i8 with u8; found {', '.join(names)}")
    sums = _total(t, node, total)
    wanted = WARP_SUMS[names[0]]
    if (sums.type, sums.count) != (wanted, 4):
        t.fail(node, f"a sum is 4 registers of {wanted}, found {sums.count} of {sums.type}")
    packed = []
    for what, entry, count in (("a", a, 4), ("b", b, 2)):
        if not isinstance(entry, Registers) or (entry.type, entry.count) != (u32, count):
            t.fail(node, f"{what} is {count} registers of u32, found {describe(entry)}")
        packed.append(t.emit(node, "vector", *cells(t, node, entry)))
    packed.append(t.emit(node, "vector", *cells(t, node, sums)))
    deep = STEP_BYTES // DTYPES[names[0]].bytes
    attrs: dict[str, Attr] = {"a": names[0], "b": names[1], "shape": f"m16n8k{deep}"}
    result = t.op(node, "nv_warp_mma", tuple(packed), attrs).result
    for n in range(4):
        t.state[(sums.number, n)] = t.emit(node, "extract", result, lane=n)
    return None


def _wgmma_wait(t: Tracer, node: ast.AST, total: Entry, pending: Entry) -> Entry:
    left = t.static_int(node, pending, "the number of pending groups")
    if not 0 <= left < 8:
        t.fail(node, f"0 to 7 groups may be pending, found {left}")
    sums = None if total is None else _total(t, node, total)
    held = [] if sums is None else cells(t, node, sums)
    made = t.op(node, "nv_wgmma_wait", tuple(held), {"pending": left})
    if sums is not None:
        for n, value in enumerate(made.results):
            t.state[(sums.number, n)] = value
    return None


def _in_warpgroup(t: Tracer, node: ast.AST, register: Entry) -> tuple[int, Callable[..., Value]]:
    number = t.static_int(node, register, "the number of a register")
    if not 0 <= number < 128:
        t.fail(node, f"a sum has registers 0 to 127, found {number}")

    def step(name: str, value: Value, n: int) -> Value:
        return t.emit(node, name, value, t.const(node, n, t.index))

    return number, step


def _row(t: Tracer, node: ast.AST, register: Entry) -> Entry:
    """Subgroup w of the warpgroup has rows 16 w and on, its lane l those of l // 4 and 8 more."""
    number, step = _in_warpgroup(t, node, register)
    own = t.emit(node, "local_linear_id", type=t.index)
    first = step("mul", step("mod", step("floordiv", own, 32), 4), 16)
    inner = step("floordiv", step("mod", own, 32), 4)
    return step("add", t.emit(node, "add", first, inner), 8 * (number // 2 % 2))


def _column(t: Tracer, node: ast.AST, register: Entry) -> Entry:
    """Four registers cover eight columns, two of each row."""
    number, step = _in_warpgroup(t, node, register)
    own = t.emit(node, "local_linear_id", type=t.index)
    inner = step("mul", step("mod", own, 4), 2)
    return step("add", inner, 8 * (number // 4) + number % 2)


def _set_max_registers(t: Tracer, node: ast.AST, count: Entry) -> Entry:
    whole_warpgroups(t, node)
    number = t.static_int(node, count, "a number of registers")
    if number % 8 or not 24 <= number <= 240:
        t.fail(node, f"the number of registers is a multiple of 8 from 24 to 240, found {number}")
    t.op(node, "nv_set_max_registers", (), {"count": number})
    return None


HANDLERS: dict[str, Handler] = {
    "nv.mma": _mma,
    "nv.wgmma": _wgmma,
    "nv.wgmma_wait": _wgmma_wait,
    "nv.wgmma_row": _row,
    "nv.wgmma_column": _column,
    "nv.set_max_registers": _set_max_registers,
}
