"""Rows beyond what every target has: a barrier of the grid, and what NVIDIA's Hopper brought.

`FEATURE` says which of `ir.targets.FEATURES` a device needs for each. All that touch memory count
as synchronisation, so that no pass moves a load or a store across them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..dtypes import DTYPES, DType, MemType, Space, Type, VectorType, bool_, f16, f32, i32, u32, u64
from . import rules as r
from .rules import int_scalar, memory_type, require
from .table import Effect, OpRow, define

Types = tuple[Type, ...]
Attrs = Mapping[str, Any]

# Element types of a product by a warpgroup, with those that its sum may have.
SUMS: dict[str, tuple[DType, ...]] = {
    **{"f16": (f32, f16), "bf16": (f32,), "f32": (f32,), "i8": (i32,), "u8": (i32,)},
    **{"f8e4m3": (f32, f16), "f8e5m2": (f32, f16)},
}
# The same of a product by a subgroup.
WARP_SUMS: dict[str, DType] = {"f16": f32, "bf16": f32, "i8": i32, "u8": i32}
ROWS = 64  # of a product by a warpgroup
STEP_BYTES = 32  # of a row that one instruction takes
ATOM_BYTES = 1024  # of a tile's alignment: eight rows of 128 bytes

FEATURE: dict[str, str] = {}


def _shared(t: Type, what: str) -> MemType:
    memory = memory_type(t, what)
    require(memory.space is Space.WORKGROUP, f"{what} must be a workgroup array, not {memory}")
    return memory


def _buffer(t: Type, what: str) -> MemType:
    memory = memory_type(t, what)
    require(memory.space is Space.BUFFER, f"{what} must be a buffer, not {memory}")
    return memory


def _mbarrier(operands: Types, at: int) -> None:
    memory = _shared(operands[at], f"operand {at + 1}")
    require(memory.element == u64, f"mbarriers lie in an array of u64, not {memory}")
    int_scalar(operands[at + 1], "the number of an mbarrier")


def _numbers(operands: Types, *places: int) -> None:
    for n in places:
        int_scalar(operands[n], f"operand {n + 1}")


def mbarrier_rule(operands: Types, attrs: Attrs, wanted: Types | None) -> Types:
    """An mbarrier and, with three operands, a number."""
    _mbarrier(operands, 0)
    _numbers(operands, *range(2, len(operands)))
    return ()


def arrive_rule(operands: Types, attrs: Attrs, wanted: Types | None) -> Types:
    require(len(operands) in (2, 3), f"an arrival takes 2 or 3 operands, not {len(operands)}")
    return mbarrier_rule(operands, attrs, wanted)


def try_wait_rule(operands: Types, attrs: Attrs, wanted: Types | None) -> Types:
    mbarrier_rule(operands, attrs, wanted)
    return (bool_,)


def _same_width(a: MemType, b: MemType) -> None:
    require(a.element.bits == b.element.bits, f"a copy between {a} and {b}")


def bulk_load_rule(operands: Types, attrs: Attrs, wanted: Types | None) -> Types:
    """Array, index, buffer, index, elements, mbarrier, number."""
    _same_width(_shared(operands[0], "operand 1"), _buffer(operands[2], "operand 3"))
    _numbers(operands, 1, 3, 4)
    _mbarrier(operands, 5)
    return ()


def bulk_store_rule(operands: Types, attrs: Attrs, wanted: Types | None) -> Types:
    """Buffer, index, array, index, elements."""
    target = _buffer(operands[0], "operand 1")
    require(target.access.writes, f"copy to {target}, which may only be read")
    _same_width(target, _shared(operands[2], "operand 3"))
    _numbers(operands, 1, 3, 4)
    return ()


def tensor_load_rule(operands: Types, attrs: Attrs, wanted: Types | None) -> Types:
    """Array, index, buffer, mbarrier, number, coordinates (and, with attr multicast, a mask)."""
    rank = len(attrs["box"])
    count = 5 + rank + int(bool(attrs.get("multicast")))
    require(len(operands) == count, f"a load of {rank} dimensions takes {count} operands")
    _same_width(_shared(operands[0], "operand 1"), _buffer(operands[2], "operand 3"))
    _numbers(operands, 1, *range(5, count))
    _mbarrier(operands, 3)
    return ()


def tensor_store_rule(operands: Types, attrs: Attrs, wanted: Types | None) -> Types:
    """Buffer, array, index, coordinates."""
    rank = len(attrs["box"])
    require(len(operands) == 3 + rank, f"a store of {rank} dimensions takes {3 + rank} operands")
    target = _buffer(operands[0], "operand 1")
    require(target.access.writes, f"copy to {target}, which may only be read")
    _same_width(target, _shared(operands[1], "operand 2"))
    _numbers(operands, *range(2, 3 + rank))
    return ()


def tensor_prefetch_rule(operands: Types, attrs: Attrs, wanted: Types | None) -> Types:
    """Buffer, coordinates."""
    rank = len(attrs["box"])
    require(len(operands) == 1 + rank, f"{rank} dimensions take {1 + rank} operands")
    _buffer(operands[0], "operand 1")
    _numbers(operands, *range(1, 1 + rank))
    return ()


def wgmma_rule(operands: Types, attrs: Attrs, wanted: Types | None) -> Types:
    """a (array and index or, with attr registers, words), b (array, index), the sum's registers."""
    element, columns, depth = str(attrs["element"]), attrs["columns"], attrs["depth"]
    width = DTYPES[element].bytes
    require(columns % 8 == 0 and 8 <= columns <= 256, f"a sum of {columns} columns: 8, 16 .. 256")
    wide = depth * width
    require(
        wide in (32, 64, 96, 128),
        f"a product {depth} deep of {element}: 32, 64, 96 or 128 bytes of a row",
    )
    require(not attrs["transposed"] or width == 2, f"a transposed b holds 16 bits, not {element}")
    first = 2
    if attrs["registers"]:
        first = wide // STEP_BYTES * 4
        for n, t in enumerate(operands[:first], 1):
            require(t == u32, f"operand {n} must be a word of a, not {t}")
    else:
        require(_shared(operands[0], "a").element.bits == 8 * width, f"a is no tile of {element}")
        _numbers(operands, 1)
    require(_shared(operands[first], "b").element.bits == 8 * width, f"b is no tile of {element}")
    _numbers(operands, first + 1)
    sums = operands[first + 2 :]
    require(len(sums) == columns // 2, f"a sum of {columns} columns has {columns // 2} registers")
    for t in sums:
        fits = t == sums[0] and t in SUMS[element]
        require(fits, f"products of {element} are summed in {sums_of(element)}, not {t}")
    return sums


def sums_of(element: str) -> str:
    """The types that products of an element type are summed in, in words."""
    return " or ".join(map(str, SUMS[element]))


def named_rule(operands: Types, attrs: Attrs, wanted: Types | None) -> Types:
    int_scalar(operands[0], "the number of a barrier")
    return ()


def warp_mma_rule(operands: Types, attrs: Attrs, wanted: Types | None) -> Types:
    a, b, c = operands
    require(a == VectorType(u32, 4), f"operand 1 must be u32x4, not {a}")
    require(b == VectorType(u32, 2), f"operand 2 must be u32x2, not {b}")
    total = WARP_SUMS[attrs["a"]]
    require(c == VectorType(total, 4), f"operand 3 must be {total}x4, not {c}")
    return (c,)


def same_values(operands: Types, attrs: Attrs, wanted: Types | None) -> Types:
    """The operands, as they are."""
    return operands


def truth(operands: Types, attrs: Attrs, wanted: Types | None) -> Types:
    return (bool_,)


def _op(
    feature: str, name: str, arity: int, rule: Any, doc: str, effect: Effect = Effect.SYNC
) -> None:
    define(OpRow(name, arity, rule, effect=effect, doc=doc))
    FEATURE[name] = feature


def _rows() -> None:
    _op("grid_barrier", "grid_barrier", 0, r.nothing, "all workgroups of the launch wait")
    a = "nv_async"
    _op(a, "nv_mbarrier_init", 3, mbarrier_rule, "mbarrier, number, arrivals of a phase")
    _op(
        a,
        "nv_mbarrier_arrive",
        -1,
        arrive_rule,
        "attr count arrivals at mbarrier, number[, rank in the cluster of where it lies]",
    )
    _op(a, "nv_mbarrier_expect", 3, mbarrier_rule, "an arrival that announces so many bytes")
    _op(a, "nv_mbarrier_wait", 3, mbarrier_rule, "until the phase of this parity is over")
    _op(a, "nv_mbarrier_try_wait", 3, try_wait_rule, "whether the phase of this parity is over")
    _op(a, "nv_bulk_load", 7, bulk_load_rule,
        "array, index, buffer, index, elements, mbarrier, number: a copy that tells of its bytes"
        " there; indexes and bytes are multiples of 16 bytes")  # fmt: skip
    _op(a, "nv_bulk_store", 5, bulk_store_rule, "buffer, index, array, index, elements")
    _op(a, "nv_tensor_load", -1, tensor_load_rule,
        "array, index, buffer, mbarrier, number, coordinates: a box of the buffer seen as a tensor"
        " (attrs shape, strides: expressions of ir.abi; box, swizzle); zeros outside")  # fmt: skip
    _op(a, "nv_tensor_store", -1, tensor_store_rule, "buffer, array, index, coordinates: the way"
        " back; nothing is written outside of the tensor")  # fmt: skip
    _op(a, "nv_tensor_prefetch", -1, tensor_prefetch_rule,
        "buffer, coordinates: a load of the box is to come; a hint")  # fmt: skip
    _op(a, "nv_bulk_commit", 0, r.nothing, "the stores since the last one become a group")
    _op(a, "nv_bulk_wait", 0, r.nothing,
        "all groups but the last attr pending are done; attr read: have read arrays")  # fmt: skip
    _op(a, "nv_fence_async", 0, r.nothing,
        "what was written to arrays is seen by copies and products that follow")  # fmt: skip
    w = "nv_warpgroup"
    _op(w, "nv_wgmma", -1, wgmma_rule,
        "a @ b + sum of a warpgroup: 64 x attr columns, attr depth; tiles in rows of 128 bytes,"
        " swizzled; attr transposed: b lies in rows along its columns; without attr accumulate the"
        " sum before does not count; done at a wait")  # fmt: skip
    _op(w, "nv_wgmma_fence", 0, r.nothing, "registers are ready for products")
    _op(w, "nv_wgmma_commit", 0, r.nothing, "the products since the last one become a group")
    _op(w, "nv_wgmma_wait", -1, same_values,
        "all groups but the last attr pending are done; gives its operands, complete")  # fmt: skip
    _op(w, "nv_set_max_registers", 0, r.nothing, "attr count registers per invocation from here on")
    _op("nv_subgroup_mma", "nv_warp_mma", 3, warp_mma_rule,
        "as nv_mma, which passes make: attr shape, attrs a and b; 32 bytes deep, 16 x 8",
        Effect.CONVERGENT)  # fmt: skip
    o = "nv_roles"
    _op(o, "nv_role", 0, truth, "whether the subgroup is one of attr count from attr first on",
        Effect.ID)  # fmt: skip
    _op(o, "nv_warpgroup", 0, r.index_result, "number of the warpgroup", Effect.ID)
    _op(o, "nv_named_barrier", 1, named_rule, "attr count invocations wait at a barrier, 1 to 15")
    _op(o, "nv_named_arrive", 1, named_rule, "one of attr count invocations, which does not wait")
    c = "nv_cluster"
    _op(c, "nv_cluster_rank", 0, r.index_result, "number of the workgroup in its cluster",
        Effect.ID)  # fmt: skip
    _op(c, "nv_cluster_barrier", 0, r.nothing, "all workgroups of the cluster wait")
    d = "nv_dependent_launch"
    _op(d, "nv_wait_for_previous", 0, r.nothing, "what the launch depends on is done and seen")
    _op(d, "nv_launch_next", 0, r.nothing, "launches that depend on this one may begin")


_rows()
MBARRIER_OPS = frozenset(n for n in FEATURE if n.startswith(("nv_mbarrier", "nv_bulk", "nv_tens")))
