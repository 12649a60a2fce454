"""What NVIDIA's Hopper and later have beside the portable language: `from ...ir.lang import nv`.

A kernel that uses these is refused by every other target. Each name is a function of kernels.
"""

from __future__ import annotations

import inspect as _inspect
from collections.abc import Callable as _Callable
from typing import Any

from .surface import TABLE as _TABLE
from .surface import Intrinsic as _Intrinsic


def _function(stub: _Callable[..., Any]) -> Any:
    name = f"nv.{stub.__name__}"
    made = _Intrinsic(name, _inspect.signature(stub), _inspect.getdoc(stub) or "")
    _TABLE[name] = made
    return made


# mbarriers


@_function
def mbarriers(count: Any) -> Any:
    """An array of barriers in workgroup memory; each is initialised once, by one invocation."""


@_function
def init(barriers: Any, index: Any, arrivals: Any) -> Any:
    """Begin the first phase of a barrier: it ends with so many arrivals. A barrier() has to stand
    between this and the first use by others."""


@_function
def arrive(barriers: Any, index: Any, count: Any = 1, rank: Any = None) -> Any:
    """Arrive at a barrier; rank: at that of another workgroup of the cluster, which orders what was
    read, but no writes to buffers: fence("device") does."""


@_function
def expect(barriers: Any, index: Any, bytes: Any) -> Any:
    """Arrive at a barrier, and let its phase last until copies have brought so many bytes."""


@_function
def wait(barriers: Any, index: Any, parity: Any) -> Any:
    """Wait until the phase of this parity (0 for the first, then 1, 0, ...) is over. Of a barrier
    without arrivals yet, the phase of parity 1 counts as over."""


@_function
def try_wait(barriers: Any, index: Any, parity: Any) -> Any:
    """Whether the phase of this parity is over."""


# copies


@_function
def bulk_load(
    target: Any,
    target_index: Any,
    source: Any,
    source_index: Any,
    count: Any,
    barriers: Any,
    index: Any,
) -> Any:
    """Copy `count` elements of a buffer to a workgroup array; the barrier is told of the bytes.
    Issued by one invocation; indexes and count are multiples of 16 bytes."""


@_function
def bulk_store(target: Any, target_index: Any, source: Any, source_index: Any, count: Any) -> Any:
    """Copy `count` elements of a workgroup array to a buffer; done when a bulk_wait covers it."""


@_function
def bulk_commit() -> Any:
    """Make a group of this invocation's bulk and tensor stores since the last commit."""


@_function
def bulk_wait(pending: Any = 0, read: Any = False) -> Any:
    """Wait until all but the last `pending` groups of this invocation are done; read: until they
    have read the array, which may then be written again."""


@_function
def tensor_map(buffer: Any, shape: Any, box: Any, strides: Any = None, swizzle: Any = 128) -> Any:
    """A buffer as a tensor of 1 to 5 dimensions, of which a copy moves a box. shape, and strides
    of all dimensions but the last, are made of len(buffer), scalar parameters, constants, + - * //
    min and max: a launch computes them. swizzle: 128, 64, 32 or 0; see nv.tensor_load."""


@_function
def tensor_load(
    map: Any, at: Any, target: Any, index: Any, barriers: Any, number: Any, multicast: Any = None
) -> Any:
    """Copy the box at coordinates `at` to target[index ...], zeros for what lies outside; the
    barrier is told of the bytes of the whole box. Issued by one invocation. In each row of
    `swizzle` bytes, chunk c of 16 bytes lies at c ^ (row % 8); index is a multiple of 1024 bytes
    (of 128 without a swizzle). multicast: a mask of the workgroups of the cluster that get it."""


@_function
def tensor_store(map: Any, at: Any, source: Any, index: Any) -> Any:
    """Copy a box from source[index ...], laid out as tensor_load does, to coordinates `at`; what
    lies outside is left out. Done when a bulk_wait covers it."""


