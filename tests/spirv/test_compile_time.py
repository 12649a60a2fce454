"""Compiling a kernel to SPIR-V takes milliseconds, for every kernel that ships."""

from __future__ import annotations

import importlib.util
import statistics
import sys
from pathlib import Path
from types import ModuleType

from gristmill.backends.compile import Options
from gristmill.backends.spirv.emit import prepare
from gristmill.ir.core import walk

ROOT = Path(__file__).resolve().parents[2]


def _benchmark() -> ModuleType:
    path = ROOT / "benchmarks" / "compile_time.py"
    spec = importlib.util.spec_from_file_location("compile_time", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["compile_time"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_kernels_compile_in_a_few_milliseconds() -> None:
    """The bounds leave room for a busy machine: CPU time grows there too."""
    benchmark = _benchmark()
    target = "spirv-vulkan1.1"
    rows = [benchmark.measure(p, k, target, 5) for p, k in benchmark.kernels(target)]
    assert len(rows) > 100
    rows.sort(key=lambda row: row.total)
    assert statistics.median(row.total for row in rows) <= benchmark.LIMIT
    assert rows[len(rows) * 9 // 10].total <= 2 * benchmark.LIMIT, rows[-len(rows) // 10 :]
    assert rows[-1].total <= 3 * benchmark.LIMIT, rows[-1]


def test_no_kernel_grows_beyond_what_compiles_in_that_time() -> None:
    """Time follows the number of ops: 450 at most as traced, 550 where functions are expanded."""
    benchmark = _benchmark()
    for path, kernel in benchmark.kernels("spirv-vulkan1.1"):
        assert sum(1 for _ in walk(kernel.body)) <= 600, path
        lowered = prepare(kernel, Options())
        assert sum(1 for _ in walk(lowered.body)) <= 750, path
