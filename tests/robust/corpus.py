"""Kernels that the fuzzers start from: those that ship, those of other tests, and one of all."""

from __future__ import annotations

import ast
import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gristmill_build import config
from gristmill_build.sources import module_sources

ROOT = Path(__file__).parents[2]
OTHERS = ("copy_kernels", "fragment_kernels", "nv_kernels")
ZOO = '''\
"""Every construct of the language, each of them small."""

from __future__ import annotations

import math

import numpy as np

from gristmill.ir.lang import *

TABLE = (1, 2.5, (3, "a"))
ARRAY = np.arange(4)


@device
def first_above(x, limit, *, START: int = 0):
    for n in range(START, len(x)):
        if x[n] > limit:
            return n
    return -1


@device
def pick(a: f32, b: f32):
    if a < b:
        return a, b
    return b, a


@device
def swapped(pair):
    a, b = pair
    return b, a


@kernel(
    workgroup=lambda: (BLOCK, 1, 1),
    grid=lambda: (ceil_div(len(y), BLOCK * 2), max(n, 1), 1),
    fast=("contract",),
)
def zoo(
    x: Read[T], y: ReadWrite[T, may_alias], n: i32, at: slot[i32], parts: Buffers[Read[i32], COUNT],
    *, T: DType = f32, BLOCK: int = 64, COUNT: int = 3, OP: Function = swapped, WORD: str = "max",
    SIZES: tuple = (2, 3), EAGER: bool = False, SUBGROUP: int = 32,
):
    i = global_id(0)
    total = T(0)
    shared = workgroup_array(f32, (4, 16))
    own = private_array(i32, 8)
    cells = registers(f32, SIZES, 0.5)
    shared[i % 4, local_id(0) % 16] = 1.0
    barrier()
    for k in range(n, 0, -2):
        if k % 3 == 0:
            continue
        own[k % 8] += k
        if k > 100:
            break
        total += x[min(k, len(x) - 1)] if k < len(x) else x[0]
    while (step := i // 2) > 4 and not total > 100.0:
        i -= step
        cells[0, 1] = cells[0, 0] * 2 + cells[1, 2]
    for a in static_range(SIZES[0]):
        for b in static_range(SIZES[1]):
            cells[a, b] += math.sqrt(abs(shared[a, b]))
            if cells[a, b] > 3:
                break
    match own[0] % 4:
        case 0 | 1:
            total = -total
        case m if m > 2:
            total += f32(m)
        case _:
            pass
    low, high = OP(pick(f32(total), cells[0, 0]))
    v = load_vector(x, i // 4, 4)
    v[0], v[1] = v.y, v.z
    words = bitcast(v, u32x4) ^ u32(0xFF)
    found = first_above(x, 0.5, START=1)
    if WORD == "max":
        low = max(low, high, f32(found), subgroup_max(low))
    elif EAGER:
        low = subgroup_add(low)
    old = atomic_add(y, 0, T(low)) if T is f32 else T(0)
    assert i < len(y) or found >= 0, "inside"
    static_assert(BLOCK % 2 == 0, "even")
    total += sum_of(parts, i) + f32(popcount(words.x)) + f32(at) + TABLE[1] + clamp(high, -1.0, old)
    print("i is", i, total)
    if i >= len(y):
        return
    y[i] = T(total + np.exp(f32(1) / (1 + high)) + f32(convert(v.w, i32, "floor", True)))


@device
def sum_of(parts, i):
    total = 0
    for part in parts:
        total += part[i]
    return f32(total + divmod(total, 7)[1])
'''


@dataclass(frozen=True)
class Subject:
    """A kernel in its file: all sources by path, its module and constexprs to begin with."""

    sources: dict[str, bytes]
    module: str
    kernel: str
    constexprs: dict[str, Any]

    @property
    def path(self) -> str:
        return f"kernels/{self.module}.py"

    def changed(self, text: str) -> dict[str, bytes]:
        """The sources with another text of the kernel's file."""
        return {**self.sources, self.path: text.encode()}


@functools.cache
def subjects() -> tuple[Subject, ...]:
    """Every specialization and variant that is built, and the kernels of tests."""
    found = [Subject({"kernels/zoo.py": ZOO.encode()}, "zoo", "zoo", {})] * 20
    for row in config.load(ROOT).kernels.values():
        files = module_sources(ROOT, row.module)
        sources = {name: (ROOT / name).read_bytes() for name in files}
        variants = [{}, *(v for listed in row.variants.values() for v in listed)]
        for constexprs in row.specializations.values():
            for variant in variants:
                given = {**constexprs, **variant}
                found.append(Subject(sources, row.module, row.kernel, given))
    for module in OTHERS:
        text = (ROOT / f"tests/{module}.py").read_bytes()
        names = [n.name for n in ast.parse(text).body if _is_kernel(n)]
        family = (ROOT / "kernels/family.py").read_bytes()
        sources = {f"kernels/{module}.py": text, "kernels/family.py": family}
        found += [Subject(sources, module, name, {}) for name in names] * 3
    return tuple(found)


def _is_kernel(node: ast.stmt) -> bool:
    decorators = node.decorator_list if isinstance(node, ast.FunctionDef) else []
    return "kernel" in [getattr(getattr(d, "func", d), "id", "") for d in decorators]
