"""Products and sums of floats that a driver folds where it knows that an operand is 0.

To llvmpipe 0 * x is 0, x + 0 is x and 0 - x is -x, of Vulkan as of WGSL, whatever decorations say,
and a selection of -0 or 1 is one of 0 or 1; to SwiftShader behind WGSL products and sums are as
well. That loses a NaN, where x is one or infinite, and the sign of a zero, which a quotient by it
shows. So emitters hide operands that may be known to be 0: a constant of a product always, which
kernels hardly have; all others only where the sign is seen, as many sums start with 0.
"""

from __future__ import annotations

import math

from ..ir.core import Kernel, Op, Region, Value, bits_float, float_bits
from ..ir.dtypes import DTYPES, DType, VectorType, element_of, lanes_of
from ..ir.passes.effects import LOOPS, PURE
from .zeros import LANES, cancels, infinite, zeros

_SUMS = frozenset({"add", "sub"})
_PRODUCTS = frozenset({"mul", "fma"})
_FOLDED = _SUMS | {"fma"}
# Patterns of -0 and of infinities, of any float type.
_CORNERS = frozenset(
    float_bits(x, DTYPES[t])
    for t in ("f16", "bf16", "f32", "f64")
    for x in (-0.0, math.inf, -math.inf)
)
# Ops whose result does not tell the sign of a zero that goes in.
_BLIND = _SUMS | {"fma", "min", "max", "abs", "eq", "ne", "lt", "le", "gt", "ge"}
# Operands by which the sign of a zero is seen.
_SEEN = {"div": (1,), "rsqrt": (0,), "copysign": (1,), "atan2": (0, 1)}

Nulls = dict[int, tuple[bool, ...]]


def folds(kernel: Kernel, known_zeros: frozenset[int] | None = None) -> frozenset[int]:
    """The results of products, sums and selections that are to be written with their operands out
    of `zeros.zeros` hidden; x - x, with its second one. known_zeros: those, where they are at hand.
    """
    kept = _Folds()
    kept.region(kernel.body)
    return kept.results(kernel, known_zeros)


class _Folds:
    def __init__(self) -> None:
        self.found: set[int] = set()
        self.later: set[int] = set()  # what is hidden where a sign is seen
        self.products: list[Op] = []  # all others
        self.nulls: Nulls = {}
        self.known: set[int] = set()  # what is made of constants
        self.infinities: set[int] = set()
        self.minus: set[int] = set()  # constants of -0
        self.negated: dict[int, int] = {}
        self.seen: list[int] = []  # values of which the sign is seen

    def region(self, region: Region) -> None:
        """Note every op. What most ops come by calls nothing."""
        known, nulls = self.known, self.nulls
        for op in region.ops:
            name = op.name
            if op.regions:
                for inner in op.regions:
                    self.region(inner)
                continue
            if name not in PURE:
                continue
            null = whole = True
            for v in op.operands:
                if v.id not in known:
                    whole = False
                    break
            if whole:
                known.add(op.results[0].id)
            for v in op.operands:
                if v.id in nulls:
                    break
            else:
                null = False
            if name == "const":
                if (bits := op.attrs[0][1]) == 0:
                    nulls[op.results[0].id] = (True,)
                elif bits in _CORNERS:
                    self.corner(op)
            elif name in LANES:
                if null or self.infinities or self.minus:
                    self.lanes(op)
            elif whole:
                nulls[op.results[0].id] = (True,) * lanes_of(op.results[0].type)
            if name == "neg":
                self.negated[op.results[0].id] = op.operands[0].id
            elif name in _SEEN:
                self.seen += [op.operands[place].id for place in _SEEN[name]]
            elif name == "mul":
                if null:
                    self.arithmetic(op, null)
                else:
                    self.products.append(op)
            elif name == "select":
                if self.minus:
                    self.arithmetic(op, null)
            elif name in _FOLDED and (null or self.negated or op.operands[0] is op.operands[1]):
                self.arithmetic(op, null)

    def corner(self, op: Op) -> None:
        """A constant that may be an infinity or -0."""
        result = op.results[0]
        if _float(result) and infinite(op):
            self.infinities.add(result.id)
        elif _float(result) and _zero(op):
            self.minus.add(result.id)
            self.nulls[result.id] = (True,)

    def lanes(self, op: Op) -> None:
        result = op.results[0].id
        for kind in (self.infinities, self.minus):
            if not kind.isdisjoint([v.id for v in op.operands]):
                kind.add(result)
        _note(op, self.nulls)

    def arithmetic(self, op: Op, null: bool) -> None:
        """An op that has a constant 0 among its operands or may be x - x."""
        name, result = op.name, op.results[0].id
        a, b = op.operands[0].id, op.operands[1].id
        if not _float(op.results[0]):
            return
        if name == "select":
            if not self.minus.isdisjoint((b, op.operands[2].id)):
                self.found.add(result)
        elif name in _PRODUCTS:
            if a in self.nulls or b in self.nulls:
                self.found.add(result)
            elif null:
                self.later.add(result)
        elif cancels(name, [a, b], self.negated):
            self.found.add(result)
        elif null:
            self.later.add(result)

    def results(self, kernel: Kernel, known_zeros: frozenset[int] | None) -> frozenset[int]:
        found, infinities = self.found, self.infinities
        if self.products and (self.seen or infinities):
            unclear = zeros(kernel) if known_zeros is None else known_zeros
            for op in self.products:
                a, b = op.operands
                if (a.id in unclear or b.id in unclear) and _float(op.results[0]):
                    certain = a.id in infinities or b.id in infinities
                    (found if certain else self.later).add(op.results[0].id)
        if self.later and self.seen:
            found |= self.later & _signs(kernel, self.seen)
        return frozenset(found)


