"""The local store: results of build steps by action key, on this machine's disk.

    ac/KK/KEY       an action's result: output names with sha256 and size (JSON behind its digest)
    cas/DD/DIGEST   an output's bytes

Every read is verified against its digest. What does not match is deleted, counted and reported as
missing, so that the caller builds it again: a damaged store costs time, never a wrong artifact.
Writers replace whole files, so that any number of processes may share one store.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from .files import WriteError, sweep, write_atomic

_DIGEST = re.compile("[0-9a-f]{64}")


@dataclass
class Counts:
    """What a store has done since it was opened. `mismatches`: entries dropped as damaged.
    unkept: results that it could not take."""

    hits: int = 0
    misses: int = 0
    mismatches: int = 0
    written: int = 0
    unkept: int = 0


def default_root(environment: Mapping[str, str] = os.environ) -> Path:
    """$GRISTMILL_STORE, else `gristmill/store` in the user's cache folder."""
    if stated := environment.get("GRISTMILL_STORE"):
        return Path(stated)
    cache = environment.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "gristmill" / "store"


class LocalStore:
    """Action cache and content store in one folder; safe for threads and processes."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.counts = Counts()
        self.refusal = ""  # why the first result that was not kept was not
        self._lock = threading.Lock()
        self._swept = False

    def get(self, key: str) -> dict[str, bytes] | None:
        """The verified outputs of an action by name; None where any of them is not at hand."""
        outputs = self._outputs(key)
        self._count("misses" if outputs is None else "hits")
        return outputs

    def keep(self, key: str, outputs: Mapping[str, bytes]) -> None:
        """As `put`, but a disk that refuses is only counted and noted: a store saves time, and
        work that is done does not depend on it."""
        try:
            self.put(key, outputs)
        except WriteError as error:
            self._count("unkept")
            self.refusal = self.refusal or str(error)

    def put(self, key: str, outputs: Mapping[str, bytes]) -> None:
        """Keep the outputs of an action. WriteError where the disk refuses."""
        self._sweep()
        entry = {}
        for name, data in sorted(outputs.items()):
            digest = hashlib.sha256(data).hexdigest()
            entry[name] = {"sha256": digest, "size": len(data)}
            if self._content(digest) is None:
                write_atomic(self._path("cas", digest), data, sync=True)
        body = json.dumps(
            {"key": key, "outputs": entry}, sort_keys=True, separators=(",", ":")
        ).encode()
        head = hashlib.sha256(body).hexdigest().encode()
        write_atomic(self._path("ac", key), head + b"\n" + body, sync=True)
        self._count("written")

    def _sweep(self) -> None:
        """Once per store and process, delete what killed writers left."""
        with self._lock:
            first, self._swept = not self._swept, True
        if first:
            for kind in ("ac", "cas"):
                sweep(self.root / kind)

    def _outputs(self, key: str) -> dict[str, bytes] | None:
        entry = self._entry(key)
        if entry is None:
            return None
        found = {}
        for name, digest in entry.items():
            data = self._content(digest)
            if data is None:
                return None
            found[name] = data
        return found

    def _entry(self, key: str) -> dict[str, str] | None:
        """Output name -> digest of an action, or None."""
        path = self._path("ac", key)
        text = _read(path)
        if text is None:
            return None
        head, _, body = text.partition(b"\n")
        if hashlib.sha256(body).hexdigest().encode() == head:
            entry = _decoded(body, key)
            if entry is not None:
                return entry
        self._drop(path)
        return None

    def _content(self, digest: str) -> bytes | None:
        path = self._path("cas", digest)
        data = _read(path)
        if data is None or hashlib.sha256(data).hexdigest() == digest:
            return data
        self._drop(path)
        return None

    def _path(self, kind: str, name: str) -> Path:
        return self.root / kind / name[:2] / name

    def _drop(self, path: Path) -> None:
        self._count("mismatches")
        with contextlib.suppress(OSError):  # a read-only store keeps it; it is skipped all the same
            path.unlink()

    def _count(self, name: str) -> None:
        with self._lock:
            setattr(self.counts, name, getattr(self.counts, name) + 1)


def _decoded(body: bytes, key: str) -> dict[str, str] | None:
    """Output name -> digest of an entry's body; None where it has another form or key."""
    try:
        data = json.loads(body)
        if data["key"] != key:
            return None
        entry = {name: output["sha256"] for name, output in data["outputs"].items()}
        # A digest is the name of a file: anything else could name another.
        fine = all(map(_DIGEST.fullmatch, entry.values()))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None
    return entry if fine else None


def _read(path: Path) -> bytes | None:
    """The bytes of a file; None where they cannot be had, for whatever reason."""
    try:
        return path.read_bytes()
    except OSError:
        return None
