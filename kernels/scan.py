"""Prefix sums: of runs of an array, and the step that joins the runs.

An array is scanned in three launches: `scan_blocks` (each workgroup scans a run of BLOCK * ITEMS
elements and notes its total), `scan_blocks` again over the totals, and `scan_offsets`, which adds
to each run the sum of the runs before it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..ir.lang import (
    DType,
    Read,
    ReadWrite,
    Write,
    barrier,
    ceil_div,
    convert,
    f32,
    global_id,
    group_id,
    kernel,
    local_id,
    num_groups,
    registers,
    static_range,
    workgroup_array,
)
from .family import (
    Args,
    Constexprs,
    Expected,
    Family,
    bound,
    decode,
    dtype,
    empty,
    normal,
    special_rows,
)


@kernel(workgroup=lambda: (BLOCK, 1, 1), grid=lambda: (ceil_div(len(x), BLOCK * ITEMS), 1, 1))
def scan_blocks(
    x: Read[T], y: Write[T], totals: Write[T], *, T: DType = f32, BLOCK: int = 256, ITEMS: int = 4
):
    """y = inclusive prefix sums of each run of BLOCK * ITEMS elements of x; totals[g] its sum.

    A y or totals without room for them is a fault, and nothing is written.
    """
    held = len(y) >= len(x) and len(totals) >= num_groups(0)
    assert held, "scan_blocks: y or totals without room for all runs"
    count = len(x) if held else 0
    sums = workgroup_array(T, BLOCK)
    lid = local_id(0)
    base = (group_id(0) * BLOCK + lid) * ITEMS
    own = registers(T, ITEMS, 0)
    total = convert(0, T)
    for j in static_range(ITEMS):
        if base + j < count:
            total += x[base + j]
        own[j] = total
    sums[lid] = total
    barrier()
    # Hillis and Steele: after the step with distance d, sums[i] covers 2 d invocations.
    distance = 1
    while distance < BLOCK:
        before = convert(0, T)
        if lid >= distance:
            before = sums[lid - distance]
        barrier()
        sums[lid] = before + sums[lid]
        barrier()
        distance = distance * 2
    offset = convert(0, T)
    if lid > 0:
        offset = sums[lid - 1]
    for j in static_range(ITEMS):
        if base + j < count:
            y[base + j] = offset + own[j]
    if lid == BLOCK - 1 and held:
        totals[group_id(0)] = sums[lid]


@kernel(workgroup=lambda: (BLOCK, 1, 1), grid=lambda: (ceil_div(len(y), BLOCK), 1, 1))
def scan_offsets(
    y: ReadWrite[T], totals: Read[T], *, T: DType = f32, RUN: int = 1024, BLOCK: int = 256
):
    """y[i] += totals[i // RUN - 1] for i >= RUN; totals are scanned already. Too few of them are a
    fault, and y stays."""
    i = global_id(0)
    held = ceil_div(len(y), RUN) - 1 <= len(totals)
    assert held, "scan_offsets: fewer totals than runs"
    if i < len(y) and i >= RUN and held:
        y[i] = totals[i // RUN - 1] + y[i]


def _blocks_inputs(rng: np.random.Generator, constexprs: Constexprs) -> Iterator[Args]:
    t, run = dtype(constexprs), constexprs["BLOCK"] * constexprs["ITEMS"]
    for n in (1, run, 3 * run + 17):
        yield {"x": normal(rng, n, t), "y": empty(n, t), "totals": empty(-(-n // run), t)}
    if t.is_float:
        x = special_rows(rng, run, t)
        yield {"x": x.reshape(-1), "y": empty(x.size, t), "totals": empty(len(x), t)}


def _blocks_reference(args: Args, constexprs: Constexprs) -> dict[str, Expected]:
    t, run = dtype(constexprs), constexprs["BLOCK"] * constexprs["ITEMS"]
    x = decode(args["x"], t)
    groups = -(-len(x) // run)
    padded = np.zeros(groups * run, x.dtype if t.is_float else np.int64)
    padded[: len(x)] = x
    rows = padded.reshape(groups, run)
    with np.errstate(invalid="ignore"):
        value = rows.cumsum(-1)
    if not t.is_float:
        value = value.astype(t.storage)
        return {"y": Expected(value.reshape(-1)[: len(x)]), "totals": Expected(value[:, -1])}
    path = constexprs["ITEMS"] + constexprs["BLOCK"].bit_length() + 1
    tolerance = _RUN_BOUND(size=np.abs(rows).cumsum(-1), path=path, value=value, T=t)
    return {
        "y": Expected(value.reshape(-1)[: len(x)], tolerance.reshape(-1)[: len(x)]),
        "totals": Expected(value[:, -1], tolerance[:, -1]),
    }


def _offsets_inputs(rng: np.random.Generator, constexprs: Constexprs) -> Iterator[Args]:
    t, run = dtype(constexprs), constexprs["RUN"]
    for n in (1, run, 3 * run + 17):
        yield {"y": normal(rng, n, t), "totals": normal(rng, -(-n // run), t)}


def _offsets_reference(args: Args, constexprs: Constexprs) -> dict[str, Expected]:
    t, run = dtype(constexprs), constexprs["RUN"]
    y, totals = decode(args["y"], t), decode(args["totals"], t)
    before = np.concatenate([totals[:1] * 0, totals])[np.arange(len(y)) // run]
    if not t.is_float:
        return {"y": Expected((y.astype(np.int64) + before).astype(t.storage))}
    return {"y": Expected(y + before, _SUM_BOUND(value=y + before, T=t))}


_RUN_BOUND = bound(
    "size * gamma(path, T) + rounding(value, T)",
    size="the sum of the magnitudes up to the element, from where its run begins",
    path="ITEMS + log2(BLOCK) + 2",
)
_SUM_BOUND = bound("rounding(value, T)")
_WORDS = "integers wrap and are exact; floats: one rounding per addition, order fixed"
FAMILIES = (
    Family(scan_blocks, _blocks_inputs, _blocks_reference, _WORDS, {"floats": _RUN_BOUND}),
    Family(scan_offsets, _offsets_inputs, _offsets_reference, _WORDS, {"floats": _SUM_BOUND}),
)
