"""Facts about every path through a program: a forward analysis over its blocks.

A *ledger* notes when things last happened, in units of a clock of its own (operations issued on a
counter, wait states): entries by key, each with the clock's reading then. Where paths meet the
latest counts, which is the strictest: what holds after the join holds on every path.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Generic, TypeVar

from .decode import Instruction

Key = TypeVar("Key", bound=Hashable)
_JUMPS = ("s_branch", "s_cbranch_")
_ENDS = ("s_endpgm", "s_setpc_b64")


class Ledger(Generic[Key]):
    """last: key -> (clock then, address of the instruction)."""

    __slots__ = ("clock", "last")

    def __init__(self) -> None:
        self.clock = 0
        self.last: dict[Key, tuple[int, int]] = {}

    def copy(self) -> Ledger[Key]:
        made: Ledger[Key] = Ledger()
        made.clock, made.last = self.clock, dict(self.last)
        return made

    def note(self, key: Key, address: int) -> None:
        self.last[key] = self.clock, address

    def since(self, key: Key) -> int | None:
        """How far the clock has gone since; None: never, or forgotten."""
        found = self.last.get(key)
        return None if found is None else self.clock - found[0]

    def forget(self, age: int) -> None:
        """All that is at least so old."""
        limit = self.clock - age
        self.last = {k: v for k, v in self.last.items() if v[0] > limit}

    def join(self, other: Ledger[Key]) -> bool:
        """Take in another path; whether anything is stricter now."""
        shift, changed = self.clock - other.clock, False
        for key, (then, address) in other.last.items():
            mine = self.last.get(key)
            if mine is None or mine[0] < then + shift:
                self.last[key] = then + shift, address
                changed = True
        return changed


State = tuple[Ledger[Hashable], ...]
Transfer = Callable[[Instruction, State, bool], None]


def successors(i: Instruction) -> tuple[int, ...]:
    """Where a wave may go on. A call comes back; where a jump through a register goes is unknown,
    and its paths end here."""
    if i.mnemonic.startswith(_ENDS):
        return ()
    if i.mnemonic == "s_branch":
        return (i.branch_target,)
    return (i.next, i.branch_target) if i.mnemonic.startswith(_JUMPS) else (i.next,)


def reached(instructions: Mapping[int, Instruction], entries: Iterable[int]) -> set[int]:
    """Addresses that can be executed."""
    found: set[int] = set()
    todo = list(entries)
    while todo:
        at = todo.pop()
        while at in instructions and at not in found:
            found.add(at)
            first, *others = successors(instructions[at]) or (-1,)
            todo += others
            at = first
    return found


def analyse(
    instructions: Mapping[int, Instruction],
    entries: Iterable[int],
    ledgers: int,
    transfer: Transfer,
) -> None:
    """Call `transfer(instruction, state, final)`, which changes the state, until the states of all
    blocks stand; then once more for each instruction, with `final`, where it may complain.

    instructions: those that can be reached. entries: where the state is empty. A state is as many
    ledgers.
    """
    entries = list(entries)
    blocks = _blocks(instructions, entries)
    states: dict[int, State] = {at: tuple(Ledger() for _ in range(ledgers)) for at in entries}
    todo = set(entries)
    while todo:
        start = min(todo)
        todo.discard(start)
        state = tuple(ledger.copy() for ledger in states[start])
        for i in blocks[start]:
            transfer(i, state, False)
        for at in successors(blocks[start][-1]):
            if at not in blocks:
                continue
            if at not in states:
                states[at] = tuple(ledger.copy() for ledger in state)
                todo.add(at)
            else:
                changed = [a.join(b) for a, b in zip(states[at], state, strict=True)]
                todo |= {at} if any(changed) else set()
    for start in sorted(states):
        for i in blocks[start]:
            transfer(i, states[start], True)


def _blocks(
    instructions: Mapping[int, Instruction], entries: list[int]
) -> dict[int, list[Instruction]]:
    """Runs of instructions that are entered at their first alone, by its address."""
    starts = set(entries)
    for i in instructions.values():
        if i.mnemonic.startswith(_JUMPS) or i.mnemonic.startswith(_ENDS):
            starts |= {i.next, *successors(i)}
    blocks: dict[int, list[Instruction]] = {}
    current: list[Instruction] = []
    for at in sorted(instructions):
        if at in starts or not current or current[-1].next != at:
            current = blocks[at] = []
        current.append(instructions[at])
    return blocks
