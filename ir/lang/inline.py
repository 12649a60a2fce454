"""Device functions: their bodies are traced where they are called."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ..limits import MAX_INLINE
from . import again, literals
from .budget import spend
from .exits import DONE, RETURN
from .frames import Frame
from .values import Conflict, Entry, Undefined

if TYPE_CHECKING:
    from .decorator import DeviceFunction
    from .tracer import Tracer


def inline(
    t: Tracer,
    node: ast.AST,
    function: DeviceFunction,
    args: list[Entry],
    kwargs: dict[str, Entry],
    pinned: bool = False,
) -> Entry:
    """Trace the body of a device function on these arguments; what it returns."""
    if function in [frame.function for frame in t.frames]:
        t.fail(node, f"{function.name} calls itself; recursion is not supported in a kernel")
    if len(t.frames) > MAX_INLINE:
        t.fail(node, f"device functions call one another deeper than {MAX_INLINE} levels")
    spend(t, node, 8)
    try:
        bound = function.parameters.bind(args, kwargs)
    except TypeError as error:
        t.fail(node, f"{function.name}{function.signature}: {error}")
    for name, wanted in function.types.items():
        what = f"argument {name!r} of {function.name}"
        bound[name] = literals.typed(t, node, bound[name], wanted, what)
    begun: again.Begun | None = None
    if not pinned and (kept := again.key_of(t, function, bound.values())) is not None:
        if (call := t.calls.get(kept[0])) is not None:
            return again.copied(t, node, call, kept[1])
        begun = again.Begun(t, *kept)
    frame = Frame(
        t.number(),
        function.name,
        function.source,
        function.scope.lookup,
        function.scope.names,
        device=True,
        pinned=t.loc(node) if pinned or t.frame.pinned else None,
        function=function,
        call=node,
    )
    t.enter(frame)
    number = frame.number
    for name, entry in bound.items():
        t.state[(number, name)] = entry
    t.state[(number, DONE)] = False
    t.block(function.source.node.body)
    result = _result(t, node, function, frame)
    t.leave()
    state = t.state
    for name in (*frame.locals, DONE, RETURN):
        state.pop((number, name), None)
    if begun is not None:
        begun.keep(t, result)
    return result


def _result(t: Tracer, node: ast.AST, function: DeviceFunction, frame: Frame) -> Entry:
    done = t.state.get((frame.number, DONE), False)
    result = t.state.get((frame.number, RETURN), Undefined())
    last = function.source.node
    if isinstance(result, Conflict):
        t.fail(last, f"the results of {function.name} do not fit: {result.reason}")
    if t.dead or isinstance(result, Undefined) or result is None:
        return None
    if done is not True:
        t.fail(
            last,
            f"{function.name} returns a value on some paths, and nothing where control "
            "reaches its end",
        )
    return result


def library(t: Tracer, node: ast.AST, name: str, *args: Entry) -> Entry:
    """A function that is itself written in the kernel language (`prelude`)."""
    from . import prelude

    return inline(t, node, getattr(prelude, name), list(args), {}, pinned=True)
