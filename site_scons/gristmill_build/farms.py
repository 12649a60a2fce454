"""The farm of a build as its command line asks for it, and what it did, in words."""

from __future__ import annotations

import os
from collections.abc import Callable

from gristmill.backends.farm.errors import FarmError
from gristmill.backends.farm.farm import Farm
from gristmill.store.interface import Store
from gristmill.store.layered import LayeredStore

from .options import Choice

THREADS = 64  # steps that wait for the farm at once, where -j says nothing

__all__ = ["THREADS", "FarmError", "opened", "summary"]


def opened(choice: Choice, store: Store, jobs: int, warn: Callable[[str], None]) -> Farm | None:
    """The farm of a command line; None where it names none. It is connected to when the first step
    needs it. FarmError where it cannot be understood, or needs a package that is missing."""
    if not choice.farm:
        return None
    local = min(jobs, len(os.sched_getaffinity(0)))  # -j says how many steps wait
    if not isinstance(store, LayeredStore):
        return Farm(choice.farm, local, choice.deadline, warn=warn)
    return Farm(
        choice.farm,
        local,
        choice.deadline,
        cache=store.remote,
        where=store.where,
        publishes=store.publishes,
        warn=warn,
    )


def summary(farm: Farm | None) -> str:
    """One line on what the farm did; empty where it was not asked."""
    if farm is None or not any(farm.counts.values()):
        return ""
    counts = farm.counts
    refused = f", {len(farm.refused)} workers refused" if farm.refused else ""
    return (
        f"gristmill: farm {farm.address}: {counts['farmed']} steps by it, {counts['audited']} of "
        f"them compiled here as well, {counts['local']} here alone{refused}"
    )
