"""Giving back what a device made for its callers, when it closes."""

from __future__ import annotations

from collections.abc import MutableSet
from typing import Protocol, TypeVar


class Closable(Protocol):
    def close(self) -> None: ...


class Destroyable(Protocol):
    def destroy(self) -> None: ...


Recording = TypeVar("Recording", bound=Closable)
Buffer = TypeVar("Buffer", bound=Destroyable)


def give_back(recordings: MutableSet[Recording], buffers: MutableSet[Buffer]) -> None:
    """Close all recordings, which use buffers, then destroy those; both sets are empty then."""
    for recording in recordings:
        recording.close()
    recordings.clear()
    for buffer in buffers:
        buffer.destroy()
    buffers.clear()
