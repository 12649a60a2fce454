"""The local store before a remote cache, which may be slow, gone, or wrong without harm.

What the local store has not is asked of the cache, and kept locally; what is built is published in
the background where the mode is `readwrite`. A cache that does not answer, or takes more time than
it is worth, is left for the rest of the build, with one warning.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from typing import Any

from .files import WriteError
from .interface import CacheError, Counts, Outputs, Remote
from .local import PATIENCE, LocalStore
from .uploads import Uploads

BUDGET, FLUSH = 60.0, 30.0  # seconds
_IN_A_ROW = 3  # failures after which a cache that has worked is left
_WORTH = 1.0  # seconds that a hit may take before it counts as lost time
_CHUNK = 500  # keys of one request of get_many


@dataclass(frozen=True, slots=True)
class Bounds:
    """budget: seconds, summed over requests, that a build may lose to misses, failures and slow
    hits. flush: seconds that the end of a build waits for what is being published."""

    budget: float = BUDGET
    flush: float = FLUSH


class LayeredStore:
    """A store that reads from two, the local one first. Reading raises nothing."""

    def __init__(
        self,
        local: LocalStore,
        remote: Remote,
        where: str,
        write: bool,
        bounds: Bounds | None = None,
        warn: Callable[[str], None] = lambda text: None,
    ) -> None:
        """where: what the cache is called. warn: told at most once, in one line."""
        self.local, self.remote, self.where, self.warn = local, remote, where, warn
        self.bounds = bounds or Bounds()
        self.warning = ""  # what `warn` was told
        self._lock = threading.Lock()
        self._reads, self._publishes = True, write
        self._failures = {"read": 0, "write": 0}  # in a row
        self._answered = False  # whether it has ever done what it was asked
        self._lost = 0.0
        self._fetched_hits = self._fetched_kept = 0
        self._uploads = Uploads(remote, self._upload_failed)

    @property
    def publishes(self) -> bool:
        """Whether what is built goes to the cache."""
        return self._publishes

    @property
    def counts(self) -> Counts:
        """Of both: a hit is one of either, a miss is one of both."""
        near, far = self.local.counts, self.remote.counts
        both = ("mismatches", "bytes_read", "bytes_written", "seconds")
        return Counts(
            hits=near.hits + self._fetched_hits,
            misses=near.misses - self._fetched_hits,
            written=near.written - self._fetched_kept,
            unkept=near.unkept,
            evicted=near.evicted,
            waited=near.waited,
            **{name: getattr(near, name) + getattr(far, name) for name in both},
        )

    @property
    def refusal(self) -> str:
        return self.local.refusal

    def get(self, key: str) -> Outputs | None:
        """The verified outputs of an action by name; None where neither store has them."""
        outputs = self.local.get(key)
        return self._fetched([key]).get(key) if outputs is None else outputs

    def get_many(self, keys: Iterable[str]) -> dict[str, Outputs]:
        """As `get` for each of the keys, together; those that are not at hand are left out."""
        keys = list(keys)
        found = self.local.get_many(keys)
        left = [key for key in keys if key not in found]
        for at in range(0, len(left), _CHUNK):
            found |= self._fetched(left[at : at + _CHUNK])
        return found

    def put(self, key: str, outputs: Mapping[str, bytes], action: bytes = b"") -> None:
        """Keep and publish the outputs of an action. WriteError where the local disk refuses."""
        if self._publishes:
            self._uploads.add(key, dict(outputs), action)
        self.local.put(key, outputs, action)

    def keep(self, key: str, outputs: Mapping[str, bytes], action: bytes = b"") -> None:
        """As `put`, but a refusal is only counted and noted."""
        if self._publishes:
            self._uploads.add(key, dict(outputs), action)
        self.local.keep(key, outputs, action)

    def action(self, key: str) -> bytes | None:
        """The canonical text of an action; None where neither store has it."""
        text = self.local.action(key)
        if text is None and self._reads:
            text, _ = self._asked(lambda: self.remote.action(key))
        return text

    def claim(self, key: str, patience: float = PATIENCE) -> AbstractContextManager[Outputs | None]:
        """As `LocalStore.claim`: builders that share the local store."""
        return self.local.claim(key, patience)

    def close(self) -> None:
        """Publish what waits for it, within a bound of time."""
        if self._publishes:
            self._uploads.finish(self.bounds.flush)
            if self._uploads.left_out:
                self._leave(f"{self._uploads.left_out} results were not published in time")
        self.remote.close()
        self.local.close()

    def report(self) -> dict[str, Any]:
        """Counts of the remote cache, as JSON."""
        return {
            "url": self.where,
            **asdict(self.remote.counts),
            "published": self._uploads.sent,
            "unpublished": self._uploads.left_out,
            "seconds_lost": self._lost,
            "warning": self.warning,
        }

    def _fetched(self, keys: list[str]) -> dict[str, Outputs]:
        """What the cache has of those keys, kept locally."""
        if not self._reads:
            return {}
        found, seconds = self._asked(lambda: self.remote.get_many(keys))
        found = found or {}
        with self._lock:
            self._lost += seconds * (1 - len(found) / len(keys))
            self._lost += max(0.0, seconds - _WORTH * len(found)) * len(found) / len(keys)
            over = self._lost > self.bounds.budget
        if over and self._reads:
            self._reads = False
            self._leave(f"too slow, {self._lost:.0f} s lost; it is not asked any more")
        kept = 0
        for key, outputs in found.items():
            try:
                self.local.put(key, outputs, sync=False)
                kept += 1
            except WriteError as error:
                self.local.refused(error)
        with self._lock:
            self._fetched_hits += len(found)
            self._fetched_kept += kept
        return found

    def _asked(self, request: Callable[[], Any]) -> tuple[Any, float]:
        """The answer to a request and its seconds; None where the cache did not give one."""
        begin, answer = time.monotonic(), None
        try:
            answer = request()
            self._worked("read")
        except CacheError as error:
            if self._failed("read"):
                self._reads = False
                self._leave(f"{error}; it is not asked any more")
        return answer, time.monotonic() - begin

    def _worked(self, kind: str) -> None:
        self._answered, self._failures[kind] = True, 0

    def _failed(self, kind: str) -> bool:
        """Whether it is time to leave the cache: it was never there, or is not any more."""
        with self._lock:
            self._failures[kind] += 1
            leave = not self._answered or self._failures[kind] >= _IN_A_ROW
        if not self._answered:
            self._uploads.stop()
        return leave

    def _upload_failed(self, error: Exception) -> bool:
        with self._lock:
            self.remote.counts.unkept += 1
        if not self._failed("write"):
            return True
        self._leave(f"{error}; nothing is published any more")
        return False

    def _leave(self, reason: str) -> None:
        with self._lock:
            reason = reason if reason.startswith(self.where) else f"{self.where}: {reason}"
            first, self.warning = not self.warning, self.warning or f"cache {reason}"
        if first:
            self.warn(self.warning)
