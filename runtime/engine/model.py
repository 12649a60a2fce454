"""A plan on a device: steps, results, states."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from ...ir.plan import Role
from ..errors import ArgumentError, KernelFault, StateError
from .errors import NeedsReset

if TYPE_CHECKING:
    from ...ir.plan import Entry, Plan, Port
    from ..memory import Array
    from ..recording import Recording
    from .engine import Engine
    from .storages import Storages


class Model:
    """A loaded plan. One thread at a time steps it.

    timed: recordings measure their launches (`times`); set it before an entry's first step.
    """

    def __init__(self, engine: Engine, plan: Plan, storages: Storages) -> None:
        self.engine, self.plan, self.timed = engine, plan, False
        self._storages: Storages | None = storages
        self._recordings: dict[str, Recording] = {}
        self._stepped: set[str] = set()
        self._spoiled = False  # the last step has failed
        self._stateful = any(s.role is Role.STATE for s in plan.storages)

    def step(self, entry: str, /, **inputs: Any) -> None:
        """Submit one step; returns before it is done. The first step of an entry records it.

        inputs: arrays by the names of the entry's inputs; those that are not given keep what they
        had. Raises ArgumentError, after which nothing has happened, and NeedsReset.
        """
        storages, found = self._live(), self._entry(entry)
        if self._stateful:
            self._sound()
        ports = {port.name: port for port in found.inputs}
        given = [(self._port(ports, name, entry), value) for name, value in inputs.items()]
        arrays = [(port, self._array(port, value)) for port, value in given]
        recording = self._recording(found, storages)
        for port, array in arrays:
            if array.size:
                self.engine.device.write(storages.view(port.span), array)
        self.engine.stepped(self)
        self._spoiled = False
        recording.replay()
        self._stepped.add(entry)

    def read(self, entry: str, name: str) -> Array:
        """An output, once all steps are done. Raises what a wait raises: KernelFault, after which
        there is nothing to read before the next step, and a model with states is to be reset, and
        Poisoned. Raises NeedsReset, and StateError before the entry's first step."""
        storages, found = self._live(), self._entry(entry)
        port = self._port({port.name: port for port in found.outputs}, name, entry)
        self._done()
        if entry not in self._stepped:
            raise StateError(f"entry {entry} was not stepped", where=self._where)
        result = self.engine.device.download(storages.view(port.span))
        return result.reshape(port.shape)

    def state(self, name: str) -> Array:
        """What a state holds, as a line of elements, once all steps are done. Raises as `read`."""
        storages = self._live()
        for number, storage in enumerate(self.plan.storages):
            if storage.role is Role.STATE and storage.name == name:
                self._done()
                return self.engine.device.download(storages.buffer(number))
        names = [s.name for s in self.plan.storages if s.role is Role.STATE]
        raise ArgumentError(f"no state {name!r}", where=self._where, expected=", ".join(names))

    def reset(self) -> None:
        """Zeros in all states, as after loading. Raises Poisoned."""
        with suppress(KernelFault):  # of steps that this makes undone
            self.engine.wait()
        self._live().clear_states()
        self._stepped.clear()
        self._spoiled = False

    def prepare(self, entry: str) -> None:
        """Record an entry before its first step."""
        self._recording(self._entry(entry), self._live())

    def times(self, entry: str) -> list[tuple[str, str, float]]:
        """Node, kernel and seconds of each launch of an entry's last step (`timed`)."""
        found = self._entry(entry)
        if entry not in self._recordings:
            raise StateError(f"entry {entry} was not stepped", where=self._where)
        self._done()
        seconds = self._recordings[entry].timestamps()
        return [
            (launch.what, f"{launch.kernel} {launch.specialization}", float(s))
            for launch, s in zip(found.launches, seconds, strict=True)
        ]

    def memory(self) -> dict[str, int]:
        """Live bytes by role."""
        return self._live().bytes()

    def unload(self) -> None:
        """Give everything back; weights that other models share stay with them."""
        recordings, self._recordings, self._storages = self._recordings, {}, None
        for recording in recordings.values():
            recording.close()

    def spoil(self) -> None:
        """A step has failed: what it and those before it left is not to be read."""
        self._spoiled = True
        self._stepped.clear()

    def _done(self) -> None:
        """Wait for all steps; raises what this one's left, also when it has been told before."""
        self.engine.wait()
        self._sound()

    def _sound(self) -> None:
        if self._spoiled:
            states = ", and states may hold half of it" if self._stateful else ""
            raise NeedsReset(
                f"a step failed{states}",
                where=self._where,
                do="call reset(), then start again" if self._stateful else "step again",
            )

    @property
    def _where(self) -> str:
        return f"plan {self.plan.name}"

    def _live(self) -> Storages:
        if self._storages is None:
            raise StateError("the model is unloaded", where=self._where)
        return self._storages

    def _entry(self, name: str) -> Entry:
        try:
            return self.plan.entry(name)
        except KeyError as error:
            raise ArgumentError(str(error.args[0]), where=self._where) from error

    def _port(self, ports: dict[str, Port], name: str, entry: str) -> Port:
        if name not in ports:
            raise ArgumentError(
                f"entry {entry} has no {name!r}",
                where=self._where,
                expected=", ".join(ports) or "nothing",
            )
        return ports[name]

    def _array(self, port: Port, value: Any) -> Array:
        array = np.asarray(value, order="C")  # which leaves a scalar one
        if array.dtype != port.span.dtype.storage or array.shape != port.shape:
            raise ArgumentError(
                f"input {port.name!r}",
                where=self._where,
                expected=f"{port.span.dtype}{list(port.shape)}",
                got=f"{array.dtype}{list(array.shape)}",
            )
        return array

    def _recording(self, entry: Entry, storages: Storages) -> Recording:
        if entry.name not in self._recordings:
            with self.engine.device.record(timed=self.timed) as recording:
                for launch in entry.launches:
                    recording.launch(storages.kernel(launch), *storages.arguments(launch))
            self._recordings[entry.name] = recording
        return self._recordings[entry.name]
