"""The user-mode queue of a device: a ring of packets in memory, and copies in turn with them.

Only this process's device writes to the ring, with the device's lock held. Packets are published in
blocks: they are copied in with first words that say INVALID, then these are stored, that of the
first packet last, and the doorbell is rung once. A GPU that is at work fetches several packets
ahead, so none may look valid before all of it is there. Plain stores publish on x86-64, whose
stores become visible in order.

Work is one line in time. A copy runs on the device's copy engines beside the queue: it is ordered
by signals, after a fence in the queue that waits for all that came before, and before whatever
packet comes next. A submission that ends in a packet which counts `counter` down needs no fence of
its own when a wait comes.
"""

from __future__ import annotations

import ctypes
import time
from collections import deque
from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import DeviceLost, DeviceTimeout, GristmillError, Poisoned, SubmissionFailed
from . import packets
from .api import QUEUE_ERROR, Api, named
from .packets import BYTES, DISPATCH_BODY, FENCE, INVALID
from .signals import Signals

_MULTI, _ANY = 0, 0xFFFFFFFF
_START = 1 << 48  # of the counter: more than there will ever be submissions
_LOST = (41, 42, 43, 0x1000, 0x1016, 0x1026)  # statuses of a queue that are not about its packets
_LONGEST_NAP = 1e-3
Heads = npt.NDArray[np.uint32]  # the first words of packets
_FENCE_HEADS: Heads = np.array([FENCE], np.uint32)


class Moment:
    """A copy or a fence. done: known to be; before that its signal tells."""

    __slots__ = ("done", "marker", "signal")

    def __init__(self, signal: int, marker: int = 0) -> None:
        self.signal, self.marker, self.done = signal, marker, False


