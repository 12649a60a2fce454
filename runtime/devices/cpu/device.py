"""Driver of the cpu device."""

from __future__ import annotations

import os

from ....ir.replay_abi import KERNEL, SPECIALIZATION
from ....ir.targets import Capabilities
from ...bundle import Artifact, Bundle
from ...errors import ArgumentError, ArtifactMissing
from ...launch import Command
from ...memory import GRANULE, is_size
from ..host_device import HostDevice, Recorded, host_limits
from .level import model_name, targets
from .library import Library
from .replay import ReplayLoop, ReplayStage, can_replay
from .stages import INLINE_SECONDS, Code, LaunchStage, ScratchMemory

MAX_WORKERS = 1024

FEATURES = (
    "f16 f64 i8 i16 i64 bf16 storage8 storage16 atomic_i64 atomic_shared_i64 atomic_f32_add "
    "atomic_shared_f32_add atomic_f64_add atomic_f32_minmax subgroup_basic subgroup_vote "
    "subgroup_arithmetic subgroup_ballot subgroup_shuffle subgroup_shuffle_relative "
    "subgroup_size_control memory_model float_controls_rte float_controls_rte16 "
    "float_controls_denorm float_controls_signed_zero_inf_nan dot4"
)


def _capabilities(spec: str) -> Capabilities:
    """What the emitted code can do anywhere: types and sizes that hardware lacks are lowered."""
    return Capabilities(
        device=spec,
        name=model_name(),
        driver=f"gristmill, {os.confstr('CS_GNU_LIBC_VERSION')}",
        targets=targets(),
        limits=host_limits(1 << 46),
        features=frozenset(FEATURES.split()),
        subgroup_sizes=(1, 2, 4, 8, 16, 32, 64, 128),
        offset_alignment=GRANULE,
        unified_memory=True,
        facts={"processors": len(os.sched_getaffinity(0))},
    )


class CpuDevice(HostDevice):
    """Kernels run on `workers` threads; a launch that is predicted to be short, by what the kernel
    took before, runs on the calling thread when nothing is pending, and is then not bounded."""

    def __init__(self, spec: str, timeout: float, workers: int | None) -> None:
        count = len(os.sched_getaffinity(0)) if workers is None else workers
        if not is_size(count) or not 1 <= count <= MAX_WORKERS:
            raise ArgumentError(
                "workers of cpu",
                expected=f"an int of at least 1 and at most {MAX_WORKERS}",
                got=repr(workers),
            )
        super().__init__(spec, _capabilities(spec), timeout, count)
        self._scratch = ScratchMemory(count + 1)  # the last one belongs to the calling thread
        self._libraries: list[Library] = []
        self._loop: ReplayLoop | None = None

    def _load(self, artifact: Artifact, blob: bytes) -> Code:
        library = Library(blob, str(artifact.file))
        self._libraries.append(library)
        return Code.of(library, artifact.manifest.entry, artifact.manifest.scratch_bytes)

    def _stage(self, command: Command) -> LaunchStage:
        return LaunchStage(command, self._bitmap.ctypes.data, self._scratch, self.workers)

    def _submit(self, command: Command) -> None:
        stage = self._stage(command)
        predicted = stage.predicted
        if predicted is not None and predicted < INLINE_SECONDS and self._executor.idle:
            stage.run_alone(self.workers)
        else:
            self._executor.submit([stage])

    def _record(self, commands: list[Command], timed: bool) -> Recorded:
        launches = [self._stage(c) if c.groups else None for c in commands]
        live = [stage for stage in launches if stage is not None]
        whole = None
        if self._loop is not None and not timed and can_replay(live):
            whole = ReplayStage(self._loop, live, self._scratch, self.workers)
        return Recorded([*launches], timed, whole)

    def _replay(self, handle: Recorded) -> None:
        whole = handle.whole
        if isinstance(whole, ReplayStage) and self._executor.idle:
            predicted = whole.predicted_alone
            if predicted is not None and predicted < INLINE_SECONDS:
                whole.run_alone(self.workers)
                return
        super()._replay(handle)

    def _meet(self, bundle: Bundle) -> None:
        """Load the replay loop of the first bundle that has one for this device."""
        if self._loop is not None:
            return
        try:
            found = bundle.select(KERNEL, SPECIALIZATION, self.capabilities)
        except ArtifactMissing:
            return
        if isinstance(found, Artifact):
            library = Library(found.read(), str(found.file))
            self._libraries.append(library)
            self._loop = ReplayLoop(library, found.manifest.entry)

    def _close(self) -> None:
        super()._close()
        for library in self._libraries:
            library.close()
        self._libraries.clear()
