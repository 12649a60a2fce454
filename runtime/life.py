"""Whether a device may still be used: one lock, and the three ways in which its life ends."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from .driver import Driver
from .errors import Poisoned, StateError
from .memory import as_seconds

if TYPE_CHECKING:
    from ..ir.targets import Capabilities

P = ParamSpec("P")
R = TypeVar("R")
L = TypeVar("L", bound="Living")


def entry(method: Callable[Concatenate[L, P], R]) -> Callable[Concatenate[L, P], R]:
    """A call of the contract: takes the lock, refuses a dead device, notes what poisons it."""

    @functools.wraps(method)
    def call(self: L, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with self._lock:
            if not self._usable:
                self._refuse()
            try:
                return method(self, *args, **kwargs)
            except Poisoned as error:
                self._poison(error)
                raise

    return call


class Living(Driver):
    """A driver's device while it lives: until it is closed, poisoned or left behind by a fork."""

    def __init__(self, name: str, capabilities: Capabilities, timeout: float) -> None:
        self.name, self.capabilities = name, capabilities
        self.timeout = as_seconds(timeout, name)
        self._lock = threading.RLock()
        self._dead: Poisoned | None = None
        self._closed = self._forked = False
        self._usable = True  # none of the three; `lifetime` tells a child process of its fork

    def _refuse(self) -> None:
        if self._dead is not None:
            raise type(self._dead)(
                f"the device is poisoned ({self._dead.what})", where=self.name, do="open it again"
            )
        if self._closed:
            raise StateError("the device is closed", where=self.name)
        raise StateError(
            "the device was opened by another process", where=self.name, do="open it after the fork"
        )

    def _poison(self, error: Poisoned) -> None:
        if self._dead is None:
            self._dead, self._usable = error, False
            self._abandon()
