"""Compile jobs in worker processes, so that a crash of the compiler is an error of one kernel.

    with Pool(jobs=2) as pool:
        compile = "gristmill.backends.compile:compile_kernel"
        blob, manifest = pool.run(compile, text, target, subject=("saxpy f32", target))

`run` may be called from any number of threads; at most `jobs` calls are at work, the others wait.
Arguments and results travel by value. A worker is a fresh Python process (never a fork of the
caller) that serves one job after another; after a crash, a timeout or a fixed number of jobs it is
replaced. A worker ends by itself when the process that started it is gone.
"""

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
import threading
import time
import weakref
from typing import IO, Any

from .compile import CompileError, CompileLimitError, CompilerCrashError
from .limits import DEADLINE, MEMORY

_LENGTH = struct.Struct("<Q")
_JOBS_PER_WORKER = 1000
_STDERR_TAIL = 2000
# LLVM frees what it needed for a kernel. glibc would give that back to the system, and every page
# of it would be a fault again for the next kernel: an eighth of the time of a matrix product.
MEMORY_KEPT = {
    "MALLOC_TRIM_THRESHOLD_": str(64 << 20),
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TOP_PAD_": str(4 << 20),
}


class Pool:
    """A bounded set of worker processes.

    jobs: how many run at once. timeout: seconds that one job may take. memory: bytes of address
    space of one worker; a compiler that wants more ends, and its kernel gets the error.
    """

    def __init__(self, jobs: int, timeout: float = DEADLINE, memory: int = MEMORY) -> None:
        if jobs < 1:
            raise ValueError(f"a pool has at least one worker, not {jobs}")
        self._timeout, self._memory = timeout, memory
        self._slots = threading.Semaphore(jobs)
        self._idle: list[_Worker] = []
        self._live: set[_Worker] = set()
        self._lock = threading.Lock()
        self._closed = False
        # Registered once per pool: kills what is left if nobody closes it.
        self._finalizer = weakref.finalize(self, _kill_all, self._live)

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def run(
        self,
        function: str,
        *args: Any,
        timeout: float | None = None,
        subject: tuple[str, str] | None = None,
    ) -> Any:
        """`function` ("package.module:name") applied to `args` in a worker.

        subject: the kernel and the target that it is about, for its errors.
        Raises what the function raises; CompilerCrashError where the worker ended, CompileError
        where it could not start, CompileLimitError where the job took more than its time or memory.
        """
        subject = subject or (function, "worker")
        with self._slots:
            try:
                worker = self._take()
            except _WorkerEndedError as ended:
                raise CompileError(*subject, str(ended)) from ended.__cause__
            finished = False
            try:
                ok, value = worker.call(
                    (function, args), self._timeout if timeout is None else timeout
                )
                finished = True
            except _DeadlineError as late:
                raise CompileLimitError(*subject, f"{late}; {_LONGER}") from None
            except _WorkerEndedError as ended:
                raise CompilerCrashError(*subject, str(ended)) from None
            finally:
                self._give_back(worker, finished)
        if ok:
            return value
        if isinstance(value, MemoryError):
            message = f"the compiler needs over {self._memory / (1 << 30):.3g} GiB; {_SMALLER}"
            raise CompileLimitError(*subject, message) from value
        raise value

    def close(self) -> None:
        """End every worker at once; a call in progress fails. Further calls are refused."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
            for worker in idle:
                self._live.discard(worker)
        for worker in idle:
            worker.end()
        self._finalizer()  # those at work: their callers release what belongs to them

    def _take(self) -> _Worker:
        with self._lock:
            if self._closed:
                raise RuntimeError("the pool is closed")
            if self._idle:
                return self._idle.pop()
        try:
            worker = _Worker(self._memory)
        except OSError as error:
            raise _WorkerEndedError(f"no compiler process can be started: {error}") from error
        with self._lock:
            if self._closed:
                worker.end()
                raise RuntimeError("the pool is closed")
            self._live.add(worker)
        return worker

    def _give_back(self, worker: _Worker, finished: bool) -> None:
        with self._lock:
            if finished and not self._closed and worker.served < _JOBS_PER_WORKER:
                self._idle.append(worker)
                return
            self._live.discard(worker)
        worker.end()


_SMALLER = "unroll less, or hold fewer values at once"
_LONGER = f"{_SMALLER}, or give it more time (scons deadline=SECONDS)"


class _WorkerEndedError(Exception):
    """The worker process is of no more use."""


class _DeadlineError(_WorkerEndedError):
    """The job took too long."""


class _Worker:
    def __init__(self, memory: int) -> None:
        environment = MEMORY_KEPT | os.environ
        environment["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if p)
        environment["PYTHONHASHSEED"] = "0"  # nothing may depend on the order of a set of strings
        self.served = 0
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as this
        self._process = subprocess.Popen(
            [sys.executable, "-m", "gristmill.backends.worker", str(memory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=environment,
            process_group=0,  # of it and the programs that it runs, such as llc
        )
        os.set_blocking(self._stream(self._process.stdin).fileno(), False)

    def call(self, job: tuple[str, tuple[Any, ...]], timeout: float) -> tuple[bool, Any]:
        """The outcome of one job: (True, value) or (False, exception)."""
        self.served += 1
        deadline = time.monotonic() + timeout
        message = pickle.dumps(job)
        try:
            self._write(_LENGTH.pack(len(message)) + message, deadline, timeout)
        except OSError:
            raise self._ended() from None
        size = _LENGTH.unpack(self._read(_LENGTH.size, deadline, timeout))[0]
        outcome: tuple[bool, Any] = pickle.loads(self._read(size, deadline, timeout))
        return outcome

    def kill(self) -> None:
        """Kill the process and what it runs; whoever reads from it learns that it ended."""
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def end(self) -> None:
        """Kill the process and release what belongs to it."""
        self.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            with contextlib.suppress(OSError):  # unsent bytes of a dead worker
                self._stream(stream).close()

    @staticmethod
    def _stream(stream: IO[bytes] | None) -> IO[bytes]:
        assert stream is not None
        return stream

    def _write(self, message: bytes, deadline: float, timeout: float) -> None:
        """Send a message; a process that does not read it must not hold up the caller."""
        sink, left = self._stream(self._process.stdin).fileno(), memoryview(message)
        while left:
            self._await(sink, select.POLLOUT, deadline, timeout)
            left = left[os.write(sink, left) :]

    @staticmethod
    def _await(descriptor: int, event: int, deadline: float, timeout: float) -> None:
        """Wait until a pipe is ready; _WorkerEndedError behind the deadline."""
        poll = select.poll()
        poll.register(descriptor, event)
        left = deadline - time.monotonic()
        if left <= 0 or not poll.poll(left * 1000):
            raise _DeadlineError(f"the compiler process did not finish within {timeout:g} s")

    def _read(self, size: int, deadline: float, timeout: float) -> bytes:
        source = self._stream(self._process.stdout).fileno()
        data = bytearray()
        while len(data) < size:
            self._await(source, select.POLLIN, deadline, timeout)
            chunk = os.read(source, min(size - len(data), 1 << 20))
            if not chunk:
                raise self._ended()
            data += chunk
        return bytes(data)

    def _ended(self) -> _WorkerEndedError:
        status = self._process.wait()
        if status < 0:
            how = f"signal {-status}, {signal.Signals(-status).name}"
        else:
            how = f"exit status {status}"
        return _WorkerEndedError(f"the compiler process ended ({how}){self._last_words()}")

    def _last_words(self) -> str:
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, size - _STDERR_TAIL))
        text = self._errors.read().decode(errors="replace").strip()
        return f"; its last words:\n{text}" if text else ""


def send(stream: IO[bytes], message: bytes) -> None:
    """Write one message with its length."""
    stream.write(_LENGTH.pack(len(message)) + message)
    stream.flush()


def receive(stream: IO[bytes]) -> bytes | None:
    """Read one message; None at the end of the stream."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    size = _LENGTH.unpack(head)[0]
    message = stream.read(size)
    return message if len(message) == size else None


def _kill_all(workers: set[_Worker]) -> None:
    for worker in list(workers):
        worker.kill()
