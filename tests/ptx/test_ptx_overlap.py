"""Arrays that share bytes, in PTX and on the model."""

from __future__ import annotations

import numpy as np
import pytest

from gristmill.backends.compile import Options
from gristmill.backends.ptx import shared
from gristmill.backends.ptx.emit import emit
from gristmill.ir import interp
from gristmill.ir.core import Kernel
from gristmill.ir.lang import *
from ptx_model.host import Model
from ptx_tools import compiled

SIZE = 256


@kernel(workgroup=lambda: (SIZE, 1, 1), grid=lambda: (2, 1, 1))
def stages(x: Read[f32], y: Write[f32], *, COUNT: int = 12, KEEP: bool = False):
    """Three rounds through arrays of their own; with KEEP the first is needed at the end."""
    i = local_id(0)
    at = group_id(0) * SIZE + i
    first = workgroup_array(f32, (COUNT, SIZE))
    second = workgroup_array(f32, (COUNT, SIZE))
    third = workgroup_array(f32, (COUNT, SIZE))
    for n in range(COUNT):
        first[n, i] = x[at] + f32(n)
    barrier()
    total = f32(0)
    for n in range(COUNT):
        total = total + first[n, SIZE - 1 - i]
    barrier()
    for n in range(COUNT):
        second[n, i] = total * f32(n)
    barrier()
    for n in range(COUNT):
        total = total + second[n, i ^ 1]
    barrier()
    for n in range(COUNT):
        third[n, i] = total - f32(n)
    barrier()
    total = third[COUNT - 1, i ^ 2]
    if KEEP:
        total = total + first[1, i]
    y[at] = total


def expected(x: np.ndarray, count: int, keep: bool) -> np.ndarray:
    rows = x.astype(np.float64).reshape(2, SIZE)
    n = np.arange(count)[:, None, None]
    own = np.arange(SIZE)
    total = (rows[:, ::-1] + n).sum(0)
    total = total + (total[:, own ^ 1] * n).sum(0)
    total = (total - (count - 1))[:, own ^ 2]
    return (total + (rows + 1 if keep else 0)).reshape(-1)


def trace(count: int, keep: bool) -> Kernel:
    return stages.trace("test", COUNT=count, KEEP=keep)


def test_results_on_the_model(rng: np.random.Generator) -> None:
    for count, keep in ((12, False), (12, True), (20, False), (20, True), (60, False)):
        x = rng.integers(0, 8, 2 * SIZE).astype(np.float32)
        y = np.zeros_like(x)
        Model(trace(count, keep)).run([x, y], (2, 1, 1), seed=int(rng.integers(1 << 30)))
        assert (y == expected(x, count, keep)).all()


def test_places_are_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    place = shared.place_arrays
    monkeypatch.setattr(shared, "place_arrays", lambda k: calls.append(k) or place(k))
    emit(trace(60, False), "sm_80", Options())
    assert len(calls) == 1


def test_bytes_in_the_manifest() -> None:
    row = 4 * SIZE
    for count, keep, bytes_ in ((12, False, 12 * row), (12, True, 24 * row), (60, False, 60 * row)):
        text, manifest = compiled(trace(count, keep))
        assert manifest.shared_bytes == bytes_
        assert manifest.facts["dynamic_shared_bytes"] == bytes_
        assert ".extern .shared" in text


@kernel(workgroup=lambda: (SIZE, 1, 1), grid=lambda: (2, 1, 1))
def rounds(x: Read[f32], y: Write[f32], turns: i32, *, COUNT: int = 12):
    """Every turn goes through two arrays of its own."""
    i = local_id(0)
    at = group_id(0) * SIZE + i
    first = workgroup_array(f32, (COUNT, SIZE))
    second = workgroup_array(f32, (COUNT, SIZE))
    total = x[at]
    for turn in range(turns):
        for n in range(COUNT):
            first[n, i] = total + f32(n * turn)
        barrier()
        total = first[COUNT - 1, SIZE - 1 - i] * 0.5
        barrier()
        for n in range(COUNT):
            second[n, i] = total - f32(n)
        barrier()
        total = second[COUNT // 2, i ^ 3]
        barrier()
    y[at] = total


def test_arrays_of_the_turns_of_a_loop_share_bytes_and_results_stay(
    rng: np.random.Generator,
) -> None:
    traced = rounds.trace("test")
    _, manifest = compiled(traced)
    assert manifest.shared_bytes == 12 * 4 * SIZE
    x = rng.integers(0, 8, 2 * SIZE).astype(np.float32)
    wanted, y = np.zeros_like(x), np.zeros_like(x)
    assert not interp.run(traced, [x, wanted, 5], (2, 1, 1)).problems
    model = Model(traced)
    for _ in range(3):  # orders of threads
        model.run([x, y, 5], (2, 1, 1), seed=int(rng.integers(1 << 30)))
        assert (y == wanted).all()
