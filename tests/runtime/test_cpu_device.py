"""What is particular to the cpu device: levels, libraries, workers."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import numpy as np
import pytest

from gristmill import runtime
from gristmill.runtime.devices import host_device
from gristmill.runtime.devices.cpu import level
from gristmill.runtime.devices.cpu.library import Library
from gristmill.runtime.devices.executor import Executor


def test_level_can_be_overridden(monkeypatch):
    monkeypatch.setenv("GRISTMILL_CPU_LEVEL", "v2")
    monkeypatch.setattr(level.platform, "machine", lambda: "x86_64")
    assert level.targets() == ("cpu-x86-64-v2",)
    monkeypatch.setenv("GRISTMILL_CPU_LEVEL", "v3")
    assert level.targets() == ("cpu-x86-64-v3", "cpu-x86-64-v2")
    monkeypatch.setenv("GRISTMILL_CPU_LEVEL", "v9")
    with pytest.raises(runtime.ArgumentError, match="one of v2, v3, v4"):
        level.targets()


def test_other_machines_are_refused_by_name(monkeypatch):
    monkeypatch.setattr(level.platform, "machine", lambda: "aarch64")
    assert level.targets() == ("cpu-aarch64",)
    monkeypatch.setattr(level.platform, "machine", lambda: "riscv64")
    with pytest.raises(runtime.NoDevice, match="riscv64"):
        level.targets()


def test_cpuinfo_needs_all_flags_of_a_level(tmp_path):
    file = Path(tmp_path / "cpuinfo")
    v3 = " ".join([*level._FLAGS["v2"], *level._FLAGS["v3"]])
    file.write_text(f"processor: 0\nflags\t\t: fpu {v3}\n")
    assert level._from_cpuinfo(file) == "v3"
    file.write_text(f"flags\t\t: {v3.replace('movbe', '')} {' '.join(level._FLAGS['v4'])}\n")
    assert level._from_cpuinfo(file) == "v2"
    file.write_text("flags\t\t: fpu sse2\n")
    assert level._from_cpuinfo(file) is None


def test_libc_and_cpuinfo_agree_here(require):
    found = level._from_libc()
    if found is None:
        require("libc-cpuid", "this C library does not tell the processor's features")
    assert found == level._from_cpuinfo(Path("/proc/cpuinfo"))


def test_bytes_that_are_no_library_are_a_typed_error():
    with pytest.raises(runtime.DriverError, match="dlopen"):
        Library(b"nothing of the kind", "here")


def test_missing_symbol_is_a_typed_error(bundle, opened):
    device = opened("cpu")
    found = bundle.select("shift", "i32", device.capabilities)
    library = Library(found.read(), "here")
    with pytest.raises(runtime.ArtifactCorrupt, match="no symbol nothing"):
        library.address("nothing")
    library.close()


def test_two_artifacts_with_one_symbol_name_keep_apart(bundle, opened, rng):
    """A reused descriptor number would make the loader give the old library."""
    first, second = opened("cpu"), opened("cpu")
    for _ in range(5):
        saxpy, shift = first.load(bundle, "saxpy", "f32"), second.load(bundle, "shift")
        assert saxpy.code.address != shift.code.address
        second.close()
        second = opened("cpu")
        y = np.zeros(4, np.int32)
        second.load(bundle, "shift")(y, y)
        assert y.tolist() == [1] * 4


@pytest.mark.parametrize("workers", [1, 2, 3, 8])
def test_results_do_not_depend_on_workers(bundle, opened, rng, workers):
    device = opened("cpu", workers=workers)
    kernel = device.load(bundle, "saxpy", "f32")
    x, y = rng.random(1 << 20, np.float32), rng.random(1 << 20, np.float32)
    expected = np.float32(0.5) * x + y
    for _ in range(3):
        given = y.copy()
        kernel(x, given, 0.5)
        assert np.array_equal(given, expected)


def test_unaligned_arrays_are_copied(bundle, opened):
    kernel = opened("cpu").load(bundle, "saxpy", "f32")
    memory = np.zeros(1000, np.float32)
    kernel(np.ones(33, np.float32), memory[1:34], 2.0)
    assert memory.sum() == 66
    assert memory[0] == memory[34] == 0


def test_launch_returns_before_a_long_kernel_is_done(bundle, opened):
    device = opened("cpu")
    kernel = device.load(bundle, "heavy")
    y = device.upload(np.zeros(4, np.float32))
    for _ in range(50):  # this thread may lose its processor to the kernel's, but not each time
        begin = time.perf_counter()
        device.launch(kernel, y, 50000, grid=(200,))
        submitted = time.perf_counter() - begin
        device.synchronize()
        if submitted < (time.perf_counter() - begin) / 2:
            return
    pytest.fail("it never did")


class Counting:
    """A stage that notes who worked."""

    def __init__(self, width: int) -> None:
        self.width, self.workers, self.lock = width, [], threading.Lock()

    def begin(self) -> int:
        self.workers = []
        return self.width

    def work(self, worker: int) -> None:
        with self.lock:
            self.workers.append(worker)


def test_each_worker_is_asked_once():
    executor = Executor(3)
    stages = [Counting(1), Counting(2), Counting(9)]
    for _ in range(50):
        executor.submit([*stages])
        assert executor.wait(10)
        assert [sorted(s.workers) for s in stages] == [[0], [0, 1], [0, 1, 2]]
    executor.stop()


def test_replay_of_small_launches_takes_a_microsecond_each(bundle, opened):
    device = opened("cpu")
    kernel = device.load(bundle, "shift")
    y = device.upload(np.zeros(64, np.int32))
    with device.record() as recording:
        for _ in range(100):
            recording.launch(kernel, y, y)
    best, replays = 1.0, 0
    while best > 100e-6 and replays < 5000:  # on a busy machine most are disturbed, not all
        begin = time.perf_counter()
        recording.replay()
        device.synchronize()
        best = min(best, time.perf_counter() - begin)
        replays += 1
    assert set(y.numpy().tolist()) == {100 * replays}
    assert best / 100 <= 1e-6


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_replay_loop_and_stages_agree(bundle, opened, rng, workers):
    device = opened("cpu", workers=workers)
    kernel = device.load(bundle, "saxpy", "f32")
    x = device.upload(rng.random(100_003, np.float32))
    results = []
    for timed in (False, True):  # a timed recording runs stage by stage
        y, z = device.upload(np.ones(100_003, np.float32)), device.allocate(100_003, "f32")
        z.write(np.zeros(100_003, np.float32))
        with device.record(timed=timed) as recording:
            for n in range(30):
                recording.launch(kernel, x, y, 0.25)
                recording.launch(kernel, y, z, float(n), grid=(n % 3 * 700,))
        for _ in range(4):
            recording.replay()
        results.append((y.numpy(), z.numpy()))
    assert np.array_equal(results[0][0], results[1][0])
    assert np.array_equal(results[0][1], results[1][1])


def test_a_stage_that_cannot_begin_fails_the_wait_and_no_thread():
    class Stage:
        def begin(self) -> int:
            raise ValueError("no")

        def work(self, worker: int) -> None:
            raise AssertionError("it did not begin")

    executor = Executor(2)
    executor.submit([Stage()])
    assert executor.wait(10)
    assert isinstance(executor.error, ValueError)
    executor.stop()


def test_the_budget_follows_the_machine(opened, monkeypatch):
    """What other programs take is seen before the next large allocation."""
    device = opened("cpu")
    device.allocate(1, "u8")
    monkeypatch.setattr(host_device, "available_bytes", lambda: 1000)
    monkeypatch.setattr(host_device, "_BUDGET_SECONDS", -1.0)
    with pytest.raises(runtime.OutOfMemory):
        device.allocate(1 << 20, "u8")
