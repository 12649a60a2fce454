"""What each statement of a kernel does."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from ..core import Attr, Value
from ..dtypes import bool_
from . import literals
from .assign import assign_to, augmented
from .budget import spend
from .exits import edge, leave_function, leave_loop, leaving, pending, real_loop
from .join import branch
from .matching import match
from .ranges import for_statement, while_statement
from .values import Slot

if TYPE_CHECKING:
    from .tracer import Tracer


# What control never leaves: it goes on to the next statement.
_STAYING = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Assert, ast.Pass)


def block(t: Tracer, body: list[ast.stmt]) -> None:
    """Trace statements in order; what follows an early exit is guarded by its flag."""
    if body:
        spend(t, body[0], len(body) + 2)
    if body and (flag := pending(t)) is not None:  # set in the arm that `body` was moved into
        guard(t, body[0], flag, partial(block, t, body))
        return
    for n, node in enumerate(body, 1):
        moved = False
        if isinstance(node, ast.If):
            moved = if_statement(t, node, body[n:])
        else:
            statement(t, node)
            if isinstance(node, _STAYING) and not t.dead:
                continue
        if moved or t.dead:
            return
        certain, flag = leaving(t)
        if certain:
            return
        if flag is not None:
            guard(t, node, flag, partial(block, t, body[n:]))
            return


def guard(t: Tracer, node: ast.AST, flag: Slot, rest: Callable[[], None]) -> None:
    """Trace `rest` where the flag, a run-time value, is not set; leave a real loop where it is."""
    set_ = t.state[flag]
    assert isinstance(set_, Value)

    def clear() -> None:
        t.state[flag] = False
        if (other := pending(t)) is not None:
            guard(t, node, other, rest)
        else:
            rest()

    def stays() -> None:
        t.state[flag] = True

    loop = real_loop(t)
    if loop is not None and loop is t.frame.exits[-1]:

        def leave() -> None:
            stays()
            edge(t, node, loop, "break")

        branch(t, node, set_, leave, lambda: None)
        clear()
        return
    inverted = t.emit(node, "not", set_)
    branch(t, node, inverted, clear, stays)


def statement(t: Tracer, node: ast.stmt) -> None:
    handler = STATEMENTS.get(type(node))
    if handler is None:
        t.refuse_construct(node, NAMES, _INSTEAD)
    else:
        handler(t, node)


def if_statement(t: Tracer, node: ast.If, rest: list[ast.stmt]) -> bool:
    """An if; whether `rest` was traced into one of its arms."""
    cond = literals.condition(t, node.test, t.expression(node.test))
    if isinstance(cond, bool):
        t.block(node.body if cond else node.orelse)
        return False
    moves = bool(rest) and (t.frame.device or bool(t.frame.exits))
    live = t.live_after(node, *rest[-1:]) if moves else t.live_after(node)
    return branch(
        t,
        node,
        cond,
        lambda: t.block(node.body),
        lambda: t.block(node.orelse),
        live,
        (lambda: t.block(rest)) if moves else None,
    )


def _expression(t: Tracer, node: ast.Expr) -> None:
    if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return  # a docstring
    t.expression(node.value)


def _return(t: Tracer, node: ast.Return) -> None:
    result = None if node.value is None else t.expression(node.value)
    if not t.frame.device and result is not None:
        t.fail(node, "a kernel returns nothing; write its results to a buffer")
    leave_function(t, node, result)


def _assign(t: Tracer, node: ast.Assign) -> None:
    entry = t.expression(node.value)
    for target in node.targets:
        assign_to(t, target, entry)


def _annotated(t: Tracer, node: ast.AnnAssign) -> None:
    """`x: f32 = 0` gives a literal its type."""
    if node.value is None:
        t.fail(node, "a declaration without a value; variables are defined by assigning them")
    entry = t.expression(node.value)
    wanted = t.static(node.annotation, "a variable's type")
    from ..dtypes import DType, FragmentType, VectorType

    if not isinstance(wanted, DType | VectorType | FragmentType):
        t.fail(node.annotation, "expected a type such as f32 or f32x4")
    assign_to(t, node.target, literals.typed(t, node.value, entry, wanted))


def _assert(t: Tracer, node: ast.Assert) -> None:
    cond = literals.condition(t, node.test, t.expression(node.test))
    message = f"assert {t.frame.source.segment(node.test)}"
    if node.msg is not None:
        text = t.static(node.msg, "the message of an assert")
        if not isinstance(text, str):
            t.fail(node.msg, "the message of an assert is a string constant")
        message = text
    if cond is True:
        return
    value = t.const(node, cond, bool_) if isinstance(cond, bool) else cond
    site = t.sites.setdefault((t.loc(node), message), len(t.sites))
    attrs: dict[str, Attr] = {"site": site}
    t.op(node, "assert", (value,), attrs)


def _leave(t: Tracer, node: ast.Break | ast.Continue) -> None:
    leave_loop(t, node, "break" if isinstance(node, ast.Break) else "continue")


NAMES: dict[type[ast.stmt], str] = {
    ast.Try: "try",
    ast.TryStar: "try",
    ast.Raise: "raise",
    ast.With: "with",
    ast.AsyncWith: "async with",
    ast.AsyncFor: "async for",
    ast.AsyncFunctionDef: "async def",
    ast.ClassDef: "class",
    ast.FunctionDef: "an inner function",
    ast.Global: "global",
    ast.Nonlocal: "nonlocal",
    ast.Delete: "del",
    ast.Import: "import",
    ast.ImportFrom: "import",
}
_INSTEAD: dict[type[ast.stmt], str] = {
    ast.FunctionDef: "; decorate a function of the module with @device and call it",
    ast.Raise: "; use assert, which records a fault",
    ast.Try: "; a kernel raises nothing",
}


STATEMENTS: dict[type[ast.stmt], Callable[..., None]] = {
    ast.Expr: _expression,
    ast.Return: _return,
    ast.Assign: _assign,
    ast.AnnAssign: _annotated,
    ast.AugAssign: augmented,
    ast.Assert: _assert,
    ast.Break: _leave,
    ast.Continue: _leave,
    ast.Pass: lambda t, node: None,
    ast.While: while_statement,
    ast.For: for_statement,
    ast.Match: match,
}
