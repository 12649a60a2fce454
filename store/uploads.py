"""Publishing in the background: a bounded queue that no build waits for."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping

from .files import WriteError
from .interface import CacheError, Remote

_THREADS = 4
_BYTES, _NUMBER = 256 << 20, 10_000  # that may wait; what comes on top is left out


class Uploads:
    """Results on their way to a remote cache.

    failed: told of each one that the cache did not take, until the build is over; gives False where
    no more shall be sent.
    """

    def __init__(self, remote: Remote, failed: Callable[[Exception], bool]) -> None:
        self.remote, self.failed = remote, failed
        self.sent = self.left_out = 0
        self._waiting: deque[tuple[str, Mapping[str, bytes], bytes]] = deque()
        self._bytes = self._busy = 0
        self._open, self._over = True, False
        self._change = threading.Condition()
        self._threads: list[threading.Thread] = []

    def add(self, key: str, outputs: Mapping[str, bytes], action: bytes) -> None:
        """Send a result as soon as may be; never waits."""
        size = sum(map(len, outputs.values())) + len(action)
        with self._change:
            if not self._open or self._bytes + size > _BYTES or len(self._waiting) == _NUMBER:
                self.left_out += 1
                return
            self._waiting.append((key, outputs, action))
            self._bytes += size
            if len(self._threads) < _THREADS:
                # They end with the process: what hangs must not keep it.
                thread = threading.Thread(target=self._work, name="gristmill upload", daemon=True)
                self._threads.append(thread)
                thread.start()
            self._change.notify()

    def stop(self) -> None:
        """Send nothing more."""
        with self._change:
            self._open = False
            self.left_out += len(self._waiting)
            self._waiting.clear()
            self._change.notify_all()

    def finish(self, seconds: float) -> None:
        """Wait until everything is sent, or for so long; then send nothing more."""
        with self._change:
            if self._open:
                self._change.wait_for(lambda: not self._waiting and not self._busy, seconds)
            self.left_out += self._busy
            self._over = True  # what still fails has been counted
        self.stop()

    def _work(self) -> None:
        while True:
            with self._change:
                self._change.wait_for(lambda: self._waiting or not self._open)
                if not self._waiting:
                    return
                key, outputs, action = self._waiting.popleft()
                self._bytes -= sum(map(len, outputs.values())) + len(action)
                self._busy += 1
            go_on = True
            try:
                self.remote.put(key, outputs, action)
                self.sent += 1
            except (CacheError, WriteError, ValueError) as error:  # ValueError: a closed channel
                go_on = not self._over and self.failed(error)
            finally:
                with self._change:
                    self._busy -= 1
                    self._change.notify_all()
            if not go_on:
                self.stop()