def _float(value: Value) -> bool:
    return isinstance(value.type, DType | VectorType) and element_of(value.type).is_float


def _note(op: Op, nulls: Nulls) -> None:
    """Which lanes of a vector, or of one that is taken apart, are a constant 0."""
    result = op.results[0]
    name, operands = op.name, op.operands
    lanes = [n for v in operands for n in nulls.get(v.id, (False,) * lanes_of(v.type))]
    if name == "splat":
        lanes *= lanes_of(result.type)
    elif name in ("insert", "extract"):
        place = op.attr("lane")
        assert isinstance(place, int)
        if name == "insert":
            lanes[place] = lanes.pop()
        else:
            lanes = [lanes[place]]
    elif name == "shuffle":
        picked = op.attr("lanes")
        assert isinstance(picked, tuple)
        lanes = [lanes[n] for n in picked if isinstance(n, int)]
    if any(lanes):
        nulls[result.id] = tuple(lanes)


def _zero(constant: Op) -> bool:
    bits, dtype = constant.attr("bits"), element_of(constant.results[0].type)
    assert isinstance(bits, int)
    return bits_float(bits, dtype) == 0 if dtype.is_float else bits == 0


def _signs(kernel: Kernel, seen: list[int]) -> set[int]:
    """The values of which the sign of a zero arrives at one of `seen`, but by way of a sum."""
    sources: dict[int, list[int]] = {}
    _Sources(sources).region(kernel.body, None, None)
    signs: set[int] = set()
    while seen:
        value = seen.pop()
        if value not in signs:
            signs.add(value)
            seen += sources.get(value, ())
    return signs


class _Sources:
    """Of each value, what the sign of its zero may come from."""

    def __init__(self, sources: dict[int, list[int]]) -> None:
        self.sources = sources

    def flow(self, values: list[Value], origins: tuple[Value, ...] | list[Value]) -> None:
        for value, origin in zip(values, origins, strict=True):
            self.sources.setdefault(value.id, []).append(origin.id)

    def region(self, region: Region, parent: Op | None, loop: Op | None) -> None:
        for op in region.ops:
            if op.name in PURE:
                if op.name not in _BLIND or not _float(op.results[0]):
                    self.sources[op.results[0].id] = [v.id for v in op.operands]
            elif op.regions:
                inner = op if op.name in LOOPS else loop
                if inner is op:
                    self.carry(op, op.operands[len(op.operands) - len(op.results) :])
                for nested in op.regions:
                    self.region(nested, op, inner)
            elif op.name == "yield" and parent is not None and parent.name not in LOOPS:
                self.flow(list(parent.results), op.operands)
            elif op.name in ("yield", "continue", "break") and loop is not None:
                self.carry(loop, op.operands[len(op.operands) - len(loop.results) :])

    def carry(self, loop: Op, values: tuple[Value, ...]) -> None:
        """What a loop starts with or a turn leaves is of the next turn and of its results."""
        count = len(loop.results)
        self.flow(list(loop.results), values)
        for region in loop.regions:
            self.flow(list(region.args[len(region.args) - count :]), values)
