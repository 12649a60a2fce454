"""What was in use when this process was forked: graphics drivers do not outlive that.

Their threads are not there in the child, and a call would wait for them for ever, whichever device
made it.
"""

from __future__ import annotations

import os

from ..errors import NoDevice

_used: set[str] = set()  # by this process, or by one that it was forked from
_left: set[str] = set()  # by the latter


def use(name: str) -> None:
    """A driver is about to be used under this name; NoDevice where one was in use at a fork."""
    if _left:
        raise NoDevice(
            f"{' and '.join(sorted(_left))} was in use when this process was forked, and its"
            " drivers do not outlive that",
            do="open the device in a process of its own (multiprocessing's spawn), or fork first",
        )
    _used.add(name)


os.register_at_fork(after_in_child=lambda: _left.update(_used))
