"""v_cmp and v_cmpx: lane by lane into a mask of lanes, or into EXEC."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .decode import EXEC, Instruction
from .operands import KINDS, Kind, mask_target, source
from .registry import Build, Step, register
from .state import Arch, Machine

Array = np.ndarray[Any, Any]
Function = Callable[[Array, Array], Array]


def _constant(value: bool) -> Function:
    return lambda x, y: np.full(np.broadcast_shapes(x.shape, y.shape), value)


def _ordered(x: Array, y: Array) -> Array:
    return (x == x) & (y == y)


INTEGER: dict[str, Function] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "t": _constant(True),
    "f": _constant(False),
}
FLOAT: dict[str, Function] = {
    "eq": np.equal,
    "lg": lambda x, y: (x < y) | (x > y),
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "o": _ordered,
    "u": lambda x, y: ~_ordered(x, y),
    "neq": np.not_equal,
    "nlg": lambda x, y: ~((x < y) | (x > y)),
    "nlt": lambda x, y: ~(x < y),
    "nle": lambda x, y: ~(x <= y),
    "ngt": lambda x, y: ~(x > y),
    "nge": lambda x, y: ~(x >= y),
    "t": _constant(True),
    "tru": _constant(True),
    "f": _constant(False),
}


def _compare(f: Function, kind: Kind, exec_too: bool) -> Build:
    """gfx10 and later: v_cmpx writes EXEC alone; gfx9: EXEC and the destination."""

    def build(i: Instruction, arch: Arch) -> Step:
        # A v_cmpx of gfx10 and later has no destination: its sources are operands 0 and 1.
        first = len(i.operands) - 2
        x, y = source(i, first, kind), source(i, first + 1, kind)
        write = mask_target(i, i.operands[0]) if first == 1 else None

        def step(m: Machine) -> None:
            out = f(x(m), y(m)) & m.mask
            if write is not None and not (exec_too and i.operands[0].index == EXEC):
                write(m, out)
            if exec_too:
                m.write_lane_bits(EXEC, out)

        return step

    return build


def _register_all() -> None:
    tables = [(FLOAT, "F16 F32 F64"), (INTEGER, "I16 I32 I64 U16 U32 U64")]
    for table, names in tables:
        for kind_name in names.split():
            kind = KINDS[kind_name]
            allowed = {"op_sel"} if kind.bits == 16 else set()
            allowed |= {"clamp"} if kind.is_float else set()
            for name, f in table.items():
                suffix = f"{name}_{kind_name.lower()}"
                register(f"v_cmp_{suffix}", _compare(f, kind, False), allowed)
                register(f"v_cmpx_{suffix}", _compare(f, kind, True), allowed)


_register_all()


# v_cmp_class: bit k of the mask asks for class k (3.3.8 of AMD's ISA documents, "V_CMP_CLASS").


def classes(x: Array) -> Array:
    """uint32: the one bit of the class of each float."""
    bits = x.dtype.itemsize * 8
    raw = x.view(f"u{bits // 8}")
    mantissa_bits = {16: 10, 32: 23, 64: 52}[bits]
    quiet = (raw >> raw.dtype.type(mantissa_bits - 1) & raw.dtype.type(1)) != 0
    negative = np.signbit(x)
    size = np.abs(x)
    tiny = np.finfo(x.dtype).smallest_normal
    magnitude = np.select(
        [np.isinf(x), size >= tiny, size > 0], [np.uint32(0), np.uint32(1), np.uint32(2)], 3
    ).astype(np.uint32)
    # order of bits 2 to 9: -inf -normal -denormal -0 +0 +denormal +normal +inf
    number = np.where(negative, magnitude + np.uint32(2), np.uint32(9) - magnitude)
    number = np.where(np.isnan(x), quiet.astype(np.uint32), number)
    return np.uint32(1) << number


def _class(kind: Kind, exec_too: bool) -> Build:
    raw = KINDS["U32"]

    def build(i: Instruction, arch: Arch) -> Step:
        first = len(i.operands) - 2
        x, wanted = _undisturbed(i, first, kind), source(i, first + 1, raw)
        write = mask_target(i, i.operands[0]) if first == 1 else None

        def step(m: Machine) -> None:
            out = (classes(x(m)) & wanted(m) != 0) & m.mask
            if write is not None:
                write(m, out)
            if exec_too:
                m.write_lane_bits(EXEC, out)

        return step

    return build


def _undisturbed(i: Instruction, position: int, kind: Kind) -> Callable[[Machine], Array]:
    """The float source as it stands: denormals are a class of their own in any mode."""
    read = source(i, position, KINDS[f"B{kind.bits}"])
    return lambda m: read(m).view(kind.dtype)


for _bits in (16, 32, 64):
    for _exec in (False, True):
        register(
            f"v_cmp{'x' if _exec else ''}_class_f{_bits}",
            _class(KINDS[f"F{_bits}"], _exec),
            {"op_sel"} if _bits == 16 else (),
        )
