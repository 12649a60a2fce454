"""A plan's memory on a device: allocated, filled, and the load done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...ir.plan import Role, Span
from .weights import checked

if TYPE_CHECKING:
    from collections.abc import Iterable, MutableMapping

    from ...ir.plan import Launch, Plan
    from ..bundle import Bundle
    from ..device import Device
    from ..launch import LoadedKernel
    from ..memory import Buffer
    from .weights import Weights


class Storages:
    """Buffers of the storages that steps use. What the load alone needs, such as weights that it
    turns into others, is there only while it runs."""

    def __init__(
        self,
        device: Device,
        bundle: Bundle,
        plan: Plan,
        weights: Weights,
        resident: MutableMapping[tuple[str, str], Buffer],
    ) -> None:
        self.device, self.bundle, self.plan = device, bundle, plan
        self._weights, self._resident = weights, resident
        self._buffers: dict[int, Buffer] = {}
        self._kernels: dict[tuple[str, str], LoadedKernel] = {}
        try:
            self._load()
        except BaseException:
            self._buffers.clear()  # whoever keeps the error keeps no memory with it
            raise

    def buffer(self, storage: int) -> Buffer:
        """Of a storage, made and filled when it is first asked for."""
        if storage not in self._buffers:
            self._buffers[storage] = self._made(storage)
        return self._buffers[storage]

    def arguments(self, launch: Launch) -> list[Any]:
        """Of a launch: views of buffers, and scalars."""
        return [self.view(a) if isinstance(a, Span) else a for a in launch.args]

    def view(self, span: Span) -> Buffer:
        return self.buffer(span.storage).view(span.start, span.count, span.dtype)

    def kernel(self, launch: Launch) -> LoadedKernel:
        key = launch.kernel, launch.specialization
        if key not in self._kernels:
            self._kernels[key] = self.device.load(self.bundle, *key)
        return self._kernels[key]

    def clear_states(self) -> None:
        """Zeros in all states."""
        for number, storage in enumerate(self.plan.storages):
            if storage.role is Role.STATE:
                zeros = np.zeros(storage.count, storage.dtype.storage)
                self.device.write(self.buffer(number), zeros)

    def bytes(self) -> dict[str, int]:
        """Live bytes by role."""
        found = dict.fromkeys((role.value for role in Role), 0)
        for number, buffer in self._buffers.items():
            found[self.plan.storages[number].role.value] += buffer.nbytes
        return found

    def _made(self, number: int) -> Buffer:
        storage = self.plan.storages[number]
        if storage.role is Role.WEIGHT:
            return self._weight(number)
        buffer = self.device.allocate(storage.count, storage.dtype)
        if storage.data is not None and storage.count:
            little = storage.dtype.storage.newbyteorder("<")
            array = np.frombuffer(storage.data, little).astype(storage.dtype.storage)
            self.device.write(buffer, array)
        return buffer

    def _weight(self, number: int) -> Buffer:
        storage = self.plan.storages[number]
        key = self._weights.identity, storage.name
        array = checked(self._weights, storage)  # another plan may have taken it for another type
        found = self._resident.get(key)
        if found is None:
            found = self.device.allocate(storage.count, storage.dtype)
            if storage.count:
                self.device.write(found, np.ascontiguousarray(array))
            self._resident[key] = found
        return found

    def _load(self) -> None:
        """Everything that steps use, once; each of the weights that they do not use goes when no
        launch of the load needs it any more."""
        steps = _used(x for entry in self.plan.entries for x in entry.launches)
        ports = (p for e in self.plan.entries for p in (*e.inputs, *e.outputs))
        steps |= {p.span.storage for p in ports}
        last = {n: k for k, x in enumerate(self.plan.load) for n in _used([x])}
        for k, launch in enumerate(self.plan.load):
            self.device.launch(self.kernel(launch), *self.arguments(launch))
            over = [n for n in _used([launch]) if last[n] == k and n not in steps]
            if any(self._buffers[n].nbytes > 1 << 20 for n in over):
                self.device.synchronize()  # so that their memory is there for the next
            for n in over:
                del self._buffers[n]
        for n in sorted(steps):
            self.buffer(n)
        self.clear_states()
        self.device.synchronize()


def _used(launches: Iterable[Launch]) -> set[int]:
    return {span.storage for launch in launches for span in launch.spans()}
