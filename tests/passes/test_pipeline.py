"""The standard pipeline: random programs keep their results, output is stable, cost is bounded."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest

from gristmill.fuzz.generate import EVERYTHING, Features, random_kernel
from gristmill.ir.builder import Builder
from gristmill.ir.core import Kernel, Param, Region, renumber, walk
from gristmill.ir.dtypes import Access, MemType, Space, f32, i32
from gristmill.ir.passes import run, standard
from gristmill.ir.passes.contract import Contract
from gristmill.ir.passes.cse import Cse
from gristmill.ir.passes.dce import Dce
from gristmill.ir.passes.debug import DropDebug
from gristmill.ir.passes.fold import Fold
from gristmill.ir.passes.legalize import Legalize
from gristmill.ir.passes.licm import Licm
from gristmill.ir.passes.number import Renumber
from gristmill.ir.passes.simplify import Simplify
from gristmill.ir.passes.strength import Strength
from gristmill.ir.passes.support import ALL, Support
from gristmill.ir.passes.unroll import Unroll
from gristmill.ir.passes.vectorize import Vectorize
from gristmill.ir.text import print_kernel
from gristmill.ir.verify import verify
from pass_check import same

WIDE = frozenset(["bool", "i32", "u32", "i64", "u64", "f32", "f64"])
BARE = Support(WIDE, WIDE - {"bool"}, frozenset(), max_lanes=4, subgroup_vectors=False)
VULKAN = Support(
    ALL - {"bf16"}, ALL - {"bool", "bf16"}, frozenset(["fma", "rsqrt", "sign", "rint"]), max_lanes=4
)
PIPELINES = {
    "fold": (Fold(),),
    "cse": (Cse(),),
    "dce": (Dce(),),
    "strength": (Strength(),),
    "simplify": (Simplify(strength=True), Dce()),
    "licm": (Simplify(), Licm()),
    "unroll": (Simplify(), Unroll(64, 4000), Simplify(), Dce()),
    "vectorize": (Unroll(64, 4000), Simplify(), Vectorize(), Simplify(), Dce()),
    "legalize": (DropDebug(), Legalize(BARE)),
    "standard_bare": standard(BARE),
    "standard_vulkan": standard(VULKAN),
    "standard_checks": standard(VULKAN, checks=True),
}
FEATURES = (
    Features(),
    EVERYTHING,
    replace(EVERYTHING, index="i64", subgroup=None),
    Features(i8=True, i16=True, f16=True, bf16=True, lanes=(2, 4, 8)),
)


@pytest.mark.parametrize("name", PIPELINES)
def test_random_programs_keep_their_results(name: str, rng, monkeypatch) -> None:
    monkeypatch.setenv("GRISTMILL_VERIFY", "1")
    for features in FEATURES * 2:
        program = random_kernel(rng, features)
        same(program.kernel, PIPELINES[name], list(program.inputs), program.grid)


def test_equal_kernels_give_equal_output_and_a_second_run_changes_nothing(rng) -> None:
    # Equals that Licm brings side by side are one only behind it.
    passes = (Simplify(strength=True), Licm(), Cse(), Dce(), Renumber())
    for features in FEATURES:
        kernel = random_kernel(rng, features).kernel
        first = run(kernel, standard(VULKAN))
        assert print_kernel(first) == print_kernel(run(kernel, standard(VULKAN)))
        assert print_kernel(first) == print_kernel(renumber(first))
        assert Renumber()(first) is first
        again = run(first, passes)
        assert print_kernel(run(again, passes)) == print_kernel(again)


def test_every_op_keeps_a_source_location(rng) -> None:
    from gristmill.ir.text import parse_kernel

    kernel = parse_kernel(print_kernel(random_kernel(rng, EVERYTHING).kernel))
    after = run(kernel, standard(BARE))
    lost = {op.name for op in walk(after.body) if op.loc is None}
    assert lost <= {"const", "return"}


def chain(count: int, checks: bool = False) -> Kernel:
    """A straight kernel of `count` ops: loads, products, stores."""
    b = Builder()
    x = b.value(MemType(Space.BUFFER, f32, None, Access.READWRITE), "x")
    i = b.emit("global_id", type=i32, dim=0)
    v = b.emit("load", x, i)
    for k in range(count // 4):
        at = b.emit("add", i, b.const(k, i32))
        v = b.emit("mul", v, b.emit("load", x, at))
        if k % 3 == 0:
            b.do("store", x, at, v)
    b.do("return")
    params = (Param("x", "buffer", f32, Access.READWRITE),)
    return Kernel("chain", "t", params, (64, 1, 1), i32, Region((x,), tuple(b.ops)))


def test_time_grows_linearly_with_the_kernel() -> None:
    kernels = {count: chain(count) for count in (5_000, 40_000)}
    costs: list[tuple[float, ...]] = []
    for _ in range(6):  # what else runs on the machine takes the caches of some tries
        costs.append(tuple(_seconds(kernel) / count for count, kernel in kernels.items()))
        if costs[-1][1] < 4 * costs[-1][0]:
            return
    pytest.fail(f"seconds for each op: {costs}")


def test_a_kernel_of_a_hundred_thousand_ops_goes_through() -> None:
    kernel = chain(100_000)
    assert _seconds(kernel) < 60


def test_deep_nesting_goes_through() -> None:
    b = Builder()
    x = b.value(MemType(Space.BUFFER, f32, None, Access.READWRITE), "x")
    i = b.emit("global_id", type=i32, dim=0)

    def nest(depth: int) -> None:
        if depth == 0:
            v = b.emit("load", x, i)
            b.do("store", x, i, b.emit("add", v, v))
            return
        c = b.emit("gt", i, b.const(-depth, i32))
        with b.region() as then:
            nest(depth - 1)
            b.do("yield")
        with b.region() as other:
            b.do("yield")
        b.op("if", (c,), regions=(then.region, other.region))

    nest(150)
    b.do("return")
    params = (Param("x", "buffer", f32, Access.READWRITE),)
    kernel = Kernel("deep", "t", params, (1, 1, 1), i32, Region((x,), tuple(b.ops)))
    same(kernel, standard(BARE, checks=True), [np.ones(4, np.float32)], (4, 1, 1))


def _seconds(kernel: Kernel) -> float:
    started = time.process_time()
    run(kernel, standard(VULKAN))
    return time.process_time() - started


def test_a_kernel_of_150_ops_takes_a_few_milliseconds() -> None:
    kernel = chain(150)
    run(kernel, standard(VULKAN))
    best = min(_seconds(kernel) for _ in range(20))
    assert best < 0.010  # about 1 ms on an idle machine


def test_a_fault_of_a_pass_names_the_pass(monkeypatch) -> None:
    class Broken:
        name = "broken"

        def __call__(self, kernel: Kernel) -> Kernel:
            return replace(kernel, body=Region(kernel.body.args, kernel.body.ops[:-1]))

    monkeypatch.setenv("GRISTMILL_VERIFY", "1")
    verify(chain(8))
    with pytest.raises(Exception) as info:  # noqa: PT011 - the note is what matters
        run(chain(8), (Broken(),))
    assert any("after pass broken" in note for note in info.value.__notes__)
    assert Contract()(chain(8)) is not None
