"""Random kernels for comparing targets: verified IR that ends and gives the same everywhere.

program = random_kernel(rng, Features(i64=True))
expected = program.arguments()
interp.run(program.kernel, expected, program.grid)
...
program.compare(actual, expected)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ..ir.builder import Builder
from ..ir.core import Kernel, Param, Region, Value, renumber
from ..ir.dtypes import DTYPES, Access, DType, MemType, Space, i32, u32
from ..ir.text import print_kernel
from ..ir.verify import verify
from .blocks import ATOMIC_KINDS, Blocks, Memory, Place
from .values import TAME


@dataclass(frozen=True)
class Features:
    """What a random kernel may use beyond i32 and u32. atomics64: 64-bit atomics too (with i64).

    subgroup: size, None for no subgroup ops (the workgroup is a multiple of it). faults: asserts.
    index: the index type. lanes: vector widths. statements: length of the program, roughly.
    """

    i8: bool = False
    i16: bool = False
    i64: bool = False
    f16: bool = False
    bf16: bool = False
    f32: bool = True
    f64: bool = False
    lanes: tuple[int, ...] = (2, 4)
    private: bool = True
    workgroup: bool = True
    atomics: bool = True
    atomics64: bool = False
    subgroup: int | None = None
    faults: bool = False
    early_return: bool = True
    index: str = "i32"
    statements: int = 12

    def types(self) -> list[DType]:
        """The scalar types beyond i32 and u32."""
        names = [n for n in ("f16", "bf16", "f32", "f64") if getattr(self, n)]
        for n in ("8", "16", "64"):
            names += [f"i{n}", f"u{n}"] if getattr(self, f"i{n}") else []
        return [DTYPES[n] for n in names]


EVERYTHING = Features(*(True,) * 7, lanes=(2, 4, 8), atomics64=True, subgroup=8, faults=True)


@dataclass(frozen=True)
class Program:
    """A kernel with its inputs. outputs: positions of the arguments that it writes."""

    kernel: Kernel
    inputs: tuple[np.ndarray | int, ...]
    grid: tuple[int, int, int]
    outputs: tuple[int, ...] = field(default=())

    def arguments(self) -> list[np.ndarray | int]:
        """Fresh copies of the arguments."""
        return [a.copy() if isinstance(a, np.ndarray) else a for a in self.inputs]

    def differences(self, actual: Sequence, expected: Sequence) -> list[str]:
        """Outputs that differ; all NaNs are equal, and zeros of either sign."""
        found = []
        for at in self.outputs:
            param = self.kernel.params[at]
            a, b = (_comparable(x[at], param.dtype) for x in (actual, expected))
            wrong = np.flatnonzero((a != b) & ~((a != a) & (b != b)))
            if len(wrong):
                n = int(wrong[0])
                found.append(
                    f"{param.name}[{n}]: got {a[n]}, expected {b[n]} ({len(wrong)} of {len(a)})"
                )
        return found

    def compare(self, actual: Sequence, expected: Sequence) -> None:
        """AssertionError with the kernel's text where outputs differ."""
        found = self.differences(actual, expected)
        assert not found, "\n".join([*found, print_kernel(self.kernel)])


def _comparable(array: np.ndarray, dtype: DType) -> np.ndarray:
    if dtype.name == "bf16":
        return (array.astype(np.uint32) << 16).view(np.float32)
    return array


def random_kernel(rng: np.random.Generator, features: Features | None = None) -> Program:
    """A random program. Every access is in bounds, there is no race, every loop ends."""
    return _Program(rng, features or Features()).build()


