"""The state while a kernel is written for Vulkan, with what the shared emitter asks of a target."""

from __future__ import annotations

import math

from ...ir.core import Kernel, Op
from ...ir.dtypes import element_of
from ..llvm.text import Function
from ..simt.ids import lane
from ..simt.lowering import GLOBAL, SHARED, LoweringError
from ..simt.lowering import Lowering as SimtLowering
from ..spirv.opcodes import BuiltIn, Deco
from ..usage import Usage
from .arithmetic import VulkanArithmetic
from .declarations import Declarations

__all__ = ["STORAGE", "WORKGROUP", "Lowering", "LoweringError"]

STORAGE, WORKGROUP, PRIVATE = (f"ptr addrspace({n})" for n in (11, 3, 10))
UNIFORM, INPUT = "ptr addrspace(12)", "ptr addrspace(7)"
BARRIER = "llvm.spv.group.memory.barrier.with.group.sync"
SCOPES = {STORAGE: 'syncscope("device")', WORKGROUP: 'syncscope("workgroup")'}


class Lowering(SimtLowering):
    """One kernel as LLVM IR for Vulkan; `target.VulkanLowering` adds what other modules emit."""

    scopes = {GLOBAL: SCOPES[STORAGE], SHARED: SCOPES[WORKGROUP]}  # noqa: RUF012
    private = PRIVATE

    def __init__(self, kernel: Kernel, usage: Usage, f: Function) -> None:
        super().__init__(kernel, f, VulkanArithmetic(f))
        self.usage = usage
        self.lanes = kernel.subgroup or 1
        self.size = self._size()
        self.declarations = Declarations()

    def _size(self) -> tuple[int, int, int]:
        """The workgroup as it is declared: in a row where subgroups would not be full else."""
        size, subgroup = self.kernel.workgroup, self.kernel.subgroup
        if not self.usage.subgroups or (subgroup and size[0] % subgroup == 0):
            return size
        return self.kernel.workgroup_count, 1, 1

    def builtin(self, number: int, d: int | None = None) -> str:
        """A built-in variable, or its component along `d`, as i32.

        Not by LLVM's intrinsics: where a module has an atomic, they may take component 0 for any.
        """
        kind = "i32" if d is None else "<3 x i32>"
        name = self.declarations.decorated(f"in{number}.", kind, INPUT, [(Deco.BUILT_IN, number)])
        whole = self.f.value(f"load {kind}, {INPUT} {name}")
        return whole if d is None else self.f.value(f"extractelement {kind} {whole}, i64 {d}")

    def local_word(self, d: int) -> str:
        size = self.kernel.workgroup
        if self.size == size:
            return self.builtin(BuiltIn.LOCAL_INVOCATION_ID, d)
        word, below = self.builtin(BuiltIn.LOCAL_INVOCATION_INDEX), math.prod(size[:d])
        return self.f.value(f"urem i32 {self.f.value(f'udiv i32 {word}, {below}')}, {size[d]}")

    def group_word(self, d: int) -> str:
        return self.builtin(BuiltIn.WORKGROUP_ID, d)

    def row(self) -> str:
        return self.builtin(BuiltIn.NUM_WORKGROUPS, 0)

    def folded(self) -> str:
        f = self.f
        launched = [self.builtin(BuiltIn.NUM_WORKGROUPS, d) for d in (0, 1)]
        differ = [
            f.value(f"icmp ne i32 {a}, {b}") for a, b in zip(launched, self.grid[:2], strict=True)
        ]
        return f.value(f"or i1 {differ[0]}, {differ[1]}")

    def barrier(self, op: Op | None = None) -> None:
        self.f.call(BARRIER, "void")

    def vote(self, kind: str, condition: str) -> str:
        return self.f.call(f"llvm.spv.wave.{kind}", "i1", ("i1", condition))

    def ballot(self, op: Op) -> None:
        """Define the votes of a subgroup, 32 or 64 bits."""
        f, four = self.f, "<4 x i32>"
        votes = f.call("llvm.spv.wave.ballot", four, ("i1", self.scalar(op.operands[0])))
        low = f.value(f"extractelement {four} {votes}, i64 0")
        if element_of(op.result.type).bits == 64:
            high = f.value(f"extractelement {four} {votes}, i64 1")
            low, high = (f.value(f"zext i32 {v} to i64") for v in (low, high))
            low = f.value(f"or i64 {low}, {f.value(f'shl i64 {high}, 32')}")
        self.set(op.result, [low])

    def move(self, mode: str, word: str, operand: str) -> str:
        other = operand if mode == "idx" else self.lane_apart(mode, operand)
        return self.f.call("llvm.spv.wave.readlane.i32", "i32", ("i32", word), ("i32", other))

    def lane_apart(self, mode: str, distance: str) -> str:
        """The lane that is so far `up` or `down` from the own one, or xored with it (`bfly`); the
        own one where that is none. distance: any i32."""
        f, own = self.f, lane(self)
        step = {"up": "sub", "down": "add", "bfly": "xor"}[mode]
        other = f.value(f"{step} i32 {own}, {distance}")
        if mode == "bfly":
            return other
        # Below the first lane is far above the last one as well.
        inside = f.value(f"icmp ult i32 {other}, {self.lanes}")
        return f.value(f"select i1 {inside}, i32 {other}, i32 {own}")
