"""The store of a build as its command line and environment ask for it, and what it did, in words
and in JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gristmill.store.files import write_atomic
from gristmill.store.interface import Counts, Store
from gristmill.store.layered import LayeredStore
from gristmill.store.opening import open_store

from .options import Choice

REPORT = ".cache.json"
THREADS = 16  # steps that may wait for a cache at once; no more of them compile than there are jobs


def opened(
    choice: Choice, warn: Callable[[str], None], environment: Mapping[str, str] = os.environ
) -> Store:
    """The local store, before a cache if the command line or else the environment names one.

    StoreError where that cannot be understood, or needs a package that is missing.
    """
    url = choice.cache or environment.get("GRISTMILL_CACHE", "")
    mode = choice.cache_mode or environment.get("GRISTMILL_CACHE_MODE", "") or "readwrite"
    return open_store(url, mode, environment=environment, warn=warn)


def is_shared(store: Store) -> bool:
    """Whether there is a cache behind the local store."""
    return isinstance(store, LayeredStore)


def rate(counts: Counts) -> float | None:
    """The share of hits; None where nothing was asked for."""
    asked = counts.hits + counts.misses
    return counts.hits / asked if asked else None


def summary(store: Store) -> str:
    """One line on the cache of a build; empty where there is none."""
    if not isinstance(store, LayeredStore):
        return ""
    far, near = store.remote.counts, store.local.counts
    share = rate(store.counts)
    found = "nothing was asked for" if share is None else f"{100 * share:.1f} % hits"
    report = store.report()
    parts = [
        f"{near.hits} local, {far.hits} from it ({far.bytes_read / 1e6:.1f} MB)",
        f"{report['published']} published",
    ]
    if far.mismatches:
        parts.append(f"{far.mismatches} damaged there")
    if report["unpublished"] or far.unkept:
        parts.append(f"{report['unpublished'] + far.unkept} not published")
    return f"gristmill: cache {store.where}: {found}: {', '.join(parts)}"


def write_report(
    store: Store, out: Path, tally: dict[str, Any], environment: Mapping[str, str] = os.environ
) -> None:
    """The counts of a build in JSON, in its output folder or where $GRISTMILL_CACHE_REPORT says.
    WriteError."""
    local = store.local if isinstance(store, LayeredStore) else store
    report: dict[str, Any] = {
        **tally,
        "hit_rate": rate(store.counts),
        "total": asdict(store.counts),
        "local": asdict(local.counts),
        "cache": store.report() if isinstance(store, LayeredStore) else None,
    }
    path = Path(environment.get("GRISTMILL_CACHE_REPORT") or out / REPORT)
    write_atomic(path, json.dumps(report, indent=1, sort_keys=True).encode() + b"\n")
