"""The loop over the subgroups of a workgroup, and who takes part in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ..llvm.types import Ty
from . import identity
from .lowering import Lowering, Scope, per_subgroup
from .shapes import Kind


@dataclass(frozen=True, slots=True)
class Block:
    """Where a value lies in scratch memory: offset, bytes per subgroup, form."""

    at: int
    stride: int
    form: str


def keep_left(x: Lowering, left: Block) -> None:
    place = per_subgroup(x, left.at, left.stride)
    alive = x.f.value(f"load {x.masks.type}, ptr {x.scopes[0].alive}")
    x.f.do(f"store {x.masks.type} {alive}, ptr {place}")


def _resume(x: Lowering, left: Block) -> None:
    """Go on with those lanes that have not returned in an earlier phase, if there are any."""
    f, place = x.f, per_subgroup(x, left.at, left.stride)
    x.mask = f.value(f"load {x.masks.type}, ptr {place}")
    f.do(f"store {x.masks.type} {x.mask}, ptr {x.scopes[0].alive}")
    go = f.label("go")
    f.branch_if(x.masks.any(x.mask), go, x.dead[-1])
    f.block(go)


@contextmanager
def each_subgroup(x: Lowering, left: Block | None = None) -> Iterator[None]:
    """A loop over the subgroups of the workgroup; the block of the statement is its body.

    left: where it is kept who has not returned in an earlier phase.
    """
    f, t = x.f, Ty(x.index).text
    head, step, done = (f.label(w) for w in ("subgroup", "next", "phase"))
    slot = f.alloca(t)
    f.do(f"store {t} 0, ptr {slot}")
    f.block(head)
    if x.subgroups > 1:
        x.subgroup = f.value(f"load {t}, ptr {slot}")
    enter_subgroup(x, Scope(step, step))
    if left is not None:
        _resume(x, left)
    yield
    f.block(step)
    if left is not None:
        keep_left(x, left)
    x.scopes.pop()
    x.dead.pop()
    x.mask = None
    if x.subgroups > 1:
        following = f.value(f"add nuw nsw {t} {x.subgroup}, 1")
        f.do(f"store {t} {following}, ptr {slot}")
        f.branch_if(f.value(f"icmp ult {t} {following}, {x.subgroups}"), head, done)
        x.subgroup = "0"
    f.block(done)


def enter_subgroup(x: Lowering, scope: Scope) -> None:
    """Start the code of one subgroup: its mask, and what a return acts on."""
    f, rest = x.f, x.kernel.workgroup_count % x.width
    x.mask = None
    if rest:
        t = Ty(x.index, x.width)
        first = x.lanes.splat(identity.linear(x), x.index)
        linear = f.value(f"add {t.text} {first}, {x.lanes.numbers(x.index)}")
        inside = f.value(f"icmp ult {t.text} {linear}, {t.const(x.kernel.workgroup_count)}")
        x.mask = x.masks.from_bools(inside)
    if x.analysis.returns is Kind.VARYING:
        scope.alive = f.alloca(x.masks.type)
        f.do(f"store {x.masks.type} {x.masks.value(x.mask)}, ptr {scope.alive}")
    x.scopes.append(scope)
    x.dead.append(scope.exit)
