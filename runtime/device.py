"""The device contract: what callers use of every device.

A device may be used from several threads: one lock per device, calls take turns. Work runs in the
order in which it was submitted. Every wait is bounded; a `Poisoned` error ends the device's life.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ..ir.dtypes import DType
from . import lifetime
from .arguments import adopted, bind, checked, positional
from .bundle import Artifact, Bundle
from .errors import (
    ArgumentError,
    GristmillError,
    KernelFault,
    Poisoned,
    Refused,
    StateError,
    SubmissionFailed,
    expect,
)
from .holdings import Holdings
from .launch import Command, LoadedKernel
from .life import entry
from .lifetime import WAIT_SECONDS
from .memory import (
    Array,
    Buffer,
    MemoryReport,
    Slot,
    as_dtype,
    as_seconds,
    as_shape,
    as_stored,
    conversion_to,
    host_array,
    scalar_array,
)
from .recording import Recording
from .refusal import Refusal
from .selection import choose, measured

if TYPE_CHECKING:
    import numpy.typing as npt

    from ..ir.targets import Capabilities
    from .binder import Direct
    from .tuning import Choices


class Device(Holdings):
    """A device that runs artifacts. Use it as a context manager or call `close`.

    name: as given to `open_device`. timeout: seconds that every wait may take unless it says so.
    """

    def __init__(
        self, name: str, capabilities: Capabilities, timeout: float = WAIT_SECONDS
    ) -> None:
        super().__init__(name, capabilities, timeout)
        self._kernels: dict[tuple[str, ...], LoadedKernel] = {}
        self._binding_keys: dict[tuple[Any, ...], object] = {}

    # what callers use

    @entry
    def allocate(self, shape: int | Sequence[int], dtype: DType | str | npt.DTypeLike) -> Buffer:
        """A buffer with undefined contents. Raises OutOfMemory, LimitExceeded, ArgumentError."""
        kind, sizes = as_dtype(dtype), as_shape(shape)
        nbytes = functools.reduce(int.__mul__, sizes, kind.bytes)
        return Buffer(self._reserve(nbytes), 0, sizes, kind)

    @entry
    def upload(self, array: Array, dtype: DType | str | None = None) -> Buffer:
        """A buffer with the array's contents; `dtype` "bf16" takes an array of uint16, and
        "f8e4m3" and "f8e5m2" take one of uint8; arrays of ml_dtypes need none."""
        source = host_array(array, self.name)
        buffer = self.allocate(source.shape, as_dtype(source.dtype if dtype is None else dtype))
        self.write(buffer, source)
        return buffer

    @entry
    def write(self, buffer: Buffer, array: Array) -> None:
        """Replace a buffer's contents; ordered after all work submitted before."""
        self._own(buffer)
        if buffer.read_only:
            raise ArgumentError("memory of another library is read-only", where=repr(buffer))
        source = host_array(array, repr(buffer))
        if (stored := as_stored(source)) is not source and as_dtype(source.dtype) == buffer.dtype:
            source = stored
        if source.dtype != buffer.dtype.storage or source.size != buffer.count:
            raise ArgumentError(
                "array does not fit the buffer",
                where=repr(buffer),
                expected=f"{buffer.count} elements of {buffer.dtype.storage}",
                got=f"{source.size} of {source.dtype}",
                do="" if source.dtype == buffer.dtype.storage else conversion_to(buffer.dtype),
            )
        if source.size:
            self._write(buffer.allocation.handle, buffer.offset, _bytes(source))

    @entry
    def download(self, buffer: Buffer) -> Array:
        """The contents once all work submitted before is done; raises what `synchronize` does."""
        self._own(buffer)
        self.synchronize()
        result = np.empty(buffer.shape, buffer.dtype.storage)
        if result.size:
            self._read(buffer.allocation.handle, buffer.offset, _bytes(result))
        return result

    @entry
    def slot(self, dtype: DType | str, value: float = 0) -> Slot:
        """A slot: a value in device memory that launches and replays read when they run."""
        kind = as_dtype(dtype)
        slot = Slot(self._reserve(kind.bytes), 0, (1,), kind)
        self.write(slot, scalar_array(value, kind, repr(slot)))
        return slot

    @entry
    def adopt(self, value: Any) -> Buffer:
        """A buffer on device memory of another library, in place: anything with `__dlpack__` or
        `__cuda_array_interface__` on this device. A buffer of this device is given back as it is.

        ArgumentError on anything else, StateError for a buffer of another device or a freed one.
        """
        return adopted(self, value)

    @entry
    def load(
        self,
        bundle: Bundle,
        kernel: str,
        specialization: str | None = None,
        sizes: Mapping[str, int] | None = None,
    ) -> LoadedKernel:
        """The kernel from the best artifact for this device; the same again for a second call.

        sizes: of the problem (parameter -> value, or elements of a buffer), where the best variant
        depends on them. Without them, launches choose among what was measured on such a device.
        Raises Refused (no variant fits), ArtifactMissing, ArtifactCorrupt, ManifestInvalid.
        """
        expect(bundle, Bundle, self.name)
        expect(kernel, str, self.name)
        self._meet(bundle)
        if specialization is None:
            specialization = bundle.specialization(kernel)
        found = bundle.select(kernel, specialization, self.capabilities, sizes)
        if isinstance(found, Refusal):
            raise Refused(found)
        loaded = self._loaded(found)
        artifacts = bundle.artifacts(kernel, specialization)
        if sizes is None and len(artifacts) > 1:
            choices = measured(artifacts, found, self.capabilities)
            if choices is not None:
                return self._choosing(loaded, choices, bundle.digest)
        return loaded

    @entry
    def load_artifact(self, bundle: Bundle, artifact: Artifact) -> LoadedKernel:
        """The kernel from one artifact of a bundle, whatever else there is; Refused where this
        device lacks what it needs."""
        expect(bundle, Bundle, self.name)
        expect(artifact, Artifact, self.name)
        self._meet(bundle)
        found = choose([artifact], self.capabilities)
        if isinstance(found, Refusal):
            raise Refused(found)
        return self._loaded(found)

    def launch(self, kernel: LoadedKernel, /, *args: Any, grid: Any = None, **named: Any) -> None:
        """Submit one launch with device buffers and scalars; returns before it is done."""
        with self._lock:  # as in `entry`, whose own call would be a tenth of this one
            if not self._usable:
                self._refuse()
            try:
                if (
                    named
                    or type(kernel) is not LoadedKernel
                    or kernel.device is not self
                    or not (kernel.direct or self._first(kernel))(args, grid)
                ):
                    command = checked(self, kernel, args, named, grid)
                    if 0 not in command.grid:
                        self._submit(command)
            except Poisoned as error:
                self._poison(error)
                raise

    def record(self, timed: bool = False) -> Recording:
        """A new recording, open for launches: `with device.record() as r: r.launch(...)`.

        timed: every replay measures its launches (see `timestamps`).
        """
        return Recording(self, timed)

    @entry
    def replay(self, recording: Recording) -> None:
        """Submit all launches of a recording; returns before they are done."""
        expect(recording, Recording, self.name)
        if recording.device is not self:
            raise StateError("recording of another device", where=self.name)
        self._replay(recording.handle)

    @entry
    def synchronize(self, timeout: float | None = None) -> None:
        """Wait until all submitted work is done.

        Raises KernelFault if a launch since the last call faulted, DeviceTimeout after `timeout`
        seconds (which poisons the device), DeviceLost.
        """
        self._wait(self.timeout if timeout is None else as_seconds(timeout, self.name))
        self._collect()
        if fault := self._pending_fault():
            raise fault

    @entry
    def timestamps(self, recording: Recording) -> npt.NDArray[np.float64]:
        """Seconds of each launch in the last replay of a timed recording; waits for it."""
        expect(recording, Recording, self.name)
        if not recording.timed:
            raise StateError("the recording is not timed", do="record it with record(timed=True)")
        handle = recording.handle
        self.synchronize()
        return self._times(handle)

    @entry
    def memory(self) -> MemoryReport:
        """Bytes in use and to be had."""
        self._collect()
        budget, total, estimated = self._budget()
        return MemoryReport(self._live, self._peak, budget, total, estimated)

    def close(self) -> None:
        """Wait for pending work and give everything back; a poisoned device leaks on purpose.

        Raises what the wait raises, and KernelFault, once everything is given back, for a fault
        that no `synchronize` has told. A `with` block that ends by an exception raises that alone.
        """
        fault = None
        with self._lock:
            if self._closed or self._forked:
                return
            try:
                if self._dead is None:
                    self._wait(self.timeout)
                    fault = self._pending_fault()
                    self._empty = None
                    self._collect()
            except Poisoned as error:
                self._poison(error)
                raise
            except GristmillError:  # what finished work has to tell
                raise
            except BaseException:  # Ctrl-C: work may go on
                self._poison(SubmissionFailed("closing was interrupted", where=self.name))
                raise
            finally:
                self._closed, self._usable = True, False
                lifetime.closed(self)
                if self._dead is None:
                    self._kernels.clear()
                    self._close()
        if fault:
            raise fault

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        try:
            self.close()
        except KernelFault:
            if kind is None:
                raise

    def __repr__(self) -> str:
        return f"<device {self.name}: {self.capabilities.name}>"

    # shared by the drivers

    def _pending_fault(self) -> KernelFault | None:
        """The fault of work that a wait has covered; its bits are cleared."""
        words = self._faults.words
        fault = self._faults.explain(self._take_faults(words)) if words else None
        self._faults.settle()
        return fault

    def _meet(self, bundle: Bundle) -> None:
        """What a device takes from a bundle for itself."""

    def _loaded(self, artifact: Artifact) -> LoadedKernel:
        key = (artifact.manifest.sha256, artifact.manifest.to_json())
        if key not in self._kernels:
            loaded = LoadedKernel(self, artifact, self._load(artifact, artifact.read()))
            loaded.faults = self._faults.reserve([(loaded, None)])
            self._kernels[key] = loaded
        return self._kernels[key]

    def _choosing(self, first: LoadedKernel, choices: Choices, digest: str) -> LoadedKernel:
        """A handle whose launches choose, for a bundle of a digest. It is none of the kernels that
        it chooses from."""
        from .tuning import Choice

        key = (first.manifest.sha256, first.manifest.to_json(), digest)
        if key not in self._kernels:
            handle = LoadedKernel(self, first.artifact, first.code)
            handle.choice = Choice(first, choices)
            self._kernels[key] = handle
        return self._kernels[key]

    def _first(self, kernel: LoadedKernel) -> Direct:
        choice = kernel.choice
        kernel.direct = self._direct(kernel) if choice is None else choice.direct
        return kernel.direct

    def _own(self, buffer: Buffer) -> None:
        expect(buffer, Buffer, self.name)
        if buffer.device is not self:
            raise StateError("buffer of another device", expected=self.name, got=buffer.device.name)

    @entry
    def _command(
        self, kernel: LoadedKernel, args: Sequence[Any], named: dict[str, Any], grid: Any
    ) -> Command:
        return checked(self, kernel, args, named, grid)

    @entry
    def _call(
        self, kernel: LoadedKernel, args: Sequence[Any], named: dict[str, Any], grid: Any
    ) -> None:
        from .host import HostArguments

        values = positional(kernel, args, named)
        if kernel.choice is not None:
            kernel = kernel.choice.of(values, grid)
        host = HostArguments(self, kernel, values)
        command = bind(kernel, host.values, grid, host.binding)
        if command.groups:
            host.send()
            self._submit(command)
        self.synchronize()
        if command.groups:
            host.fetch()

    @entry
    def _set_slot(self, slot: Slot, value: Array) -> None:
        self._write_in_order(slot.allocation.handle, slot.offset, value.tobytes())

    @entry
    def _finish(self, recording: Recording, commands: list[Command]) -> Any:
        """Make the driver's form of a recording and give its launches their fault bits."""
        sited: list[tuple[LoadedKernel, int | None]] = [
            (c.kernel, n) for n, c in enumerate(commands) if c.kernel.manifest.sites
        ]
        recording.faults = self._faults.reserve(sited)
        bases = {r.launch: r.base for r in recording.faults}
        commands = [
            c._replace(fault_base=bases[n]) if n in bases else c for n, c in enumerate(commands)
        ]
        try:
            return self._record(commands, recording.timed)
        except BaseException:
            self._faults.release(recording.faults)
            raise

    @entry
    def _rewrite(self, recording: Recording, launch: int, command: Command) -> None:
        self._wait(self.timeout)
        self._rewrite_recording(
            recording.handle, launch, self._with_bits(recording, launch, command)
        )

    def _with_bits(self, recording: Recording, launch: int, command: Command) -> Command:
        bases = [r.base for r in recording.faults if r.launch == launch]
        return command._replace(fault_base=bases[0]) if bases else command


def _bytes(array: Array) -> memoryview:
    """The bytes of a C-contiguous array with at least one element."""
    return array.reshape(-1).view(np.uint8).data
