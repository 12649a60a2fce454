"""The state while a kernel is written for HSACO, with what needs no module of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ...ir.core import Kernel, Value
from ...ir.dtypes import lanes_of
from ..llvm.types import Ty
from ..simt.addresses import Addresses
from ..simt.ids import linear_id
from ..simt.lowering import GLOBAL, SHARED, LoweringError, Memory
from ..simt.lowering import Lowering as SimtLowering
from .arch import Arch
from .arithmetic import HsacoArithmetic
from .effort import effort
from .joins import TracedFunction, hidden
from .vectors import Vectors, whole_types

__all__ = ["CONSTANT", "GLOBAL", "PRIVATE", "SHARED", "Lowering", "LoweringError", "Memory"]

CONSTANT, PRIVATE = "ptr addrspace(4)", "ptr addrspace(5)"
_AXES = "xyz"
_MOST = 2**32 - 1  # work-items of a grid
_GRID_SIZES = 12  # bytes into a dispatch packet: work-items along x, y, z as u32
# Buffers lie in the device's own memory, which no other device and no host updates meanwhile.
_COARSE = ", !amdgpu.no.fine.grained.memory !0, !amdgpu.no.remote.memory !0"


class Lowering(SimtLowering):
    """One kernel for one processor; `target.HsacoLowering` adds what other modules emit."""

    scopes = {GLOBAL: 'syncscope("agent")', SHARED: 'syncscope("workgroup")'}  # noqa: RUF012
    private = PRIVATE

    f: TracedFunction

    def __init__(self, kernel: Kernel, arch: Arch, f: TracedFunction) -> None:
        super().__init__(kernel, f, HsacoArithmetic(f, arch, kernel.fast))
        self.arch, self.lanes, self.kind = arch, arch.lanes, (arch.processor, kernel.fast)
        self.addresses = Addresses(f, self.defs, (SHARED,))
        self.vectors = Vectors(f, self.values)
        self.whole = whole_types(kernel)
        self.optimised = bool(effort(kernel).passes)
        self.launched: list[str] = []  # workgroups along x and y

    def local_word(self, d: int) -> str:
        return self.ranged(f"llvm.amdgcn.workitem.id.{_AXES[d]}", 0, self.kernel.workgroup[d])

    def group_word(self, d: int) -> str:
        most = _MOST // self.kernel.workgroup[d]
        return self.ranged(f"llvm.amdgcn.workgroup.id.{_AXES[d]}", 0, most)

    def row(self) -> str:
        """From the packet of the launch: arguments that say it would be hidden ones."""
        f = self.f
        packet = f.call("llvm.amdgcn.dispatch.ptr", CONSTANT)
        for d in (0, 1):
            at = _GRID_SIZES + 4 * d
            place = f.value(f"getelementptr inbounds i8, {CONSTANT} {packet}, i64 {at}")
            items = f.value(f"load i32, {CONSTANT} {place}, align 4, !invariant.load !0")
            size = self.kernel.workgroup[d]
            self.launched.append(f.value(f"udiv exact i32 {items}, {size}") if size > 1 else items)
        return self.launched[0]

    def folded(self) -> str:
        """The launched counts are not those of the true grid."""
        f, pairs = self.f, zip(self.launched, self.grid[:2], strict=True)
        differ = [f.value(f"icmp ne i32 {a}, {b}") for a, b in pairs]
        return f.value(f"or i1 {differ[0]}, {differ[1]}")

    def subgroup_number(self) -> str:
        """The same for all lanes, which LLVM does not know."""
        shift = self.lanes.bit_length() - 1
        if self.kernel.subgroup != self.lanes:
            return super().subgroup_number()
        own = self.f.value(f"lshr i32 {linear_id(self)}, {shift}")
        return self.f.call("llvm.amdgcn.readfirstlane.i32", "i32", ("i32", own))

    def brought(self, value: Value) -> list[str]:
        t, bits = self.phi_type(value), self.type_of(value).dtype.bits
        if value.type in self.whole:
            bits *= lanes_of(value.type)
        return [hidden(self.f, part, t, bits) for part in self.held(value)]

    def held(self, value: Value) -> list[str]:
        if value.type not in self.whole:
            return self.parts(value)
        self.vector(value, self.group_of(value))
        return [self.vectors.opaque(value, self.phi_type(value))]

    def phi_type(self, value: Value) -> str:
        """Of a vector that stays whole: of its components, of words where those are bytes."""
        if value.type not in self.whole:
            return super().phi_type(value)
        bits, count = self.type_of(value).dtype.bits, lanes_of(value.type)
        if bits > 8:
            return self.group_of(value)
        return f"<{bits * count // 32} x i32>" if bits * count > 32 else "i32"

    def set_phis(self, value: Value, names: Sequence[str]) -> None:
        if value.type in self.whole:
            self.vectors.define(value, self.phi_type(value), names[0])
        else:
            self.set(value, names)

    def group_of(self, value: Value) -> str:
        """The LLVM type of a value as one; of a vector that of a vector."""
        t, count = self.type_of(value).text, lanes_of(value.type)
        return f"<{count} x {t}>" if count > 1 else t

    def set_vector(self, value: Value, group: str, name: str) -> None:
        self.vectors.define(value, group, name)

    def vector(self, value: Value, group: str) -> str:
        return self.vectors.vector(value, group)

    def parts(self, value: Value) -> list[str]:
        return self.values.get(value.id) or self.vectors.parts(value, self.group_of(value))

    def set(self, value: Value, parts: Sequence[str]) -> None:
        self.vectors.whole.pop(value.id, None)
        super().set(value, parts)

    @contextmanager
    def scope(self) -> Iterator[None]:
        with self.addresses.scope(), self.vectors.scope():
            yield

    def atomic_note(self, memory: Memory, kind: str, t: Ty) -> str:
        """What the hardware updates without a loop: memory that is the device's own. Of floats,
        before gfx942 and gfx12, it takes denormals of f32 for zero there, which the language leaves
        open; LDS keeps them."""
        note = _COARSE if memory.space == GLOBAL and kind != "xchg" else ""
        return note + (", !amdgpu.ignore.denormal.mode !0" if kind == "fadd" else "")
