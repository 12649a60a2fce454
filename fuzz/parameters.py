"""The parameters and arrays of a random kernel, with random contents."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..ir.builder import Builder
from ..ir.core import Param, Value
from ..ir.dtypes import DTYPES, Access, DType, MemType, Space, bool_, i32, u32
from .blocks import ATOMIC_KINDS, FIXED_KINDS, FLOAT_ATOMIC_KINDS, Memory
from .features import Features
from .program import Argument
from .special import wild_data
from .values import TAME

_SMALL = ("f8e4m3", "f8e5m2")
_SCARCE_OPS = 12  # arithmetic on a type where it is rare, in one program


class Parameters:
    """Declares what a program reaches: parameters first, then arrays."""

    def __init__(
        self, rng: np.random.Generator, features: Features, types: tuple[DType, ...], b: Builder
    ) -> None:
        self.rng, self.features, self.types, self.builder = rng, features, types, b
        self.params: list[Param] = []
        self.inputs: list[Argument] = []
        self.values: list[Value] = []
        self.memory = Memory()
        self.copied: list[tuple[Value, int]] = []  # buffers that copies read, with their count
        self.products: list[tuple[Value, Value, Value]] = []
        self.left = dict.fromkeys(features.scarce, _SCARCE_OPS)

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def room(self, buffers: int) -> bool:
        """Whether a target binds that many more, with the fault bitmap (also of bounds checks)."""
        taken = sum(p.is_memory for p in self.params) + 1
        return taken + buffers <= self.features.buffers

    def declare(self, invocations: int, workgroup: int) -> None:
        """All parameters."""
        features, memory = self.features, self.memory
        few = features.buffers < 16
        stored = (*self.types, *((bool_,) if features.bools and self.chance(0.5) else ()))
        for t in stored[-3:] if few else stored:
            count = int(self.rng.integers(16, 100))
            value = self.buffer(f"in_{t}", t, Access.READ, self.data(t, count))
            memory.inputs.append((value, count))
        for t in stored[-2:] if few else stored[-3:]:
            data = self.data(t, invocations * memory.own)
            memory.outputs.append(self.buffer(f"out_{t}", t, Access.READWRITE, data))
        floats = [t for t in self.types if t.is_float][:2]
        parts: list[tuple[bool, Callable[[], None]]] = [
            (features.atomics, self.sums),
            (features.special, lambda: self.special(floats, invocations)),
            (features.near, lambda: self.near(floats, invocations)),
            (features.small, lambda: self.small(invocations)),
            (features.slots, self.slot),
            (features.copies, lambda: self.block(workgroup)),
            (features.fragments, lambda: self.matrices(invocations // (features.subgroup or 1))),
        ]
        for n in self.rng.permutation(len(parts)):
            wanted, declare = parts[int(n)]
            if wanted:
                declare()
        for t in (i32, u32, *self.types[2:3]):
            self.params.append(Param(f"flag_{t}", "scalar", t))
            self.inputs.append(self.scalar(t))
            self.values.append(self.builder.value(t, f"flag_{t}"))

    def special(self, floats: list[DType], invocations: int) -> None:
        for t in floats:
            if self.room(2):
                count = int(self.rng.integers(16, 60))
                data = wild_data(self.rng, t, count, self.features.denormals)
                value = self.buffer(f"any_{t}", t, Access.READ, data)
                self.memory.wild_inputs.append((value, count))
                data = self.data(t, invocations * self.memory.own)
                value = self.buffer(f"wild_{t}", t, Access.READWRITE, data)
                self.memory.wild_outputs.append(value)

    def near(self, floats: list[DType], invocations: int) -> None:
        for t in floats:
            if self.room(1):
                data = self.data(t, invocations * self.memory.own)
                value = self.buffer(f"near_{t}", t, Access.WRITE, data)
                self.memory.near_outputs.append(value)

    def slot(self) -> None:
        if self.room(1):
            t = self.types[int(self.rng.integers(len(self.types)))]
            value = self.memory_param("slot", t, self.data(t, 1), Access.READ, kind="slot")
            self.memory.slots.append(value)

    def block(self, workgroup: int) -> None:
        """What asynchronous copies read."""
        if self.room(1):
            t = self.types[-1]
            count = int(self.rng.choice([n for n in (4, 8, 16) if n >= t.bytes])) // t.bytes
            data = self.data(t, count * (workgroup + 2))
            self.copied.append((self.buffer(f"block_{t}", t, Access.READ, data), count))

    def sums(self) -> None:
        """Buffers on which all invocations act atomically, each in one way."""
        memory, more = self.memory, self.features.atomics_more
        for t in self.types:
            if t.bits == 32 or (t.bits == 64 and t.is_int and self.features.atomics64):
                if not self.room(1) or (t.is_float and not more):
                    continue
                kinds = FLOAT_ATOMIC_KINDS if t.is_float else ATOMIC_KINDS
                if more:
                    kinds = (*kinds, *FIXED_KINDS)
                kind = str(self.rng.choice(kinds))
                value = self.buffer(f"sum_{t}", t, Access.READWRITE, self.data(t, 5))
                memory.sums.append((value, 5, kind))
                low, high = (int(n) for n in self.rng.integers(0, 9, 2))
                memory.fixed[value.id] = (low, high + 1)

    def small(self, invocations: int) -> None:
        if not self.room(2):
            return
        t = DTYPES[_SMALL[int(self.rng.integers(2))]]
        count = int(self.rng.integers(16, 60))
        source = self.buffer(f"in_{t}", t, Access.READ, wild_data(self.rng, t, count, True))
        data = wild_data(self.rng, t, invocations * self.memory.own, True)
        target = self.buffer(f"out_{t}", t, Access.READWRITE, data)
        self.memory.small.append((source, count, target))

    def matrices(self, subgroups: int) -> None:
        kinds = [("i8", "i8", "i32"), ("u8", "i8", "i32")]
        kinds += [("f16", "f16", "f32"), ("bf16", "bf16", "f32")]
        kinds = [k for k in kinds if getattr(self.features, k[1])]
        if not kinds or not self.features.subgroup or not self.room(3):
            return
        a, b, c = (DTYPES[n] for n in kinds[int(self.rng.integers(len(kinds)))])
        depth = 32 if a.is_int else 16
        made = []
        for name, t in (("left", a), ("right", b)):
            whole = self.rng.integers(0, 4, 16 * depth)
            if t.name == "bf16":
                whole = whole.astype(np.float32).view(np.uint32) >> 16
            made.append(self.buffer(f"{name}_{t}", t, Access.READ, whole.astype(t.storage)))
        data = np.zeros(256 * subgroups, c.storage)
        made.append(self.buffer(f"product_{c}", c, Access.READWRITE, data))
        self.products.append((made[0], made[1], made[2]))

    def buffer(self, name: str, t: DType, access: Access, data: np.ndarray) -> Value:
        return self.memory_param(name, t, data, access)

    def memory_param(
        self, name: str, t: DType, data: np.ndarray, access: Access, kind: str = "buffer"
    ) -> Value:
        self.params.append(Param(name, kind, t, access))
        self.inputs.append(data)
        self.values.append(self.builder.value(MemType(Space.BUFFER, t, None, access), name))
        return self.values[-1]

    def scalar(self, t: DType) -> Argument:
        if t in (i32, u32):
            return int(self.rng.integers(0, 1 << 31))
        if t.is_float:
            steps, limit = TAME[t.name]
            most = int(min(limit, 20) * steps)
            return int(self.rng.integers(-most, most + 1)) / steps
        return int(self.rng.integers(0, 1 << 62)) & int(t.max) if t.is_int else False

    def data(self, t: DType, count: int) -> np.ndarray:
        """Random elements: tame floats, integers small and large."""
        if t.is_bool:
            return self.rng.integers(0, 2, count).astype(bool)
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

    # arrays, at the head of the body

    def allocate(self, workgroup: int) -> list[tuple[Value, Value, int]]:
        """Arrays of the workgroup and of invocations; gives those that copies fill."""
        features, memory = self.features, self.memory
        if features.workgroup:
            for t in self.types[-2:]:
                array = MemType(Space.WORKGROUP, t, 4 * workgroup)
                memory.shared.append(self.array(array, f"shared_{t}"))
        if features.workgroup and features.atomics:
            for t in (i32, u32):
                array = MemType(Space.WORKGROUP, t, workgroup)
                value = self.array(array, f"shared_sum_{t}")
                kinds = (*ATOMIC_KINDS, *(FIXED_KINDS if features.atomics_more else ()))
                memory.shared_sums.append((value, str(self.rng.choice(kinds))))
                memory.fixed[value.id] = (int(self.rng.integers(0, 9)), int(self.rng.integers(9)))
        if features.private:
            for t in self.types[-2:]:
                value = self.array(MemType(Space.PRIVATE, t, 8), f"private_{t}")
                memory.privates.append((value, 8))
        filled = []
        for source, count in self.copied:
            assert isinstance(source.type, MemType)
            array = MemType(Space.WORKGROUP, source.type.element, count * workgroup)
            filled.append((self.array(array, "arriving"), source, count))
        return filled

    def array(self, t: MemType, name: str) -> Value:
        return self.builder.op("alloc", (), {"name": name}, (t,)).result
