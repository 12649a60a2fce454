"""Whatever stands in a file of kernel IR is a kernel, or an error that says what is wrong."""

from __future__ import annotations

import functools
import random
from collections import Counter

import numpy as np
import pytest

from gristmill.backends.compile import CompileError
from gristmill.backends.pool import Pool
from gristmill.backends.trace import trace
from gristmill.ir.parse import ParseError
from gristmill.ir.text import parse_kernel
from long_kernels import many_buffers, many_values, nested_ifs, nested_loops
from robust.corpus import subjects
from robust.text_changes import changed

BATCH = 50
DEADLINE = 300.0  # seconds for a batch, which takes 1 s of a processor


@functools.cache
def texts() -> tuple[str, ...]:
    """One specialization of each kernel."""
    found = [nested_ifs(20), nested_loops(5), many_buffers(10), many_values(20)]
    for module, kernel in dict.fromkeys((s.module, s.kernel) for s in subjects()):
        subject = next(s for s in subjects() if (s.module, s.kernel) == (module, kernel))
        args = (subject.sources, module, kernel, "fuzz", subject.constexprs)
        found.append(trace(*args)[0].decode())
    return tuple(found)


def test_damaged_text_is_a_kernel_or_a_typed_error() -> None:
    hunt(np.random.default_rng(3), 8)


@pytest.mark.slow
def test_much_damaged_text_is_a_kernel_or_a_typed_error(rng: np.random.Generator) -> None:
    hunt(rng, 2000)


def hunt(rng: np.random.Generator, batches: int) -> Counter[str]:
    """Judge so many batches; fails with the first text that is neither."""
    tally: Counter[str] = Counter()
    with Pool(1, timeout=DEADLINE) as pool:
        for _ in range(batches):
            own = random.Random(int(rng.integers(1 << 62)))
            batch = [changed(own.choice(texts()), own) for _ in range(BATCH)]
            for text, (verdict, why) in zip(batch, judged(pool, batch), strict=True):
                tally[verdict] += 1
                assert verdict != "finding", f"{why}\n{text:.5000}"
    assert {"ok", "ParseError", "VerifyError"} <= tally.keys(), tally
    return tally


def judged(pool: Pool, batch: list[str]) -> list[tuple[str, str]]:
    try:
        found: list[tuple[str, str]] = pool.run("robust.judge:judge_texts", batch)
    except CompileError as error:
        if len(batch) == 1:
            return [("finding", str(error))]
        return [verdict for text in batch for verdict in judged(pool, [text])]
    return found


@pytest.mark.parametrize(
    "line",
    ["if %0 {\n" * 100_000, "[" * 100_000, '"' * 99_999, "%1 = add " + "%0, " * 100_000,
     "\\" * 9999, "x grid " + "[" * 5000, "constexpr x=" + "[" * 100_000, "%" * 100_000,
     "<" * 100_000, "%1 = const " + "9" * 100_000 + " : i32",
     "workgroup " + "9" * 100_000 + " 1 1"],
    ids=lambda line: line[:12],
)  # fmt: skip
def test_a_monstrous_line_is_a_parse_error(line: str) -> None:
    for text in (
        line,
        f"kernel a b\n{line}",
        nested_ifs(2).replace("%2 = load", f"{line}\n%2 = load"),
    ):
        with pytest.raises(ParseError) as caught:
            parse_kernel(text)
        assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("op", ["alloc", 'alloc {name="a"}', "splat %0", "splat %2", "const 1"])
def test_an_op_without_its_result_is_a_parse_error(op: str) -> None:
    with pytest.raises(ParseError):
        parse_kernel(nested_ifs(2).replace("%3 = const", f"{op}\n%3 = const"))
