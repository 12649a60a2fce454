"""Storages of a plan, and which scratch lies where.

Scratch that is not alive at the same time shares memory. It goes into slots, each a storage of its
own, as some devices cannot bind one buffer for reading and for writing in one launch: the largest
come first, each into the first slot that is free while it lives. The entries of a plan never run at
the same time, so that all of them use the same slots.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from ..ir.dtypes import u8
from ..ir.plan import Launch, Role, Span, Storage

GRANULE = 256  # bytes: what slots are multiples of


@dataclass(slots=True)
class Slot:
    """Memory that several scratch storages take in turn. taken: by whom, as first and last launch
    of an entry."""

    taken: list[tuple[int, int, int]] = field(default_factory=list)

    def free(self, entry: int, first: int, last: int) -> bool:
        return all(e != entry or last < a or b < first for e, a, b in self.taken)


def lifetimes(launches: Sequence[Launch], scratch: set[int]) -> dict[int, tuple[int, int]]:
    """Of each scratch storage the first and the last launch that has it as an argument."""
    found: dict[int, tuple[int, int]] = {}
    for n, launch in enumerate(launches):
        for span in launch.spans():
            if span.storage in scratch:
                found[span.storage] = (found.get(span.storage, (n, n))[0], n)
    return found


def assign(storages: Sequence[Storage], entries: Sequence[Sequence[Launch]]) -> dict[int, int]:
    """Scratch storage -> slot number, over all entries."""
    scratch = {n for n, s in enumerate(storages) if s.role is Role.SCRATCH}
    lives = [
        (storages[n].bytes, entry, first, last, n)
        for entry, launches in enumerate(entries)
        for n, (first, last) in lifetimes(launches, scratch).items()
    ]
    slots: list[Slot] = []
    chosen: dict[int, int] = {}
    for _, entry, first, last, n in sorted(lives, key=lambda life: (-life[0], life[1:])):
        number = next((k for k, s in enumerate(slots) if s.free(entry, first, last)), len(slots))
        if number == len(slots):
            slots.append(Slot())
        slots[number].taken.append((entry, first, last))
        chosen[n] = number
    return chosen


@dataclass(frozen=True, slots=True)
class Layout:
    """Storages as they are allocated, and where each old one went."""

    storages: tuple[Storage, ...]
    moved: dict[int, int]

    def span(self, span: Span) -> Span:
        return replace(span, storage=self.moved[span.storage])

    def launch(self, launch: Launch) -> Launch:
        args = tuple(self.span(a) if isinstance(a, Span) else a for a in launch.args)
        return replace(launch, args=args)


def laid_out(
    storages: Sequence[Storage],
    load: Sequence[Launch],
    entries: Sequence[Sequence[Launch]],
    kept: Iterable[int],
) -> Layout:
    """The storages that launches or ports (`kept`) use, scratch in slots; those of the load are
    scratch of one more entry."""
    slots = assign(storages, [*entries, load])
    sizes: dict[int, int] = {}
    for n, slot in slots.items():
        rounded = -(-max(storages[n].bytes, 1) // GRANULE) * GRANULE
        sizes[slot] = max(sizes.get(slot, 0), rounded)
    used = set(kept) | {s.storage for some in (load, *entries) for x in some for s in x.spans()}
    plain = [n for n in sorted(used) if n not in slots]
    moved = {n: k for k, n in enumerate(plain)}
    moved |= {n: len(plain) + slot for n, slot in slots.items()}
    made = [storages[n] for n in plain]
    made += [Storage(Role.SCRATCH, u8, sizes[slot]) for slot in sorted(sizes)]
    return Layout(tuple(made), moved)
