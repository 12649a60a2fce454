"""Frames: which invocations run a stretch of code together, and their values.

A frame is dense: every one of its invocations is active, so that no operation needs a mask and the
work is proportional to the active invocations. Where control flow parts, each way runs in a child
frame over its invocations, which fetches outer values on first use.

A value is an array [n] (scalar) or [n, lanes] (vector) over the n invocations of its frame; one
that is the same for all may have n = 1 and is then computed once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

Array = np.ndarray


class Frame:
    """Invocations `lanes` (ascending numbers within the chunk) and the values they computed."""

    __slots__ = ("index", "lanes", "parent", "values")

    def __init__(self, lanes: Array, parent: Frame | None = None, index: Array | None = None):
        self.lanes = lanes
        self.parent = parent
        self.index = index  # positions of `lanes` within the parent's
        self.values: dict[int, Array] = {}

    @property
    def size(self) -> int:
        return len(self.lanes)

    def get(self, number: int) -> Array:
        """The value of that number; KeyError where it is not defined here."""
        value = self.values.get(number)
        if value is None:
            if self.parent is None:
                raise KeyError(f"value %{number} is not defined here")
            value = self.parent.get(number)
            if len(value) != 1:
                value = value[self.index]
            self.values[number] = value
        return value

    def wide(self, number: int) -> Array:
        """As `get`, but never with n = 1 for more than one invocation (read-only)."""
        return widen(self.get(number), self.size)

    def child(self, index: Array) -> Frame:
        """A frame over the invocations at these positions."""
        return Frame(self.lanes[index], self, index)


def widen(value: Array, size: int) -> Array:
    """A value over `size` invocations; a read-only view where it was held once."""
    if len(value) == size:
        return value
    return np.broadcast_to(value, (size, *value.shape[1:]))


def pick(value: Array, index: Array) -> Array:
    """The value of the invocations that `index` (mask or positions) chooses."""
    return value if len(value) == 1 else value[index]


class Exit:
    """Invocations that left a region the same way, with the values they carry."""

    __slots__ = ("lanes", "values")

    def __init__(self, lanes: Array, values: Sequence[Array]):
        self.lanes = lanes
        self.values = list(values)


class Exits:
    """Where a region's ways out are collected: those of the enclosing if or switch, those of the
    enclosing loop. A `return` is collected nowhere."""

    __slots__ = ("breaks", "conditions", "continues", "yields")

    def __init__(self, outer: Exits | None = None) -> None:
        self.yields: list[Exit] = []
        self.conditions: list[tuple[Array, Array]] = []
        self.breaks: list[Exit] = outer.breaks if outer else []
        self.continues: list[Exit] = outer.continues if outer else []


class Merger:
    """Joins the exits of a region; `room` is the number of invocations of the chunk."""

    def __init__(self, room: int) -> None:
        self.place = np.zeros(room, np.intp)

    def positions(self, of: Array, within: Array) -> Array:
        """Where the invocations `of` stand within the list `within`."""
        self.place[within] = np.arange(len(within))
        return np.asarray(self.place[of])

    def merge(self, exits: Sequence[Exit]) -> Exit:
        """One exit for all; exits do not share invocations."""
        if len(exits) == 1:
            return exits[0]
        lanes = np.sort(np.concatenate([e.lanes for e in exits]))
        if not exits[0].values:
            return Exit(lanes, ())
        self.place[lanes] = np.arange(len(lanes))
        places = [self.place[e.lanes] for e in exits]
        values = []
        for parts in zip(*(e.values for e in exits), strict=True):
            joined = np.empty((len(lanes), *parts[0].shape[1:]), parts[0].dtype)
            for place, part in zip(places, parts, strict=True):
                joined[place] = part
            values.append(joined)
        return Exit(lanes, values)
