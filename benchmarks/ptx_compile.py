"""What it costs to compile a kernel for NVIDIA, beside Triton, on one host without a GPU.

    python benchmarks/ptx_compile.py --triton PYTHON [--runs 10]

PYTHON is an interpreter that has triton (PyPI), which may be one of another environment. Times are
CPU milliseconds of warm processes, both of which keep memory as the workers of a build do, the best
of several runs, which alternate between the two: from Python source to PTX in one process; the same
through the text of kernel IR, which a build keeps between its steps; and on to machine code, where
those of children (Triton's ptxas) count. The
programs are the same at the level of their authors: an addition, a softmax over rows of up to
8,192, a tiled f16 matrix product. The exp of the softmax called approximate is the hardware's, as
is that of Triton's language; the other one's is good to 2 ulp, as is that of Triton's libdevice.
Both softmaxes take longer rows and rows of any length as well here, by code of their own.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from typing import Any

ARCH = 90
BOUND = 0.2  # of Triton's time to PTX
Times = dict[str, dict[str, float]]  # kernel -> stage -> milliseconds


def cpu(who: int) -> float:
    """Milliseconds of this process or of its children."""
    used = resource.getrusage(who)
    return (used.ru_utime + used.ru_stime) * 1e3


def best(run: Callable[[], Any], runs: int) -> dict[str, float]:
    """The best times of this process alone, and with its children."""
    found = {"own": float("inf"), "all": float("inf")}
    for _ in range(runs):
        own, children = cpu(resource.RUSAGE_SELF), cpu(resource.RUSAGE_CHILDREN)
        run()
        own = cpu(resource.RUSAGE_SELF) - own
        children = cpu(resource.RUSAGE_CHILDREN) - children
        found = {"own": min(found["own"], own), "all": min(found["all"], own + children)}
    return found


def as_gristmill(runs: int) -> Times:
    from gristmill.backends.compile import Options, compile_kernel, compile_traced
    from gristmill.ir.text import print_kernel
    from gristmill.kernels.elementwise import binary, op_add
    from gristmill.kernels.matmul import matmul
    from gristmill.kernels.softmax import softmax

    kept = {"SUBGROUP": 32, "VEC": 4, "KEEP": 8}
    programs = {
        "add f32": (binary, {"OP": op_add, "VEC": 4}),
        "softmax f32": (softmax, kept),
        "softmax f32 approximate": (softmax, kept | {"FAST": True}),
        "matmul f16": (matmul, {"T": "f16", "OUT": "f16", "SUBGROUP": 32}),
    }
    times: Times = {}
    for name, (kernel, constexprs) in programs.items():

        def traced(backend: str, kernel: Any = kernel, given: Any = constexprs) -> None:
            compile_traced(kernel.trace("s", **given), f"{backend}-sm_{ARCH}", Options())

        def by_text(kernel: Any = kernel, given: Any = constexprs) -> None:
            text = print_kernel(kernel.trace("s", **given))
            compile_kernel(text, f"ptx-sm_{ARCH}", Options())

        stages = {"ptx": partial(traced, "ptx"), "text": by_text, "cubin": partial(traced, "cubin")}
        times[name] = {}
        for stage, run in stages.items():
            run()
            times[name][stage] = best(run, runs)["all"]
    return times


TRITON_PROGRAMS = """
import triton
import triton.language as tl
from triton.language.extra import libdevice

@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, at < n) + tl.load(y + at, at < n), at < n)

@triton.jit
def softmax(x, y, n, BLOCK: tl.constexpr, EXACT: tl.constexpr):
    at = tl.arange(0, BLOCK)
    base = tl.program_id(0) * n
    row = tl.load(x + base + at, at < n, float("-inf"))
    row = row - tl.max(row, 0)
    e = libdevice.exp(row) if EXACT else tl.exp(row)
    tl.store(y + base + at, e / tl.sum(e, 0), at < n)

