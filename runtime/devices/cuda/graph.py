"""Recordings as CUDA graphs: a node for each launch, an edge for each real hazard.

Few launches are left to overlap, though, by further edges: a launch of a graph costs the host more
with each that may begin at once (200 tiny kernels on an H200: 4 us in a row, 12 us eight abreast,
194 us all abreast, which the device then waits for).
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import GristmillError
from ...hazards import Dependencies
from ...launch import Command
from .api import Api
from .queue import Queue

ABREAST = 8  # launches that may overlap


class CudaRecording:
    """An executable graph. exec: None without launches. sited: a launch of it has fault sites.
    replayed: at least once."""

    def __init__(
        self, api: Api, queue: Queue, faults: int, commands: Sequence[Command], timed: bool
    ) -> None:
        self._api, self._queue, self._faults = api, queue, faults
        self.launches = list(commands)
        self.sited = any(c.kernel.code.sited for c in commands if c.groups)
        self.replayed = False
        self._nodes: dict[int, Any] = {}
        self._events: list[Any] = []
        self._graph = api.call("cuGraphCreate", 0)
        self.exec: Any = None
        try:
            self._build(timed)
            if self._nodes:
                self.exec = api.call("cuGraphInstantiate", self._graph, 0)
                api.call("cuGraphUpload", self.exec, queue.stream)
                queue.busy = True
        except BaseException:
            with contextlib.suppress(GristmillError):  # the first error tells more
                self.close()
            raise

    def rewrite(self, launch: int, command: Command) -> None:
        """Other scalars for later replays; none is pending."""
        if launch in self._nodes:
            params = command.kernel.code.node_parameters(command, self._faults)
            self._api.call("cuGraphExecKernelNodeSetParams", self.exec, self._nodes[launch], params)
        self.launches[launch] = command

    def times(self) -> npt.NDArray[np.float64]:
        """Seconds of each launch in the last replay, which is done."""
        result = np.zeros(len(self.launches))
        if not self.replayed:
            return result
        spans = zip(self._nodes, self._events, self._events[1:], strict=False)
        for launch, start, end in spans:
            result[launch] = self._api.call("cuEventElapsedTime", start, end) * 1e-3
        return result

    def close(self) -> None:
        """The driver keeps what a pending replay needs."""
        with contextlib.ExitStack() as rest:  # all of it, whatever fails
            for event in self._events:
                rest.callback(self._api.call, "cuEventDestroy", event)
            rest.callback(self._api.call, "cuGraphDestroy", self._graph)
            if self.exec is not None:
                rest.callback(self._api.call, "cuGraphExecDestroy", self.exec)

    def _build(self, timed: bool) -> None:
        before, hazards = [], Dependencies()
        order: list[Any] = []
        waiting: list[int] = []  # the last launch whose workgroups wait for each other
        open_ends: dict[int, None] = {}  # launches that none follows, oldest first
        if timed:
            before = [self._event_node([])]
        for n, command in enumerate(self.launches):
            if not command.groups:
                continue
            # Timed launches do not overlap: each would be charged with its neighbours' time.
            follows = [] if timed else hazards.of(command.bindings)
            for other in follows:
                open_ends.pop(other, None)
            code = command.kernel.code
            if code.cooperative:
                # They share a counter, and two of them could each hold half of the device.
                for other in waiting if not timed else ():
                    if other not in follows:
                        follows.append(other)
                        open_ends.pop(other, None)
                waiting = [len(order)]
            if len(open_ends) >= ABREAST:
                oldest = next(iter(open_ends))
                del open_ends[oldest]
                follows.append(oldest)
            open_ends[len(order)] = None
            after = before if timed else [order[other] for other in follows]
            # Behind one launch it may begin when that one lets it.
            early = after.pop() if code.dependent and not timed and len(after) == 1 else None
            params = command.kernel.code.node_parameters(command, self._faults)
            node = self._api.call(
                "cuGraphAddKernelNode", self._graph, after or None, len(after), params
            )
            code.finish_node(self._graph, node, early)
            self._nodes[n] = node
            order.append(node)
            if timed:
                before = [self._event_node([node])]

    def _event_node(self, after: list[Any]) -> Any:
        event = self._queue.event(timing=True)
        self._events.append(event)
        return self._api.call(
            "cuGraphAddEventRecordNode", self._graph, after or None, len(after), event
        )
