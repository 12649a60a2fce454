"""What a rewrite may do to the numbers of a graph."""

from __future__ import annotations

import enum


class Numerics(enum.IntEnum):
    """From what changes no bit to what changes most."""

    EXACT = 0  # the same bits, but for those of NaNs
    REASSOCIATING = 1  # sums and products in another order, or with fewer roundings between
    NARROWING = 2  # numbers of fewer bits than the graph says

    def __str__(self) -> str:
        return self.name.lower()


class NumericsError(ValueError):
    """A pass that does more than its caller allows. expected: the most that is allowed. got."""

    def __init__(self, name: str, expected: Numerics, got: Numerics) -> None:
        super().__init__(
            f"pass {name} is {got}, and at most {expected} is allowed: allow it, or leave it out"
        )
        self.expected, self.got = expected, got
