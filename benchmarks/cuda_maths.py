"""The maths functions on every f32 there is, on a CUDA device, judged by PyTorch's f64 functions.

    python benchmarks/cuda_maths.py --build FOLDER [--target ptx-sm_90]   # here: needs the compiler
    python benchmarks/cuda_maths.py --run FOLDER [--step 1]               # there: needs torch

Prints the greatest error of each function in ulp of f32, where it is, and the op table's bound; a
result that is a NaN, an infinity or a zero where the function has none counts as wrong. --step N
takes every N-th number.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

CHUNK = 1 << 26
NAMES = tuple(
    word
    for line in (
        "exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh",
        "atanh erf erfc lgamma gamma cbrt rsqrt sqrt",
    )
    for word in line.split()
)


PROGRAM = """
from __future__ import annotations
from gristmill.ir.lang import *

@kernel(workgroup=lambda: (256, 1, 1), grid=lambda: (ceil_div(len(y), 256), 1, 1))
def sweep(y: Write[f32], first: u32, step: u32):
    i = global_id(0)
    if i < len(y):
        y[i] = {name}(bitcast(first + convert(i, u32) * step, f32))
"""


def build(folder: Path, target: str) -> None:
    """A bundle with one kernel per function: y[i] = f(the f32 whose bits are first + i * step)."""
    from gristmill.backends.compile import Options, compile_kernel
    from gristmill.ir.text import print_kernel
    from gristmill.store.bundle import Entry, write_bundle

    folder.mkdir(parents=True, exist_ok=True)
    scope: dict[str, Any] = {}
    for name in NAMES:
        path = folder / f"{name}.py"
        path.write_text(PROGRAM.format(name=name))
        spec = importlib.util.spec_from_file_location(f"sweep_{name}", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        scope[name] = module.sweep
    entries = []
    for name in NAMES:
        text = print_kernel(scope[name].trace(name))
        blob, manifest = compile_kernel(text, target, Options())
        (folder / f"{name}.ptx").write_bytes(blob)
        entries.append(Entry(manifest, f"{name}.ptx"))
    write_bundle(folder, entries)


def reference(torch: Any) -> dict[str, Callable[[Any], Any]]:
    """Functions of f64 tensors."""
    found = {n: getattr(torch, n) for n in NAMES if hasattr(torch, n)}
    found["cbrt"] = lambda x: torch.copysign(x.abs() ** (1 / 3), x)

    def gamma(x: Any) -> Any:
        size = torch.lgamma(x).exp()
        below = torch.floor(x) % 2 != 0  # between -1 and 0, -3 and -2, ... it is negative
        value = torch.where((x < 0) & below, -size, size)
        value = torch.where((x < 0) & (x == torch.floor(x)), torch.full_like(x, torch.nan), value)
        return torch.where(x == 0, torch.copysign(torch.full_like(x, torch.inf), x), value)

    found["gamma"] = gamma
    return found


def judge(torch: Any, y: Any, exact: Any, size: Any) -> tuple[Any, Any]:
    """Errors in ulp of `size` (0 where both are the same infinity or NaNs), and where y is of no
    use."""
    wide = y.double()
    nearest = exact.float()
    same = (torch.isnan(y) & torch.isnan(nearest)) | (y == nearest)
    _, exponent = torch.frexp(size)
    ulp = torch.ldexp(torch.ones_like(exact), (exponent - 24).clamp(min=-149))
    errors = ((wide - exact).abs() / ulp).masked_fill(same, 0)
    # Next to the overflow threshold an infinity is as far off as the greatest number.
    edge = torch.isinf(y) & torch.isfinite(exact) & (exact.abs() > 3.4028234e38)
    wrong = ~same & ~edge & ~torch.isfinite(errors)
    return errors.masked_fill(~torch.isfinite(errors), 0), wrong


def run(folder: Path, step: int) -> int:
    import torch  # type: ignore[import-not-found]

    from gristmill import runtime
    from gristmill.ir.ops import ROWS

    bundle, bad = runtime.open_bundle(folder), 0
    functions = reference(torch)
    with runtime.open_device("cuda") as device:
        print(
            f"{device.capabilities.name}, {device.capabilities.driver}, torch {torch.__version__}"
        )
        y = torch.empty(CHUNK, dtype=torch.float32, device="cuda")
        held = device.adopt(y)
        at = torch.arange(CHUNK, dtype=torch.int64, device="cuda")
        print(f"{'function':10} {'ulp':>8} {'at':>14} {'bound':>6} {'wrong':>8}")
        for name in NAMES:
            kernel, begin = device.load(bundle, "sweep", name), time.perf_counter()
            worst, where, wrong = 0.0, 0.0, 0
            for first in range(0, 1 << 32, CHUNK * step):
                device.launch(kernel, held, first, step)
                device.synchronize()
                bits = (at * step + first) % (1 << 32)
                x = torch.where(bits >= 1 << 31, bits - (1 << 32), bits).int().view(torch.float32)
                exact = functions[name](x.double())
                size = exact
                if name == "lgamma":  # below 0 a difference of terms, to which its bound belongs
                    terms = torch.lgamma(x.double().abs()).abs().clamp(min=1)
                    size = torch.where(x < 0, torch.maximum(terms, exact.abs()), exact)
                errors, useless = judge(torch, y, exact, size)
                wrong += int(useless.sum())
                top = int(errors.argmax())
                if float(errors[top]) > worst:
                    worst, where = float(errors[top]), float(x[top])
                torch.cuda.synchronize()
            bound = ROWS[name].ulp or 0.5
            verdict = "" if worst <= bound and not wrong else "  OVER"
            bad += bool(verdict)
            seconds = time.perf_counter() - begin
            print(
                f"{name:10} {worst:8.3f} {where:14.6g} {bound:6.2f} {wrong:8}"
                f"{verdict}  ({seconds:.1f} s)",
                flush=True,
            )
    print(f"{bad} over their bound")
    return bad


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path)
    parser.add_argument("--run", type=Path)
    parser.add_argument("--target", default="ptx-sm_90")
    parser.add_argument("--step", type=int, default=1)
    options = parser.parse_args()
    if options.build:
        build(options.build, options.target)
    return run(options.run, options.step) if options.run else 0


if __name__ == "__main__":
    sys.exit(main())