@_function
def tensor_prefetch(map: Any, at: Any) -> Any:
    """A hint that the box at coordinates `at` is going to be loaded: the device's cache may fetch
    it. Also before wait_for_previous(), as loads see what was written in between."""


@_function
def fence_async() -> Any:
    """Let copies and products that follow see what this invocation has written to arrays."""


# products by a subgroup


@_function
def mma(total: Any, a: Any, b: Any, element: Any) -> Any:
    """total += a @ b of 16 rows, 8 columns and 32 bytes of depth by the 32 invocations of a
    subgroup (compute capability 8.0). element: f16 or bf16, summed in f32; i8 or u8, summed in i32;
    for a and b apart, (u8, i8). Arrays of registers, with g, t = divmod(lane, 4): total, 4 sums, at
    rows g, g, g + 8, g + 8 and columns 2t, 2t + 1, 2t, 2t + 1; a, 4 words of u32, at rows g, g + 8,
    g, g + 8, bytes 4t of the depth's first half, then of its second; b, 2 words, at column g, bytes
    4t of either half. Errors are those of mma."""


# products by a warpgroup


@_function
def wgmma(
    total: Any,
    a: Any,
    a_index: Any,
    b: Any,
    b_index: Any,
    depth: Any = None,
    transposed: Any = False,
    accumulate: Any = True,
) -> Any:
    """total += a @ b by the 128 invocations of a warpgroup, `depth` deep (one row of 128 bytes);
    without accumulate, total = a @ b.
    Elements: f16, bf16, f32, i8, u8, f8e4m3, f8e5m2. total: registers of f32 (or f16 for f16 and
    8-bit floats; i32 for integers), half as many as b has columns; see nv.wgmma_row. a: 64 rows of
    a tile as tensor_load lays them out with swizzle 128, or registers of u32 (a_index None). b:
    columns of the product as rows of such a tile; transposed: rows of b as they are, in tiles of 64
    columns, for 16-bit elements. Done when a wgmma_wait covers it; errors are those of mma."""


@_function
def wgmma_fence() -> Any:
    """Stands before the first product, and between changes of its registers and the next one."""


@_function
def wgmma_commit() -> Any:
    """Make a group of the warpgroup's products since the last commit."""


@_function
def wgmma_wait(total: Any = None, pending: Any = 0) -> Any:
    """Wait until all but the last `pending` groups of products are done. total: the registers that
    are read behind it."""


@_function
def wgmma_row(register: Any) -> Any:
    """The row (0 to 63) that register number `register` of a sum holds."""


@_function
def wgmma_column(register: Any) -> Any:
    """The column that register number `register` of a sum holds."""


@_function
def set_max_registers(count: Any) -> Any:
    """Hand registers back, or wait for more: `count` (24 to 240, a multiple of 8) per invocation
    of this warpgroup from here on."""


# roles


@_function
def role(first: Any, count: Any) -> Any:
    """Whether this subgroup is one of `count` from `first` on. With multiples of 4, whole
    warpgroups: products may stand under it."""


@_function
def warpgroup() -> Any:
    """Number of this warpgroup: four subgroups, 128 invocations."""


@_function
def named_barrier(id: Any, count: Any) -> Any:
    """Wait at barrier `id` (1 to 15) for `count` invocations, whole subgroups."""


@_function
def named_arrive(id: Any, count: Any) -> Any:
    """Count as one of the `count` invocations that come to a named barrier, and go on."""


# clusters and launches


@_function
def cluster_rank() -> Any:
    """Number of this workgroup in its cluster, of which the constexpr CLUSTER is the size."""


@_function
def cluster_barrier() -> Any:
    """Wait for all workgroups of the cluster."""


@_function
def wait_for_previous() -> Any:
    """Wait until the launches that this one depends on are done. Without it, they are done before
    this one begins."""


@_function
def launch_next() -> Any:
    """Let launches that depend on this one begin, up to their wait_for_previous()."""
