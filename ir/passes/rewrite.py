"""The forward walk under fold, CSE, strength reduction and control simplification.

A `Rewriter` visits every op once, in program order, with its operands already replaced. Rules by
op name may answer with another op, with values that replace the results, or with None. What does
not change keeps its identity, so a pass without effect returns the very kernel that it was given.

Constants move to the head of the body, one op per distinct constant: they then dominate every
use and never stand in the way of matching or merging.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from operator import is_

from ..core import Attr, Kernel, Loc, Op, Region, Value, replaced, with_body
from ..dtypes import DType, FragmentType, Type, VectorType, bool_
from . import control
from .cse import Merger
from .effects import TERMINATORS, free_number

Answer = Value | Op | tuple[Value, ...] | None
Rule = Callable[["Rewriter", Op], Answer]
Rules = Mapping[str, tuple[Rule, ...]]

_MAX_STEPS = 8  # rules may hand an op on to each other this often


@dataclass(frozen=True)
class RuleSet:
    """Rules by op name, as the walk looks them up: by which operands are constants.

    every: tried where all are. some: where the first is and another is not. right: where others
    than the first are. plain: where none is. late: those tried on settled ops
    (`Rewriter.settled`).
    """

    every: Rules = field(default_factory=dict)
    some: Rules = field(default_factory=dict)
    right: Rules = field(default_factory=dict)
    plain: Rules = field(default_factory=dict)
    late: Rules = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        rules: Rules,
        *,
        every: Collection[Rule] = (),
        first: Collection[Rule] = (),
        constant: Collection[Rule] = (),
        plain: Mapping[Rule, Rule] | None = None,
        late: Rules | None = None,
    ) -> RuleSet:
        """every, first, constant: rules that need all operands, the first, any to be constant.
        plain: rules that stand for others where none is."""
        instead = plain or {}

        def without(*needs: Collection[Rule]) -> Rules:
            left = {
                name: tuple([r for r in rules[name] if not any(r in need for need in needs)])
                for name in rules
            }
            return {name: kept for name, kept in left.items() if kept}

        none = {
            name: tuple([instead.get(r, r) for r in kept])
            for name, kept in without(every, first, constant).items()
        }
        return cls(rules, without(every), without(every, first), none, late or {})


class Rewriter:
    """One walk over one kernel. `defs` maps a value number to the op that defines it.

    settled: `id` of ops that an earlier walk with these rules left as they are. While their
    operands stay the same values, no rules but the late ones are tried on them. A rule that looks
    at more than an op and its operands' numbers may miss a chance there.

    idle: `id` of ops, with at most one result and no regions, that are passed over while their
    operands stay the same values: they are settled, no late rule is for them and nothing new can
    be equal to them.
    """

    def __init__(
        self,
        kernel: Kernel,
        rules: RuleSet,
        *,
        merge: bool = False,
        flow: bool = False,
        convert_ifs: int = 0,
        settled: Collection[int] = (),
        idle: Collection[int] = (),
    ) -> None:
        self.kernel = kernel
        self.rules = rules
        self.settled = settled
        self.idle = idle
        self.flow = flow
        self.convert_ifs = convert_ifs
        self.subst: dict[int, Value] = {}
        self.defs: dict[int, Op] = {}
        self.known: dict[int, int] = {}  # bit patterns of scalar constants
        self.bits: dict[int, int] = {}  # the same and, per lane, of splats of constants
        self.consts: dict[tuple[int, str], Value] = {}
        self.entry: list[Op] = []
        self.lazy: dict[int, Op] = {}  # constants that no op uses so far
        self.out: list[Op] = []
        self.loc: Loc | None = None
        self.merger = Merger(kernel) if merge else None
        self.find = self.merger.find if self.merger else None
        self._next = -1

    def run(self) -> Kernel:
        body = self.kernel.body
        ops = body.ops
        head = 0
        while head < len(ops) and ops[head].name == "alloc":
            head += 1
        self.block(ops[head:])
        new = [*ops[:head], *self.entry, *self.out]
        if len(new) == len(ops) and all(map(is_, new, ops)):
            return self.kernel
        return with_body(self.kernel, Region(body.args, tuple(new)))

    # what rules use

    def fresh(self, type_: Type, hint: str = "") -> Value:
        """A new value."""
        if self._next < 0:
            self._next = free_number(self.kernel)
        self._next += 1
        return Value(self._next - 1, type_, hint)

    def const(self, bits: int, type_: Type) -> Value:
        """A constant scalar (at the head of the body), or a vector with it in every lane."""
        if isinstance(type_, VectorType | FragmentType):
            return self.emit("splat", (self.const(bits, type_.element),), type_)
        assert isinstance(type_, DType)
        bits &= 1 if type_.is_bool else (1 << type_.bits) - 1
        value = self.consts.get((bits, type_.name))
        if value is None:
            value = self.fresh(type_)
            self._constant(Op("const", (), (value,), (("bits", bits),)))
        elif value.id in self.lazy:
            self._need((value,))
        return value

    def truth(self, value: bool) -> Value:
        """The bool constant; its op is made when a first op turns out to use it."""
        bits = int(value)
        found = self.consts.get((bits, "bool"))
        if found is None:
            found = self.consts[bits, "bool"] = self.fresh(bool_)
            self.known[found.id] = self.bits[found.id] = bits
            self.lazy[found.id] = Op("const", (), (found,), (("bits", bits),))
        return found

    def emit(self, name: str, operands: Sequence[Value], type_: Type, **attrs: Attr) -> Value:
        """Append an op through the rules; the value that stands for its result."""
        result = self.fresh(type_)
        op = Op(name, tuple(operands), (result,), tuple(sorted(attrs.items())), (), self.loc)
        self.visit(op)
        return self.subst.get(result.id, result)

    # the walk

    def block(self, ops: Sequence[Op]) -> bool:
        """Rewrite ops into `out`; True where a terminator (kept or inlined) ended the block."""
        subst, idle = self.subst, self.idle
        defs, out = self.defs, self.out
        for op in ops:
            if subst:
                for v in op.operands:
                    if v.id in subst:
                        operands = replaced(op.operands, subst)
                        if self.lazy:
                            self._need(operands)
                        op = Op(op.name, operands, op.results, op.attrs, op.regions, op.loc)
                        break
            if id(op) in idle:
                if op.results:
                    defs[op.results[0].id] = op
                out.append(op)
            elif op.regions:
                self.loc = op.loc
                if control.rewrite(self, op):
                    if out[-1].name not in TERMINATORS:  # neither arm falls through
                        end = ops[-1]
                        out.append(end if end.name == "return" else Op("return", loc=op.loc))
                    return True
            elif op.name in TERMINATORS:
                out.append(op)
                return True
            else:
                self.visit(op)
        return False

    def visit(self, op: Op) -> None:
        """Rewrite one op without regions whose operands are final."""
        if op.name == "const":
            self._constant(op)
            return
        rules = self._rules(op)
        if rules is not None:
            self.loc = op.loc
            for rule in rules:
                answer = rule(self, op)
                if answer is not None:
                    rewritten = self._follow(op, answer)
                    if rewritten is None:
                        return
                    op = rewritten
                    break
        results = op.results
        find = self.find
        if find is not None and (found := find(op)) is not None:
            self.replace(results, found)
            return
        if results:
            self.defs[results[0].id] = op
            if op.name == "splat" and (bit := self.known.get(op.operands[0].id)) is not None:
                self.bits[results[0].id] = bit
        self.out.append(op)

    def _rules(self, op: Op) -> tuple[Rule, ...] | None:
        """The rules that may have an answer for an op."""
        rules = self.rules
        if id(op) in self.settled:
            return rules.late.get(op.name)
        bits, operands = self.bits, op.operands
        count = 0
        for v in operands:
            if v.id in bits:
                count += 1
        if not count:
            return rules.plain.get(op.name)
        if count == len(operands):
            return rules.every.get(op.name)
        return (rules.some if operands[0].id in bits else rules.right).get(op.name)

    def _follow(self, op: Op, answer: Answer) -> Op | None:
        """Act on a rule's answer, and on those to the op that it gives; the op to keep, if any."""
        results = op.results
        for _ in range(_MAX_STEPS):
            if not isinstance(answer, Op):
                values = (answer,) if isinstance(answer, Value) else answer or ()
                self.replace(results, values)
                return None
            op, answer = answer, None
            for rule in self._rules(op) or ():
                answer = rule(self, op)
                if answer is not None:
                    break
            if answer is None:
                return op
        return op

    def replace(self, results: Sequence[Value], values: Sequence[Value]) -> None:
        """Let `values` stand for `results` from here on."""
        subst = self.subst
        for old, new in zip(results, values, strict=True):
            subst[old.id] = subst.get(new.id, new)

    def ending(self, region: Region) -> Region:
        """A region that is nothing but its terminator."""
        (end,) = region.ops
        subst = self.subst
        operands = replaced(end.operands, subst)
        if all(map(is_, operands, end.operands)):
            return region
        if self.lazy:
            self._need(operands)
        return Region(region.args, (Op(end.name, operands, (), end.attrs, (), end.loc),))

    def region(self, region: Region) -> Region:
        """A region rewritten in a scope of its own."""
        if len(region.ops) == 1:  # its terminator
            return self.ending(region)
        saved, self.out = self.out, []
        mark = self.merger.enter() if self.merger else 0
        self.block(region.ops)
        out, self.out = self.out, saved
        if self.merger:
            self.merger.leave(mark)
        if len(out) == len(region.ops) and all(map(is_, out, region.ops)):
            return region
        return Region(region.args, tuple(out))

    def _need(self, values: Sequence[Value]) -> None:
        for v in values:
            if v.id in self.lazy:
                op = self.lazy.pop(v.id)
                self.defs[v.id] = op
                self.entry.append(op)

    def _constant(self, op: Op) -> None:
        value = op.results[0]
        bits: int = op.attrs[0][1]  # type: ignore[assignment]
        key = (bits, value.type.name)  # type: ignore[union-attr]
        seen = self.consts.get(key)
        if seen is not None:
            if self.lazy:
                self._need((seen,))
            self.subst[value.id] = seen
            return
        self.consts[key] = value
        self.known[value.id] = self.bits[value.id] = bits
        self.defs[value.id] = op
        self.entry.append(op)
