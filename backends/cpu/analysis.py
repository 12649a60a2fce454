"""The shape of every value of a kernel, and which loops need masks.

All shapes start at the best and only get worse, so walking the kernel until nothing changes gives
the answer, loops included.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from ...ir.core import Kernel, Op, Region, Value, const_value
from ...ir.dtypes import Access, DType, MemType, Space
from ...ir.ops import ROWS, Effect
from . import integer_shapes
from .ids import id_shape
from .shapes import GROUP, UNIFORM, VARYING, Kind, Shape, constant, full, join, under

_UNIFORM_RESULTS = ("subgroup_reduce", "subgroup_ballot", "subgroup_any", "subgroup_all")
_SHUFFLES = (
    "subgroup_shuffle",
    "subgroup_shuffle_xor",
    "subgroup_shuffle_up",
    "subgroup_shuffle_down",
)


@dataclass
class Analysis:
    """Shapes by value number, and facts by op.

    no_wrap: value numbers of adds, subs and muls that cannot overflow. exits: for each loop the
    kind of control under which invocations leave it; VARYING means that it needs a mask.
    returns: the kind of control under which invocations return.
    """

    lanes: int
    shapes: dict[int, Shape] = field(default_factory=dict)
    no_wrap: set[int] = field(default_factory=set)
    exits: dict[int, Kind] = field(default_factory=dict)
    returns: Kind = Kind.GROUP
    changed: bool = False

    def of(self, value: Value) -> Shape:
        return self.shapes[value.id]

    def kind(self, value: Value) -> Kind:
        return self.shapes[value.id].kind

    def masked(self, loop: Op) -> bool:
        """Whether the lanes of a loop leave it one by one."""
        return self.exits.get(id(loop), Kind.GROUP) is Kind.VARYING


def analyze(kernel: Kernel, lanes: int) -> Analysis:
    """Shapes for subgroups of `lanes` invocations."""
    walker = _Walker(kernel, Analysis(lanes))
    result = walker.result
    for param, value in zip(kernel.params, kernel.body.args, strict=True):
        dtype = param.dtype
        span = full(dtype) if dtype.is_int and not param.is_memory else None
        result.shapes[value.id] = Shape(Kind.GROUP, 1, span)
    while True:
        result.changed = False
        walker.region(kernel.body)
        if not result.changed:
            return result


@dataclass
class _Frame:
    """A construct around the current op. op: None for an if or switch."""

    control: Kind
    op: Op | None = None


class _Walker:
    def __init__(self, kernel: Kernel, result: Analysis) -> None:
        self.kernel, self.result = kernel, result
        self.frames: list[_Frame] = []
        self.invariants: dict[int, set[int]] = {}
        self.ragged: dict[int, Kind] = {}  # under what control a loop's iterations end early
        self.read_only = {
            v.id
            for p, v in zip(kernel.params, kernel.body.args, strict=True)
            if p.is_memory and p.access is Access.READ and not p.may_alias
        }

    def set(self, value: Value, shape: Shape) -> None:
        old = self.result.shapes.get(value.id)
        if old != shape:
            self.result.shapes[value.id] = shape
            # Only kinds and alignments of loops feed back; the rest follows from them.
            self.result.changed = True

    def merge(self, value: Value, shape: Shape) -> None:
        """Worsen the shape of a value that has several sources."""
        old = self.result.shapes.get(value.id)
        self.set(value, shape if old is None else join(old, shape))

    def region(self, region: Region) -> None:
        for op in region.ops:
            self.op(op)

    def op(self, op: Op) -> None:
        match op.name:
            case "if" | "switch":
                self.choice(op)
            case "for" | "while":
                self.loop(op)
            case "break" | "continue" | "return":
                self.leave(op)
            case "yield" | "condition":
                pass
            case _:
                self.plain(op)

    def plain(self, op: Op) -> None:
        for value in op.results:
            if isinstance(value.type, MemType):
                self.set(value, GROUP)
            else:
                self.set(value, self.shape(op, value))

    def shape(self, op: Op, value: Value) -> Shape:
        r, name = self.result, op.name
        args = [r.of(v) for v in op.operands]
        dtype = value.type if isinstance(value.type, DType) else None
        if name == "const":
            number = const_value(op)
            return constant(int(number)) if dtype and dtype.is_int else GROUP
        effect = ROWS[name].effect
        if effect is Effect.ID:
            return id_shape(self.kernel, op, r.lanes)
        if name == "load":
            return self.load(op)
        if name in _UNIFORM_RESULTS or name == "subgroup_broadcast":
            return UNIFORM
        if name in _SHUFFLES:
            return (
                UNIFORM
                if args[0].uniform or (name == _SHUFFLES[0] and args[1].uniform)
                else VARYING
            )
        if effect is not Effect.PURE:
            return VARYING
        return self.pure(op, value, args, dtype)

    def pure(self, op: Op, value: Value, args: list[Shape], dtype: DType | None) -> Shape:
        r, name = self.result, op.name
        source = op.operands[0].type if op.operands else None
        top = max((a.kind for a in args), default=Kind.GROUP)
        worst = Shape(Kind.VARYING if top > Kind.UNIFORM else top)
        if not isinstance(source, DType) or dtype is None:
            return worst
        if name == "select" and args[0].uniform and dtype.is_int:
            return under(join(args[1], args[2]), args[0].kind)
        if name in ("lt", "le", "gt", "ge") and source.is_int:
            return Shape(integer_shapes.compare_op(name, args[0], args[1], r.lanes))
        if name in ("convert", "bitcast") and source.is_int and dtype.is_int:
            return integer_shapes.convert_op(source, dtype, args[0], r.lanes)
        if dtype.is_int and source == dtype:
            shape, exact = integer_shapes.integer_op(name, dtype, args, r.lanes)
            (r.no_wrap.add if exact else r.no_wrap.discard)(value.id)
            return shape
        return worst if not dtype.is_int else Shape(worst.kind, 1, full(dtype))

    def load(self, op: Op) -> Shape:
        memory, index = op.operands
        assert isinstance(memory.type, MemType)
        element = memory.type.element
        span = full(element) if element.is_int else None
        if memory.type.space is Space.PRIVATE or not self.result.of(index).uniform:
            return Shape(Kind.VARYING, 1, span)
        if memory.id in self.read_only:
            return Shape(self.result.kind(index), 1, span)
        return Shape(Kind.UNIFORM, 1, span)

    # Control flow

    def choice(self, op: Op) -> None:
        kind = self.result.kind(op.operands[0])
        control = Kind.VARYING if kind > Kind.UNIFORM else kind
        self.frames.append(_Frame(control))
        for region in op.regions:
            self.region(region)
        self.frames.pop()
        yields = [r.terminator for r in op.regions if r.terminator.name == "yield"]
        for n, value in enumerate(op.results):
            shapes = [self.result.of(y.operands[n]) for y in yields]
            self.set(value, self.any_of(shapes, control))

    @staticmethod
    def any_of(shapes: Iterable[Shape], control: Kind) -> Shape:
        out: Shape | None = None
        for shape in shapes:
            out = shape if out is None else join(out, shape)
        return under(out or GROUP, control)

    def loop(self, op: Op) -> None:
        r = self.result
        counted = op.name == "for"
        inits = op.operands[2:] if counted else op.operands
        body = op.regions[-1]
        carried = body.args[1:] if counted else body.args
        for value, init in zip(carried, inits, strict=True):
            self.merge(value, _loose(r.of(init), value))
            if not counted:
                self.merge(op.regions[0].args[carried.index(value)], r.of(value))
        if counted:
            lo, hi = (r.of(v) for v in op.operands[:2])
            self.counter(op, lo, hi)
            self.exit(
                op, Kind.VARYING if max(lo.kind, hi.kind) > Kind.UNIFORM else max(lo.kind, hi.kind)
            )
        self.frames.append(_Frame(Kind.GROUP, op))
        if not counted:
            self.region(op.regions[0])
            condition = r.kind(op.regions[0].terminator.operands[0])
            self.exit(op, condition)
        self.region(body)
        self.frames.pop()
        control = r.exits[id(op)]
        for value, arg in zip(op.results, carried, strict=True):
            self.merge(value, under(r.of(arg), control))

    def counter(self, op: Op, lo: Shape, hi: Shape) -> None:
        value = op.regions[0].args[0]
        span = None
        if lo.range and hi.range:
            span = (lo.range[0], max(lo.range[0], hi.range[1] - 1))
        self.set(value, Shape(lo.kind, 1, span))

    def exit(self, op: Op, kind: Kind) -> None:
        old = self.result.exits.get(id(op), Kind.GROUP)
        if max(old, kind) != old or id(op) not in self.result.exits:
            self.result.exits[id(op)] = max(old, kind)
            self.result.changed = True

    def leave(self, op: Op) -> None:
        """A break, continue or return, and the constructs that it leaves."""
        control = Kind.GROUP
        for frame in reversed(self.frames):
            control = max(control, frame.control)
            if frame.op is None:
                continue
            if op.name == "continue":
                self.ragged[id(frame.op)] = max(control, self.ragged.get(id(frame.op), Kind.GROUP))
            # Lanes that went on to the next iteration are not among those that leave here.
            control = max(control, self.ragged.get(id(frame.op), Kind.GROUP))
            if op.name != "return":
                self.leave_loop(op, frame.op, control)
                return
        # A return concerns the whole kernel: a loop that some invocations are not in, or have left
        # before, must let the others go on behind it.
        loops = [frame.op for frame in self.frames if frame.op is not None]
        control = max([control, *(self.result.exits.get(id(loop), Kind.GROUP) for loop in loops)])
        for loop in loops:
            self.exit(loop, control)
        if control > self.result.returns:
            self.result.returns = control
            self.result.changed = True

    def invariant(self, loop: Op, n: int) -> bool:
        """Whether every iteration passes a carried value on as it is."""
        if id(loop) not in self.invariants:
            args = loop.regions[-1].args[1:] if loop.name == "for" else loop.regions[-1].args
            found = set(range(len(args)))
            for op in continues(loop.regions[-1]):
                found = {n for n in found if op.operands[n] == args[n]}
            self.invariants[id(loop)] = found
        return n in self.invariants[id(loop)]

    def leave_loop(self, op: Op, loop: Op, control: Kind) -> None:
        args = loop.regions[-1].args[1:] if loop.name == "for" else loop.regions[-1].args
        if op.name == "break":
            self.exit(loop, control)
        for n, (value, arg) in enumerate(zip(op.operands, args, strict=True)):
            shape = _loose(under(self.result.of(value), control), arg)
            if op.name == "break":
                self.merge(loop.results[n], shape)
            elif not self.invariant(loop, n):
                self.merge(arg, shape)
                if loop.name == "while":
                    self.merge(loop.regions[0].args[n], self.result.of(arg))


def continues(region: Region) -> Iterator[Op]:
    """The continues of the loop whose body is `region`."""
    for op in region.ops:
        if op.name == "continue":
            yield op
        if op.name in ("if", "switch"):
            for inner in op.regions:
                yield from continues(inner)


def _loose(shape: Shape, value: Value) -> Shape:
    """The shape of a value that changes from one iteration to the next: any range."""
    dtype = value.type
    span = full(dtype) if isinstance(dtype, DType) and dtype.is_int else None
    return Shape(shape.kind, shape.align, span)
