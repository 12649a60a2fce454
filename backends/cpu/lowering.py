"""The state that all parts of the emitter share while one kernel is written."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...ir import abi
from ...ir.core import Kernel, Loc, Op, Region, Value, walk
from ...ir.dtypes import DType, MemType, Space, i32, i64
from ..llvm.arithmetic import Arithmetic
from ..llvm.text import Function
from ..llvm.types import Ty
from .analysis import Analysis
from .arch import Arch
from .ids import subgroups
from .lanes import Lanes, Slot
from .masks import Mask, Masks, mask_of


class LoweringError(Exception):
    """A kernel that this backend cannot take: why, and where in the source."""

    def __init__(self, message: str, loc: Loc | None) -> None:
        super().__init__(message)
        self.message, self.loc = message, loc


@dataclass(slots=True)
class Memory:
    """Memory that ops refer to. pointer: its first element (of lane 0, if private)."""

    type: MemType
    pointer: str
    stride: int = 1  # elements from one element of a lane to the next: the lanes interleave


@dataclass(slots=True)
class Scope:
    """A loop, or the kernel itself: what break, continue and return act on.

    alive: slot of the lanes still in this iteration; live: of those still in the loop; None where
    lanes leave together only. depth: divergent constructs entered since the scope began.
    """

    latch: str
    exit: str
    alive: str | None = None
    live: str | None = None
    op: Op | None = None
    carried: list[SlotGroup] = field(default_factory=list)
    results: list[SlotGroup] = field(default_factory=list)
    depth: int = 0


@dataclass(slots=True)
class SlotGroup:
    """Slots for the components of one value, in one form."""

    form: str
    dtype: DType
    slots: list[Slot]


class Scratch:
    """Offsets handed out within the scratch memory of one worker."""

    def __init__(self) -> None:
        self.size = 0

    def take(self, size: int, align: int = 64) -> int:
        """The offset of a new block."""
        at = (self.size + align - 1) // align * align
        self.size = at + size
        return at


class Lowering:
    """Kernel, analysis and the function being written, with what is current in it."""

    def __init__(self, kernel: Kernel, arch: Arch, analysis: Analysis, f: Function) -> None:
        self.kernel, self.arch, self.analysis, self.f = kernel, arch, analysis, f
        self.width = analysis.lanes
        self.subgroups = subgroups(kernel, self.width)
        self.index = kernel.index
        self.arith = Arithmetic(f, arch.native_f16, arch.native_fma, kernel.fast)
        self.lanes = Lanes(f, analysis)
        self.masks = Masks(f, self.width, arch.bit_masks, arch.blend_lanes)
        self.scratch = Scratch()
        self.memory: dict[int, Memory] = {}
        self.counts: dict[int, str] = {}
        self.defs: dict[int, Op] = {v.id: op for op in walk(kernel.body) for v in op.results}
        self.used = {v.id for op in walk(kernel.body) for v in op.operands}
        self.mask: Mask = None
        self.subgroup = "0"  # number of the current subgroup, in the index type
        self.groups: tuple[str, str, str] = ("0", "0", "0")
        self.grid: tuple[str, str, str] = ("1", "1", "1")
        self.fault: tuple[str, str] = ("null", "0")
        self.scopes: list[Scope] = []
        self.dead: list[str] = []  # where control goes when no lane is left, innermost last

    def fail(self, op: Op, message: str) -> LoweringError:
        return LoweringError(message, op.loc)

    def type_of(self, value: Value) -> Ty:
        """The LLVM type of a component of a value, in the form that it is kept in."""
        return self.lanes.type_in(value, self.lanes.form(value))

    def mask_of(self, value: Value) -> str:
        """A bool value as a mask."""
        return mask_of(self.lanes, self.masks, self.defs, value)


def load_arguments(x: Lowering) -> None:
    """Read the argument array (`ir.abi.cpu_words`) and define all parameters."""
    f, kernel = x.f, x.kernel
    position = iter(range(1 << 16))

    def word(type_: str) -> str:
        at = f.value(f"getelementptr i64, ptr %args, i64 {next(position)}")
        return f.value(f"load {type_}, ptr {at}, align 8, !invariant.load !0")

    values = dict(zip((p.name for p in kernel.params), kernel.body.args, strict=True))
    for param in abi.memory_params(kernel.params):
        value = values[param.name]
        assert isinstance(value.type, MemType)
        x.memory[value.id] = Memory(value.type, word("ptr"))
    for param in abi.scalar_params(kernel.params):
        t = Ty(param.dtype)
        bits = word("i64")
        if param.dtype.bits < 64:
            bits = f.value(f"trunc i64 {bits} to i{1 if param.dtype.is_bool else param.dtype.bits}")
        if t.text in ("float", "double"):
            bits = f.value(f"bitcast i{param.dtype.bits} {bits} to {t.text}")
        x.lanes.set(values[param.name], bits)
    for param in abi.memory_params(kernel.params):
        x.counts[values[param.name].id] = _index(x, word("i64"))
    x.fault = (word("ptr"), word("i64"))
    grid = [_index(x, word("i64")) for _ in range(3)]
    x.grid = (grid[0], grid[1], grid[2])


def _index(x: Lowering, wide: str) -> str:
    if x.index == i64:
        return wide
    return x.f.value(f"trunc i64 {wide} to {Ty(i32).text}")


def allocate(x: Lowering, region: Region, phased: bool) -> None:
    """Place workgroup arrays in scratch memory and private arrays there or on the stack."""
    for op in walk(region):
        if op.name != "alloc":
            continue
        type_ = op.result.type
        assert isinstance(type_, MemType)
        assert type_.count is not None
        size = type_.count * type_.element.bytes
        if type_.space is Space.WORKGROUP:
            at = x.scratch.take(size)
            x.memory[op.result.id] = Memory(
                type_, x.f.value(f"getelementptr i8, ptr %scratch, i64 {at}")
            )
            continue
        size *= x.width
        if phased:
            stride = (size + 63) // 64 * 64
            at = x.scratch.take(stride * x.subgroups)
            x.memory[op.result.id] = Memory(type_, f"phased {at} {stride}", x.width)
        elif size <= 16384:
            x.memory[op.result.id] = Memory(type_, x.f.alloca(f"[{size} x i8]", 64), x.width)
        else:
            at = x.scratch.take(size)
            pointer = x.f.value(f"getelementptr i8, ptr %scratch, i64 {at}")
            x.memory[op.result.id] = Memory(type_, pointer, x.width)


def pointer_of(x: Lowering, memory: Memory) -> str:
    """The first element of a memory; of the current subgroup's part, if private."""
    if not memory.pointer.startswith("phased "):
        return memory.pointer
    _, at, stride = memory.pointer.split()
    return per_subgroup(x, int(at), int(stride))


def per_subgroup(x: Lowering, at: int, stride: int) -> str:
    """The address of the current subgroup's block of an array in scratch memory."""
    if x.subgroups == 1:
        return x.f.value(f"getelementptr i8, ptr %scratch, i64 {at}")
    wide = x.subgroup
    if x.index != i64:
        wide = x.f.value(f"zext nneg i32 {wide} to i64")
    offset = x.f.value(f"mul nuw nsw i64 {wide}, {stride}")
    base = x.f.value(f"getelementptr i8, ptr %scratch, i64 {at}")
    return x.f.value(f"getelementptr i8, ptr {base}, i64 {offset}")
