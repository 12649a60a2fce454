"""Integer values as sums: constant + sum of coefficient * value, modulo 2**bits."""

from __future__ import annotations

from dataclasses import dataclass

from ..core import Op, Value
from ..dtypes import DType

Terms = tuple[tuple[int, int], ...]  # value numbers and their coefficients
_LIMIT = 16  # terms beyond which a sum is taken as one opaque value


@dataclass(frozen=True, slots=True)
class Affine:
    """constant + sum(coefficient * value); terms are sorted by value number, none is 0."""

    terms: Terms
    constant: int

    def divisible(self, n: int) -> bool:
        """Whether all of the sum but the constant is a multiple of n (a power of two)."""
        return all(c % n == 0 for _, c in self.terms)


SUMS = frozenset({"const", "add", "sub", "mul", "shl", "neg"})


class AffineForms:
    """Affine forms of values, each computed once and when it is asked for."""

    def __init__(self) -> None:
        self._defs: dict[int, Op] = {}
        self._forms: dict[int, Affine] = {}

    def define(self, op: Op) -> None:
        """Note an op of `SUMS`: all values but integer sums and products with constants are
        opaque."""
        self._defs[op.results[0].id] = op

    def of(self, value: Value) -> Affine:
        """The form of a value whose definition, with all it needs, has been noted."""
        forms = self._forms
        pending = [value]
        while pending:  # not by recursion: chains of sums can be long
            v = pending[-1]
            op = None if v.id in forms else self._defs.get(v.id)
            needed = [] if op is None else [o for o in op.operands if o.id not in forms]
            if needed:
                pending += needed
                continue
            pending.pop()
            if v.id not in forms:
                forms[v.id] = self._of_op(v, op)
        return forms[value.id]

    def _of_op(self, value: Value, op: Op | None) -> Affine:
        t = value.type
        if op is not None and isinstance(t, DType) and t.is_int:
            form = self._form(op, t)
            if form is not None and len(form.terms) <= _LIMIT:
                return form
        return Affine(((value.id, 1),), 0)

    def _form(self, op: Op, t: DType) -> Affine | None:
        mask = (1 << t.bits) - 1
        if op.name == "const":
            bits = op.attrs[0][1]
            assert isinstance(bits, int)
            return Affine((), bits)
        forms = self._forms
        a = forms[op.operands[0].id]
        if op.name == "neg":
            return _scaled(a, -1, mask)
        b = forms[op.operands[1].id]
        if op.name == "add":
            return _sum(a, b, mask)
        if op.name == "sub":
            return _sum(a, _scaled(b, -1, mask), mask)
        if op.name == "shl":
            return _scaled(a, 1 << (b.constant & (t.bits - 1)), mask) if not b.terms else None
        if not b.terms:
            return _scaled(a, b.constant, mask)
        return _scaled(b, a.constant, mask) if not a.terms else None


def _scaled(a: Affine, factor: int, mask: int) -> Affine:
    terms = tuple([(v, c * factor & mask) for v, c in a.terms if c * factor & mask])
    return Affine(terms, a.constant * factor & mask)


def _sum(a: Affine, b: Affine, mask: int) -> Affine:
    if not b.terms:
        return Affine(a.terms, (a.constant + b.constant) & mask)
    total = dict(a.terms)
    for v, c in b.terms:
        total[v] = (total.get(v, 0) + c) & mask
    terms = tuple(sorted((v, c) for v, c in total.items() if c))
    return Affine(terms, (a.constant + b.constant) & mask)