@triton.jit
def matmul(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for k0 in range(0, K, BK):
        left = tl.load(a + m[:, None] * K + (k0 + k)[None, :], (m[:, None] < M) & ((k0 + k)[None, :] < K), 0.0)
        right = tl.load(b + (k0 + k)[:, None] * N + n[None, :], ((k0 + k)[:, None] < K) & (n[None, :] < N), 0.0)
        total = tl.dot(left, right, total)
    tl.store(c + m[:, None] * N + n[None, :], total.to(tl.float16), (m[:, None] < M) & (n[None, :] < N))
"""  # noqa: E501 - programs of their own


def as_triton(runs: int) -> Times:
    """Runs under the interpreter that has triton."""
    import importlib.util

    os.environ["TRITON_ALWAYS_COMPILE"] = "1"
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TRITON_CACHE_DIR"] = folder
        path = os.path.join(folder, "programs.py")
        with open(path, "w") as file:
            file.write(TRITON_PROGRAMS)
        spec = importlib.util.spec_from_file_location("programs", path)
        assert spec is not None
        assert spec.loader is not None
        programs = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(programs)
        import triton  # type: ignore[import-not-found]
        from triton.backends.compiler import GPUTarget  # type: ignore[import-not-found]

        f32, f16, i32 = "*fp32", "*fp16", "i32"
        row = {"x": f32, "y": f32, "n": i32}
        signatures: dict[str, tuple[str, dict[str, str], dict[str, int]]] = {
            "add f32": ("add", {"x": f32, "y": f32, "out": f32, "n": i32}, {"BLOCK": 1024}),
            "softmax f32": ("softmax", row, {"BLOCK": 8192, "EXACT": True}),
            "softmax f32 approximate": ("softmax", row, {"BLOCK": 8192, "EXACT": False}),
            "matmul f16": (
                "matmul",
                {"a": f16, "b": f16, "c": f16, "M": i32, "N": i32, "K": i32},
                {"BM": 64, "BN": 64, "BK": 32},
            ),
        }
        times: Times = {}
        for name, (function, types, constexprs) in signatures.items():
            whole = types | dict.fromkeys(constexprs, "constexpr")
            source = triton.compiler.ASTSource(getattr(programs, function), whole, constexprs)

            def run(source: Any = source) -> None:
                triton.compile(source, target=GPUTarget("cuda", ARCH, 32))

            run()
            measured = best(run, runs)  # ptxas is a child
            times[name] = {"ptx": measured["own"], "cubin": measured["all"]}
    return times


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--triton", help="an interpreter that has triton")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--as-triton", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--as-gristmill", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.as_triton:
        print(json.dumps(as_triton(options.runs)))
        return 0
    if options.as_gristmill:
        print(json.dumps(as_gristmill(options.runs)))
        return 0
    if not options.triton:
        parser.error("--triton names an interpreter that has triton")
    from gristmill.backends.pool import MEMORY_KEPT

    times: dict[str, Times] = {"gristmill": {}, "triton": {}}
    pythons = {"gristmill": sys.executable, "triton": options.triton}
    for runs in shares(options.runs):
        for name, python in pythons.items():
            command = [python, __file__, f"--as-{name}", "--runs", str(runs)]
            environment = MEMORY_KEPT | os.environ
            told = subprocess.run(command, check=True, capture_output=True, env=environment)
            keep(times[name], json.loads(told.stdout))
    ours, theirs = times.values()
    stages = {"ptx": "ptx", "text": "ptx", "cubin": "cubin"}  # ours -> Triton's
    titles = ("to PTX", "to PTX, through text", "to cubin")
    print(f"{'':24} " + "   ".join(f"{title:>23}" for title in titles))
    print(f"{'kernel':24} " + "   ".join([f"{'ms':>7} {'Triton':>8} {'ratio':>6}"] * 3))
    for name, row in ours.items():
        cells = []
        for stage, other in stages.items():
            mine, their = row[stage], theirs[name][other]
            cells.append(f"{mine:7.1f} {their:8.1f} {mine / their:6.3f}")
        print(f"{name:24} {'   '.join(cells)}")
    print(f"bound: {BOUND} of Triton's time to PTX")
    return 0


def shares(runs: int) -> list[int]:
    """So many runs in turns of at most four."""
    return [min(4, runs - done) for done in range(0, runs, 4)]


def keep(times: Times, found: Times) -> None:
    """Keep the best of what is known and what was found."""
    for name, row in found.items():
        known = times.setdefault(name, row)
        for stage, time in row.items():
            known[stage] = min(known[stage], time)


if __name__ == "__main__":
    sys.exit(main())
