"""What a worker of the cluster does: one action, in a compiler process of its own machine."""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass
from typing import Any

from ...store.interface import CacheError, Remote
from ...store.key import parsed
from ..compile import CompileLimitError
from ..pool import Pool
from . import parcels
from .checking import NAMES
from .identity import lack


@dataclass(frozen=True)
class Job:
    """An action as it travels. text: its canonical form. cache: where large parcels are."""

    text: bytes
    function: str
    args: parcels.Parcel
    cache: str
    timeout: float


Outcome = tuple[str, Any]
"""("done", a parcel), ("failed", what it raised, and whether for a limit), ("refused", why),
or ("absent", where the arguments were to be)."""


@functools.cache
def _pool() -> Pool:
    return Pool(max(os.cpu_count() or 1, 64))  # the cluster bounds how many are at work


def done(job: Job) -> Outcome:
    """Do an action. Raises nothing that a job or this machine could be the reason of."""
    try:
        return _done(job)
    except OSError as error:  # as it is, a client would take it for a broken connection
        return "refused", f"its machine fails: {type(error).__name__}: {error}"


def _done(job: Job) -> Outcome:
    action = parsed(job.text)
    if reason := lack(action):
        return "refused", reason
    cache = parcels.shared_cache(job.cache)
    if (outputs := _known(action.key, cache)) is None:
        try:
            args = parcels.unpacked(job.args, cache)
        except parcels.ParcelError as error:
            return "absent", str(error)
        try:
            outputs = _pool().run(job.function, *args, timeout=job.timeout)
        except Exception as error:  # whatever the compiler raises is the answer
            return "failed", (f"{type(error).__name__}: {error}", _is_limit(error))
    return "done", parcels.sent(action.key, outputs, cache)


def _is_limit(error: Exception) -> bool:
    return isinstance(error, CompileLimitError)


def _known(key: str, cache: Remote | None) -> dict[str, bytes] | None:
    """What another client has published meanwhile."""
    try:
        found = cache.get(key) if cache is not None else None
    except CacheError:
        return None
    return found if found is not None and set(found) in NAMES.values() else None
