"""Recordings: launches that are checked and prepared once and replayed many times."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from .arguments import with_scalars
from .errors import ArgumentError, StateError
from .faults import FaultRange
from .launch import Command, LoadedKernel
from .memory import is_size

if TYPE_CHECKING:
    import numpy.typing as npt

    from .device import Device


class Recording:
    """Open inside its `with` block, where `launch` adds to it; afterwards `replay` submits it.

    It keeps the buffers it was made with alive until `close`. Launches that touch the same bytes,
    one of them writing, run in the order recorded; others may overlap.
    """

    _handle: Any = None  # also for a destructor that comes before `__init__` is through

    def __init__(self, device: Device, timed: bool) -> None:
        self.device, self.timed = device, timed
        self.faults: list[FaultRange] = []
        self._commands: list[Command] | None = None
        self._recorded: list[Command] = []
        self._launches = 0
        self._closed = False

    def __len__(self) -> int:
        """The number of launches."""
        return self._launches

    def __enter__(self) -> Self:
        if self._handle is not None or self._closed or self._commands is not None:
            raise StateError("a recording is made once", do="call device.record() again")
        self._commands = []
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        commands, self._commands = self._commands or [], None
        self._closed = True  # unless it can be made
        if kind is None:
            handle = self.device._finish(self, commands)
            self._recorded, self._handle, self._closed = commands, handle, False

    def launch(self, kernel: LoadedKernel, /, *args: Any, grid: Any = None, **named: Any) -> int:
        """Add a launch with device buffers, slots and scalars; gives its position."""
        if self._commands is None:
            raise StateError("the recording is not open", do="launch inside its with block")
        self._commands.append(self.device._command(kernel, args, named, grid))
        self._launches += 1
        return self._launches - 1

    def replay(self) -> None:
        """Submit all launches; returns before they are done."""
        self.device.replay(self)

    def timestamps(self) -> npt.NDArray[np.float64]:
        """Seconds of each launch in the last replay (recorded with timed=True)."""
        return self.device.timestamps(self)

    def rewrite(self, launch: int, **scalars: Any) -> None:
        """Change by-value scalars of one launch for all later replays.

        Waits for the replays submitted before. The grid stays as recorded: scalars that it depends
        on may only change within what the recorded grid covers.
        """
        with self.device._lock:  # another thread may be about to close it
            if self._handle is None:
                raise StateError("the recording is not ready", do="rewrite it after its with block")
            if not is_size(launch) or launch >= self._launches:
                raise ArgumentError(
                    f"launch {launch!r}", where="recording", expected=f"0 to {self._launches - 1}"
                )
            command = with_scalars(self._recorded[launch], scalars)
            self.device._rewrite(self, int(launch), command)
            self._recorded[launch] = command

    def close(self) -> None:
        """Give back what the recording holds. Also happens when it is collected."""
        with self.device._lock:
            self._let_go()
            self.device._collect()

    def __del__(self) -> None:
        self._let_go()

    def _let_go(self) -> None:
        handle, self._handle = self._handle, None
        self._closed = True
        self._recorded = []
        if handle is not None:
            self.device._dropped.append((self.faults, handle))

    @property
    def handle(self) -> Any:
        """The driver's form; StateError while open or after `close`."""
        if self._handle is None:
            state = "closed" if self._closed else "still open"
            raise StateError(f"the recording is {state}", where=self.device.name)
        return self._handle
