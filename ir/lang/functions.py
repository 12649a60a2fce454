"""The functions of the kernel language, as stubs with their signatures and documentation."""

from __future__ import annotations

import inspect
from typing import Any

from ..ops import ROWS
from .surface import TABLE, Intrinsic, intrinsic

# ids and sizes


@intrinsic
def global_id(dim: Any = 0) -> Any:
    """Position of this invocation in the grid along `dim`."""


@intrinsic
def local_id(dim: Any = 0) -> Any:
    """Position of this invocation in its workgroup along `dim`."""


@intrinsic
def group_id(dim: Any = 0) -> Any:
    """Position of this workgroup in the grid along `dim`."""


@intrinsic
def num_groups(dim: Any = 0) -> Any:
    """Workgroups of the launch along `dim`."""


@intrinsic
def workgroup_size(dim: Any = 0) -> Any:
    """Invocations of a workgroup along `dim`; known when the kernel is traced."""


@intrinsic
def local_linear_id() -> Any:
    """Number of this invocation in its workgroup: x + y*WX + z*WX*WY."""


@intrinsic
def subgroup_id() -> Any:
    """Number of this subgroup in its workgroup."""


@intrinsic
def subgroup_lane() -> Any:
    """Number of this invocation in its subgroup."""


@intrinsic
def num_subgroups() -> Any:
    """Subgroups of a workgroup."""


@intrinsic
def subgroup_size() -> Any:
    """Invocations of a subgroup: the constexpr SUBGROUP."""


# memory


@intrinsic
def workgroup_array(element: Any, shape: Any, swizzle: Any = False) -> Any:
    """An array shared by the workgroup; its cells hold nothing until written. With `swizzle`, each
    row has its chunks of 16 bytes in an order of its own, so that the same chunk of 8 rows lies in
    different banks without padding; a row is 8, 16, 32 ... chunks long."""


@intrinsic
def private_array(element: Any, shape: Any) -> Any:
    """An array of this invocation, indexed by run-time values; starts as zeros."""


@intrinsic
def registers(element: Any, shape: Any, init: Any = 0) -> Any:
    """An array of SSA values, indexed by constants; each cell starts as `init`."""


@intrinsic
def load_vector(memory: Any, index: Any, lanes: Any) -> Any:
    """Elements lanes*index ... of `memory` as one vector."""


@intrinsic
def store_vector(memory: Any, index: Any, value: Any) -> Any:
    """Write a vector to elements lanes*index ... of `memory`."""


@intrinsic
def barrier() -> Any:
    """Wait for the whole workgroup; orders its accesses to memory."""


@intrinsic
def grid_barrier() -> Any:
    """Wait for all workgroups of the launch, which then has no more of them than the device holds
    at once; orders accesses to buffers. Not on every target."""


@intrinsic
def fence(scope: Any = "workgroup", order: Any = "acq_rel") -> Any:
    """Order this invocation's accesses: scope workgroup|device, order acquire|release|acq_rel."""


@intrinsic
def atomic_compare_exchange(memory: Any, index: Any, expected: Any, desired: Any) -> Any:
    """Write `desired` where the cell holds `expected`; gives the old value."""


# conversions and bits


@intrinsic
def convert(value: Any, type: Any, rounding: Any = None, saturate: Any = False) -> Any:
    """`value` as `type`. rounding: nearest, zero, floor or ceil. saturate: clamp, not wrap."""


@intrinsic
def bitcast(value: Any, type: Any) -> Any:
    """The bits of `value` as another type of the same size."""


@intrinsic
def select(condition: Any, a: Any, b: Any) -> Any:
    """`a` where the condition holds, else `b`; both are evaluated."""


@intrinsic
def shuffle(a: Any, b: Any, lanes: Any) -> Any:
    """The lanes of vectors a and b in a row, chosen by a constant tuple of numbers."""


@intrinsic
def ceil_div(a: Any, b: Any) -> Any:
    """a / b rounded up, for integers."""


@intrinsic
def clamp(x: Any, low: Any, high: Any) -> Any:
    """min(max(x, low), high)."""


# compile time


@intrinsic
def static_range(start: Any, stop: Any = None, step: Any = None) -> Any:
    """As `range`, unrolled when the kernel is traced; the bounds are constants."""


@intrinsic
def static_assert(condition: Any, message: Any = "static assertion failed") -> Any:
    """Stop tracing with `message` where a constant condition is false."""


# subgroups


@intrinsic
def subgroup_shuffle(value: Any, lane: Any) -> Any:
    """The value of another lane, modulo the subgroup size."""


@intrinsic
def subgroup_shuffle_xor(value: Any, mask: Any) -> Any:
    """The value of lane (own ^ mask)."""


@intrinsic
def subgroup_shuffle_up(value: Any, delta: Any) -> Any:
    """The value of lane own - delta; own where there is none."""


@intrinsic
def subgroup_shuffle_down(value: Any, delta: Any) -> Any:
    """The value of lane own + delta; own where there is none."""


