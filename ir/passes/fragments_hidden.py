"""Matrix fragments of a target that multiplies them and hides which invocation holds an element.

Operands and sums of products stay values of the target's own (`whole`). What needs to know where an
element lies (rows, coordinates, functions beyond arithmetic) acts on elements that are spread over
the subgroup as `fragment_layout.portable` says. A value goes from one form to the other through a
part of workgroup memory that belongs to its subgroup, at most once each way where it is needed.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..core import Kernel, Op, Region, Value, walk
from ..dtypes import DType, FragmentType, MemType, Space, Type, element_of
from .fragment_layout import Layout, portable
from .fragments import FragmentLowering, has_fragments

ARITHMETIC = frozenset({"add", "sub", "mul", "div", "neg", "fma"})  # of whole values
_DEPTH = 32  # bytes along the depth of an operand
_LINE = 16  # bytes by which rows are longer than 16 elements, so that they lie in other banks
# Element types of the sums that come with products of a type.
_SUMS = {"f16": ("f16", "f32"), "bf16": ("f32",), "i8": ("i32",), "u8": ("i32",)}


@dataclass(frozen=True)
class HiddenFragments:
    """Leave fragments whole where the target has them; the rest becomes plain ops."""

    name: str = "hidden_fragments"

    def __call__(self, kernel: Kernel) -> Kernel:
        return _HiddenLowering(kernel).run() if has_fragments(kernel) else kernel


def factors(kernel: Kernel) -> set[tuple[str, str]]:
    """The element types of a and b of all products of a kernel."""
    found = set()
    for op in walk(kernel.body):
        if op.name == "fragment_mma":
            a, b = (v.type for v in op.operands[:2])
            assert isinstance(a, FragmentType)
            assert isinstance(b, FragmentType)
            found.add((a.element.name, b.element.name))
    return found


class _HiddenLowering(FragmentLowering):
    """`parts` holds the spread elements of a value, `natives` its whole form where it was spread
    first. A value that is in neither is whole under its own number."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel)
        names = {name for pair in factors(kernel) for name in pair}
        self.operands = frozenset(names & _SUMS.keys())
        self.sums = frozenset(t for name in self.operands for t in _SUMS[name])
        self.natives: dict[int, Value] = {}
        self.scratches: dict[DType, Value] = {}

    def layout(self, t: FragmentType) -> Layout:
        return portable(t, self.size)

    def prepare(self, lane: Value) -> None:
        self.subgroup = self.b.emit("subgroup_id", type=self.index)

    def whole(self, t: Type) -> bool:
        """Whether a value of type `t` stays one."""
        if not isinstance(t, FragmentType) or t.role == "row":
            return False
        if t.role == "acc":
            return t.element.name in self.sums
        fits = max(t.rows, t.columns) * t.element.bytes == _DEPTH
        return fits and t.element.name in self.operands

    # the walk

    def types(self, t: Type) -> tuple[Type, ...] | None:
        return None if self.whole(t) else super().types(t)

    def block(self, region: Region) -> None:
        """What is made in a region is not there behind it."""
        kept = dict(self.parts), dict(self.natives)
        super().block(region)
        self.parts, self.natives = kept

    def _retyped(self, op: Op, touched: bool) -> bool:
        return any(isinstance(v.type, FragmentType) for v in (*op.operands, *op.results))

    def all(self, old: Value) -> tuple[Value, ...]:
        return (self.native(old),) if self.whole(old.type) else super().all(old)

    # the two forms

    def elements(self, v: Value) -> list[Value]:
        if not self.whole(v.type):
            return super().elements(v)
        if v.id not in self.parts:
            self.b.do("subgroup_barrier")  # others may read still what was there before
            self.b.append(self.access("fragment_store", v))
            self.b.do("subgroup_barrier")
            super().load(self.access("fragment_load", v))
            self.natives[v.id] = v
        return list(self.parts[v.id])

    def native(self, v: Value) -> Value:
        """The whole form of a value."""
        if v.id not in self.natives and v.id in self.parts:
            self.b.do("subgroup_barrier")
            super().store(self.access("fragment_store", v))
            self.b.do("subgroup_barrier")
            made = self.b.value(v.type, v.hint)
            self.b.append(self.access("fragment_load", made))
            self.natives[v.id] = made
        return self.natives.get(v.id, v)

    def access(self, name: str, v: Value) -> Op:
        """A load or store of a fragment in the subgroup's part of workgroup memory."""
        assert isinstance(v.type, FragmentType)
        element = v.type.element
        stride = 16 + _LINE // element.bytes
        groups = self.kernel.workgroup_count // self.size
        if element not in self.scratches:
            memory = self.b.value(MemType(Space.WORKGROUP, element, groups * 16 * stride))
            text = f"fragments_{element}"
            self.arrays.append(Op("alloc", (), (memory,), (("name", text),), (), None))
            self.scratches[element] = memory
        first = self.b.emit("mul", self.subgroup, self.k(16 * stride))
        place = (self.scratches[element], first, self.k(stride))
        attrs = (("layout", "row"),)
        if name == "fragment_load":
            return Op(name, place, (v,), attrs, (), self.b.loc)
        return Op(name, (*place, v), (), attrs, (), self.b.loc)

    # ops

    def translate(self, op: Op) -> None:
        whole = bool(op.results) and self.whole(op.results[0].type)
        fragments = [v for v in op.operands if isinstance(v.type, FragmentType)]
        ready = all(self.whole(v.type) and self.there(v) for v in fragments)
        made = op.name == "fragment_mma" or (whole and op.name in ("splat", "fragment_load"))
        stored = ready and op.name == "fragment_store"
        if made or stored or (whole and ready and _computes(op)):
            self.keep(op)
        else:
            super().translate(op)

    def there(self, v: Value) -> bool:
        """Whether a value has its whole form already."""
        return v.id in self.natives or v.id not in self.parts

    def mma(self, op: Op) -> None:
        self.keep(op)


def _computes(op: Op) -> bool:
    """Whether a target computes an op on whole values: of the types of its sums."""
    types = {element_of(v.type).name for v in (*op.operands, *op.results)}
    if op.name == "convert":
        return types <= {"f16", "f32"}
    return op.name in ARITHMETIC and types <= {"f16", "f32", "i32"}
