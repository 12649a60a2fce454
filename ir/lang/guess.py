"""Guessing which cells of register arrays a loop changes, so that its body is traced once.

Which cells change is known only when the body is traced, but the loop's arguments are there before.
The guess is all cells of the arrays that the loop's own text writes, and all variables that it
assigns. Where an edge of the loop shows that this is wrong, the trace is undone; the loop is then
traced for its changes first (`loops`), here and wherever the same statement comes again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .decorator import device_function
from .values import MISSING, Entry, Registers, Slot, same

if TYPE_CHECKING:
    from .frames import Frame
    from .loops import Carried, Plan
    from .tracer import Tracer


@dataclass
class Guess:
    """Slots that a loop is taken to change, and those that it is not; what its edges say.

    head: the entries of the slots at the head of the loop.
    """

    changing: set[Slot]
    others: list[Slot]
    head: dict[Slot, Entry] = field(default_factory=dict)
    right: bool = True

    def look(self, state: dict[Slot, Entry]) -> None:
        """Note what an edge leaves changed."""
        head = self.head
        self.right = self.right and all(same(head[s], state[s]) for s in self.others)
        changed = [s for s in self.changing if not same(head[s], state.get(s, MISSING))]
        self.changing.difference_update(changed)


def _written(t: Tracer, frame: Frame, node: int) -> set[str]:
    """Names of which a loop assigns an element, itself or by what it calls."""
    found = set(frame.live.indexed[node])
    for name, call in frame.live.calls[node]:
        own = (frame.number, name)
        lookup = frame.lookup if name not in frame.locals else lambda _, own=own: t.state[own]
        if function := device_function(lookup, name):
            found |= function.writes(call)
    return found


def guess(
    t: Tracer,
    plan: Plan,
    names: list[Slot],
    cells: list[Slot],
    carry: Callable[[Slot], Carried],
    emit: Callable[[Plan], bool],
) -> bool | None:
    """As `emit`, with the carried slots guessed; None, and nothing done, where that is wrong.

    names: slots of variables to carry, which `plan` has. cells: slots of register cells. carry:
    makes a slot one that the loop carries.
    """
    node, frame = id(plan.node), t.frame
    if node in t.misguessed:
        return None
    entries = [t.state.get((frame.number, n)) for n in _written(t, frame, node)]
    arrays = {e.number for e in entries if isinstance(e, Registers)}
    written = [slot for slot in cells if slot[0] in arrays]
    others = [slot for slot in cells if slot[0] not in arrays]
    plan.carried += [carry(slot) for slot in written]
    plan.guess = made = Guess({*names, *written}, others)
    body, exits = plan.body, len(frame.exits)
    with t.attempt() as attempt:
        after = emit(plan)
        attempt.done = made.right and not made.changing
    plan.guess = None
    if attempt.done:
        return after
    t.misguessed.add(node)
    plan.body = body
    del frame.exits[exits:]
    return None
