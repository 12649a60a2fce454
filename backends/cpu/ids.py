"""Ids of invocations, as shapes: how a workgroup's invocations lie in the lanes.

Invocations are numbered x + y*WX + z*WX*WY; subgroup s holds s*W .. s*W + W-1 of them.
"""

from __future__ import annotations

from ...ir.core import Kernel, Op
from ...ir.dtypes import MemType
from .shapes import Kind, Shape, align_of, constant


def subgroups(kernel: Kernel, lanes: int) -> int:
    """Subgroups in a workgroup; the last one may be partly empty."""
    return -(-kernel.workgroup_count // lanes)


def id_shape(kernel: Kernel, op: Op, lanes: int) -> Shape:
    """The shape of the result of an id op."""
    match op.name:
        case "count":
            memory = op.operands[0].type
            assert isinstance(memory, MemType)
            if memory.count is not None:
                return constant(memory.count)
            return Shape(Kind.GROUP, 1, (0, kernel.index.max))
        case "num_groups":
            return Shape(Kind.GROUP, 1, (1, kernel.index.max))
        case "group_id":
            return Shape(Kind.GROUP, 1, (0, kernel.index.max - 1))
        case "num_subgroups":
            return constant(subgroups(kernel, lanes))
        case "subgroup_id":
            return uniform_id(kernel, lanes, 0, subgroups(kernel, lanes) - 1, 1)
        case "subgroup_lane":
            return _first_lane(lanes)
        case "local_linear_id":
            return linear_shape(kernel, lanes)
        case "local_id":
            return local_shape(kernel, lanes, _dim(op))
        case "global_id":
            local = local_shape(kernel, lanes, _dim(op))
            align = min(local.align, align_of(kernel.workgroup[_dim(op)]))
            return Shape(local.kind, align if local.kind is not Kind.VARYING else 1, _full(kernel))
    raise ValueError(f"no id op: {op.name}")


def _dim(op: Op) -> int:
    dim = op.attr("dim")
    assert isinstance(dim, int)
    return dim


def _full(kernel: Kernel) -> tuple[int, int]:
    return kernel.index.min, kernel.index.max


def _first_lane(lanes: int) -> Shape:
    return Shape(Kind.CONSECUTIVE if lanes > 1 else Kind.GROUP, align_of(0), (0, lanes - 1))


def uniform_id(kernel: Kernel, lanes: int, low: int, high: int, align: int) -> Shape:
    """An id that is the same in all lanes of a subgroup."""
    if low == high:
        return constant(low)
    kind = Kind.GROUP if subgroups(kernel, lanes) == 1 else Kind.UNIFORM
    return Shape(kind, align, (low, high))


def linear_shape(kernel: Kernel, lanes: int) -> Shape:
    """The shape of the linear id within the workgroup."""
    top = subgroups(kernel, lanes) * lanes - 1
    if top == 0:
        return constant(0)
    if lanes == 1:
        return Shape(Kind.UNIFORM, 1, (0, top))
    return Shape(Kind.CONSECUTIVE, lanes if top >= lanes else align_of(0), (0, top))


def rows(kernel: Kernel, lanes: int) -> bool:
    """Whether every subgroup lies within one row of the workgroup (x consecutive)."""
    return kernel.workgroup[0] % lanes == 0


def local_shape(kernel: Kernel, lanes: int, dim: int) -> Shape:
    """The shape of a local id."""
    x, y, z = kernel.workgroup
    size = kernel.workgroup[dim]
    if size == 1 and kernel.workgroup_count % lanes == 0:
        return constant(0)
    if rows(kernel, lanes):
        if dim == 0:
            return Shape(Kind.CONSECUTIVE if lanes > 1 else Kind.UNIFORM, lanes, (0, size - 1))
        return uniform_id(kernel, lanes, 0, size - 1, 1)
    if (y, z) == (1, 1) and dim == 0:
        return linear_shape(kernel, lanes)
    if dim == 2 and x * y % lanes == 0:
        return uniform_id(kernel, lanes, 0, size - 1, 1)
    top = size - 1 if kernel.workgroup_count % lanes == 0 else max(size, lanes) * 2
    return Shape(Kind.VARYING, 1, (0, top))
