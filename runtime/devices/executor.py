"""Worker threads for devices that are this process: jobs in order, shared by several workers.

Worker 0 leads: it takes jobs from the queue and runs their stages one after another; a wide stage
is handed to helpers as well. All threads are daemons: when a wait outlasts its bound they are left
behind with what they touch, and the process can still end.
"""

from __future__ import annotations

import threading
import time
from queue import SimpleQueue
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ..launch import Command


class Stage(Protocol):
    """Work that several workers may share: `begin` says how many, then each calls `work` once."""

    def begin(self) -> int: ...

    def work(self, worker: int) -> None: ...


class LaunchingStage(Stage, Protocol):
    """A stage that is one launch; its scalars can be changed while it does not run."""

    def rewrite(self, command: Command) -> None: ...


Job = list[Stage]


class Executor:
    """See the module. `workers`: threads that run stages, the leader among them."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self.error: BaseException | None = None
        self._jobs: SimpleQueue[tuple[Job, list[float] | None] | None] = SimpleQueue()
        self._helpers: list[SimpleQueue[Stage | None]] = []
        self._arrived = threading.Semaphore(0)
        self._done = threading.Condition()
        self._submitted = self._completed = 0
        self._started = False

    @property
    def idle(self) -> bool:
        """Whether all submitted jobs are done."""
        return self._completed == self._submitted

    def submit(self, job: Job, times: list[float] | None = None) -> None:
        """Queue a job; `times` is filled with the seconds of each stage."""
        if not self._started:
            self._start()
        self._submitted += 1
        self._jobs.put((job, times))

    def wait(self, timeout: float) -> bool:
        """Whether all submitted jobs were done within `timeout` seconds."""
        if self.idle:
            return True
        with self._done:
            return self._done.wait_for(lambda: self.idle, timeout)

    def stop(self) -> None:
        """End the threads; all jobs are done."""
        if self._started:
            self._jobs.put(None)
            for helper in self._helpers:
                helper.put(None)
            for thread in self._threads:
                thread.join()
            self._started = False

    def _start(self) -> None:
        self._helpers = [SimpleQueue() for _ in range(self.workers - 1)]
        self._threads = [threading.Thread(target=self._lead, name="gristmill-cpu-0", daemon=True)]
        for number, queue in enumerate(self._helpers, 1):
            name = f"gristmill-cpu-{number}"
            self._threads.append(
                threading.Thread(target=self._help, args=(number, queue), name=name, daemon=True)
            )
        for thread in self._threads:
            thread.start()
        self._started = True

    def _lead(self) -> None:
        while (item := self._jobs.get()) is not None:
            job, times = item
            stage: Stage | None
            for number, stage in enumerate(job):
                start = time.perf_counter()
                self._run(stage)
                if times is not None:
                    times[number] = time.perf_counter() - start
            # A thread that waits for the next job must not keep this one's buffers alive.
            del item, job, times
            stage = None
            with self._done:
                self._completed += 1
                self._done.notify_all()

    def _run(self, stage: Stage) -> None:
        try:
            wanted = stage.begin()
        except BaseException as error:  # as in `_work`
            self.error = error
            return
        helpers = self._helpers[: min(wanted, self.workers) - 1]
        for helper in helpers:
            helper.put(stage)
        self._work(stage, 0)
        for _ in helpers:
            self._arrived.acquire()

    def _help(self, worker: int, queue: SimpleQueue[Stage | None]) -> None:
        while (stage := queue.get()) is not None:
            self._work(stage, worker)
            stage = None  # a waiting thread must not keep its buffers alive
            self._arrived.release()

    def _work(self, stage: Stage, worker: int) -> None:
        try:
            stage.work(worker)
        except BaseException as error:  # reported by the next wait: a thread has no caller
            self.error = error
