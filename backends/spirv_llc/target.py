"""All that Vulkan supplies to the shared emitter: its memory, its control flow."""

from __future__ import annotations

from ...ir.core import Kernel, Op, Value
from ...ir.dtypes import element_of, lanes_of
from ..llvm.text import Function
from ..llvm.types import Ty
from ..simt.subgroup import move
from ..usage import Usage
from . import sync
from .control import Control
from .lowering import Lowering
from .memory import Memories


class VulkanLowering(Lowering):
    """The emitter of one kernel for Vulkan."""

    def __init__(self, kernel: Kernel, usage: Usage, f: Function) -> None:
        super().__init__(kernel, usage, f)
        self.memories, self.control = Memories(self), Control(self)

    def special(self, op: Op) -> bool:
        match op.name:
            case "load":
                self.memories.load(op)
            case "store":
                self.memories.store(op)
            case "alloc":
                self.memories.allocate(op)
            case "atomic" | "compare_exchange":
                sync.atomic(self, self.memories, op)
            case "assert":
                sync.check(self, self.memories, op)
            case "fence":
                sync.fence(self, op)
            case "subgroup_ballot":
                self.ballot(op)
            case "subgroup_shuffle_up" | "subgroup_shuffle_down" if self.is_word(op.operands[1]):
                self.shift_lanes(op)
            case "if" | "switch" | "for" | "while":
                self.control.emit(op)
            case "bitcast" if lanes_of(op.result.type) != lanes_of(op.operands[0].type):
                self.reshape(op)
            case _:
                return False
        return True

    def is_word(self, value: Value) -> bool:
        return element_of(value.type).bits == 32

    def shift_lanes(self, op: Op) -> None:
        """A distance of 32 bits, without 64-bit integers, which not every device has."""
        part, distance = op.operands
        mode, t = op.name.removeprefix("subgroup_shuffle_"), self.type_of(part)
        lane = self.lane_apart(mode, self.scalar(distance))
        self.set(op.result, [move(self, "idx", p, t, lane) for p in self.parts(part)])

    def reshape(self, op: Op) -> None:
        """The bits of a vector as one of other components, by 32-bit words."""
        f, t = self.f, Ty(element_of(op.operands[0].type))
        words = []
        for part in self.parts(op.operands[0]):
            kind = f"i{t.dtype.bits}"
            bits = part if t.text == kind else f.value(f"bitcast {t.text} {part} to {kind}")
            if t.dtype.bits == 32:
                words.append(bits)
                continue
            if t.dtype.bits != 64:
                raise self.fail(op, f"no code for bits of {t.dtype} in other vectors")
            high = f.value(f"lshr i64 {bits}, 32")
            words += [f.value(f"trunc i64 {v} to i32") for v in (bits, high)]
        t = Ty(element_of(op.result.type))
        if t.dtype.bits == 64:
            wide = [f.value(f"zext i32 {word} to i64") for word in words]
            words = [
                f.value(f"or i64 {low}, {f.value(f'shl i64 {high}, 32')}")
                for low, high in zip(wide[::2], wide[1::2], strict=True)
            ]
        elif t.dtype.bits != 32:
            raise self.fail(op, f"no code for bits of {t.dtype} in other vectors")
        kind = f"i{t.dtype.bits}"
        self.set(
            op.result,
            [w if t.text == kind else f.value(f"bitcast {kind} {w} to {t.text}") for w in words],
        )
