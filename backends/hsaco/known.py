"""Bits of integers that are the same whatever a kernel is given, as LLVM may find them."""

from __future__ import annotations

from collections.abc import Callable

from ...ir.core import Op, Value
from ...ir.dtypes import DType, VectorType, element_of, lanes_of
from ...ir.ops import ROWS
from ...ir.ops.table import Effect

Bits = tuple[int, int]  # masks of the bits that are 0, and of those that are 1
Known = dict[int, tuple[Bits, ...]]  # of each lane, by value
_COUNTS = frozenset(("popcount", "clz", "ctz"))
_MOVES = frozenset(("vector", "splat", "extract", "insert", "shuffle", "bitcast"))
_NOTHING = (0, 0)


def width(value: Value) -> int:
    """Bits of an integer; 0 for anything else."""
    if not isinstance(value.type, DType | VectorType):
        return 0
    element = element_of(value.type)
    return 0 if element.is_float else 1 if element.is_bool else element.bits


def note(known: Known, op: Op) -> None:
    """Take in the result of an op, whose operands have been taken in; nothing if it is unknown."""
    if len(op.results) != 1 or not width(op.result):
        return
    if ROWS[op.name].effect not in (Effect.PURE, Effect.ID):
        return
    lanes = _moved(known, op)
    if lanes is None:
        count = lanes_of(op.result.type)
        given = [_lanes(known, v, count) for v in op.operands]
        lanes = tuple(_lane(op, [lane[n] for lane in given]) for n in range(count))
    if any(lane != _NOTHING for lane in lanes):
        known[op.result.id] = lanes


def _lanes(known: Known, value: Value, count: int) -> tuple[Bits, ...]:
    found = known.get(value.id, (_NOTHING,))
    return found if len(found) == count else found[:1] * count


