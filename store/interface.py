"""What every store of build results offers, and what it counts.

A store maps action keys to named outputs. `get` gives verified bytes or None: whatever is damaged,
truncated, swapped or missing is a miss, and its action is done again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

Outputs = dict[str, bytes]


@dataclass
class Counts:
    """What a store has done since it was opened.

    mismatches: entries or contents dropped as damaged. unkept: results that it could not take.
    evicted: files removed to keep its size. waited: misses that another builder of the same key
    answered meanwhile (counted as hits, not as misses). bytes_read, bytes_written: of outputs.
    seconds: spent in reading, summed over threads.
    """

    hits: int = 0
    misses: int = 0
    mismatches: int = 0
    written: int = 0
    unkept: int = 0
    evicted: int = 0
    waited: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    seconds: float = 0.0

    def asked(self, outputs: Outputs | None, seconds: float) -> None:
        """A key was asked for: its outputs, None where they are not at hand. Under a lock."""
        self.hits += outputs is not None
        self.misses += outputs is None
        self.bytes_read += sum(map(len, outputs.values())) if outputs is not None else 0
        self.seconds += seconds


class StoreError(Exception):
    """A store that cannot be opened as it was asked for: what, where and what to do."""


class CacheError(Exception):
    """A request that a remote cache did not answer as its protocol says: where and what."""


class Remote(Protocol):
    """Results of actions by key, somewhere else. Safe for threads.

    Every method but `close` raises CacheError where the other side does not answer as it should.
    """

    @property
    def counts(self) -> Counts:
        """What it has done since it was opened."""
        ...

    def get(self, key: str) -> Outputs | None:
        """The verified outputs of an action by name; None where any of them is not at hand."""

    def get_many(self, keys: Iterable[str]) -> dict[str, Outputs]:
        """As `get` for each of the keys, together; those that are not at hand are left out."""
        ...

    def put(self, key: str, outputs: Mapping[str, bytes], action: bytes = b"") -> None:
        """Keep the outputs of an action. action: its canonical text, kept as the content `key`."""

    def action(self, key: str) -> bytes | None:
        """The canonical text of an action, whose sha256 is its key; None where it is not kept."""

    def close(self) -> None:
        """Finish what is under way, within a bound of time."""


class Store(Remote, Protocol):
    """A store that builds use. Reading raises nothing, `put` WriteError where the disk refuses."""

    @property
    def refusal(self) -> str:
        """Why the first result that was not kept was not; empty where all were."""
        ...

    def keep(self, key: str, outputs: Mapping[str, bytes], action: bytes = b"") -> None:
        """As `put`, but a refusal is only counted and noted: a store saves time, and work that is
        done does not depend on it."""

    def claim(self, key: str, patience: float = ...) -> AbstractContextManager[Outputs | None]:
        """Within it, nobody else who shares the store builds this key. Gives its outputs where
        another has built them since they were missed."""
        ...
