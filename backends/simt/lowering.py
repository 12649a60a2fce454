"""The state that all parts of an emitter share while one kernel is written, and its hooks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Container, Hashable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from ...ir.core import Kernel, Loc, Op, Value, const_value, walk
from ...ir.dtypes import MemType, Type, element_of, lanes_of
from ...ir.ops import ROWS
from ..llvm.arithmetic import Arithmetic
from ..llvm.text import Function
from ..llvm.types import Ty
from .flow import Flow

# Pointers to buffers and to workgroup arrays, on every target.
GLOBAL, SHARED = "ptr addrspace(1)", "ptr addrspace(3)"


class LoweringError(Exception):
    """A kernel that a backend cannot take: why, and where in the source."""

    def __init__(self, message: str, loc: Loc | None) -> None:
        super().__init__(message)
        self.message, self.loc = message, loc


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory that ops refer to: its first element. space: the LLVM type of pointers to it.

    constant: nothing writes it while the kernel runs.
    """

    type: MemType
    pointer: str
    space: str
    constant: bool = False


class Lowering(ABC):
    """Kernel and the function being written, with what is defined in it.

    A value is a list of LLVM values, one per component. lanes: invocations of the hardware's
    subgroups. scopes: the synchronisation scope of relaxed atomics, by the pointer's type: the
    device for buffers, the workgroup for its arrays. private: the type of pointers to private
    arrays. widest: bytes of the widest access. own: names of ops that it may emit in its own way.
    kind: what the code of an elementwise op follows from but for its types, where that is known.
    sure_loops: a loop that is known to have a first turn is entered without a test.
    """

    lanes: int
    scopes: dict[str, str]
    private: str
    widest = 16
    own: Container[str] = ROWS
    kind: Hashable = None
    sure_loops = False

    def __init__(self, kernel: Kernel, f: Function, arith: Arithmetic) -> None:
        self.kernel, self.f, self.arith = kernel, f, arith
        self.index = Ty(kernel.index)
        self.flow = Flow()
        self.values: dict[int, list[str]] = {}
        # Code of elementwise ops (`elementwise`) by name, types and constant divisor.
        self.templates: dict[tuple[str, tuple[Type, ...], Type, int | None], tuple[str, int]] = {}
        self.memory: dict[int, Memory] = {}
        self.counts: dict[int, str] = {}
        self.defs: dict[int, Op] = {v.id: op for op in walk(kernel.body) for v in op.results}
        self.group: list[str] = ["0", "0", "0"]  # ids of the workgroup, in the index type
        self.grid: list[str] = ["1", "1", "1"]  # the true grid as i32
        self.fault: tuple[str, str] = ("null", "0")  # bitmap, first bit as i32
        self.grid_counter = "null"  # the word that barriers of the grid count in

    # What a target supplies.

    @abstractmethod
    def local_word(self, d: int) -> str:
        """The id of the invocation in its workgroup along `d`, as i32."""

    @abstractmethod
    def group_word(self, d: int) -> str:
        """The launched id of the workgroup along `d`, as i32."""

    @abstractmethod
    def row(self) -> str:
        """Workgroups of a row of a folded launch, as i32 (`ids`). Asked for before all ids."""

    @abstractmethod
    def folded(self) -> str:
        """Whether the launch was folded, as i1. Asked for after the ids."""

    @abstractmethod
    def barrier(self, op: Op | None = None) -> None:
        """Wait for all invocations of the workgroup; orders their memory. op: the op that asks."""

    def turn_ends(self, loop: Op) -> None:
        """Behind the body of a loop, before the next turn; for most targets nothing."""
        del loop

    @abstractmethod
    def vote(self, kind: str, condition: str) -> str:
        """`any` or `all` of the subgroup as i1, or `ballot` as an integer of `lanes` bits."""

    @abstractmethod
    def move(self, mode: str, word: str, operand: str) -> str:
        """A 32-bit word as another lane of the subgroup has it.

        mode: `idx` (operand: the lane), `up`, `down` (the distance; a lane that is not there stands
        for the own one) or `bfly` (what the number of the lane is xored with). operand: an i32, a
        literal where it is known; 0 to lanes - 1.
        """

    def exchange(self, mode: str, part: str, t: Ty, operand: str) -> str | None:
        """As `move`, a value of a type that the target exchanges as it is; None: by words."""
        return None

    def reduce(self, op: Op, part: str, t: Ty) -> str | None:
        """The reduction of the subgroup in the target's own way; None: by `move`."""
        return None

    def scan(self, op: Op, part: str, t: Ty) -> str | None:
        """The scan of the subgroup in the target's own way; None: by `move`."""
        return None

    def subgroup_number(self) -> str:
        """The number of the subgroup in its workgroup, as i32."""
        from .ids import linear_id

        return self.f.value(f"udiv i32 {linear_id(self)}, {self.kernel.subgroup}")

    def brought(self, value: Value) -> list[str]:
        """What the current block brings to a join of a value, as `held`."""
        return self.held(value)

    def held(self, value: Value) -> list[str]:
        """A value as phis have it: one operand for each."""
        return self.parts(value)

    def phi_type(self, value: Value) -> str:
        """The LLVM type of the phis of a value: one for each component."""
        return self.type_of(value).text

    def set_phis(self, value: Value, names: Sequence[str]) -> None:
        """Define a value by its phis."""
        self.set(value, names)

    def set_vector(self, value: Value, group: str, name: str) -> None:
        """Define a value by a vector of LLVM, of type `group`."""
        count = lanes_of(value.type)
        self.set(
            value, [self.f.value(f"extractelement {group} {name}, i64 {n}") for n in range(count)]
        )

    def vector(self, value: Value, group: str) -> str:
        """The components of a value as a vector of LLVM, of type `group`."""
        element, whole = group[:-1].partition(" x ")[2], "poison"
        for n, part in enumerate(self.parts(value)):
            whole = self.f.value(f"insertelement {group} {whole}, {element} {part}, i64 {n}")
        return whole

    def special(self, op: Op) -> bool:
        """Emit an op that is the target's own; False for any other op. Asked for ops of the names
        in `own`."""
        return False

    def address(self, memory: Memory, index: Value, count: int, certain: bool) -> str:
        """The address of memory[index * count]. certain: an access there follows."""
        from .memory import plain_address

        return plain_address(self, memory, index, count)

    def atomic_note(self, memory: Memory, kind: str, t: Ty) -> str:
        """Metadata of an atomic update: text behind the instruction."""
        return ""

    def scope(self) -> AbstractContextManager[None]:
        """Around the ops of a region: what is at hand within it is not behind it."""
        return nullcontext()

    # What all parts use.

    def fail(self, op: Op, message: str) -> LoweringError:
        return LoweringError(message, op.loc)

    def parts(self, value: Value) -> list[str]:
        """The components of a value."""
        return self.values[value.id]

    def scalar(self, value: Value) -> str:
        (part,) = self.parts(value)
        return part

    def set(self, value: Value, parts: Sequence[str]) -> None:
        self.values[value.id] = list(parts)

    def type_of(self, value: Value) -> Ty:
        """The LLVM type of a component."""
        return Ty.scalar(element_of(value.type))

    def constant(self, value: Value) -> int | None:
        """The value of an integer constant; None for anything else."""
        op = self.defs.get(value.id)
        if op is not None and op.name == "splat":
            op = self.defs.get(op.operands[0].id)
        if op is None or op.name != "const" or element_of(op.result.type).is_float:
            return None
        return int(const_value(op))

    def ranged(self, intrinsic: str, low: int, high: int) -> str:
        """The i32 that an intrinsic gives, known to be in low .. high-1."""
        self.f.declarations[intrinsic] = f"declare i32 @{intrinsic}()"
        return self.f.value(f"call range(i32 {low}, {high}) i32 @{intrinsic}()")

    def as_index(self, word: str) -> str:
        """A u32 as the index type."""
        if self.index.dtype.bits == 32:
            return word
        return self.f.value(f"zext i32 {word} to i64")
