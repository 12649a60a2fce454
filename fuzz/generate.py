"""Random kernels for comparing targets: verified IR that ends and gives the same everywhere.

program = random_kernel(rng, Features(i64=True))
expected = program.arguments()
interp.run(program.kernel, expected, program.grid)
...
compare(program, actual, expected)
"""

from __future__ import annotations

from math import prod

import numpy as np

from ..ir.builder import Builder
from ..ir.core import Kernel, Region, Value, renumber
from ..ir.dtypes import DTYPES, MemType, i32, u32
from ..ir.verify import verify
from .blocks import Place
from .features import EVERYTHING, Features
from .parameters import Parameters
from .program import Program
from .special import NEAR, NEAR_BINARY
from .uniform import Uniform

__all__ = ["EVERYTHING", "Features", "random_kernel"]


def random_kernel(rng: np.random.Generator, features: Features | None = None) -> Program:
    """A random program. Every access is in bounds, there is no race, every loop ends."""
    return _Generator(rng, features or Features()).build()


class _Generator:
    def __init__(self, rng: np.random.Generator, features: Features) -> None:
        self.rng, self.features = rng, features
        extra = features.types()
        picked = rng.permutation(len(extra))[: int(rng.integers(1, 4))] if extra else []
        self.types = (i32, u32, *(extra[int(n)] for n in picked))
        self.index = DTYPES[features.index]
        self.builder = Builder()
        self.parameters = Parameters(rng, features, self.types, self.builder)

    def build(self) -> Program:
        features, b, made = self.features, self.builder, self.parameters
        size, grid = self.shape()
        made.declare(prod(size) * prod(grid), prod(size))
        blocks = self.blocks(prod(size))
        blocks.copies = made.allocate(blocks.workgroup)
        self.ids(blocks)
        blocks.uniform(max(1, features.statements // 4), 2)
        place = Place(depth=features.deep, may_return=features.early_return, dead_ends=True)
        if blocks.plain(features.statements, place):
            for _ in range(4):
                blocks.store_own(place)
            if made.memory.wild_outputs:
                blocks.store_wild(place)
            b.do("return")
        kernel = Kernel(
            "random",
            "test",
            tuple(made.params),
            size,
            self.index,
            Region(tuple(made.values), tuple(b.ops)),
            subgroup=features.subgroup,
            sites=tuple(blocks.sites),
        )
        kernel = renumber(kernel)
        verify(kernel)
        return Program(kernel, tuple(made.inputs), grid)

    def shape(self) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
        """Workgroup and grid."""
        rng, unit = self.rng, self.features.subgroup or 1
        left = max(self.features.invocations, unit)

        def some(*sizes: int) -> int:
            nonlocal left
            size = int(rng.choice([n for n in sizes if n <= left]))
            left //= size
            return size

        wide = some(*[n for n in (1, 8, 16, 24, 32, 64) if n % unit == 0], unit)
        size = (wide, some(1, 1, 2), some(1, 1, 1, 1, 2))
        grid = (some(1, 2, 3), some(1, 1, 2), some(1, 1, 1, 2))
        return size, grid

    def blocks(self, workgroup: int) -> Uniform:
        features, made = self.features, self.parameters
        blocks = Uniform(self.rng, self.builder, self.types, features.lanes)
        blocks.memory, blocks.index, blocks.left = made.memory, self.index, made.left
        blocks.workgroup, blocks.products = workgroup, made.products
        blocks.subgroup, blocks.faults, blocks.sites = features.subgroup, features.faults, []
        blocks.fences, blocks.diverging = features.fences, features.diverging
        blocks.special = bool(made.memory.wild_outputs)
        blocks.flush = not features.denormals
        blocks.near_ops = {t.name: self.near_ops(t.bits) for t in self.types if t.is_float}
        flags = [v for v in made.values if v.type in (i32, u32)]
        blocks.uniform_values = flags
        return blocks

    def near_ops(self, bits: int) -> tuple[str, ...]:
        """Two ops with a bound: few, so that the bound of what they store is not another's."""
        known = [n for n in NEAR if n != "fma" or bits >= 32]
        if bits == 16:  # what a driver's compiler takes long for
            known = [n for n in known if n in ("div", "sqrt", "exp", "tanh", *NEAR_BINARY[:1])]
        return tuple(str(n) for n in self.rng.choice(known, 2))

    def ids(self, blocks: Uniform) -> None:
        """The linear number of the invocation, and all ids as values to compute with."""
        b, index, memory = self.builder, self.index, self.parameters.memory

        def get(name: str, dim: int) -> Value:
            return b.emit(name, type=index, dim=dim)

        blocks.local = b.emit("local_linear_id", type=index)
        group = b.emit("mul", get("group_id", 2), get("num_groups", 1))
        group = b.emit("add", group, get("group_id", 1))
        group = b.emit("mul", group, get("num_groups", 0))
        group = b.emit("add", group, get("group_id", 0))
        blocks.group = group
        base = b.emit("mul", group, b.const(blocks.workgroup, index))
        blocks.linear = b.emit("add", base, blocks.local)
        ids = [get(name, dim) for name in ("global_id", "local_id") for dim in (0, 1, 2)]
        if self.features.subgroup:
            names = ("subgroup_id", "subgroup_lane", "num_subgroups")
            ids += [b.emit(name, type=index) for name in names]
        counts = [b.emit("count", v, type=index) for v, _ in memory.inputs[:1]]
        scalars = [v for v in self.parameters.values if not isinstance(v.type, MemType)]
        for value in (*ids, *counts, blocks.linear, blocks.local):
            scalars.append(value if index == i32 else b.emit("convert", value, type=i32))
        blocks.scope.extend(scalars)
