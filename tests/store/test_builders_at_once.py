"""Many builders of one store, some of them killed: each kernel is made once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from gristmill.store.local import LocalStore
from modules import load_module

SCRIPT = Path(__file__).parents[2] / "benchmarks/store.py"


@pytest.fixture(scope="module")
def benchmark() -> Any:
    return load_module(SCRIPT, "benchmark_of_the_store")


@pytest.mark.parametrize("number", range(2))
def test_eight_builders_make_each_kernel_once_although_one_is_killed(
    number: int, tmp_path: Path, benchmark: Any
) -> None:
    found = benchmark.crowd(tmp_path, number, kernels=60)
    assert (found.errors, found.wrong, found.twice) == (0, 0, 0)
    assert found.lost <= 1  # what the killed one was making, and another has made since


def test_threads_of_one_process_make_a_kernel_once(tmp_path: Path) -> None:
    store, key, made = LocalStore(tmp_path / "store"), "ab" * 32, []

    def want() -> dict[str, bytes]:
        outputs: dict[str, bytes] | None = store.get(key)
        if outputs is None:
            with store.claim(key) as outputs:
                if outputs is None:
                    made.append(1)
                    outputs = {"artifact": b"it"}
                    store.put(key, outputs)
        return outputs

    with ThreadPoolExecutor(16) as threads:
        found = [done.result() for done in [threads.submit(want) for _ in range(64)]]
    assert found == [{"artifact": b"it"}] * 64
    assert made == [1]
    assert store.counts.hits == 63
    assert store.counts.misses == 1
