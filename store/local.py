"""The local store: results of build steps by action key, in a folder.

    ac/KK/KEY       an action's entry: output names with sha256 and size (see `entries`)
    cas/DD/DIGEST   an output's bytes, or an action's canonical text
    claims/KEY      a lock: somebody builds this key
    leases/NAME     a lock: a build in progress (see `eviction`)
    usage           bytes in ac and cas, as last counted

Every read is verified against its digest. What does not match is deleted, counted and reported as
missing, so that the caller builds it again: a damaged store costs time, never a wrong artifact.
Writers replace whole files, so that any number of processes may share one store. No file holds a
path: the folder may be moved, linked to, or be of a disk that cannot be written.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from . import entries, eviction, locks
from .entries import Content
from .files import WriteError, write_atomic
from .interface import Counts, Outputs, StoreError

LIMIT = 10 << 30  # bytes
PATIENCE = 600.0  # seconds that a builder waits for another one of the same key
_LOOK = 16  # a sixteenth of the limit written, and the store is counted again
_AT_ONCE = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK  # wait for nobody who writes to a pipe
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def default_root(environment: Mapping[str, str] = os.environ) -> Path:
    """$GRISTMILL_STORE, else `gristmill/store` in the user's cache folder. StoreError."""
    if stated := environment.get("GRISTMILL_STORE", "").strip():
        return folder(stated, "GRISTMILL_STORE")
    cache = environment.get("XDG_CACHE_HOME") or "~/.cache"
    return folder(cache, "the store's place") / "gristmill" / "store"


def folder(stated: str, what: str) -> Path:
    """A folder by its path, which may begin with `~`. StoreError where nobody has such a home."""
    try:
        return Path(stated).expanduser()
    except RuntimeError as error:
        raise StoreError(
            f"{what} {stated:.200}: there is no such home folder; set GRISTMILL_STORE and HOME, or "
            "name a whole path"
        ) from error


def default_limit(environment: Mapping[str, str] = os.environ) -> int:
    """$GRISTMILL_STORE_LIMIT in bytes (`500M`, `20G`; `0`: none), else LIMIT."""
    stated = environment.get("GRISTMILL_STORE_LIMIT", "").strip()
    if not stated:
        return LIMIT
    form = r"(\d{1,18}(?:\.\d{1,18})?)\s*([KMGT]?)(?:i?B)?"
    found = re.fullmatch(form, stated, re.ASCII | re.IGNORECASE)
    if not found:
        raise StoreError(
            f"GRISTMILL_STORE_LIMIT={stated:.60} is no size; expected such as 500M or 20G"
        )
    return int(float(found[1]) * _UNITS[found[2].upper()])


