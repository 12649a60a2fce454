"""The tracer: walks the AST of a kernel and appends kernel IR.

One `Tracer` makes one kernel and is thrown away. Its state maps slots (variables of frames, cells
of register arrays) to entries; branches and loops copy it and join the copies into region results
and carried values (`join`, `loops`). What each kind of node does stands in `statements`,
`expressions` and `calls`.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn

from ..core import Attr, Loc, Op, Param, Value
from ..dtypes import DType, MemType, Type, VectorType, i32
from ..limits import MAX_DEPTH, MAX_EXPRESSION, MAX_NAME, MAX_OPS, MAX_STEPS, MAX_WORK
from ..ops import OpTypeError
from . import literals
from .again import Call, Key
from .budget import bounded, spend
from .building import Opened, TraceBuilder
from .decorator import DeviceFunction
from .diagnostics import Diagnostic, Note, suggest
from .expressions import EXPRESSIONS, LEAVES, unsupported
from .frames import Frame
from .memory import name_array
from .source import Source
from .statements import block
from .surface import Intrinsic
from .values import (
    Conflict,
    Counter,
    Entry,
    Memory,
    Registers,
    Slot,
    Undefined,
    WeakSelect,
    describe,
    leaves,
)

_NOTHING: Any = object()
# What a name stands for without more ado.
_AS_THEY_ARE = frozenset(
    {Value, Memory, Registers, Counter, int, float, DType, VectorType, tuple}
    | {DeviceFunction, Intrinsic}
)
_SMALL = 1 << 64  # an int literal, which is no negative one, that needs no look


class Attempt:
    """Something that is traced and may be undone. done: it stands."""

    done = False


class Tracer:
    """Traces one kernel. See the module."""

    def __init__(self, index: DType = i32) -> None:
        self.builder = TraceBuilder()
        self.index = index
        self.workgroup: tuple[int, int, int] = (1, 1, 1)
        self.subgroup: int | None = None
        self.state: dict[Slot, Entry] = {}
        self.frames: list[Frame] = []
        self.frame: Frame  # the last of them
        self.params: list[tuple[Param, Value]] = []  # of the kernel
        self.allocs: list[Op] = []
        self.sites: dict[tuple[Loc | None, str], int] = {}
        self.weak: set[int] = set()
        self.probing = 0
        self.loop_depth = 0
        self.dead = False
        self.jumped = False  # whether the flag of an unrolled loop was ever set
        self.numbers = 0
        self.work = 0  # ops traced
        self.kept = 0  # of them, those of the kernel
        self.steps = 0  # statements and expressions traced, and what else takes time
        self.expression_depth = 0
        self.region_depth = 0
        self.sources: dict[str, Source] = {}  # of the functions traced, by file
        self.misguessed: set[int] = set()  # loops (`guess`), by the id of their node
        self.varying: set[int] = set()  # unrolled loops whose iterations differ in what they do
        self.outside: dict[tuple[Any, str], Entry] = {}  # names of a function from outside it
        self.calls: dict[Key, Call] = {}  # of device functions
        self.asked: list[int] = []  # values whose makers had a say in what was traced

    # places and refusals

    def enter(self, frame: Frame) -> None:
        """Begin an activation."""
        self.frames.append(frame)
        self.frame = frame
        self.sources.setdefault(frame.source.file, frame.source)
        if long := frame.source.long_name:
            message = f"a name of over {MAX_NAME} bytes, which begins with {long[:20]!r}"
            self.fail(frame.source.node, message)

    def leave(self) -> None:
        """End the activation that was entered last."""
        self.frames.pop()
        self.frame = self.frames[-1]

    def loc(self, node: ast.AST) -> Loc:
        return self.frame.pinned or self.frame.source.loc(node)

    def refuse_construct(
        self, node: ast.AST, names: Mapping[Any, str], instead: Mapping[Any, str]
    ) -> NoReturn:
        """Fail at a Python construct that kernels do not have, with what to write instead."""
        name = names.get(type(node), type(node).__name__)
        self.fail(node, f"{name} is not supported in a kernel{instead.get(type(node), '')}")

    def fail(self, node: ast.AST, message: str, notes: tuple[Note, ...] = ()) -> NoReturn:
        """Raise the Diagnostic of a node, with the calls that led to it."""
        frames = self.frames
        while len(frames) > 1 and frames[-1].pinned:  # speak of the user's line
            node = frames[-1].call or node
            frames = frames[:-1]
        source = frames[-1].source
        calls = []
        for caller, callee in zip(frames[-2::-1], frames[:0:-1], strict=False):
            place = caller.source.loc(callee.call or node)
            text = caller.source.text(place.line)
            calls.append(Note(place, f"{callee.name} is called here", text))
        loc = source.loc(node)
        text = source.text(loc.line)
        raise Diagnostic(message, loc, text, source.width(node), (*notes, *calls[:8]))

    def number(self) -> int:
        """A fresh number for a frame, a register array or a pair of flags."""
        self.numbers += 1
        return self.numbers

    # emission

    def emit(
        self, node: ast.AST, name: str, *operands: Value, type: Type | None = None, **attrs: Attr
    ) -> Value:
        """Append an op with one result."""
        if self.probing:
            types = None if type is None else (type,)
            (value,) = self.op(node, name, operands, attrs, types).results
            return value
        self.work += 1
        self.kept += 1
        if self.kept > MAX_OPS or self.work > MAX_WORK:
            self.count(node, 0)
        frame = self.frame
        loc = frame.pinned or frame.source.loc(node)
        try:
            return self.builder.one(name, operands, attrs, type, loc)
        except OpTypeError as error:
            self.fail(node, f"{name}: {error}")

    def op(
        self,
        node: ast.AST,
        name: str,
        operands: tuple[Value, ...] = (),
        attrs: dict[str, Attr] | None = None,
        types: tuple[Type, ...] | None = None,
        **more: Any,
    ) -> Op:
        """Append any op; what the op table refuses is a Diagnostic here."""
        self.work += 1
        if not self.probing:
            self.kept += 1
        if self.kept > MAX_OPS or self.work > MAX_WORK:
            self.count(node, 0)
        builder, frame = self.builder, self.frame
        builder.loc = frame.pinned or frame.source.loc(node)
        try:
            op = builder.op(name, operands, attrs, types, **more)
        except OpTypeError as error:
            self.fail(node, f"{name}: {error}")
        if self.probing and len(op.results) == 1 and self._stays_weak(op):
            self.weak.add(op.result.id)
        return op

    def count(self, node: ast.AST, ops: int = 1) -> None:
        """Note that ops are made; a Diagnostic where there are too many."""
        self.work += ops
        if not self.probing:
            self.kept += ops
        if self.kept > MAX_OPS or self.work > MAX_WORK:
            self.fail(node, f"the kernel has over {MAX_OPS} operations; unroll less")

    def _stays_weak(self, op: Op) -> bool:
        """Whether a result takes, like all its operands, the type of what it meets."""
        if not op.operands or isinstance(op.operands[0].type, MemType):
            return False
        same_type = op.result.type == op.operands[0].type
        return same_type and all(v.id in self.weak for v in op.operands)

    def const(self, node: ast.AST, value: float, type_: Type) -> Value:
        """A constant; a vector constant is a splat."""
        self.count(node)
        self.builder.loc = self.loc(node)
        return self.builder.const(value, type_)

    def region(self, node: ast.AST) -> Opened:
        """Collect ops in a list of their own; `dead` is that of the region inside."""
        if self.region_depth >= MAX_DEPTH:
            self.fail(node, f"statements nest deeper than {MAX_DEPTH} levels")
        spend(self, node, len(self.state) >> 3)  # it is copied and joined
        return Opened(self, [], 1)

    def reopened(self, ops: list[Op]) -> Opened:
        """Append to ops of a region that was left."""
        return Opened(self, ops, 0)

    @contextmanager
    def probe(self) -> Iterator[None]:
        """Trace and throw away: only the state that results is looked at."""
        saved = (
            list(self.allocs),
            dict(self.sites),
            self.numbers,
            self.loop_depth,
        )
        state, dead, exits = self.state, self.dead, list(self.frame.exits)
        self.state = dict(state)
        self.probing += 1
        self.builder.open([])
        try:
            yield
        finally:
            self.builder.close()
            self.probing -= 1
            self.allocs, self.sites, self.numbers, self.loop_depth = saved
            self.state, self.dead, self.frame.exits = state, dead, exits

    @contextmanager
    def attempt(self) -> Iterator[Attempt]:
        """Trace, and undo it all where the attempt is not marked as done or meets a Diagnostic."""
        saved = (
            list(self.allocs),
            dict(self.sites),
            self.numbers,
            self.loop_depth,
            self.kept,
            dict(self.state),
            self.dead,
        )
        frames, ops = list(self.frames), list(self.builder.ops)
        attempt = Attempt()
        try:
            yield attempt
        except Diagnostic:
            attempt.done = False
        if attempt.done:
            return
        self.allocs, self.sites, self.numbers, self.loop_depth = saved[:4]
        self.kept, self.state, self.dead = saved[4:]
        self.frames, self.frame = frames, frames[-1]
        self.builder.ops[:] = ops
        self.calls.clear()  # they hold fault sites and arrays of what is undone

    # names

    def lookup(self, node: ast.Name) -> Entry:
        """What a name stands for here."""
        frame, name = self.frame, node.id
        entry = self.state.get((frame.number, name), _NOTHING)
        kind = type(entry)
        if kind is Conflict:
            self.fail(node, f"{name!r} has no single type here: {entry.reason}")
        if kind is Undefined or (entry is _NOTHING and name in frame.locals):
            why = entry.reason if kind is Undefined and entry.reason else ""
            self.fail(node, f"{name!r} is used before it is defined" + (f": {why}" if why else ""))
        if entry is not _NOTHING:
            return entry
        key = (frame.function, name)
        if (entry := self.outside.get(key, _NOTHING)) is _NOTHING:
            entry = self.outside[key] = bounded(self, node, self._outside(node))
        return entry

    def _outside(self, node: ast.Name) -> Entry:
        """What a name stands for outside its function."""
        frame, name = self.frame, node.id
        try:
            return frame.lookup(name)
        except KeyError:
            pass
        if hasattr(builtins, name):
            return getattr(builtins, name)
        known = set(frame.locals) | frame.outside()
        self.fail(node, f"undeclared name {name!r}{suggest(name, known)}")

    def assign(self, name: str, entry: Entry) -> None:
        """Bind a variable of the current frame."""
        if isinstance(entry, Memory):
            entry = name_array(self, entry, name)
        elif isinstance(entry, Value) and not entry.hint:
            weak = entry.id in self.weak
            entry = self.builder.name_last(entry, name)
            if weak:
                self.weak.add(entry.id)
        self.state[(self.frame.number, name)] = entry

    def live_after(self, *nodes: ast.stmt) -> frozenset[str]:
        """Variables that may be read behind any of the statements, or behind a set exit flag."""
        frame = self.frame
        after, *more = [frame.live.after[id(node)] for node in nodes]
        more += [e.live for e in frame.exits]
        return after.union(*more) if more else after

    # walking

    def block(self, body: list[ast.stmt]) -> None:
        """Trace statements until control leaves them."""
        block(self, body)

    def expression(self, node: ast.expr) -> Entry:
        """What an expression stands for."""
        kind = type(node)
        if kind is ast.Name:
            frame, name = self.frame, node.id  # type: ignore[attr-defined]
            entry = self.state.get((frame.number, name))
            if entry is None:
                entry = self.outside.get((frame.function, name))
            if type(entry) in _AS_THEY_ARE:
                return entry
        elif kind is ast.Constant:
            entry = node.value  # type: ignore[attr-defined]
            if type(entry) is int and entry < _SMALL:
                return entry
        handler = EXPRESSIONS.get(kind, unsupported)
        if kind in LEAVES:
            return handler(self, node)
        self.expression_depth += 1
        self.steps += 1
        if self.expression_depth > MAX_EXPRESSION or self.steps > MAX_STEPS:
            spend(self, node, 0)
            self.fail(node, f"expressions nest deeper than {MAX_EXPRESSION} levels")
        try:
            return handler(self, node)
        finally:
            self.expression_depth -= 1

    def value(self, node: ast.expr) -> Value:
        """An expression as an SSA value."""
        return literals.value(self, node, self.expression(node))

    def static(self, node: ast.expr, what: str) -> Any:
        """An expression that must be known now: a Python constant, type, function or tuple."""
        entry = self.expression(node)
        self.require_static(node, entry, what)
        return entry

    def require_static(self, node: ast.AST, entry: Entry, what: str) -> None:
        if any(isinstance(leaf, Value | WeakSelect | Counter) for leaf in leaves(entry)):
            self.fail(
                node, f"{what} must be known when the kernel is traced, found {describe(entry)}"
            )

    def static_int(self, node: ast.AST, entry: Entry, what: str) -> int:
        """A constant int."""
        if isinstance(entry, bool) or not isinstance(entry, int):
            self.fail(node, f"{what} must be an int constant, found {describe(entry)}")
        return entry
