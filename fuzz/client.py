"""The other side of `worker`: starts the process of a target, waits for it, starts it again."""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import signal
import struct
import subprocess
import sys
import tempfile
import time
from typing import IO, Any

from .outcome import Outcome
from .targets import Traits

_LENGTH = struct.Struct("<Q")
_START = 300.0  # seconds until a target answers for the first time, on a busy machine
_PER_PROCESS = 400  # programs: what a driver leaks with each is given back


class TargetError(Exception):
    """A target that cannot be opened: its name and why."""


class _Ended(Exception):  # noqa: N818 (the process did)
    pass


class Client:
    """One target in a process of its own.

    spec: see `targets`. timeout: seconds that one program may take. environment: what the process
    sees besides, such as which Vulkan drivers there are.
    """

    def __init__(
        self, spec: str, timeout: float = 120.0, environment: dict[str, str] | None = None
    ) -> None:
        self.spec, self.timeout = spec, timeout
        self.environment = {**os.environ, **(environment or {})}
        self.environment["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if p)
        self.process: subprocess.Popen[bytes] | None = None
        # What its process leaves behind: for bundles it makes folders, and it may crash.
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        self.served = 0
        self.name, self.traits = "", Traits()
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as this
        self.start()

    def start(self) -> None:
        """Open the target. TargetError says why that cannot be done."""
        self.end()
        self.served = 0
        self._errors.seek(0)
        self._errors.truncate()
        self._scratch = tempfile.TemporaryDirectory(prefix="gristmill-fuzz-")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "gristmill.fuzz.worker", self.spec],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**self.environment, "TMPDIR": self._scratch.name},
        )
        try:
            found = self._receive(time.monotonic() + max(self.timeout, _START))
        except (_Ended, TimeoutError) as error:
            outcome = self._stopped(error)
            raise TargetError(f"{self.spec}: {outcome}") from error
        if isinstance(found, str):
            self.end()
            raise TargetError(f"{self.spec}: {found}")
        self.name, self.traits = found

    def ask(self, *job: Any) -> Outcome:
        """The outcome of a job; a crash or a hang of the process is one too."""
        if self.process is None or self.served >= _PER_PROCESS:
            self.start()
        assert self.process is not None
        assert self.process.stdin is not None
        self.served += 1
        message = pickle.dumps(job)
        try:
            self.process.stdin.write(_LENGTH.pack(len(message)) + message)
            self.process.stdin.flush()
            outcome: Outcome = self._receive(time.monotonic() + self.timeout)
        except (_Ended, TimeoutError, BrokenPipeError) as error:
            return self._stopped(error)
        if outcome.kind == "error":  # the device may be poisoned
            self.end()
        return outcome

    def end(self) -> None:
        """Let the process go; it is killed where it does not end by itself."""
        process, self.process = self.process, None
        if process is None:
            return
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if self._scratch is not None:
            with contextlib.suppress(OSError):  # a process of its process may still write
                self._scratch.cleanup()
            self._scratch = None

    def close(self) -> None:
        self.end()
        self._errors.close()

    def _receive(self, deadline: float) -> Any:
        size = _LENGTH.unpack(self._read(_LENGTH.size, deadline))[0]
        return pickle.loads(self._read(size, deadline))

    def _read(self, size: int, deadline: float) -> bytes:
        assert self.process is not None
        assert self.process.stdout is not None
        descriptor, data = self.process.stdout.fileno(), bytearray()
        while len(data) < size:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([descriptor], [], [], left)[0]:
                raise TimeoutError
            chunk = os.read(descriptor, min(size - len(data), 1 << 20))
            if not chunk:
                raise _Ended
            data += chunk
        return bytes(data)

    def _stopped(self, error: Exception) -> Outcome:
        """What became of the process, which is no longer of use."""
        assert self.process is not None
        if isinstance(error, TimeoutError):
            self.process.kill()
            self.end()
            return Outcome("hang", "", f"no answer within {self.timeout:g} s")
        status = self.process.wait()
        self.end()
        how = f"exit status {status}" if status >= 0 else signal.Signals(-status).name
        self._errors.seek(max(0, self._errors.seek(0, os.SEEK_END) - 2000))
        words = self._errors.read().decode(errors="replace").strip()
        return Outcome("crash", how, f"the process ended with {how}: {words}")
