"""The state that all parts of the emitter share while one kernel is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...ir.core import Kernel, Loc, Op, Value, const_value, walk
from ...ir.dtypes import MemType, element_of
from ...ir.extensions import TensorMap
from ...ir.passes.affine import SUMS, AffineForms, Terms
from ..llvm.text import Function
from ..llvm.types import Ty
from .arch import Arch
from .arithmetic import PtxArithmetic
from .effort import thorough
from .flow import Flow


class LoweringError(Exception):
    """A kernel that this backend cannot take: why, and where in the source."""

    def __init__(self, message: str, loc: Loc | None) -> None:
        super().__init__(message)
        self.message, self.loc = message, loc


GLOBAL, SHARED, FLAT = "ptr addrspace(1)", "ptr addrspace(3)", "ptr"


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory that ops refer to: its first element. space: the LLVM type of pointers to it.

    constant: nothing writes it while the kernel runs.
    """

    type: MemType
    pointer: str
    space: str
    constant: bool = False


# Pointer to a memory, terms of an index, bytes of an element.
Place = tuple[str, Terms, int]


class Lowering:
    """Kernel, architecture and the function being written, with what is defined in it.

    A value is a list of LLVM values, one per component.
    """

    def __init__(self, kernel: Kernel, arch: Arch, f: Function) -> None:
        self.kernel, self.arch, self.f = kernel, arch, f
        self.arith = PtxArithmetic(f, arch, kernel.fast)
        self.index = Ty(kernel.index)
        self.flow = Flow()
        self.values: dict[int, list[str]] = {}
        self.memory: dict[int, Memory] = {}
        self.counts: dict[int, str] = {}
        self.defs: dict[int, Op] = {v.id: op for op in walk(kernel.body) for v in op.results}
        self.thorough = thorough(kernel)
        # Addresses at hand, each with the constant of its index.
        self.addresses: dict[Place, tuple[str, int]] = {}
        self.sums = AffineForms()
        for op in self.defs.values():
            if op.name in SUMS:
                self.sums.define(op)
        self.group: list[str] = ["0", "0", "0"]  # ids of the workgroup, in the index type
        self.grid: list[str] = ["1", "1", "1"]  # the true grid as i32
        self.fault: tuple[str, str] = ("null", "0")  # bitmap, first bit as i32
        self.grid_counter = "null"  # the word that barriers of the grid count in
        self.maps: dict[TensorMap, str] = {}
        self.warp = "0"  # number of the subgroup as i32, if the kernel has roles

    def fail(self, op: Op, message: str) -> LoweringError:
        return LoweringError(message, op.loc)

    def parts(self, value: Value) -> list[str]:
        """The components of a value."""
        return self.values[value.id]

    def scalar(self, value: Value) -> str:
        (part,) = self.values[value.id]
        return part

    def set(self, value: Value, parts: Sequence[str]) -> None:
        self.values[value.id] = list(parts)

    def type_of(self, value: Value) -> Ty:
        """The LLVM type of a component."""
        return Ty(element_of(value.type))

    def constant(self, value: Value) -> int | None:
        """The value of an integer constant; None for anything else."""
        op = self.defs.get(value.id)
        if op is not None and op.name == "splat":
            op = self.defs.get(op.operands[0].id)
        if op is None or op.name != "const" or element_of(op.result.type).is_float:
            return None
        return int(const_value(op))

    def special(self, register: str, low: int, high: int) -> str:
        """A special register, known to be in low .. high-1."""
        name = f"llvm.nvvm.read.ptx.sreg.{register}"
        self.f.declarations[name] = f"declare i32 @{name}()"
        return self.f.value(f"call range(i32 {low}, {high}) i32 @{name}()")

    def as_index(self, word: str) -> str:
        """A u32 as the index type."""
        if self.index.dtype.bits == 32:
            return word
        return self.f.value(f"zext i32 {word} to i64")
