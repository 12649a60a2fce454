"""A pool of compiler processes on other machines.

    with Farm("tcp://scheduler:8786", jobs=4, warn=print) as farm:
        farm.run("gristmill.backends.steps:compile_step", *args, action=action)

It has the interface of `backends.pool.Pool`, and takes the action that a call is. Whatever the
cluster does not do as it should is done by the local pool: calls without an action, those that a
worker fails at, and, with one warning, all of them once the cluster is lost.

A worker is refused by name where its compiler is another one, where it gives what cannot be the
action's result, fails at what can be done here, or gives other bytes than this machine: the first
result of each worker, and a share of the others, is compiled here as well before it is taken.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from ...store.interface import Outputs, Remote
from ...store.key import Action
from ...store.message import plain
from ..compile import CompileError, CompileLimitError
from ..limits import DEADLINE, MEMORY
from ..pool import Pool
from . import parcels
from .checking import NAMES, check_outputs
from .cluster import PATIENCE, Cluster, imported
from .errors import FarmError, LostError, PoisonedWorkerError, WrongResultError
from .identity import difference, identity
from .worker import Job

SCHEMES = ("tcp", "tls")
AUDITED = 1 / 64  # share of the results that are compiled here as well
_ATTEMPTS = 3
_GRACE = 60.0  # seconds beyond a deadline without any result, and the cluster is left


class Farm:
    """Compiler processes of a cluster.

    address: of its scheduler. jobs, timeout, memory: as of the local `Pool`. cache: what both ends
    share, at `where`, for what is large; publishes: whether it may be written. warn: told of the
    cluster's loss once, and of each worker that is refused. FarmError where the address cannot be
    understood or `distributed` is missing.
    """

    def __init__(
        self,
        address: str,
        jobs: int,
        timeout: float = DEADLINE,
        memory: int = MEMORY,
        cache: Remote | None = None,
        where: str = "",
        publishes: bool = False,
        warn: Callable[[str], None] = lambda text: None,
        audited: float = AUDITED,
        patience: float = PATIENCE,
    ) -> None:
        scheme, separator, rest = address.partition("://")
        if scheme not in SCHEMES or not separator or not rest.rpartition(":")[2].isdigit():
            raise FarmError(f"farm={address}: expected tcp://HOST:PORT or tls://HOST:PORT")
        imported()
        self.address, self.timeout, self.warn = address, timeout, warn
        self.local = Pool(jobs, timeout, memory)
        self.cache, self.where, self.publishes = cache, where if cache else "", publishes
        self.audited, self.patience = audited, patience
        self.counts = {"farmed": 0, "audited": 0, "local": 0}
        self.lost = ""  # why the cluster was left
        self.refused: dict[str, str] = {}  # why, by the worker's address
        self._taken: dict[str, int] = {}  # results of each worker, the first one audited
        self._audits: dict[str, threading.Lock] = {}
        self._cluster: Cluster | None = None
        self._progress = time.monotonic()
        self._lock = threading.Lock()
        self._connecting = threading.Lock()

    def __enter__(self) -> Farm:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def run(
        self,
        function: str,
        *args: Any,
        timeout: float | None = None,
        subject: tuple[str, str] | None = None,
        action: Action | None = None,
    ) -> Any:
        """As `Pool.run`. action: what the call is, where its outputs depend on nothing else.

        PoisonedWorkerError where a worker was trusted that should not have been.
        """

        def here() -> Any:
            return self.local.run(function, *args, timeout=timeout, subject=subject)

        if action is not None and action.fields["action"].decode() in NAMES:
            job = Job(
                action.text,
                function,
                self._packed(args),
                self.where,
                self.timeout if timeout is None else timeout,
            )
            if (outputs := self._farmed(action, job, here)) is not None:
                return outputs
        self._count("local")
        return here()

    def close(self) -> None:
        """Leave the cluster and end the local workers. Further calls are refused."""
        with self._lock:
            self.lost = self.lost or "closed"
            cluster, self._cluster = self._cluster, None
        if cluster is not None:
            cluster.close()
        self.local.close()

    def report(self) -> dict[str, Any]:
        """What it did, as JSON."""
        return {"address": self.address, **self.counts, "lost": self.lost, "refused": self.refused}

    def _farmed(self, action: Action, job: Job, here: Callable[[], Any]) -> Outputs | None:
        """The outputs of an action by the cluster; None where it is to be done here."""
        for attempt in range(_ATTEMPTS):
            cluster = self._connected()
            if cluster is None:
                return None
            name = f"gristmill-{action.key}" + (f"-{attempt}" if attempt else "")
            begin = time.monotonic()
            try:
                worker, (kind, what) = cluster.done(
                    name,
                    job,
                    partial(self._among, cluster),
                    lambda: self._stalled(job, begin),  # noqa: B023
                )
            except LostError as error:
                self._leave(str(error))
                return None
            except Exception as error:  # of the cluster: no such module, workers that all died
                self._surveyed(cluster)
                self._note(error)
                return None
            self._progress = time.monotonic()
            if kind == "done":
                return self._judged(worker, action, what, here)
            if kind == "failed":
                told, limit = what if isinstance(what, tuple) and len(what) == 2 else (what, False)
                return self._doubted(worker, str(told), bool(limit), here)
            if kind == "absent":  # the arguments; another time, with the message
                job = Job(job.text, job.function, self._whole(job), "", job.timeout)
            else:
                self._refuse(worker, str(what))
        return None

    def _packed(self, args: tuple[Any, ...]) -> parcels.Parcel:
        """The arguments, through the cache until it fails at one."""
        parcel = parcels.packed(args, self.cache if self.publishes and not self.lost else None)
        if self.publishes and parcel[0] == "here" and len(parcel[1]) > parcels.INLINE:
            self.publishes = False
        return parcel

    def _whole(self, job: Job) -> parcels.Parcel:
        return parcels.packed(parcels.unpacked(job.args, self.cache), None)

    def _judged(
        self, worker: str, action: Action, parcel: Any, here: Callable[[], Any]
    ) -> Outputs | None:
        """A worker's result, where it can be the action's; the first one only if it is."""
        try:
            outputs = check_outputs(action, parcels.received(action.key, parcel, self.cache))
        except parcels.ParcelError as error:
            self.where = ""  # from now on results come with the message
            self._note(error)
            return None
        except (WrongResultError, TypeError, ValueError) as error:
            self._refuse(worker, f"gave a wrong result: {error}")
            return None
        with self._lock:
            audit = self._audits.setdefault(worker, threading.Lock())
        with audit:  # nobody takes a second result while the first one is compiled here
            if worker in self.refused:
                return None
            first = worker not in self._taken
            if first or random.random() < self.audited:
                self._audit(worker, action, outputs, here)
                if worker in self.refused:
                    return None
            self._taken[worker] = self._taken.get(worker, 0) + 1
        self._count("farmed")
        return outputs

    def _audit(
        self, worker: str, action: Action, outputs: Outputs, here: Callable[[], Any]
    ) -> None:
        """Refuse a worker whose result is not what is compiled here. PoisonedWorkerError where
        others of its results were taken already, CompileLimitError where this machine cannot
        tell."""
        self._count("audited")
        try:
            same = here() == outputs
        except CompileLimitError:  # this machine is slow, or small: no word on the worker
            raise
        except CompileError:
            same = False
        if same:
            return
        text = f"gave other bytes than this machine for the action {action.key}"
        self._refuse(worker, text)
        if taken := self._taken.get(worker):
            raise PoisonedWorkerError(
                f"farm worker {worker} {text}, after {taken} results of it were taken; remove what "
                "this build made, and build again with cache_mode=off and an empty GRISTMILL_STORE"
            )

    def _doubted(self, worker: str, told: str, limit: bool, here: Callable[[], Any]) -> Outputs:
        """What a worker failed at, done here: only what fails here as well has failed."""
        self._count("local")
        outputs: Outputs = here()
        if not limit:
            self._refuse(worker, f"failed at what can be done here: {told:.300}")
        return outputs

    def _connected(self) -> Cluster | None:
        if self.lost:
            return None
        with self._connecting:
            if self._cluster is None and not self.lost:
                try:
                    cluster = Cluster(self.address, self.patience)
                    self._surveyed(cluster)
                    self._cluster, self._progress = cluster, time.monotonic()
                except LostError as error:
                    self._leave(str(error))
            return self._cluster

    def _surveyed(self, cluster: Cluster) -> None:
        """Refuse the workers whose compiler is not the one here."""
        for worker, theirs in cluster.survey().items():
            if isinstance(theirs, BaseException):
                theirs = f"{type(theirs).__name__}: {theirs}"
            if reason := difference(theirs, identity()):
                self._refuse(worker, reason)

    def _among(self, cluster: Cluster) -> frozenset[str] | None:
        """The workers that may be asked; None for all."""
        return cluster.workers() - self.refused.keys() if self.refused else None

    def _stalled(self, job: Job, begin: float) -> str:
        bound = job.timeout + _GRACE
        late = time.monotonic() - max(self._progress, begin) > bound
        return f"it has given no result for {bound:g} s" if late else ""

    def _refuse(self, worker: str, reason: str) -> None:
        reason = plain(reason)  # much of it the worker said
        with self._lock:
            first = worker not in self.refused
            self.refused.setdefault(worker, reason)
        if first:
            self.warn(f"farm worker {worker} is refused: {reason}")

    def _leave(self, reason: str) -> None:
        with self._lock:
            first, self.lost = not self.lost, self.lost or reason
            cluster, self._cluster = self._cluster, None
        if first:
            reason = plain(reason)
            self.warn(f"farm {self.address}: {reason}; what is left is compiled here")
        if cluster is not None:
            cluster.close()

    def _note(self, error: Exception) -> None:
        with self._lock:
            self.counts[type(error).__name__] = self.counts.get(type(error).__name__, 0) + 1

    def _count(self, name: str) -> None:
        with self._lock:
            self.counts[name] += 1
