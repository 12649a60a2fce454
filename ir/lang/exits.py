"""Leaving structured code early.

In the kernel itself `return`, and in any real loop `break` and `continue`, are terminators of
kernel IR. In an inlined device function and in an unrolled loop there is no op to leave by: they
set a flag in the state, and what follows the statement runs only where the flag is not set. Flags
start as the constant False, so that code without early exits pays nothing.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ..core import Value
from .values import Entry, Slot

if TYPE_CHECKING:
    from .frames import Exit
    from .tracer import Tracer

RETURN, DONE = "<return>", "<done>"
BREAK, NEXT = "<break>", "<next>"


def flags(t: Tracer) -> list[Slot]:
    """The exit flags of the current frame that may be set, innermost loop first."""
    found: list[Slot] = []
    frame = t.frame
    for exit_ in reversed(frame.exits) if t.jumped else ():
        if exit_.unrolled is not None:
            found += [(exit_.unrolled, NEXT), (exit_.unrolled, BREAK)]
    if frame.device:
        found.append((frame.number, DONE))
    return found


def pending_static(t: Tracer) -> bool:
    """Whether control certainly does not go on to the next statement, by a flag."""
    return True in map(t.state.get, flags(t))


def pending(t: Tracer) -> Slot | None:
    """A flag that may be set at run time."""
    return leaving(t)[1]


def leaving(t: Tracer) -> tuple[bool, Slot | None]:
    """`pending_static` and `pending` at once."""
    state, frame = t.state, t.frame
    certain, possible = False, None
    if frame.exits and t.jumped:
        for slot in flags(t):
            entry = state.get(slot)
            if entry is True:
                certain = True
            elif possible is None and type(entry) is Value:
                possible = slot
    elif frame.device:
        entry = state.get((frame.number, DONE))
        if entry is True:
            certain = True
        elif type(entry) is Value:
            possible = (frame.number, DONE)
    return certain, possible


def real_loop(t: Tracer) -> Exit | None:
    """The innermost loop of this frame that is a loop of kernel IR."""
    return next((e for e in reversed(t.frame.exits) if e.unrolled is None), None)


def edge(t: Tracer, node: ast.AST, loop: Exit, kind: str) -> None:
    """Leave the iteration (`continue`) or the loop (`break`) by a terminator."""
    if loop.take is None:
        loop.edges.append((kind, node, dict(t.state)))
    else:
        loop.take(kind, node)
    t.dead = True


def leave_loop(t: Tracer, node: ast.AST, kind: str) -> None:
    """`break` or `continue` of the innermost loop."""
    if not t.frame.exits:
        t.fail(node, f"{kind!r} outside a loop")
    loop = t.frame.exits[-1]
    if loop.unrolled is None:
        edge(t, node, loop, kind)
    else:
        t.state[(loop.unrolled, BREAK if kind == "break" else NEXT)] = True
        t.jumped = True


def leave_function(t: Tracer, node: ast.AST, result: Entry) -> None:
    """`return`: the end of the invocation, or of an inlined function."""
    if not t.frame.device:
        t.op(node, "return")
        t.dead = True
        return
    t.state[(t.frame.number, RETURN)] = result
    t.state[(t.frame.number, DONE)] = True
    if loop := real_loop(t):
        edge(t, node, loop, "break")
