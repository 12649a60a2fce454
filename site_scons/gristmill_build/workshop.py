"""What the steps of one build share: the store, the compiler's processes, what was done."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import SCons.Util

from gristmill.backends.limits import DEADLINE
from gristmill.store import digest
from gristmill.store.interface import Outputs, Store
from gristmill.store.key import Action


class StepError(Exception):
    """A step that cannot be done for a reason that is no fault of the compiler."""


class Workshop:
    """What the actions of one build share: the store, the worker processes, the tally.

    package: where the compiler's own sources lie. deadline: seconds that one step may take. farm:
    a `backends.farm.farm.Farm`, which takes the place of the local processes.
    """

    def __init__(
        self,
        store: Store,
        jobs: int,
        verbose: bool,
        package: Path = digest.PACKAGE,
        deadline: float = DEADLINE,
        farm: Any = None,
    ) -> None:
        self.store, self.jobs, self.verbose, self.package = store, jobs, verbose, package
        self.deadline, self.farm = deadline, farm
        # Where the constexprs of a trace stand, by the file that it makes: see `Constexprs`.
        self.places: dict[str, dict[str, str]] = {}
        self.changed: set[str] = set()  # results that were changed after they were built
        self._sources: dict[str, bytes] = {}
        self._stamps: dict[str, Any] = {}
        self._compilers: dict[str, Action] = {}
        self._kept: set[str] = set()  # stages whose sources the store has
        self.built = self.stored = self.failed = 0
        self.started = time.monotonic()
        self._lock = threading.Lock()
        self._step = threading.local()  # made: whether the step of this thread made anything
        self.report: Callable[[str], None] = lambda text: None  # told of each step that is done

    @functools.cached_property
    def _pool(self) -> Any:
        from gristmill.backends.pool import Pool

        return Pool(self.jobs, self.deadline)

    def compiler(self, stage: str) -> str:
        """The digest of the compiler's sources for a stage, as they are when first asked for."""
        if stage not in self._compilers:
            self._stamps[stage] = digest.stage_stamp(stage, self.package)
            self._compilers[stage] = digest.stage_action(stage, self.package)
        return self._compilers[stage].key

    def refuse_edited_compiler(self, stage: str) -> None:
        """What was made by sources other than those of the key must not get into the store."""
        if digest.stage_stamp(stage, self.package) != self._stamps[stage]:
            raise StepError(f"the compiler ({stage}) was edited while it was used; run scons again")

    def run(
        self,
        function: str,
        *args: Any,
        subject: tuple[str, str],
        action: Action | None = None,
    ) -> Any:
        """Call `module:function` in a worker process. subject: the kernel and target it is for.
        action: what it does, where another machine may do it."""
        if self.farm is not None:
            return self.farm.run(function, *args, subject=subject, action=action)
        with self._lock:
            pool = self._pool
        return pool.run(function, *args, subject=subject)

    def read(self, node: Any) -> bytes:
        """The bytes of a source: those by which SCons took this build's decisions, read once."""
        path = node.get_abspath()
        if path not in self._sources:
            data = Path(path).read_bytes()
            if SCons.Util.hash_signature(data) != node.get_csig():
                raise StepError(f"{node} was edited while it was being built; run scons again")
            self._sources[path] = data
        return self._sources[path]

    def answer(
        self, action: Action, names: tuple[str, ...], stage: str, make: Callable[[], Outputs]
    ) -> dict[str, bytes]:
        """The outputs of a step, from the store or made now by the compiler's `stage`."""
        key = action.key

        def usable(outputs: Outputs | None) -> bool:
            return outputs is not None and set(outputs) == set(names)

        outputs = self.store.get(key)
        stored = usable(outputs)
        if not stored:
            with self.store.claim(key) as outputs:  # which another build may have made meanwhile
                stored = usable(outputs)
                if not stored:
                    outputs = make()
                    self.refuse_edited_compiler(stage)
                    self.store.keep(key, outputs, action.text)
                    self._keep_compiler(stage)
        assert outputs is not None
        with self._lock:
            self.stored += stored
            self.built += not stored
        if not stored:
            self.made()
        return outputs

    def _keep_compiler(self, stage: str) -> None:
        """Once for each stage that made something: which sources it had, for whoever asks."""
        with self._lock:
            first = stage not in self._kept
            self._kept.add(stage)
        if first:
            compiler = self._compilers[stage]
            self.store.keep(compiler.key, {}, compiler.text)

    def made(self) -> None:
        """The step of this thread does its work itself."""
        self._step.made = True

    def begin(self) -> None:
        """A step begins in this thread."""
        self._step.made = False

    def end(self, verb: str, targets: Any) -> None:
        """It is done. verb: what it did if not all of it came from the store."""
        changed = [name for name in map(str, targets) if name in self.changed]
        why = f" (changed after it was built: {', '.join(changed)})" if changed else ""
        with self._lock:
            self.report(f"{verb if self._step.made else 'fetch'} {targets[0]}{why}")

    def close(self) -> None:
        if "_pool" in self.__dict__:
            self._pool.close()
        if self.farm is not None:
            self.farm.close()
        self.store.close()

    def tally(self) -> dict[str, Any]:
        """What this build did, in numbers; seconds since it began."""
        seconds = round(time.monotonic() - self.started, 3)
        done = {"built": self.built, "stored": self.stored, "failed": self.failed}
        return {**done, "seconds": seconds}

    def summary(self) -> str:
        """One line on what this build did; empty where it did nothing."""
        if not self.built + self.stored + self.failed:
            return ""
        failed = f", {self.failed} failed" if self.failed else ""
        dropped, unkept = self.store.counts.mismatches, self.store.counts.unkept
        damaged = f"; {dropped} damaged store entries dropped" if dropped else ""
        if unkept:
            damaged += f"; warning: {unkept} not kept in the store: {self.store.refusal}"
        seconds = time.monotonic() - self.started
        share = 100 * self.stored // max(1, self.built + self.stored)
        return (
            f"gristmill: {self.built} steps built, {self.stored} from the store ({share} %)"
            f"{failed} in {seconds:.1f} s{damaged}"
        )
