"""Small kernels that the runtime's tests run: one for each thing a launch can do."""

from __future__ import annotations

from gristmill.ir.lang import *


@kernel(workgroup=lambda: (64, 1, 1), grid=lambda: (ceil_div(len(y), 64), 1, 1))
def saxpy(x: Read[T], y: ReadWrite[T], a: T, *, T: DType = f32):
    i = global_id(0)
    if i < len(y):
        y[i] = a * x[i] + y[i]


@kernel(workgroup=lambda: (64, 1, 1), grid=lambda: (ceil_div(len(y), 64), 1, 1))
def add_slot(y: ReadWrite[i32], s: slot[i32]):
    i = global_id(0)
    if i < len(y):
        y[i] = y[i] + s


@kernel(workgroup=lambda: (64, 1, 1), grid=lambda: (ceil_div(len(y), 64), 1, 1))
def checked_root(x: Read[f32], y: Write[f32]):
    i = global_id(0)
    if i < len(y):
        assert x[i] >= 0.0, "x is negative"
        assert x[i] < 100.0, "x is too large"
        y[i] = sqrt(max(x[i], 0.0))


@kernel(workgroup=lambda: (64, 1, 1), grid=lambda: (ceil_div(len(y), 64), 1, 1))
def shift(x: Read[i32, may_alias], y: ReadWrite[i32, may_alias]):
    i = global_id(0)
    if i < len(y):
        y[i] = x[i] + 1


@kernel(workgroup=lambda: (1, 1, 1))
def group_ids(y: Write[i32], z: Write[i32]):
    g = group_id(0) + num_groups(0) * (group_id(1) + num_groups(1) * group_id(2))
    if g < len(y):
        y[g] = g
        z[g] = num_groups(0) * 3 + num_groups(1)


@kernel(workgroup=lambda: (64, 1, 1))
def heavy(y: ReadWrite[f32], n: i32):
    i = global_id(0)
    value = f32(i)
    for _ in range(n):
        value = value * 0.999 + 0.5
    if value < 0.0:
        y[0] = value


@kernel(workgroup=lambda: (8, 4, 2), grid=lambda: (2, 3, 2))
def scalars(y: Write[i64], a: i8, b: u16, c: bool_, d: f32, e: i64):
    x = global_id(0) + 16 * (global_id(1) + 12 * global_id(2))
    if x < len(y):
        y[x] = i64(a) + i64(b) + select(c, i64(1000000), i64(0)) + i64(d) + e


@kernel(workgroup=lambda: (64, 1, 1), grid=lambda: (ceil_div(len(y), 64), 1, 1))
def nested(y: Write[u32], rows: i32, columns: i32):
    """y[:64]: rows * (1 + columns), counted one by one."""
    turns = u32(0)
    for _ in range(rows):
        turns += u32(1)
        for _ in range(columns):
            turns += u32(1)
            y[global_id(0)] = turns
    y[global_id(0)] = turns


@kernel(workgroup=lambda: (4, 16, 1), grid=lambda: (1, 1, 1))
def tall(y: Write[i32], *, SUBGROUP: int = 8):
    """Sums over subgroups of a workgroup that is narrower than one."""
    y[local_linear_id()] = subgroup_add(local_id(0))


@kernel(workgroup=lambda: (64, 1, 1), grid=lambda: (ceil_div(len(y), 64), 1, 1))
def requantize(
    x: Read[S], y: Write[T], z: Write[f32], unit: T, bias: slot[S], *, S: DType, T: DType
):
    """8-bit floats as elements, scalars, slots, in an array of the workgroup, and rounded to."""
    tile = workgroup_array(S, 64)
    i = global_id(0)
    if i < len(x):
        tile[local_id(0)] = x[i]
    else:
        tile[local_id(0)] = S(0)
    barrier()
    value = f32(tile[63 - local_id(0)])
    if i < len(y):
        y[i] = convert(value * f32(unit) + f32(bias), T, saturate=True)
        z[i] = value
