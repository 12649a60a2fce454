"""Integer values as sums of products, and their bounds as expressions of `ir.abi.evaluate`."""

from __future__ import annotations

from .core import Kernel, Op, Region, Value, const_value
from .dtypes import DType, MemType
from .interface import Attr

Expr = Attr
Atom = tuple[str, str | int]  # ("count" | "scalar", name), ("grid" | "group" | "local", dimension)
Term = tuple[Atom, ...]  # a product; () is the constant. An Atom ("value", number) is opaque
Sum = dict[Term, int]

_EXACT = ("count", "scalar", "grid")
_FLIP = {"min": "max", "max": "min", "either": "either"}
_TERMS = 24  # of a sum; beyond it, a value is opaque
_STEPS = 400  # bounds worked out for one kernel; beyond them, unknown


# expressions, folded where both sides are numbers


def add(a: Expr, b: Expr) -> Expr:
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    if isinstance(a, int):
        a, b = b, a
    if b == 0:
        return a
    if isinstance(b, int) and isinstance(a, tuple) and a[0] == "add" and isinstance(a[2], int):
        return add(a[1], a[2] + b)
    return ("add", a, b)


def mul(a: Expr, b: Expr) -> Expr:
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    if isinstance(a, int):
        a, b = b, a
    if b == 0:
        return 0
    if isinstance(b, int) and isinstance(a, tuple) and a[0] == "mul" and isinstance(a[2], int):
        return mul(a[1], a[2] * b)
    return a if b == 1 else ("mul", a, b)


def floordiv(a: Expr, b: Expr) -> Expr:
    """a // b; b is at least 1."""
    if isinstance(a, int) and isinstance(b, int):
        return a // b
    return a if b == 1 else ("floordiv", a, b)


