"""Float results that a compiler of WGSL must not look through.

WGSL has no way to forbid reassociation or contraction, and drivers do both: Mesa turns
(x + c) - c into x, SwiftShader as well. What `ir.maths` is made of (roundings by a large summand,
sums with their errors) is then wrong altogether. The bits of a guarded result go through an integer
`or` with nothing, which no compiler can know to be that: a high bit of the number of workgroups in
z, which is data, and which the runtime keeps lower. (A selection by a condition that is never true
will not do: NVIDIA's compiler draws what follows into its sides. Nor will a bound of the built-in
number of workgroups: it knows what its hardware can launch.)

A numerator that drivers may know to be 0 is hidden in the same way: see `backends.zeros`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...ir.core import Kernel, Op, Region, Value
from ...ir.dtypes import element_of
from ...ir.passes.effects import PURE

MOST_Z = (1 << 31) - 1  # workgroups in z of a launch; devices refuse more by LimitExceeded
_SUMS = ("add", "sub")
_MOST = 32  # parts of a sum that are looked at


def guarded(kernel: Kernel) -> frozenset[int]:
    """The results that are guarded: sums, and the sums of fma, of which another sum takes off what
    went into them, be it through other sums; and products in sums, where the kernel does not allow
    their contraction. Not products with a constant: those of `ir.maths` are exact or survive it."""
    makers: dict[int, Op] = {}
    parts: dict[int, frozenset[int]] = {}  # of each sum: what is summed in it, sums among them
    known: set[int] = set()  # what a compiler may compute
    found: set[int] = set()
    contract = "contract" in kernel.fast
    for op in _single(kernel.body):
        value = op.results[0]
        if op.name == "const" or (op.name in PURE and known.issuperset(_ids(op.operands))):
            known.add(value.id)
        if not element_of(value.type).is_float:
            continue
        makers[value.id] = op
        if op.name not in (*_SUMS, "fma"):
            continue
        parts[value.id] = _parts(op, parts)
        if op.name == "fma":
            continue
        for value, other in (op.operands, op.operands[::-1]):
            maker = makers.get(value.id)
            if maker is None:
                continue
            if maker.name == "mul":
                if not contract and not any(_constant(v, makers) for v in maker.operands):
                    found.add(value.id)
            elif value.id in parts and _meets(parts[value.id], other, parts, known):
                found.add(value.id)
    return frozenset(found)


def _parts(op: Op, parts: dict[int, frozenset[int]]) -> frozenset[int]:
    """What is summed in a sum: its operands, and the nearest _MOST of what is summed in these."""
    operands = _ids(op.operands[2:] if op.name == "fma" else op.operands)
    found = frozenset(operands).union(*(parts.get(i, frozenset()) for i in operands))
    return found if len(found) <= _MOST else frozenset(operands)


def _meets(
    summed: frozenset[int], other: Value, parts: dict[int, frozenset[int]], known: set[int]
) -> bool:
    """Whether `other` could be gathered with what is summed in a sum. Compilers do so where that
    sum is there anyway: x - (s - y) with s = x + y is taken for (x + y) - s, whatever hides s."""
    if other.id in summed or not summed.isdisjoint(parts.get(other.id, ())):
        return True
    return other.id in known and not known.isdisjoint(summed)


def _ids(values: Sequence[Value]) -> list[int]:
    return [v.id for v in values]


def _constant(value: Value, makers: dict[int, Op]) -> bool:
    maker = makers.get(value.id)
    if maker is None:
        return False
    return maker.name == "const" or (
        maker.name in ("vector", "splat") and all(_constant(v, makers) for v in maker.operands)
    )


def _single(region: Region) -> Iterator[Op]:
    """Every op of one result, in order."""
    for op in region.ops:
        if len(op.results) == 1 and not op.regions:
            yield op
        for inner in op.regions:
            yield from _single(inner)
