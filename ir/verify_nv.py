"""Attributes of the ops of `ir.ops.nv`."""

from __future__ import annotations

from collections.abc import Callable

from .core import Attr, Kernel, Op
from .dtypes import DTYPES
from .ops.nv import STEP_BYTES, SUMS, WARP_SUMS

Check = Callable[[Attr, Op, Kernel], bool]
SWIZZLES = (0, 32, 64, 128)
MOST_BOX = 256  # elements along a dimension of a box


def _number(low: int, high: int, step: int = 1) -> Check:
    def check(v: Attr, op: Op, kernel: Kernel) -> bool:
        return type(v) is int and low <= v <= high and v % step == 0

    return check


def _bool(v: Attr, op: Op, kernel: Kernel) -> bool:
    return isinstance(v, bool)


def _box(v: Attr, op: Op, kernel: Kernel) -> bool:
    whole = isinstance(v, tuple) and 1 <= len(v) <= 5
    return whole and all(type(n) is int and 1 <= n <= MOST_BOX for n in v)  # type: ignore[union-attr]


def _expressions(fewer: int) -> Check:
    def check(v: Attr, op: Op, kernel: Kernel) -> bool:
        from .verify_attrs import check_grid

        box = dict(op.attrs).get("box")
        fits = isinstance(v, tuple) and isinstance(box, tuple) and len(v) == len(box) - fewer
        return fits and all(check_grid(kernel, e) for e in v)  # type: ignore[union-attr]

    return check


def _factor(v: Attr, op: Op, kernel: Kernel) -> bool:
    """The second factor of a product by a subgroup: as the first, or both integers of 8 bits."""
    a = dict(op.attrs)["a"]
    return v == a or {v, a} <= {"i8", "u8"}


def _depth(v: Attr, op: Op, kernel: Kernel) -> bool:
    return v == f"m16n8k{STEP_BYTES // DTYPES[str(dict(op.attrs)['a'])].bytes}"


_MAP: dict[str, Check] = {
    "box": _box,
    "shape": _expressions(0),
    "strides": _expressions(1),
    "swizzle": lambda v, op, kernel: v in SWIZZLES,
}
_PENDING = {"pending": _number(0, 63)}

REQUIRED: dict[str, dict[str, Check]] = {
    "nv_mbarrier_arrive": {"count": _number(1, (1 << 20) - 1)},
    "nv_bulk_wait": {**_PENDING, "read": _bool},
    "nv_tensor_load": {**_MAP, "multicast": _bool},
    "nv_tensor_store": _MAP,
    "nv_tensor_prefetch": _MAP,
    "nv_wgmma": {
        "accumulate": _bool,
        "columns": _number(8, 256, 8),
        "depth": _number(8, 128),
        "element": lambda v, op, kernel: v in SUMS,
        "registers": _bool,
        "transposed": _bool,
    },
    "nv_warp_mma": {
        # Checked in the order of their names: the others depend on `a`.
        "a": lambda v, op, kernel: v in WARP_SUMS,
        "b": _factor,
        "shape": _depth,
    },
    "nv_wgmma_wait": {"pending": _number(0, 7)},
    "nv_set_max_registers": {"count": _number(24, 256, 8)},
    "nv_role": {"first": _number(0, 31), "count": _number(1, 32)},
    "nv_named_barrier": {"count": _number(32, 1024, 32)},
    "nv_named_arrive": {"count": _number(32, 1024, 32)},
}
