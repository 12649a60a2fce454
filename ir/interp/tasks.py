"""Arms of an `if` that wait for each other, as tasks that run one at a time.

Where invocations part, an arm usually runs to its end before the other begins. A kernel with
mbarriers may have one arm wait for the other: then each arm is a task, in a thread of its own of
which only one runs, and a wait that is not over lets the others go on. Where all wait, nothing
will ever end it: that is reported, and from then on no wait lasts.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..core import Kernel, Op
from ..extensions import used
from .report import ProblemKind

if TYPE_CHECKING:
    from .machine import Machine

_STACK = 64 << 20


def needed(kernel: Kernel) -> bool:
    """Whether arms may wait for each other. Memory is then ordered by other means than barriers of
    whole workgroups, which is what the watch for races knows."""
    return not {"nv_async", "nv_roles"}.isdisjoint(used(kernel))


class _Task:
    def __init__(self, work: Callable[[], None]) -> None:
        self.work = work
        self.go, self.paused = threading.Semaphore(0), threading.Semaphore(0)
        self.done = False
        self.moved = True  # it has got on since it was last resumed
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        self.go.acquire()
        try:
            self.work()
        except BaseException as error:  # handed to whoever resumes
            self.error = error
        self.done = True
        self.paused.release()

    def resume(self) -> None:
        """Let it run until it waits or ends."""
        if not self.thread.is_alive() and not self.done:
            size = threading.stack_size(_STACK)
            try:
                self.thread.start()
            finally:
                threading.stack_size(size)
        self.go.release()
        self.paused.acquire()
        if self.error is not None:
            raise self.error

    def pause(self) -> None:
        """Called by the task itself: until it is resumed."""
        self.paused.release()
        self.go.acquire()


class Tasks:
    """The tasks of a machine; the running one last."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.stack: list[_Task] = []
        self.dead = False  # all waited for each other

    def run(self, arms: Sequence[Callable[[], None]]) -> None:
        """Run all arms to their ends, each going on where the others wait."""
        left = [_Task(arm) for arm in arms]
        while left:
            moved = False
            for task in list(left):
                task.moved = False
                self.stack.append(task)
                try:
                    task.resume()
                finally:
                    self.stack.pop()
                moved |= task.moved or task.done
                if task.done:
                    left.remove(task)
            if left and not moved:
                self._idle()

    def _idle(self) -> None:
        """Nothing goes on in here: others may."""
        if self.stack:
            self.stack[-1].pause()
        else:
            self.dead = True

    def wait(self, over: Callable[[], bool], op: Op, what: Callable[[], str]) -> None:
        """Until `over`; a wait that nothing ends is a problem of `op`."""
        while not over():
            if not self.stack:
                self.dead = True
            if self.dead:
                self.machine.recorder.add(ProblemKind.ENDLESS_WAIT, op, 1, what)
                return
            self.stack[-1].pause()
        for task in self.stack:
            task.moved = True
