"""The replay loop runs every workgroup of every command once, in order, with any workers."""

from __future__ import annotations

import ctypes
import tempfile
import threading
from pathlib import Path

import numpy as np
import pytest

from cpu_runner import Artifact, pool
from gristmill.ir import replay_abi
from gristmill.ir.text import parse_kernel
from gristmill.store.manifest import Manifest

# y[i] = y[i] * 3 + i: the order of commands shows in the result.
STEP = """kernel step u32
param y: u32 buffer readwrite
workgroup 16 1 1
index i32
body(%y.0: buffer<u32,readwrite>) {
  %1 = global_id {dim=0} : i32
  %2 = load %y.0, %1 : u32
  %3 = const 3 : u32
  %4 = mul %2, %3 : u32
  %5 = convert %1 : u32
  %6 = add %4, %5 : u32
  store %y.0, %1, %6
  return
}
"""


class Replay:
    """A loaded loop with commands on one buffer."""

    def __init__(self, arch: str, groups: list[int], grain: int) -> None:
        blob, self.manifest = pool().run("gristmill.backends.cpu.replay:replay_artifact", arch)
        self.folder = tempfile.TemporaryDirectory()
        path = Path(self.folder.name) / "replay.so"
        path.write_bytes(blob)
        self.library = ctypes.CDLL(str(path))
        self.kernel = Artifact(parse_kernel(STEP), arch)
        self.y = np.zeros(16 * max(groups), np.uint32)
        words = self.kernel.words([self.y], (max(groups), 1, 1), [self.y.ctypes.data], 0)
        self.words = ctypes.create_string_buffer(words, len(words))
        entry = ctypes.cast(self.kernel.library.step, ctypes.c_void_p).value
        args = ctypes.addressof(self.words)
        records = b"".join(replay_abi.command(entry, args, n, grain) for n in groups)
        self.commands = ctypes.create_string_buffer(records, len(records))
        self.groups = groups
        self.memory = np.zeros(replay_abi.CONTROL_BYTES + 64, np.uint8)
        self.control = -(-self.memory.ctypes.data // 64) * 64

    def call(self, workers: int, budget: int) -> int:
        return self.library.gristmill_replay(
            self.commands, ctypes.c_uint32(len(self.groups)), ctypes.c_void_p(self.control), None,
            ctypes.c_uint32(workers), ctypes.c_uint64(budget),
        )  # fmt: skip

    def until_done(self, workers: int, budget: int) -> None:
        while self.call(workers, budget) != replay_abi.DONE:
            pass

    def clear(self) -> None:
        self.memory[:] = 0

    def expected(self, times: int) -> np.ndarray:
        y = np.zeros_like(self.y)
        for n in self.groups * times:
            part = y[: 16 * n]
            part[:] = part * np.uint32(3) + np.arange(16 * n, dtype=np.uint32)
        return y


def test_one_worker_runs_all_commands(x86: str) -> None:
    replay = Replay(x86, [5, 1, 64, 3], 4)
    assert replay.call(1, 0) == replay_abi.DONE
    assert np.array_equal(replay.y, replay.expected(1))


@pytest.mark.parametrize("workers", [2, 3, 8])
def test_workers_share_the_commands(workers: int, rng: np.random.Generator) -> None:
    groups = [int(n) for n in rng.integers(1, 60, 50)]
    replay = Replay("x86-64-v2", groups, int(rng.integers(1, 9)))
    for _ in range(20):
        replay.clear()
        threads = [
            threading.Thread(target=replay.until_done, args=(workers, 50)) for _ in range(workers)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert np.array_equal(replay.y, replay.expected(20))


def test_worker_that_never_comes_stops_nobody() -> None:
    replay = Replay("x86-64-v2", [7, 30, 2], 3)
    assert replay.call(4, 10) == replay_abi.DONE  # one of four
    assert np.array_equal(replay.y, replay.expected(1))
    assert replay.call(4, 10) == replay_abi.DONE  # and one that comes too late
    assert np.array_equal(replay.y, replay.expected(1))


def test_spinning_is_bounded() -> None:
    replay = Replay("x86-64-v2", [2], 2)
    # Another worker has taken everything and is still at it.
    state = (ctypes.c_uint64).from_address(replay.control + replay_abi.STATE)
    state.value = 2
    assert replay.call(2, 1000) == replay_abi.WAITING
    assert not replay.y.any()


def test_manifest_says_what_it_is() -> None:
    blob, manifest = pool().run("gristmill.backends.cpu.replay:replay_artifact", "aarch64")
    assert (manifest.kernel, manifest.specialization) == ("gristmill.replay", "loop")
    assert manifest.entry == replay_abi.ENTRY
    assert manifest.size == len(blob)
    assert Manifest.from_json(manifest.to_json()) == manifest


def test_impossible_commands_are_refused() -> None:
    for groups, grain in ((0, 1), (1, 0), (1 << 31, 1), (1, 1 << 24)):
        with pytest.raises(ValueError, match="workgroups"):
            replay_abi.command(0, 0, groups, grain)