def ceil_div(a: Expr, b: int) -> Expr:
    """a / b rounded up; b is at least 1."""
    if isinstance(a, int):
        return -(-a // b)
    return a if b == 1 else ("ceil_div", a, b)


def _extreme(name: str, expressions: tuple[Expr, ...]) -> Expr:
    kept: dict[Expr, None] = {}
    numbers: list[int] = []
    for e in expressions:
        if isinstance(e, tuple) and e[0] == name and isinstance(e[2], int):
            kept[e[1]] = None
            numbers.append(e[2])
        elif isinstance(e, int):
            numbers.append(e)
        else:
            kept[e] = None
    parts: list[Expr] = list(kept)
    if numbers:
        parts.append((min if name == "min" else max)(numbers))
    *first, result = parts
    for e in reversed(first):
        result = (name, e, result)
    return result


def least(*expressions: Expr) -> Expr:
    return _extreme("min", expressions)


def greatest(*expressions: Expr) -> Expr:
    return _extreme("max", expressions)


def positive(e: Expr) -> bool:
    """Whether an expression is surely above 0 in a launch that runs anything."""
    if isinstance(e, tuple) and e[0] == "mul":
        return positive(e[1]) and positive(e[2])
    return e > 0 if isinstance(e, int) else isinstance(e, tuple) and e[0] == "grid"


# sums


def plus(a: Sum, b: Sum) -> Sum:
    total = dict(a)
    for term, n in b.items():
        total[term] = total.get(term, 0) + n
    return {term: n for term, n in total.items() if n}


def scaled(a: Sum, factor: int) -> Sum:
    return {term: n * factor for term, n in a.items()} if factor else {}


def constant(a: Sum) -> int | None:
    """The value of a sum that is a number."""
    return a.get((), 0) if a.keys() <= {()} else None


def minus(a: Sum) -> Sum:
    return scaled(a, -1)


def times(a: Sum, b: Sum) -> Sum:
    total: Sum = {}
    for s, n in a.items():
        total = plus(total, {tuple(sorted((*s, *t), key=str)): n * m for t, m in b.items()})
    return total


class Bounds:
    """Bounds of the integer values of a kernel, for any invocation of a launch."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.defs: dict[int, Op] = {}
        self.sums: dict[int, Sum] = {}
        self.ranges: dict[int, tuple[Sum, Sum]] = {}  # of counters: first, last
        self.arms: dict[int, list[Value]] = {}  # of an if's results: what each arm yields
        self.known: dict[frozenset[tuple[Term, int]], Expr | None] = {}
        self.steps = 0
        self.buffers: dict[int, str] = {}
        for param, value in zip(kernel.params, kernel.body.args, strict=True):
            if param.is_memory:
                self.buffers[value.id] = param.name
            elif param.dtype.is_int:
                self.sums[value.id] = {(("scalar", param.name),): 1}
        self.define(kernel.body)

    def define(self, region: Region) -> None:
        """Note the ops of a region and of those inside."""
        defs = self.defs
        for op in region.ops:
            for value in op.results:
                defs[value.id] = op
            if op.regions:
                if op.results and op.name in ("if", "switch"):
                    ends = [r.terminator for r in op.regions if r.terminator.name == "yield"]
                    for n, value in enumerate(op.results):
                        self.arms[value.id] = [end.operands[n] for end in ends]
                for inner in op.regions:
                    self.define(inner)

    def count_up(self, variable: Value, low: Value, high: Value) -> None:
        """Note the variable of a loop from low to high - 1."""
        self.ranges[variable.id] = self.of(low), plus(self.of(high), {(): -1})

    def halves(self, value: Value, of: Value) -> bool:
        """Whether a value is another divided by a constant of at least 2."""
        op = self.defs.get(value.id)
        if op is None or op.name not in ("floordiv", "shr") or op.operands[0] != of:
            return False
        by = constant(self.of(op.operands[1]))
        return by is not None and by >= (2 if op.name == "floordiv" else 1)

    def of(self, value: Value) -> Sum:
        """A value as a sum."""
        found = self.sums.get(value.id)
        if found is None:
            op = self.defs.get(value.id)
            found = self._of(op, value) if op is not None else None
            if found is None or len(found) > _TERMS:
                itself: Sum = {(("value", value.id),): 1}
                found = itself
            self.sums[value.id] = found
        return found

    def _of(self, op: Op, value: Value) -> Sum | None:
        dtype = value.type
        if not isinstance(dtype, DType) or not dtype.is_int:
            return None
        name, operands = op.name, op.operands
        if name == "const":
            number = int(const_value(op))
            # What wraps is meant as the negative number: x + 0xffffffff is x - 1.
            most = dtype.max >> (not dtype.is_signed)
            number = number if number <= most else number - (1 << dtype.bits)
            return {(): number} if number else {}
        if name in ("global_id", "local_id", "group_id", "num_groups"):
            return self._id(name, int(str(op.attr("dim"))))
        if name == "local_linear_id":
            x, y, _ = self.kernel.workgroup
            places = ((("local", 0),), 1), ((("local", 1),), x), ((("local", 2),), x * y)
            return dict(places)
        if name == "count":
            memory = operands[0].type
            if operands[0].id in self.buffers:
                return {(("count", self.buffers[operands[0].id]),): 1}
            return {(): memory.count} if isinstance(memory, MemType) and memory.count else None
        if name == "convert":
            source = operands[0].type
            return self.of(operands[0]) if isinstance(source, DType) and source.is_int else None
        if name == "neg":
            return minus(self.of(operands[0]))
        if name in ("add", "sub", "mul", "shl"):
            a, b = map(self.of, operands)
            if name == "mul":
                return times(a, b) if len(a) * len(b) <= _TERMS else None
            if name == "shl":
                by = constant(b)
                return None if by is None else scaled(a, 1 << (by % dtype.bits))
            return plus(a, b if name == "add" else minus(b))
        return None

    def _id(self, name: str, d: int) -> Sum:
        group, local = ((("group", d),), (("local", d),))
        if name == "global_id":
            return {group: self.kernel.workgroup[d], local: 1}
        return {{"local_id": local, "group_id": group}.get(name, (("grid", d),)): 1}

    # bounds

    def lower(self, s: Sum) -> Expr | None:
        """An expression that a sum never falls below; None where the launch does not tell."""
        negated = self.upper(minus(s))
        return None if negated is None else mul(negated, -1)

    def upper(self, s: Sum) -> Expr | None:
        """An expression that a sum never exceeds; None where the launch does not tell."""
        key = frozenset(s.items())
        if key not in self.known:
            self.steps += 1
            self.known[key] = None if self.steps > _STEPS else self._upper(s)
        return self.known[key]

    def _upper(self, s: Sum) -> Expr | None:
        for term, n in s.items():
            if len(term) == 1 and term[0][0] == "value":
                found = self._alternatives(int(term[0][1]), n > 0)
                if found is not None:
                    kind, sums = found
                    rest = {t: m for t, m in s.items() if t != term}
                    ends = [self.upper(plus(rest, scaled(a, n))) for a in sums]
                    known = [e for e in ends if e is not None]
                    if (kind if n > 0 else _FLIP[kind]) == "min":
                        return least(*known) if known else None
                    return greatest(*known) if known and len(known) == len(ends) else None
        total: Expr = 0
        for term, n in s.items():
            factors = [self._atom(atom, n > 0) for atom in term]
            product: Expr = n
            for factor, atom in zip(factors, term, strict=True):
                if factor is None:
                    return None
                bounded = len(term) > 1 and atom[0] not in _EXACT
                product = mul(greatest(factor, 0) if bounded else factor, product)
            total = add(total, product)
        return total

    def _alternatives(self, number: int, most: bool) -> tuple[str, list[Sum]] | None:
        """The values that a value is chosen from, and how."""
        if number in self.ranges:
            return "either", [self.ranges[number][most]]
        if number in self.arms:
            return "either", [self.of(v) for v in self.arms[number]]
        op = self.defs.get(number)
        if op is None or op.name not in ("min", "max", "select"):
            return None
        a, b = map(self.of, op.operands[-2:])
        if op.name == "select":
            return "either", self._chosen(op.operands[0], a, b)
        return op.name, [a, b]

    def _chosen(self, condition: Value, a: Sum, b: Sum) -> list[Sum]:
        """What a `select` can give: one of the two where a step is asked for its known sign."""
        test = self.defs.get(condition.id)
        if test is not None and test.name in ("gt", "lt") and not self.of(test.operands[1]):
            lowest = self.lower(self.of(test.operands[0]))
            if lowest is not None and positive(lowest):
                return [a if test.name == "gt" else b]
        return [a, b]

    def _atom(self, atom: Atom, most: bool) -> Expr | None:
        kind, name = atom
        if kind in _EXACT:
            return (kind, name)
        if kind == "group":
            return add(("grid", name), -1) if most else 0
        if kind == "local":
            return self.kernel.workgroup[int(name)] - 1 if most else 0
        number = int(name)
        if self._alternatives(number, most) is not None:
            return self.upper({(atom,): 1}) if most else self.lower({(atom,): 1})
        op = self.defs.get(number)
        return None if op is None else self._op(op, most)

    def _op(self, op: Op, most: bool) -> Expr | None:
        name, width = op.name, self.kernel.subgroup or 1
        if name in ("subgroup_id", "num_subgroups", "subgroup_lane"):
            groups = -(-self.kernel.workgroup_count // width)
            ends = {"subgroup_id": groups - 1, "subgroup_lane": width - 1}
            return ends.get(name, groups) if most or name == "num_subgroups" else 0
        if name in ("floordiv", "shr"):
            a, b = map(self.of, op.operands)
            if name == "shr":
                by = constant(b)
                if by is None or by < 0:
                    return None
                b = {(): 1 << by}
            top = self.upper(a) if most else self.lower(a)
            over = self.lower(b) if most else self.upper(b)
            return None if top is None or over is None else floordiv(top, greatest(over, 1))
        if name == "mod":
            end = self.upper(self.of(op.operands[1])) if most else 1
            return None if end is None else add(end, -1)
        if name == "and":
            masks = [constant(self.of(v)) for v in op.operands]
            known = [m for m in masks if m is not None and m >= 0]
            return (min(known) if most else 0) if known else None
        if name == "convert" and isinstance(t := op.operands[0].type, DType) and t.is_bool:
            return int(most)
        return None
