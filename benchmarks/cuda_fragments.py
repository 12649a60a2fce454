"""Every kind of matrix product of the kernel language on the tensor cores of a CUDA device.

    python benchmarks/cuda_fragments.py --build FOLDER [--target cubin-sm_90a]  # needs the compiler
    python benchmarks/cuda_fragments.py --run FOLDER                            # needs numpy

Operands of f16, bf16, f32 (as tf32), i8, u8 and both 8-bit floats, in all four pairs of layouts,
from global and from workgroup memory; fresh random operands, judged by numpy in f64 within the
error of the op table. Prints how many products of each kind are right; exit status 1 if one is not.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from gristmill import runtime

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))


def cases() -> Iterator[tuple[str, Any]]:
    """Name and case of every product."""
    from fragment_kernels import KINDS, LAYOUTS, make_product

    rng = np.random.default_rng()
    for kinds in KINDS:
        for layouts in LAYOUTS:
            for shared in (False, True):
                memory = "workgroup" if shared else "global"
                name = "_".join([*kinds[:3], *layouts, memory])
                yield name, make_product(rng, kinds, layouts, 32, shared)


def build(folder: Path, target: str) -> None:
    """A bundle of all products for a target, `cubin-ARCH` or `ptx-ARCH`."""
    from gristmill.backends.compile import Options, compile_kernel
    from gristmill.ir.text import print_kernel
    from gristmill.store.bundle import Entry, write_bundle

    folder.mkdir(parents=True, exist_ok=True)
    entries = []
    for name, case in cases():
        text = print_kernel(replace(case.kernel, specialization=name))
        blob, manifest = compile_kernel(text, target, Options())
        (folder / f"{name}.bin").write_bytes(blob)
        entries.append(Entry(manifest, f"{name}.bin"))
    write_bundle(folder, entries)
    print(f"{len(entries)} products for {target} in {folder}")


def run(folder: Path, device_name: str) -> int:
    bundle = runtime.open_bundle(folder)
    right: dict[str, int] = {}
    wrong = 0
    with runtime.open_device(device_name) as device:
        print(f"{device.capabilities.name}, {device.capabilities.driver}")
        for name, case in cases():
            kernel = device.load(bundle, "product", name)
            kernel(*case.args, grid=(1, 1, 1))
            kind = " x ".join(name.split("_")[:2]) + " + " + name.split("_")[2]
            if fault := case.wrong(case.args[-1]):
                wrong += 1
                print(f"{name}: {fault}")
            else:
                right[kind] = right.get(kind, 0) + 1
    for kind, count in right.items():
        print(f"{kind:24} {count} right")
    print(f"{sum(right.values())} right, {wrong} wrong")
    return min(wrong, 1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path)
    parser.add_argument("--run", type=Path)
    parser.add_argument("--target", default="cubin-sm_90a")
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    if options.build:
        build(options.build, options.target)
    return run(options.run, options.device) if options.run else 0


if __name__ == "__main__":
    sys.exit(main())
