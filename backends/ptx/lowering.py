"""The state while a kernel is written for PTX, with what needs no module of its own."""

from __future__ import annotations

from contextlib import AbstractContextManager

from ...ir.core import Kernel, Op, Value
from ...ir.dtypes import i32, u32
from ...ir.extensions import TensorMap
from ..llvm.text import Function
from ..llvm.types import Ty
from ..simt.addresses import Addresses
from ..simt.lowering import GLOBAL, SHARED, LoweringError, Memory
from ..simt.lowering import Lowering as SimtLowering
from .addresses import address
from .arch import SUBGROUP, Arch
from .arithmetic import PtxArithmetic
from .effort import thorough

__all__ = ["FLAT", "GLOBAL", "SHARED", "Lowering", "LoweringError", "Memory"]

FLAT = "ptr"

_AXES = "xyz"
_LIMITS = (2**31 - 1, 65535, 65535)
_EVERYONE = ("i32", "-1")
_REDUX = {"add": "add", "and": "and", "or": "or", "xor": "xor"}
_CLAMP = {"idx": SUBGROUP - 1, "down": SUBGROUP - 1, "bfly": SUBGROUP - 1, "up": 0}


class Lowering(SimtLowering):
    """One kernel for one architecture; `target.PtxLowering` adds what other modules emit."""

    lanes = SUBGROUP
    scopes = {GLOBAL: 'syncscope("device")', SHARED: 'syncscope("block")'}  # noqa: RUF012
    private = FLAT
    sure_loops = True

    def __init__(self, kernel: Kernel, arch: Arch, f: Function) -> None:
        super().__init__(kernel, f, PtxArithmetic(f, arch, kernel.fast))
        self.arch = arch
        self.kind = arch.name, arch.isa, kernel.fast
        self.thorough = thorough(kernel)
        self.addresses = Addresses(f, self.defs)
        self.launched: list[str] = []  # workgroups along x and y
        self.maps: dict[TensorMap, str] = {}
        self.wholes: dict[int, tuple[str, str]] = {}  # loaded vectors, by the number of the value
        self.warp = "0"  # number of the subgroup as i32, if the kernel has roles

    def register(self, name: str, low: int, high: int) -> str:
        """A special register, known to be in low .. high-1."""
        return self.ranged(f"llvm.nvvm.read.ptx.sreg.{name}", low, high)

    def set_vector(self, value: Value, group: str, name: str) -> None:
        self.wholes[value.id] = group, name
        super().set_vector(value, group, name)

    def local_word(self, d: int) -> str:
        return self.register(f"tid.{_AXES[d]}", 0, self.kernel.workgroup[d])

    def group_word(self, d: int) -> str:
        return self.register(f"ctaid.{_AXES[d]}", 0, _LIMITS[d])

    def row(self) -> str:
        self.launched = [self.register(f"nctaid.{_AXES[d]}", 1, _LIMITS[d] + 1) for d in (0, 1)]
        return self.launched[0]

    def folded(self) -> str:
        """The launched counts are not those of the true grid."""
        f, pairs = self.f, zip(self.launched, self.grid[:2], strict=True)
        differ = [f.value(f"icmp ne i32 {a}, {b}") for a, b in pairs]
        return f.value(f"or i1 {differ[0]}, {differ[1]}")

    def barrier(self, op: Op | None = None) -> None:
        self.f.call("llvm.nvvm.barrier.cta.sync.aligned.all", "void", ("i32", "0"))

    def vote(self, kind: str, condition: str) -> str:
        result = "i32" if kind == "ballot" else "i1"
        return self.f.call(f"llvm.nvvm.vote.{kind}.sync", result, _EVERYONE, ("i1", condition))

    def move(self, mode: str, word: str, operand: str) -> str:
        return self._shuffle(mode, "i32", ("i32", word), operand)

    def exchange(self, mode: str, part: str, t: Ty, operand: str) -> str | None:
        return self._shuffle(mode, "f32", ("float", part), operand) if t.text == "float" else None

    def _shuffle(self, mode: str, kind: str, value: tuple[str, str], operand: str) -> str:
        arguments = value, ("i32", operand), ("i32", str(_CLAMP[mode]))
        return self.f.call(f"llvm.nvvm.shfl.sync.{mode}.{kind}", value[0], _EVERYONE, *arguments)

    def reduce(self, op: Op, part: str, t: Ty) -> str | None:
        """One instruction for integers of up to 32 bits, where the architecture has it."""
        kind = str(op.attr("kind"))
        if not (t.dtype.is_int and t.dtype.bits <= 32 and self.arch.redux and kind != "mul"):
            return None
        wide = i32 if t.dtype.is_signed else u32
        word = self.arith.converter.convert(part, t, wide)
        name = _REDUX.get(kind) or (kind if t.dtype.is_signed else f"u{kind}")
        total = self.f.call(f"llvm.nvvm.redux.sync.{name}", "i32", ("i32", word), _EVERYONE)
        return self.arith.converter.convert(total, Ty(wide), t.dtype)

    def address(self, memory: Memory, index: Value, count: int, certain: bool) -> str:
        if self.thorough:
            return super().address(memory, index, count, certain)
        return address(self, memory, index, memory.type.element.bytes * count, certain)

    def scope(self) -> AbstractContextManager[None]:
        return self.addresses.scope()
