"""The verifier: what a kernel must be before anything reads it.

`verify` checks a kernel against the op table and against the structure that `ir.core` describes.
It is total: whatever kernel it is given, it returns or raises `VerifyError`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NoReturn

from .core import Kernel, Loc, Op, Region, Value, ops_by_name, ops_named, types_of, walk
from .dtypes import DType, FragmentType, MemType, Space, Type, bool_
from .ops import ROWS, Effect, OpTypeError, infer_op
from .uniformity import check_control
from .verify_attrs import REQUIRED, check_attrs
from .verify_header import HeaderChecker, VerifyError

_CHOICES = ("if", "switch")
_OWNERS = (*_CHOICES, "for", "while")
TERMINATORS = frozenset({"yield", "continue", "break", "condition", "return"})
_SUBGROUP_IDS = frozenset({"subgroup_id", "subgroup_lane", "num_subgroups"})
_COLLECTIVE = _SUBGROUP_IDS | {n for n, row in ROWS.items() if row.effect is Effect.CONVERGENT}
FRAGMENT_SUBGROUPS = (4, 8, 16, 32, 64)  # that a fragment can be spread over
MAX_DEPTH = 190  # of regions; the text form reads 200
_HINT = re.compile(r"\w*")


def verify(kernel: Kernel, inferred: bool = False) -> None:
    """Raise VerifyError where `kernel` is malformed or control is not uniform where it must be.

    inferred: the op table gave the types of all results when the ops were made, and is not asked
    again.
    """
    try:
        _Verifier(kernel, inferred).kernel_()
    except VerifyError:
        raise
    except (RecursionError, TypeError, ValueError, KeyError, IndexError, AttributeError) as error:
        # Parts of the wrong Python type: found by whatever looked at them first.
        name = str(getattr(kernel, "name", kernel))
        raise VerifyError(name, f"malformed: {type(error).__name__}: {error}") from error


def shared_bytes(kernel: Kernel) -> int:
    """Bytes of workgroup memory that a kernel declares."""
    total = 0
    for op in ops_named(kernel.body, "alloc"):
        memory = op.result.type
        if isinstance(memory, MemType) and memory.space is Space.WORKGROUP:
            total += (memory.count or 0) * memory.element.bytes
    return total


def check_limits(
    kernel: Kernel,
    shared: int | None = None,
    invocations: int | None = None,
    size: tuple[int, int, int] | None = None,
) -> None:
    """Raise VerifyError where a kernel exceeds a target's limits.

    shared: bytes of workgroup memory; invocations, size: of a workgroup.
    """
    used = shared_bytes(kernel)
    if shared is not None and used > shared:
        arrays = [op for op in ops_named(kernel.body, "alloc") if _is_shared(op)]
        largest = max(arrays, key=_array_bytes)
        message = f"workgroup arrays of {used} bytes exceed the limit of {shared} bytes"
        raise VerifyError(kernel.name, message, largest.loc)
    if invocations is not None and kernel.workgroup_count > invocations:
        message = f"a workgroup of {kernel.workgroup_count} invocations exceeds {invocations}"
        raise VerifyError(kernel.name, message)
    if size is not None and any(a > b for a, b in zip(kernel.workgroup, size, strict=True)):
        raise VerifyError(kernel.name, f"a workgroup of {kernel.workgroup} exceeds {size}")


def _is_shared(op: Op) -> bool:
    memory = op.result.type
    return isinstance(memory, MemType) and memory.space is Space.WORKGROUP


def _array_bytes(op: Op) -> int:
    memory = op.result.type
    return (memory.count or 0) * memory.element.bytes if isinstance(memory, MemType) else 0


class _Verifier:
    def __init__(self, kernel: Kernel, inferred: bool) -> None:
        self.k, self.inferred = kernel, inferred
        self.defined: dict[int, Type] = {}  # values in scope
        self.scope: list[int] = []  # their numbers, those of the innermost region last
        self.seen: set[int] = set()  # numbers in use
        self.hints: set[str] = {""}  # that are as they should be
        self.loops: list[tuple[Type, ...]] = []  # carried types of the loops around
        self.in_condition = False
        self.depth = 0
        self.fragments = False  # whether a value is one

    def fail(self, message: str, loc: Loc | None = None, cause: Loc | None = None) -> NoReturn:
        raise VerifyError(str(self.k.name), message, loc, cause)

    # the kernel

    def kernel_(self) -> None:
        k = self.k
        if not isinstance(k, Kernel):
            self.fail(f"expected a Kernel, found {type(k).__name__}")
        checker = HeaderChecker(k)
        checker.header()
        if len(k.body.args) != len(k.params):
            self.fail(f"{len(k.params)} parameters, but the body takes {len(k.body.args)} values")
        for param, value in zip(k.params, k.body.args, strict=True):
            checker.param(param, value)
            self.define(value, None)
        self.ops(k.body, "body", ("return",))
        held = [op for op in walk(k.body) if _gives_fragment(op)] if self.fragments else []
        first = id(held[0]) if held else 0
        uses = None
        if held or not _COLLECTIVE.isdisjoint(ops_by_name(k.body)):
            found = (op for op in walk(k.body) if op.name in _COLLECTIVE or id(op) == first)
            uses = next(found, None)
        if uses is not None:
            self.subgroups(uses)
        if held and k.subgroup not in FRAGMENT_SUBGROUPS:
            holder = held[0]
            sizes = ", ".join(map(str, FRAGMENT_SUBGROUPS))
            self.fail(f"fragments are held by subgroups of {sizes}, not {k.subgroup}", holder.loc)
        for violation in check_control(k, bool(held)):
            cause = violation.cause.loc if violation.cause is not None else None
            self.fail(violation.message, violation.op.loc, cause)

    def subgroups(self, op: Op) -> None:
        size = self.k.subgroup
        if size is None:
            self.fail(f"{op.name} in a kernel without a subgroup size", op.loc)
        count = self.k.workgroup_count
        if count % size:
            self.fail(
                f"the workgroup of {count} invocations is no multiple of the subgroup size {size}",
                op.loc,
            )

    # values

    def define(self, value: Value, op: Op | None) -> None:
        if not isinstance(value, Value) or type(value.id) is not int:
            self.fail(f"{value!r} is no value", None if op is None else op.loc)
        number, hint = value.id, value.hint
        if number in self.seen:
            self.fail(f"value %{number} is defined twice", None if op is None else op.loc)
        if hint not in self.hints:
            if not _HINT.fullmatch(hint):
                self.fail(f"hint {hint!r} of %{number}", None if op is None else op.loc)
            self.hints.add(hint)
        self.seen.add(number)
        self.scope.append(number)
        self.defined[number] = value.type
        if type(value.type) is FragmentType:
            self.fragments = True

    def misuse(self, value: Value, op: Op) -> NoReturn:
        """An operand that is not defined, or with another type."""
        known = self.defined.get(value.id)
        if known is None:
            where = "out of its region" if value.id in self.seen else "before it is defined"
            self.fail(f"{op.name} uses %{value.id} {where}", op.loc)
        self.fail(f"{op.name} uses %{value.id} as {value.type}, but it is {known}", op.loc)

    # regions

    def region(
        self, region: Region, op: Op, ends: tuple[str, ...], results: Sequence[Type]
    ) -> None:
        """A region of `op`, which may end in `ends`; `results` are what its yield gives."""
        mark = len(self.scope)
        for arg in region.args:
            if isinstance(arg.type, MemType):
                message = f"a region argument of {op.name} is {arg.type}; memory is not carried"
                self.fail(message, op.loc)
            self.define(arg, op)
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.fail(f"regions nest deeper than {MAX_DEPTH}", op.loc)
        self.ops(region, op.name, ends, tuple(results))
        self.depth -= 1
        for number in self.scope[mark:]:
            del self.defined[number]
        del self.scope[mark:]

    def ops(
        self, region: Region, owner: str, ends: tuple[str, ...], results: tuple[Type, ...] = ()
    ) -> None:
        if not region.ops:
            self.fail(f"a region of {owner} is empty; it needs a terminator")
        closed: Op | None = None  # an if or switch that control does not come behind
        end = len(region.ops) - 1
        seen, scope, defined, hints = self.seen, self.scope, self.defined, self.hints
        inferred = self.inferred
        known = defined.get
        for n, op in enumerate(region.ops):
            if not isinstance(op, Op):
                self.fail(f"{op!r} is no op")
            name = op.name
            if name not in ROWS:
                self.fail(f"no op is called {name!r}", op.loc)
            ends_here = name in TERMINATORS
            if ends_here is not (n == end) or closed is not None:
                self.misplaced(op, owner, n == end, closed)
            for value in op.operands:
                if known(value.id, self) is not value.type:
                    self.misuse(value, op)
            if (op.attrs or name in REQUIRED) and (problem := check_attrs(op, self.k)):
                self.fail(problem, op.loc)
            if ends_here:
                self.terminator(op, owner, ends, results)
                continue
            if op.regions or name in _OWNERS:
                self.owner(op, owner)
                if name in _CHOICES and not any(r.ops[-1].name == "yield" for r in op.regions):
                    closed = op
            elif not inferred or name == "alloc":
                self.plain(op, owner)
            for value in op.results:
                # What `define` does, without a call for the usual value.
                if (
                    type(value) is not Value
                    or type(number := value.id) is not int
                    or number in seen
                    or value.hint not in hints
                    or type(value.type) is FragmentType
                ):
                    self.define(value, op)
                    continue
                seen.add(number)
                scope.append(number)
                defined[number] = value.type

    def misplaced(self, op: Op, owner: str, last: bool, closed: Op | None) -> None:
        """Fail where an op stands behind what control never leaves, or a terminator not at the end
        or another op there."""
        name, ends_here = op.name, op.name in TERMINATORS
        if closed is not None and not ends_here:
            self.fail(f"{name} stands behind a {closed.name} that control never leaves", op.loc)
        if ends_here and not last:
            self.fail(f"{name} stands within a region of {owner}, not at its end", op.loc)
        if last and not ends_here:
            self.fail(f"a region of {owner} ends in {name}, not in a terminator", op.loc)

    def owner(self, op: Op, owner: str) -> None:
        if op.name in _CHOICES:
            self.choice(op)
        elif op.name == "for":
            self.for_(op)
        elif op.name == "while":
            self.while_(op)
        else:
            self.plain(op, owner)

    def plain(self, op: Op, owner: str) -> None:
        if op.regions:
            self.fail(f"{op.name} has regions", op.loc)
        if op.name == "alloc" and owner != "body":
            self.fail(
                "alloc stands inside a region; arrays are declared at the top of the body", op.loc
            )
        try:
            attrs = () if op.name == "const" else op.attrs
            infer_op(op.name, types_of(op.operands), attrs, types_of(op.results))
        except OpTypeError as error:
            self.fail(f"{op.name}: {error}", op.loc)

    def choice(self, op: Op) -> None:
        if len(op.operands) != 1:
            self.fail(f"{op.name} takes 1 operand, not {len(op.operands)}", op.loc)
        wanted = op.operands[0].type
        if op.name == "if":
            if wanted != bool_:
                self.fail(f"the condition of an if is bool, not {wanted}", op.loc)
            if len(op.regions) != 2:
                self.fail(f"an if has 2 regions, not {len(op.regions)}", op.loc)
        results = self.result_types(op)
        for region in op.regions:
            if region.args:
                self.fail(f"a region of {op.name} has arguments", op.loc)
            jumps = ("break", "continue") if self.loops and not self.in_condition else ()
            ends = ("yield", *jumps, *(() if self.in_condition else ("return",)))
            self.region(region, op, ends, results)
        if results and not any(r.ops[-1].name == "yield" for r in op.regions):
            self.fail(f"no region of {op.name} yields its results", op.loc)

    def result_types(self, op: Op) -> tuple[Type, ...]:
        types = tuple([v.type for v in op.results])
        for t in types:
            if isinstance(t, MemType):
                self.fail(f"a result of {op.name} is {t}", op.loc)
        return types

    def for_(self, op: Op) -> None:
        if len(op.operands) < 2:
            self.fail("a for takes its bounds", op.loc)
        if len(op.regions) != 1:
            self.fail(f"a for has 1 region, not {len(op.regions)}", op.loc)
        low, high = (v.type for v in op.operands[:2])
        if not (isinstance(low, DType) and low.is_int and low == high):
            self.fail(f"the bounds of a for are integers of one type, not {low} and {high}", op.loc)
        carried = self.carried(op, op.operands[2:])
        self.takes(op, op.regions[0], (low, *carried))
        self.body(op, op.regions[0], carried)

    def takes(self, op: Op, region: Region, wanted: tuple[Type, ...]) -> None:
        """Fail where a region of a loop has arguments of other types."""
        args = tuple([v.type for v in region.args])
        if args != wanted:
            message = f"a region of a {op.name} takes {_types(wanted)}, not {_types(args)}"
            self.fail(message, op.loc)

    def while_(self, op: Op) -> None:
        if len(op.regions) != 2:
            self.fail(f"a while has 2 regions, not {len(op.regions)}", op.loc)
        carried = self.carried(op, op.operands)
        for region in op.regions:
            self.takes(op, region, carried)
        outer, self.in_condition = self.in_condition, True
        self.region(op.regions[0], op, ("condition",), ())
        self.in_condition = outer
        self.body(op, op.regions[1], carried)

    def carried(self, op: Op, inits: tuple[Value, ...]) -> tuple[Type, ...]:
        types, results = tuple([v.type for v in inits]), self.result_types(op)
        if types != results:
            message = f"{op.name} starts with {_types(types)}, but gives {_types(results)}"
            self.fail(message, op.loc)
        return types

    def body(self, op: Op, region: Region, carried: tuple[Type, ...]) -> None:
        outer, self.in_condition = self.in_condition, False
        self.loops.append(carried)
        # A loop within a condition may not return: the invocation is still deciding.
        ends = ("continue", "break") if outer else ("continue", "break", "return")
        self.region(region, op, ends, ())
        self.loops.pop()
        self.in_condition = outer

    def terminator(
        self, op: Op, owner: str, ends: tuple[str, ...], results: tuple[Type, ...]
    ) -> None:
        if op.name not in ends:
            expected = " or ".join(ends)
            self.fail(
                f"a region of {owner} cannot end in {op.name} here; expected {expected}", op.loc
            )
        if op.results or op.regions:
            self.fail(f"{op.name} gives results", op.loc)
        found = tuple([v.type for v in op.operands])
        wanted: tuple[Type, ...] = ()
        if op.name == "yield":
            wanted = results
        elif op.name in ("break", "continue"):
            wanted = self.loops[-1]
        elif op.name == "condition":
            wanted = (bool_,)
        if found != wanted:
            self.fail(f"{op.name} gives {_types(found)}, expected {_types(wanted)}", op.loc)


def _types(types: Sequence[Type]) -> str:
    return ", ".join(map(str, types)) or "nothing"


def _gives_fragment(op: Op) -> bool:
    return FragmentType in [type(v.type) for v in op.results]


__all__ = ["VerifyError", "check_limits", "shared_bytes", "verify"]