def _moved(known: Known, op: Op) -> tuple[Bits, ...] | None:
    """The lanes of what only moves some, or takes bits as others."""
    name = op.name
    if name not in _MOVES:
        return None
    given = [lane for v in op.operands for lane in _lanes(known, v, lanes_of(v.type))]
    if name == "bitcast":
        return _recast(given, width(op.operands[0]), width(op.result), lanes_of(op.result.type))
    if name == "shuffle":
        lanes = op.attr("lanes")
        assert isinstance(lanes, tuple)
        return tuple(given[n] for n in lanes if isinstance(n, int))
    if name in ("vector", "splat"):
        return tuple(given) * (lanes_of(op.result.type) // len(given))
    lane = op.attr("lane")
    assert isinstance(lane, int)
    if name == "extract":
        return (given[lane],)
    return (*given[:lane], given[-1], *given[lane + 1 : -1])


def _recast(given: list[Bits], bits: int, wanted: int, count: int) -> tuple[Bits, ...]:
    """The bits of all lanes, the first one lowest, as lanes of other widths."""
    zeros, ones = (sum(lane[k] << n * bits for n, lane in enumerate(given)) for k in (0, 1))
    mask = (1 << wanted) - 1
    return tuple((zeros >> n * wanted & mask, ones >> n * wanted & mask) for n in range(count))


def _lane(op: Op, given: list[Bits]) -> Bits:
    """What is known of one lane of a result."""
    bits = width(op.result)
    mask = (1 << bits) - 1
    if op.name == "const":
        word = op.attr("bits")
        assert isinstance(word, int)
        return ~word & mask, word & mask
    if op.name in _COUNTS:
        return mask & ~0x7F, 0
    if ROWS[op.name].effect is Effect.ID:  # below 2**31 each
        return 1 << bits - 1, 0
    if op.name == "convert":
        return _converted(op, given[0], bits)
    if op.name == "select":
        (a, b), (c, d) = given[1:]
        return a & c, b & d
    rule = _RULES.get(op.name)
    zeros, ones = rule(op, given, bits) if rule else _NOTHING
    return zeros & mask, ones & mask


def _converted(op: Op, given: Bits, bits: int) -> Bits:
    (source,) = op.operands
    count, mask = width(source), (1 << bits) - 1
    if not count:
        return _NOTHING
    above = mask & -(1 << count)
    zeros, ones = given
    if above and element_of(source.type).is_signed:
        sign = 1 << count - 1
        return (zeros | above * bool(zeros & sign)) & mask, (
            ones | above * bool(ones & sign)
        ) & mask
    return (zeros | above) & mask, ones & mask


def _and(op: Op, given: list[Bits], bits: int) -> Bits:
    (a, b), (c, d) = given
    return a | c, b & d


def _or(op: Op, given: list[Bits], bits: int) -> Bits:
    (a, b), (c, d) = given
    return a & c, b | d


def _xor(op: Op, given: list[Bits], bits: int) -> Bits:
    (a, b), (c, d) = given
    return a & c | b & d, a & d | b & c


def _not(op: Op, given: list[Bits], bits: int) -> Bits:
    return given[0][1], given[0][0]


def _size(given: Bits, bits: int) -> int:
    """Bits that are not 0 at the top for certain."""
    return (~given[0] & (1 << bits) - 1).bit_length()


def _below(count: int, bits: int) -> Bits:
    return (-(1 << count) if count < bits else 0), 0


def _add(op: Op, given: list[Bits], bits: int) -> Bits:
    return _sum(given, bits, 0)


def _sub(op: Op, given: list[Bits], bits: int) -> Bits:
    zeros, ones = given[-1]
    left = given[0] if len(given) > 1 else ((1 << bits) - 1, 0)  # of a negation: 0
    return _sum([left, (ones, zeros)], bits, 1)


def _sum(given: list[Bits], bits: int, carry: int) -> Bits:
    """A bit is known where both are and what is carried to it is: it is one in the sum of the least
    numbers that there may be, or none in that of the greatest."""
    mask = (1 << bits) - 1
    (a, b), (c, d) = given
    greatest, least = (~a & mask) + (~c & mask) + carry, b + d + carry
    carried = ~(greatest ^ a ^ c) | (least ^ b ^ d)
    sure = (a | b) & (c | d) & carried & mask
    return ~greatest & sure, least & sure


def _mul(op: Op, given: list[Bits], bits: int) -> Bits:
    return _below(sum(_size(g, bits) for g in given), bits)


def _extreme(op: Op, given: list[Bits], bits: int) -> Bits:
    """One of the two; unsigned, not above or below either."""
    zeros, ones = given[0][0] & given[1][0], given[0][1] & given[1][1]
    if element_of(op.result.type).is_signed:
        return zeros, ones
    if op.name == "min":
        return zeros | _below(min(_size(g, bits) for g in given), bits)[0], ones
    return zeros, ones | max(_leading(g[1], bits) for g in given)


def _leading(mask: int, bits: int) -> int:
    """The bits at the top of a mask that follow each other."""
    return -(1 << (~mask & (1 << bits) - 1).bit_length()) & (1 << bits) - 1


def _least(op: Op, given: list[Bits], bits: int) -> Bits:
    """Quotients and remainders of what is not negative, by what is not, are no greater."""
    if element_of(op.result.type).is_signed and not given[1][0] >> bits - 1:
        return _NOTHING
    return _below(_size(given[0], bits), bits)


def _shift(op: Op, given: list[Bits], bits: int) -> Bits:
    (zeros, ones), (low, high) = given
    if low | high != (1 << bits) - 1:  # not by a constant
        if op.name == "shl":
            return _NOTHING
        signed = element_of(op.result.type).is_signed
        return _leading(zeros, bits), _leading(ones, bits) if signed else 0
    by, mask = high % bits, (1 << bits) - 1
    if op.name == "shl":
        return zeros << by | (1 << by) - 1, ones << by
    top = mask & ~(mask >> by)
    if not element_of(op.result.type).is_signed:
        return zeros >> by | top, ones >> by
    sign = 1 << bits - 1
    return zeros >> by | top * bool(zeros & sign), ones >> by | top * bool(ones & sign)


_RULES: dict[str, Callable[[Op, list[Bits], int], Bits]] = {
    "and": _and,
    "or": _or,
    "xor": _xor,
    "not": _not,
    "add": _add,
    "mul": _mul,
    "sub": _sub,
    "neg": _sub,
    "min": _extreme,
    "max": _extreme,
    "floordiv": _least,
    "mod": _least,
    "shl": _shift,
    "shr": _shift,
}
