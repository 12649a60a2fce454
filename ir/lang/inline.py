"""Device functions: their bodies are traced where they are called."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from ..dtypes import DType, FragmentType, VectorType
from . import literals
from .exits import DONE, RETURN
from .frames import MAX_INLINE, Frame
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
    if any(frame.function is function for frame in t.frames):
        t.fail(node, f"{function.name} calls itself; recursion is not supported in a kernel")
    if len(t.frames) > MAX_INLINE:
        t.fail(node, f"device functions call one another deeper than {MAX_INLINE} levels")
    try:
        bound = function.parameters.bind(args, kwargs)
    except TypeError as error:
        t.fail(node, f"{function.name}{function.signature}: {error}")
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
    arguments = {name: _argument(t, node, function, name, e) for name, e in bound.items()}
    t.enter(frame)
    for name, entry in arguments.items():
        t.state[(frame.number, name)] = entry
    t.state[(frame.number, DONE)] = False
    t.block(function.source.node.body)
    result = _result(t, node, function, frame)
    t.leave()
    for slot in [s for s in t.state if s[0] == frame.number]:
        del t.state[slot]
    return result


def _argument(t: Tracer, node: ast.AST, function: Any, name: str, entry: Entry) -> Entry:
    """An argument; a parameter annotated with a type accepts only that type."""
    wanted = function.types.get(name)
    if not isinstance(wanted, DType | VectorType | FragmentType):
        return entry
    return literals.typed(t, node, entry, wanted, f"argument {name!r} of {function.name}")


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
