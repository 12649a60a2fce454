"""A client of a Dask cluster. Nothing else here knows of Dask.

Tasks are named by the key of their action, so that whoever asks for one that is under way, from
whatever machine, waits for the same result.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable
from typing import Any

from . import identity, worker
from .errors import FarmError, LostError

CONNECT = 10.0  # seconds
PATIENCE = 15.0  # seconds that a cluster may be without an answer or without workers
_KEPT = 1000  # results that are kept on the cluster for other clients
_LEAVE = 2.0  # seconds that its end may take
_LOOK = 1.0  # seconds between two looks at who is there


def _work(job: worker.Job) -> tuple[str, worker.Outcome]:
    """On a worker: its address, and what became of a job."""
    from distributed import get_worker

    return get_worker().address, worker.done(job)


class Cluster:
    """A connection to a scheduler. FarmError where `distributed` is missing, LostError where nobody
    answers. Safe for threads."""

    def __init__(self, address: str, patience: float = PATIENCE) -> None:
        distributed = imported()
        self.address, self.patience = address, patience
        logging.getLogger("distributed").setLevel(logging.CRITICAL)  # what matters is told here
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what must be equal is asked for by `survey`
                self._client = distributed.Client(
                    address, timeout=CONNECT, set_as_default=False, name="gristmill"
                )
        except (OSError, TimeoutError, ValueError) as error:
            raise LostError(f"no scheduler answers: {error or type(error).__name__}") from None
        self._kept: deque[Any] = deque(maxlen=_KEPT)
        self._closed = threading.Event()
        self._workers: frozenset[str] = frozenset()
        self._seen = self._manned = time.monotonic()
        self._look()
        threading.Thread(target=self._watch, daemon=True).start()

    def workers(self) -> frozenset[str]:
        """The addresses of the workers, as last seen."""
        return self._workers

    def survey(self) -> dict[str, Any]:
        """What each worker says of itself (`identity.identity`), or the exception that it gave."""
        found: dict[str, Any] = {}

        def ask() -> None:
            with contextlib.suppress(Exception):  # a cluster in trouble: its tasks will tell
                found.update(self._client.run(identity.identity, on_error="return"))

        thread = threading.Thread(target=ask, daemon=True)
        thread.start()
        thread.join(CONNECT)
        return found

    def done(
        self,
        name: str,
        job: worker.Job,
        among: Callable[[], frozenset[str] | None],
        stalled: Callable[[], str],
    ) -> tuple[str, worker.Outcome]:
        """The address of the worker that did a job, and what became of it.

        name: of the task; equal names are done once. among: the workers that may do it, None for
        all; where there is none, one is waited for as long as for any worker. stalled: asked from
        time to time why it is not worth while to wait any longer. LostError where the cluster is
        gone; whatever else the cluster raises for a task, and what a worker raises.
        """
        begin = time.monotonic()
        while (wanted := among()) is not None and not wanted:
            if reason := self._trouble(wanted, begin) or stalled():
                raise LostError(reason)
            self._closed.wait(_LOOK)
        finished = threading.Event()
        try:
            future = self._client.submit(
                _work, job, key=name, pure=True, workers=sorted(wanted) if wanted else None
            )
            future.add_done_callback(lambda _: finished.set())
            while not finished.wait(_LOOK):
                if reason := self._trouble(wanted, begin) or stalled():
                    raise LostError(reason)
            if future.cancelled() or future.status == "lost":
                raise LostError("the connection to the scheduler broke")
            failure = future.exception(timeout=self.patience)
            outcome: Any = None if failure else future.result(timeout=self.patience)
        except (OSError, TimeoutError) as error:  # CommClosedError is an OSError
            raise LostError(f"{type(error).__name__}: {error}") from None
        except RuntimeError as error:  # the client was closed meanwhile
            if self._client.status == "running":
                raise
            raise LostError(f"the connection to the scheduler is closed: {error}") from None
        if failure is not None:  # not above: it may be an OSError, and the connection is none of it
            raise failure
        self._kept.append(future)
        return outcome

    def close(self) -> None:
        """Leave the cluster; what is under way there goes on for others."""
        self._closed.set()
        self._kept.clear()

        def leave() -> None:
            with contextlib.suppress(Exception):  # a scheduler that is gone is left all the same
                self._client.close(timeout=_LEAVE)

        thread = threading.Thread(target=leave, daemon=True)
        thread.start()
        thread.join(2 * _LEAVE)

    def _trouble(self, among: frozenset[str] | None, begin: float) -> str:
        """Why not to wait any longer for one of these workers, which is wanted since `begin`."""
        now = time.monotonic()
        if self._closed.is_set():
            return "the connection is closed"
        if now - self._seen > self.patience:
            return f"the scheduler has not answered for {self.patience:g} s"
        if self._workers if among is None else self._workers & among:
            self._manned = now
        elif now - max(self._manned, begin) > self.patience:
            what = "no worker that is not refused" if self._workers else "no worker"
            return f"it has had {what} for {self.patience:g} s"
        return ""

    def _look(self) -> None:
        info = self._client.scheduler_info(n_workers=-1)
        self._workers = frozenset(info["workers"])
        self._seen = time.monotonic()

    def _watch(self) -> None:
        while not self._closed.wait(_LOOK):
            with contextlib.suppress(Exception):  # not seen: `_trouble` tells after a while
                self._look()


def imported() -> Any:
    """The module `distributed`. FarmError where it is missing."""
    try:
        import distributed
    except ImportError as error:
        raise FarmError(
            f"a farm needs distributed ({error}): pip install 'gristmill[farm]'"
        ) from None
    return distributed
