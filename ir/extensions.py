"""Which extensions a kernel uses: features that a target or a device may lack."""

from __future__ import annotations

from dataclasses import dataclass

from . import abi
from .abi import GpuLayout
from .core import Kernel, Op, ops_by_name, ops_named, walk
from .interface import Attr
from .ops.nv import FEATURE

CLUSTER = "CLUSTER"  # the constexpr whose value is the number of workgroups of a cluster


@dataclass(frozen=True, slots=True)
class TensorMap:
    """A buffer seen as a tensor, for the bulk copy engine.

    shape: elements along each dimension, the last one contiguous; strides: elements between
    neighbours along every dimension but the last: expressions of `ir.abi.evaluate`. box: elements
    that one copy moves. swizzle: bytes of a row of the tile whose chunks of 16 are exchanged, 0
    for none.
    """

    buffer: str
    element: str
    shape: tuple[Attr, ...]
    strides: tuple[Attr, ...]
    box: tuple[int, ...]
    swizzle: int

    @property
    def fact(self) -> dict[str, object]:
        """The form that a manifest holds."""
        return {name: _plain(getattr(self, name)) for name in TensorMap.__slots__}


def _plain(value: Attr) -> object:
    """As JSON gives it back."""
    return list(map(_plain, value)) if isinstance(value, tuple) else value


def used(kernel: Kernel) -> dict[str, Op]:
    """The features that a kernel needs, each with the first op that does."""
    found: dict[str, Op] = {}
    if FEATURE.keys().isdisjoint(ops_by_name(kernel.body)):
        return found
    for op in walk(kernel.body):
        if op.name in FEATURE:
            found.setdefault(FEATURE[op.name], op)
    return found


def cluster(kernel: Kernel) -> int:
    """Workgroups of a cluster; 1 for a kernel without."""
    value = dict(kernel.constexprs).get(CLUSTER, 1)
    return value if isinstance(value, int) else 1


def map_of(kernel: Kernel, op: Op) -> TensorMap:
    """The tensor map of a tensor load, store or prefetch."""
    value = op.operands[2 if op.name == "nv_tensor_load" else 0]
    pairs = zip(kernel.params, kernel.body.args, strict=True)
    param = next(p for p, v in pairs if v.id == value.id)
    attrs = {name: op.attr(name) for name in ("shape", "strides", "box", "swizzle")}
    return TensorMap(param.name, str(param.dtype), **attrs)  # type: ignore[arg-type]


def gpu_layout(kernel: Kernel) -> GpuLayout:
    """Where the parameters of a GPU kernel lie (`ir.abi`)."""
    barrier = "grid_barrier" in used(kernel)
    return abi.gpu_layout(kernel.params, bool(kernel.sites), barrier, len(tensor_maps(kernel)))


def tensor_maps(kernel: Kernel) -> tuple[TensorMap, ...]:
    """The distinct tensor maps of a kernel, in the order of their first uses."""
    found: dict[TensorMap, None] = {}
    for op in ops_named(kernel.body, "nv_tensor_load", "nv_tensor_store", "nv_tensor_prefetch"):
        found.setdefault(map_of(kernel, op))
    return tuple(found)
