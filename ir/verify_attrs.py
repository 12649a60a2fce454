"""What attributes each op has, and what may stand in them."""

from __future__ import annotations

from collections.abc import Callable

from . import verify_nv
from .abi import GRID_OPS
from .core import Attr, Kernel, Op
from .dtypes import DType
from .ops.amd import FAMILIES
from .ops.fragment_rules import ROW_KINDS
from .ops.rules import REDUCTIONS

Check = Callable[[Attr, Op, Kernel], bool]
ATOMICS = ("add", "min", "max", "and", "or", "xor", "exchange")


def _one_of(*known: Attr) -> Check:
    return lambda v, op, kernel: any(v == k and type(v) is type(k) for k in known)


def _int(value: Attr) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_str(value: Attr, op: Op, kernel: Kernel) -> bool:
    return isinstance(value, str)


def _bits(value: Attr, op: Op, kernel: Kernel) -> bool:
    dtype = op.results[0].type if op.results else None
    if not isinstance(dtype, DType) or not _int(value):
        return False
    return 0 <= value < 1 << (1 if dtype.is_bool else dtype.bits)  # type: ignore[operator]


def _lane(value: Attr, op: Op, kernel: Kernel) -> bool:
    return _int(value)


def _lanes(value: Attr, op: Op, kernel: Kernel) -> bool:
    return isinstance(value, tuple) and len(value) in (2, 4, 8) and all(map(_int, value))


def _cases(value: Attr, op: Op, kernel: Kernel) -> bool:
    dtype = op.operands[0].type if op.operands else None
    if not isinstance(value, tuple) or not isinstance(dtype, DType) or not dtype.is_int:
        return False
    fit = all(_int(v) and dtype.min <= v <= dtype.max for v in value)  # type: ignore[operator]
    return fit and len(set(value)) == len(value) and len(op.regions) == len(value) + 1


def _site(value: Attr, op: Op, kernel: Kernel) -> bool:
    return _int(value) and 0 <= value < len(kernel.sites)  # type: ignore[operator]


def _names(value: Attr, op: Op, kernel: Kernel) -> bool:
    texts = isinstance(value, tuple) and all(isinstance(v, str) for v in value)
    return texts and len(value) == len(op.operands)  # type: ignore[arg-type]


_DIM = {"dim": _one_of(0, 1, 2)}
_FACTORS = ("f16", "bf16", "f32", "i8", "u8", "f8e4m3", "f8e5m2")
REQUIRED: dict[str, dict[str, Check]] = {
    **verify_nv.REQUIRED,
    "const": {"bits": _bits},
    "extract": {"lane": _lane},
    "insert": {"lane": _lane},
    "shuffle": {"lanes": _lanes},
    "global_id": _DIM,
    "local_id": _DIM,
    "group_id": _DIM,
    "num_groups": _DIM,
    "alloc": {"name": _is_str},
    "copy_async": {"count": _one_of(1, 2, 4, 8, 16)},
    "copy_wait": {"pending": lambda v, op, kernel: _int(v) and 0 <= v < 64},  # type: ignore[operator]
    "atomic": {"kind": _one_of(*ATOMICS)},
    "fence": {
        "scope": _one_of("workgroup", "device"),
        "order": _one_of("acquire", "release", "acq_rel"),
    },
    "subgroup_reduce": {"kind": _one_of(*REDUCTIONS)},
    "subgroup_scan": {"kind": _one_of(*REDUCTIONS), "inclusive": _one_of(True, False)},
    "fragment_load": {"layout": _one_of("row", "column")},
    "fragment_store": {"layout": _one_of("row", "column")},
    "fragment_reduce": {"kind": _one_of(*ROW_KINDS)},
    "fragment_coordinate": {"dim": _one_of(0, 1)},
    "nv_mma": {
        "shape": _one_of("m8n8k16", "m16n8k8", "m16n8k16", "m16n8k32"),
        "a": _one_of(*_FACTORS),
        "b": _one_of(*_FACTORS),
    },
    "amd_mma": {
        "family": _one_of(*FAMILIES),
        "a": _one_of(*_FACTORS),
        "b": _one_of(*_FACTORS),
        "depth": _one_of(4, 8, 16, 32, 64),
    },
    "nv_ldmatrix": {"transposed": _one_of(True, False)},
    "nv_unpack_f8": {"element": _one_of("f8e4m3", "f8e5m2")},
    "nv_pack_f8": {"element": _one_of("f8e4m3", "f8e5m2")},
    "switch": {"cases": _cases},
    "assert": {"site": _site},
    "print": {"format": _is_str},
    "breakpoint": {"names": _names},
}
OPTIONAL: dict[str, dict[str, Check]] = {"load": {"lanes": _one_of(1, 2, 4, 8)}}


def check_attrs(op: Op, kernel: Kernel) -> str | None:
    """What is wrong with the attributes of an op; None if nothing is."""
    if not op.attrs and op.name not in REQUIRED:
        return None
    if op.name == "const" and len(op.attrs) == 1 and op.attrs[0][0] == "bits":  # most of them
        bits = op.attrs[0][1]
        return None if _bits(bits, op, kernel) else f"const cannot have bits={bits!r}"
    names = [name for name, _ in op.attrs]
    if names != sorted(set(names)):
        return f"attributes of {op.name} must be sorted and distinct, found {names}"
    needed, allowed = REQUIRED.get(op.name, {}), OPTIONAL.get(op.name, {})
    for name in needed:
        if name not in names:
            return f"{op.name} lacks attribute {name!r}"
    for name, value in op.attrs:
        check = needed.get(name) or allowed.get(name)
        if check is None:
            return f"{op.name} has no attribute {name!r}"
        if not check(value, op, kernel):
            return f"{op.name} cannot have {name}={value!r}"
    return None


def check_grid(kernel: Kernel, expression: Attr, depth: int = 0) -> bool:
    """Whether a grid expression is one of `ir.abi.evaluate` over this kernel's parameters."""
    if _int(expression):
        return True
    if not isinstance(expression, tuple) or depth > 100:
        return False
    if len(expression) == 2:
        kinds = {"count": ("buffer", "slot"), "scalar": ("scalar",)}
        wanted = kinds.get(str(expression[0]), ())
        return any(p.name == expression[1] and p.kind in wanted for p in kernel.params)
    return (
        len(expression) == 3
        and expression[0] in GRID_OPS
        and all(check_grid(kernel, e, depth + 1) for e in expression[1:])
    )