class LocalStore:
    """Action cache and content store in one folder; safe for threads and processes.

    limit: bytes that it may hold, 0 for any number. It is passed for a while by what is written
    between two counts (a sixteenth of it for each process), and by what running builds use.
    """

    def __init__(self, root: Path, limit: int = LIMIT) -> None:
        self.root, self.limit = root, limit
        self._folder = os.fspath(root)  # a Path for each file costs as much as reading it
        self.counts = Counts()
        self.refusal = ""  # why the first result that was not kept was not
        self._lock = threading.Lock()
        self._lease: eviction.Lease | None = None
        self._used: int | None = None  # bytes in the store when it was last counted, by anyone
        self._added = 0  # bytes written here since

    def get(self, key: str) -> Outputs | None:
        """The verified outputs of an action by name; None where any of them is not at hand."""
        begin = time.perf_counter()
        outputs = self._outputs(key)
        with self._lock:
            self.counts.asked(outputs, time.perf_counter() - begin)
        return outputs

    def get_many(self, keys: Iterable[str]) -> dict[str, Outputs]:
        """As `get` for each of the keys; those that are not at hand are left out."""
        found = {key: self.get(key) for key in keys}
        return {key: outputs for key, outputs in found.items() if outputs is not None}

    def action(self, key: str) -> bytes | None:
        """The canonical text of an action; None where it is not kept."""
        return self.content(key)

    def keep(
        self, key: str, outputs: Mapping[str, bytes], action: bytes = b"", sync: bool = True
    ) -> None:
        """As `put`, but a disk that refuses is only counted and noted: a store saves time, and
        work that is done does not depend on it."""
        try:
            self.put(key, outputs, action, sync)
        except WriteError as error:
            self.refused(error)

    def refused(self, error: WriteError) -> None:
        """Count and note a result that the disk did not take."""
        self._count("unkept")
        self.refusal = self.refusal or str(error)

    def put(
        self, key: str, outputs: Mapping[str, bytes], action: bytes = b"", sync: bool = True
    ) -> None:
        """Keep the outputs of an action. WriteError where the disk refuses.

        sync: wait for the disk. What can be fetched again need not: what a lost machine wrote in
        part is found out when it is read.
        """
        if action and entries.digest(action) != key:
            raise ValueError(f"the text of an action whose key is not {key}")
        if not entries.is_digest(key):
            raise ValueError(f"not a key: {key!r}")
        contents = entries.contents_of(outputs)
        wanted = [(contents[name].sha256, data) for name, data in sorted(outputs.items())]
        for name, data in [*wanted, *([(key, action)] if action else [])]:
            if self.content(name) is None:
                self._write(self._path("cas", name), data, sync)
        self._write(self._path("ac", key), entries.encode(key, outputs), sync)
        with self._lock:
            self.counts.written += 1
            self.counts.bytes_written += sum(map(len, outputs.values()))
        self._keep_within_limit()

    @contextlib.contextmanager
    def claim(self, key: str, patience: float = PATIENCE) -> Iterator[Outputs | None]:
        """Within it, no other process or thread that shares the store builds this key. Gives its
        outputs where another has built them since they were missed.

        A builder that dies frees its claim; one that takes longer than `patience`, or a disk
        without locks, is not waited for: work done twice costs time alone.
        """
        if not entries.is_digest(key):
            raise ValueError(f"not a key: {key!r}")
        try:
            lock = locks.take(self.root / eviction.CLAIMS / key, patience)
        except OSError:
            lock = None
        try:
            outputs = self._outputs(key)
            if outputs is not None:
                with self._lock:
                    self.counts.misses -= 1
                    self.counts.hits += 1
                    self.counts.waited += 1
                    self.counts.bytes_read += sum(map(len, outputs.values()))
            yield outputs
        finally:
            if lock:
                lock.release()

    def close(self) -> None:
        """End the lease, and bring the store below its limit if this process wrote to it."""
        with self._lock:
            lease, self._lease = self._lease, None
            added, self._used, self._added = self._added, None, 0
        if lease:
            lease.release()
        if self.counts.written:
            total = eviction.add_used(self.root, added)
            if 0 < self.limit < total:
                self._count("evicted", eviction.evict(self.root, self.limit)[1])

    def content(self, digest: str) -> bytes | None:
        """Verified bytes by their sha256, and by no other name; None where they are not at hand."""
        if not entries.is_digest(digest):  # it would name another file, which is then "damaged"
            return None
        path = self._path("cas", digest)
        data = self._read(path)
        if data is None or entries.digest(data) == digest:
            return data
        self._drop(path)
        return None

    def _outputs(self, key: str) -> Outputs | None:
        contents = self._entry(key)
        if contents is None:
            return None
        found = {}
        for name, content in contents.items():
            data = self._content_of(content)
            if data is None:
                return None
            found[name] = data
        return found

    def _content_of(self, content: Content) -> bytes | None:
        data = self.content(content.sha256)
        return data if data is not None and len(data) == content.size else None

    def _entry(self, key: str) -> dict[str, Content] | None:
        if not entries.is_digest(key):
            return None
        path = self._path("ac", key)
        text = self._read(path, entries.LONGEST)
        if text is None:
            return None
        if (decoded := entries.decode(text, key)) is not None:
            return decoded[0]
        self._drop(path)
        return None

    def _read(self, path: str, most: int = entries.LARGEST) -> bytes | None:
        """The bytes of a file, which is in use from now on, b"" where there are more than `most`;
        None where they cannot be had, for whatever reason."""
        try:
            descriptor = os.open(path, _AT_ONCE)
            try:
                state = os.fstat(descriptor)
                if not stat.S_ISREG(state.st_mode):  # a pipe, a device: nothing was put there
                    return None
                size = state.st_size if state.st_size <= most else 0
                data = os.read(descriptor, size)
                while 0 < len(data) < size and (more := os.read(descriptor, size - len(data))):
                    data += more
            finally:
                os.close(descriptor)
        except OSError:
            return None
        return data if self._leased().mark_used(path, state.st_mtime_ns) else None

    def _leased(self) -> eviction.Lease:
        lease = self._lease
        if lease is None:
            with self._lock:
                lease = self._lease = self._lease or eviction.Lease(self.root)
        return lease

    def _write(self, path: str, data: bytes, sync: bool) -> None:
        self._leased()
        with self._lock:
            if self._used is None:
                self._used = eviction.used_bytes(self.root)
        write_atomic(path, data, sync)
        with self._lock:
            self._added += len(data)

    def _keep_within_limit(self) -> None:
        """Count the store again as it may have passed the limit: others write to it too."""
        with self._lock:
            fits = (self._used or 0) + self._added <= self.limit
            if not self.limit or (fits and self._added * _LOOK < self.limit):
                return
            self._used, removed = eviction.evict(self.root, self.limit)
            self._added = 0
            self.counts.evicted += removed

    def _path(self, kind: str, name: str) -> str:
        return f"{self._folder}/{kind}/{name[:2]}/{name}"

    def _drop(self, path: str) -> None:
        self._count("mismatches")
        with contextlib.suppress(OSError):  # a read-only store keeps it; it is skipped all the same
            os.unlink(path)

    def _count(self, name: str, number: int = 1) -> None:
        with self._lock:
            setattr(self.counts, name, getattr(self.counts, name) + number)
