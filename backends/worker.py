"""The other side of `backends.pool`: serves jobs from standard input until it closes."""

from __future__ import annotations

import importlib
import os
import pickle
import queue
import resource
import sys
import threading
import traceback
from typing import Any

from .pool import receive, send


def main() -> None:
    """Serve jobs. The memory limit in bytes is the only argument."""
    limit = int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # What a library prints must not get into the results.
    results = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    jobs: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(jobs,), daemon=True).start()
    while True:
        send(results, _outcome(jobs.get()))


def _read(jobs: queue.SimpleQueue[bytes]) -> None:
    """Queue jobs; when the caller is gone, so is this process, whatever it is doing."""
    while (message := receive(sys.stdin.buffer)) is not None:
        jobs.put(message)
    os._exit(0)


def _outcome(message: bytes) -> bytes:
    try:
        function, args = pickle.loads(message)
        return pickle.dumps((True, _resolve(function)(*args)))
    except SystemExit as error:
        return _failure(RuntimeError(f"sys.exit({error.code!r}) was called"))
    except Exception as error:
        return _failure(error)


def _resolve(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


def _failure(error: Exception) -> bytes:
    error.add_note("in a compiler process:\n" + "".join(traceback.format_exception(error)))
    try:
        message = pickle.dumps((False, error))
        pickle.loads(message)  # some exceptions travel only one way
    except Exception:  # whatever a foreign exception's own pickling raises
        text = "".join(traceback.format_exception(error))
        return pickle.dumps((False, RuntimeError(f"in a compiler process:\n{text}")))
    return message


if __name__ == "__main__":
    main()