class _Program:
    def __init__(self, rng: np.random.Generator, features: Features) -> None:
        self.rng, self.features = rng, features
        extra = features.types()
        picked = rng.permutation(len(extra))[: int(rng.integers(1, 4))] if extra else []
        self.types = (i32, u32, *(extra[int(n)] for n in picked))
        self.index = DTYPES[features.index]
        self.params: list[Param] = []
        self.inputs: list[np.ndarray | int] = []
        self.values: list[Value] = []
        self.outputs: list[int] = []
        self.builder = Builder()
        self.memory = Memory()

    def build(self) -> Program:
        rng, features, b = self.rng, self.features, self.builder
        unit = features.subgroup or 1
        wide = int(rng.choice([n for n in (1, 8, 16, 24, 32, 64) if n % unit == 0] or [unit]))
        size = (wide, int(rng.choice([1, 1, 2])), 1)
        grid = (int(rng.integers(1, 4)), int(rng.choice([1, 1, 2])), 1)
        invocations = int(np.prod(size)) * int(np.prod(grid))
        self.declare(invocations)
        blocks = Blocks(rng, b, self.types, features.lanes)
        blocks.memory, blocks.index = self.memory, self.index
        blocks.workgroup = int(np.prod(size))
        blocks.subgroup, blocks.faults, blocks.sites = features.subgroup, features.faults, []
        blocks.uniform_values = [v for v in self.values if v.type in (i32, u32)]
        self.allocate(blocks.workgroup)
        self.ids(blocks, size)
        blocks.uniform(max(1, features.statements // 4), 2)
        place = Place(depth=3, may_return=features.early_return, dead_ends=True)
        if blocks.plain(features.statements, place):
            for _ in range(4):
                blocks.store_own(place)
            b.do("return")
        kernel = Kernel(
            "random",
            "test",
            tuple(self.params),
            size,
            self.index,
            Region(tuple(self.values), tuple(b.ops)),
            subgroup=features.subgroup,
            sites=tuple(blocks.sites),
        )
        kernel = renumber(kernel)
        verify(kernel)
        return Program(kernel, tuple(self.inputs), grid, tuple(self.outputs))

    # parameters

    def declare(self, invocations: int) -> None:
        for t in self.types:
            count = int(self.rng.integers(16, 100))
            value = self.buffer(f"in_{t}", t, Access.READ, self.data(t, count))
            self.memory.inputs.append((value, count))
        for t in self.types[-3:]:
            data = self.data(t, invocations * self.memory.own)
            self.memory.outputs.append(self.buffer(f"out_{t}", t, Access.READWRITE, data))
        if self.features.atomics:
            for t in self.types:
                if t.is_int and (t.bits == 32 or (t.bits == 64 and self.features.atomics64)):
                    kind = str(self.rng.choice(ATOMIC_KINDS))
                    value = self.buffer(f"sum_{t}", t, Access.READWRITE, self.data(t, 5))
                    self.memory.sums.append((value, 5, kind))
        for t in (i32, u32):
            self.params.append(Param(f"flag_{t}", "scalar", t))
            self.inputs.append(int(self.rng.integers(0, 1 << 31)))
            self.values.append(self.builder.value(t, f"flag_{t}"))

    def buffer(self, name: str, t: DType, access: Access, data: np.ndarray) -> Value:
        if access is not Access.READ:
            self.outputs.append(len(self.params))
        self.params.append(Param(name, "buffer", t, access))
        self.inputs.append(data)
        self.values.append(self.builder.value(MemType(Space.BUFFER, t, None, access), name))
        return self.values[-1]

    def data(self, t: DType, count: int) -> np.ndarray:
        """Random elements: tame floats, integers small and large."""
        if t.is_float:
            steps, limit = TAME[t.name]
            most = int(min(limit, 100) * steps)
            values = self.rng.integers(-most, most + 1, count) / steps
            if t.name == "bf16":
                return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
            return values.astype(t.storage)
        whole = self.rng.integers(0, 256, (count, t.bytes), dtype=np.uint8)
        values = whole.view(t.storage)[:, 0].copy()
        small = self.rng.random(count) < 0.5
        values[small] = self.rng.integers(0, 9, int(small.sum()))
        return values

    # the head of the body

    def allocate(self, workgroup: int) -> None:
        features = self.features
        if features.workgroup:
            for t in self.types[-2:]:
                array = MemType(Space.WORKGROUP, t, 4 * workgroup)
                self.memory.shared.append(self.array(array, f"shared_{t}"))
        if features.workgroup and features.atomics:
            for t in (i32, u32):
                array = MemType(Space.WORKGROUP, t, workgroup)
                value = self.array(array, f"shared_sum_{t}")
                self.memory.shared_sums.append((value, str(self.rng.choice(ATOMIC_KINDS))))
        if features.private:
            for t in self.types[-2:]:
                value = self.array(MemType(Space.PRIVATE, t, 8), f"private_{t}")
                self.memory.privates.append((value, 8))

    def array(self, t: MemType, name: str) -> Value:
        return self.builder.op("alloc", (), {"name": name}, (t,)).result

    def ids(self, blocks: Blocks, size: tuple[int, int, int]) -> None:
        """The linear number of the invocation, and all ids as values to compute with."""
        b, index = self.builder, self.index

        def get(name: str, dim: int) -> Value:
            return b.emit(name, type=index, dim=dim)

        blocks.local = b.emit("local_linear_id", type=index)
        group = b.emit("mul", get("group_id", 1), get("num_groups", 0))
        group = b.emit("add", group, get("group_id", 0))
        base = b.emit("mul", group, b.const(blocks.workgroup, index))
        blocks.linear = b.emit("add", base, blocks.local)
        ids = [get("global_id", 0), get("global_id", 1), get("local_id", 0), get("local_id", 1)]
        if self.features.subgroup:
            names = ("subgroup_id", "subgroup_lane", "num_subgroups")
            ids += [b.emit(name, type=index) for name in names]
        counts = [b.emit("count", v, type=index) for v, _ in self.memory.inputs[:1]]
        scalars = [v for v in self.values if not isinstance(v.type, MemType)]
        for value in (*ids, *counts, blocks.linear, blocks.local):
            scalars.append(value if index == i32 else b.emit("convert", value, type=i32))
        blocks.scope.extend(scalars)