@intrinsic
def subgroup_broadcast(value: Any, lane: Any) -> Any:
    """The value of a lane that is the same for all."""


@intrinsic
def subgroup_ballot(vote: Any) -> Any:
    """Bit i is the vote of lane i; u32, or u64 for subgroups over 32."""


@intrinsic
def subgroup_any(vote: Any) -> Any:
    """Whether any lane's vote is true."""


@intrinsic
def subgroup_all(vote: Any) -> Any:
    """Whether every lane's vote is true."""


@intrinsic
def subgroup_elect() -> Any:
    """True in one lane of the subgroup, lane 0."""


# asynchronous copies


@intrinsic
def copy_async(
    target: Any, target_index: Any, source: Any, source_index: Any, count: Any, given: Any = None
) -> Any:
    """Copy `count` elements (4, 8 or 16 bytes) of a buffer to a workgroup array; done when a
    copy_wait covers it. Both indexes are multiples of count. With `given`, only so many elements
    are read, and zeros fill the rest."""


@intrinsic
def copy_commit() -> Any:
    """Make a group of this invocation's copies since the last commit."""


@intrinsic
def copy_wait(pending: Any = 0) -> Any:
    """Wait until all but the last `pending` groups of this invocation are done. Others see what
    was copied behind a barrier."""


# matrix fragments


@intrinsic
def fragment_load(
    type: Any, memory: Any, index: Any, stride: Any = None, layout: Any = "row"
) -> Any:
    """A fragment from a buffer or workgroup array: element (r, c) is memory[index + r*stride + c],
    or memory[index + r + c*stride] in layout "column". Index and stride are multiples of 16 bytes;
    without a stride, it is the last extent of the array."""


@intrinsic
def fragment_store(
    memory: Any, index: Any, value: Any, stride: Any = None, layout: Any = "row"
) -> Any:
    """Write an accumulator where fragment_load would read it."""


@intrinsic
def mma(a: Any, b: Any, c: Any) -> Any:
    """a @ b + c of fragments; sums in any order."""


@intrinsic
def row_add(value: Any) -> Any:
    """The sum of each row of an accumulator, in any order."""


@intrinsic
def row_max(value: Any) -> Any:
    """The greatest of each row of an accumulator; a NaN loses."""


@intrinsic
def row_min(value: Any) -> Any:
    """The least of each row of an accumulator; a NaN loses."""


@intrinsic
def fragment_row(type: Any) -> Any:
    """An i32 fragment of the shape of `type`: the row of each element."""


@intrinsic
def fragment_column(type: Any) -> Any:
    """An i32 fragment of the shape of `type`: the column of each element."""


ATOMICS = ("add", "min", "max", "and", "or", "xor", "exchange")
REDUCTIONS = ("add", "mul", "min", "max", "and", "or", "xor")


def python_name(kind: str) -> str:
    """`and` and `or` are keywords of Python."""
    return f"{kind}_" if kind in ("and", "or") else kind


def _stub(name: str, parameters: tuple[str, ...], doc: str) -> None:
    kinds = [inspect.Parameter(p, inspect.Parameter.POSITIONAL_OR_KEYWORD) for p in parameters]
    TABLE.setdefault(name, Intrinsic(name, inspect.Signature(kinds), doc))


# Ops that Python writes as operators or builtins, or that have a stub of their own above.
OPERATORS = {
    "add", "sub", "mul", "neg", "abs", "min", "max", "floordiv", "mod", "and", "or", "xor", "not",
    "shl", "shr", "div", "eq", "ne", "lt", "le", "gt", "ge", "pow",
}  # fmt: skip
COMPOSED = {
    "degrees": 1, "radians": 1, "modf": 1, "frexp": 1, "round_half_even": 1, "signbit": 1,
    "logaddexp": 2, "logaddexp2": 2, "nextafter": 2, "remainder": 2, "gcd": 2, "lcm": 2,
    "heaviside": 2, "sinc": 1, "square": 1, "reciprocal": 1, "fdim": 2,
}  # fmt: skip
ELEMENTWISE = {
    name: row.arity
    for name, row in ROWS.items()
    if row.arity > 0 and row.meaning is not None and name not in OPERATORS | {"convert", "select"}
}


def _fill() -> None:
    for kind in ATOMICS:
        doc = f"{kind} a value into memory[index] in one step; gives the old value."
        _stub(f"atomic_{python_name(kind)}", ("memory", "index", "value"), doc)
    for kind in REDUCTIONS:
        name = python_name(kind)
        _stub(f"subgroup_{name}", ("value",), f"{kind} over the subgroup.")
        _stub(f"subgroup_inclusive_{name}", ("value",), f"{kind} over the lanes up to this one.")
        _stub(f"subgroup_exclusive_{name}", ("value",), f"{kind} over the lanes before this one.")
    letters = ("a", "b", "c")
    for name, arity in ELEMENTWISE.items():
        _stub(name, letters[:arity], ROWS[name].doc)
    for name, arity in COMPOSED.items():
        _stub(name, letters[:arity], f"{name}, as in Python's math or numpy")


_fill()