class Queue:
    """busy: work may be pending that no wait has covered. size: packets that the ring holds."""

    def __init__(
        self, api: Api, agent: int, size: int, signals: Signals, name: str, timeout: float
    ) -> None:
        self.api, self.agent, self.name, self.timeout = api, agent, name, timeout
        self.signals = signals
        self.counter = signals.make(_START)
        self._callback = QUEUE_ERROR(self._failed)  # the library keeps no reference
        self.handle = api.made(
            "hsa_queue_create", agent, size, _MULTI, self._callback, None, _ANY, _ANY, where=name
        )
        self._base = ctypes.c_uint64.from_address(self.handle + 8).value
        self._doorbell = ctypes.c_uint64.from_address(self.handle + 16).value
        self.size = ctypes.c_uint32.from_address(self.handle + 24).value
        self._words = (ctypes.c_uint32 * (self.size * BYTES // 4)).from_address(self._base)
        self._heads: Heads = np.ctypeslib.as_array(self._words)[:: BYTES // 4]
        self._read_index = api.fn["hsa_queue_load_read_index_scacquire"]
        self._add = api.fn["hsa_queue_add_write_index_screlease"]
        self._ring = api.fn["hsa_signal_store_screlease"]
        self._scratch = ctypes.create_string_buffer(INVALID.to_bytes(4, "little"), BYTES)
        self._written = api.fn["hsa_queue_load_write_index_relaxed"](self.handle)
        self._read = self._read_index(self.handle)
        self._counted = 0
        self._open = False  # a block is being published
        self._trailing = False  # packets lie behind the last one that counts
        self._copy: Moment | None = None  # that no packet follows yet
        self._moments: deque[Moment] = deque()
        self._error: Poisoned | None = None
        self.busy = self.profiled = False

    def fail(self, what: str, kind: type[Poisoned] = DeviceLost) -> None:
        """Note, in any thread, that the queue is beyond use."""
        if self._error is None:
            self._error = kind(what, where=self.name, do="open it again")

    def check(self) -> None:
        """Raise what the queue, or a copy, failed with."""
        self._usable()
        for moment in self._moments:
            if self.signals.done(moment.signal):
                moment.done = True

    def launch(self, head: int, body: tuple[int, ...]) -> None:
        """Publish one dispatch; the values of its body are as `packets.DISPATCH_BODY` has them."""
        if self._copy is not None:
            self._fence(0)
        at = self._room(1)
        slot = (at & (self.size - 1)) * BYTES
        self._open = True
        self._add(self.handle, 1)
        DISPATCH_BODY.pack_into(self._words, slot + 4, *body)
        self._words[slot >> 2] = head
        self._ring(self._doorbell, at)
        self._written = at + 1
        self.busy = self._trailing = True
        self._open = False

    def put(self, image: int, heads: Heads, counts: bool = False) -> None:
        """Publish packets, at most `size`, from memory, where all are INVALID; `heads` are their
        first words. counts: the last one, behind all others, counts `counter` down."""
        if self._copy is not None:
            self._fence(0)
        self._publish(image, heads, counts)

    def _publish(self, image: int, heads: Heads, counts: bool) -> None:
        count = len(heads)
        at = self._room(count)
        slot = at & (self.size - 1)
        fits = self.size - slot
        self._open = True
        self._add(self.handle, count)
        if count <= fits:
            ctypes.memmove(self._base + slot * BYTES, image, count * BYTES)
        else:
            ctypes.memmove(self._base + slot * BYTES, image, fits * BYTES)
            ctypes.memmove(self._base, image + fits * BYTES, (count - fits) * BYTES)
            self._heads[: count - fits] = heads[fits:]
        if count > 1:
            self._heads[slot + 1 : slot + count] = heads[1:fits]
        self._heads[slot] = heads[0]
        self._ring(self._doorbell, at + count - 1)
        self._written = at + count
        self._counted += counts
        self.busy, self._trailing = True, not counts
        self._open = False

    def mark(self) -> Moment:
        """What is done once everything submitted so far is."""
        moment = Moment(self._take())
        self._fence(moment.signal)
        self._moments.append(moment)
        return moment

    def copy(self, to: int, to_agent: int, source: int, from_agent: int, nbytes: int) -> Moment:
        """Copy memory that both agents reach, after everything submitted so far."""
        moment = Moment(self._take())
        waits = None
        if self.busy:
            moment.marker = self._take()
            self._fence(moment.marker)
            waits = ctypes.byref(ctypes.c_uint64(moment.marker))
        # Before the call, behind which an interrupt may come.
        self.busy, self._copy = True, moment
        self._moments.append(moment)
        try:
            self.api.call(
                "hsa_amd_memory_async_copy",
                *(to, to_agent, source, from_agent, nbytes),
                *(1 if waits else 0, waits, moment.signal),
                where=self.name,
            )
        except GristmillError:
            self._copy = None
            self._moments.pop()
            raise
        return moment

    def finish(self, moment: Moment) -> None:
        """Until a moment has come; DeviceTimeout, DeviceLost."""
        if not moment.done:
            if not self.signals.done(moment.signal):
                self.signals.until(moment.signal, 1, self.timeout, self.check)
                self.signals.done(moment.signal)  # or failed
            moment.done = True

    def wait(self, timeout: float) -> None:
        """Until all submitted work is done; DeviceTimeout, DeviceLost, SubmissionFailed."""
        self._usable()
        if not self.busy:
            return
        if self._copy is not None:  # which is behind everything else
            self.signals.until(self._copy.signal, 1, timeout, self.check)
            self.signals.done(self._copy.signal)
        else:
            if self._trailing:
                self._fence(self.counter)
            below = _START - self._counted + 1
            self.signals.until(self.counter, below, timeout, self.check)
        self.check()
        self.busy = False
        self._copy = None
        while self._moments:
            self._retire(self._moments.popleft())

    def profile(self) -> None:
        """Let dispatches note when they began and ended, from now on."""
        if not self.profiled:
            self.api.call("hsa_amd_profiling_set_profiler_enabled", self.handle, 1)
            self.profiled = True

    def close(self) -> None:
        """No work is pending."""
        self.api.call("hsa_queue_destroy", self.handle)

    def _fence(self, signal: int) -> None:
        """A packet behind everything, which counts a signal (0: none) down."""
        after = self._copy
        body = packets.barrier_body(after.signal if after else 0, signal)
        ctypes.memmove(ctypes.addressof(self._scratch) + 4, body, BYTES - 4)
        self._publish(ctypes.addressof(self._scratch), _FENCE_HEADS, signal == self.counter)
        self._copy = None

    def _room(self, count: int) -> int:
        """The index of the next packet, once so many fit into the ring."""
        self._usable()
        if self._written + count - self._read > self.size:
            self._make_room(count)
        return self._written

    def _usable(self) -> None:
        if self._error is not None:
            raise self._error
        if self._open:
            raise SubmissionFailed("a submission was interrupted", where=self.name)

    def _make_room(self, count: int) -> None:
        begin = time.perf_counter()
        while True:
            self._read = self._read_index(self.handle)
            if self._written + count - self._read <= self.size:
                return
            self.check()
            passed = time.perf_counter() - begin
            if passed >= self.timeout:
                raise DeviceTimeout(
                    f"the queue took nothing for {self.timeout:g} s",
                    where=self.name,
                    do="its memory is left behind; use smaller launches or a longer bound",
                )
            time.sleep(min(passed / 16, _LONGEST_NAP))

    def _take(self) -> int:
        """A signal for one use. What came before a moment that is done has served: packets that
        waited for its signals are done, too."""
        while len(self._moments) > 1 and (
            self._moments[1].done or self.signals.done(self._moments[1].signal)
        ):
            self._moments[1].done = True
            self._retire(self._moments.popleft())
        return self.signals.take()

    def _retire(self, moment: Moment) -> None:
        moment.done = True
        for signal in (moment.signal, moment.marker):
            if signal:
                self.signals.give(signal)

    def _failed(self, status: int, queue: Any, data: Any) -> None:
        """Called by the library, in a thread of its own."""
        if status:
            kind: type[Poisoned] = DeviceLost if status in _LOST else SubmissionFailed
            self.fail(f"the queue reports {named(status)}", kind)
