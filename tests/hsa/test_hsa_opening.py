"""What is missing, or fails, while an HSA device is opened or loads code: told, and left whole."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fake_hsa import FakeRuntime
from gristmill import runtime
from gristmill.runtime.devices.hsa.api import Api


def test_without_a_driver_the_message_says_so(fake: FakeRuntime) -> None:
    fake.set(init=0x1008)
    with pytest.raises(runtime.NoDevice, match=r"out of resources, 0x1008.*/dev/kfd"):
        runtime.open_device("hsa")
    (found,) = [d for d in runtime.find_devices() if d.spec == "hsa"]
    assert "/dev/kfd" in found.missing


def test_without_the_library_the_message_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GRISTMILL_HSA_LIBRARY", "/nowhere/libhsa.so")
    with pytest.raises(runtime.NoDevice, match=r"/nowhere/libhsa.so.*install ROCm's HSA runtime"):
        runtime.open_device("hsa")
    with pytest.raises(runtime.NoDevice, match=r"cannot be loaded from /elsewhere.so"):
        runtime.open_device("hsa", library="/elsewhere.so")


def test_a_library_that_is_another_one_says_what_it_lacks() -> None:
    with pytest.raises(runtime.NoDevice, match=r"libm\.so\.6 has no function hsa_init"):
        runtime.open_device("hsa", library="libm.so.6")


def test_a_library_is_named_by_argument(fake: FakeRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRISTMILL_HSA_LIBRARY", "/nowhere/libhsa.so")
    with runtime.open_device("hsa", library=fake.path) as device:
        assert device.capabilities.facts["library"] == fake.path
    with pytest.raises(runtime.ArgumentError, match="expected one of library"):
        runtime.open_device("hsa", path=fake.path)


def test_a_machine_without_gpus_says_so(fake: FakeRuntime) -> None:
    fake.set(gpus=0)
    with pytest.raises(runtime.NoDevice, match="finds no GPU"):
        runtime.open_device("hsa")
    assert fake.users == 0


def test_a_host_whose_stores_need_fences_is_refused(
    fake: FakeRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = os.uname()
    other = os.uname_result((*named[:4], "aarch64"))
    monkeypatch.setattr(os, "uname", lambda: other)
    with pytest.raises(runtime.NoDevice, match="x86-64 hosts only; got aarch64"):
        runtime.open_device("hsa")


def test_queues_in_the_memory_of_the_gpu_are_refused(
    fake: FakeRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HSA_ALLOCATE_QUEUE_DEV_MEM", "1")
    match = r"in host memory only.*expected HSA_ALLOCATE_QUEUE_DEV_MEM to be 0, got 1; .*unset"
    with pytest.raises(runtime.NoDevice, match=match):
        runtime.open_device("hsa")
    (found,) = [d for d in runtime.find_devices() if d.spec == "hsa"]
    assert "HSA_ALLOCATE_QUEUE_DEV_MEM" in found.missing
    assert fake.users == 0
    monkeypatch.setenv("HSA_ALLOCATE_QUEUE_DEV_MEM", "0")
    runtime.open_device("hsa").close()


OPENING = (
    "hsa_queue_create",
    "hsa_signal_create",
    "hsa_amd_register_system_event_handler",
    "hsa_amd_memory_pool_allocate",
    "hsa_amd_agents_allow_access",
    "hsa_iterate_agents",
    "hsa_agent_iterate_isas",
    "hsa_amd_agent_iterate_memory_pools",
)


@pytest.mark.parametrize("name", OPENING)
def test_a_device_that_cannot_be_opened_leaves_nothing(
    fake: FakeRuntime, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    call = Api.call

    def failing(self: Api, asked: str, *args: Any, **where: str) -> None:
        if asked == name:
            raise runtime.DriverError(asked, 1, "made to fail")
        call(self, asked, *args, **where)

    monkeypatch.setattr(Api, "call", failing)
    with pytest.raises(runtime.DriverError, match=name):
        runtime.open_device("hsa")
    assert not fake.live()
    assert fake.users == 0


def test_a_load_that_fails_leaves_nothing(
    device: runtime.Device,
    bundle: runtime.Bundle,
    fake: FakeRuntime,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held, call = fake.live(), Api.call
    for name in (
        "hsa_executable_freeze",
        "hsa_executable_get_symbol_by_name",
        "hsa_executable_symbol_get_info",
        "hsa_code_object_reader_create_from_memory",
    ):

        def failing(self: Api, asked: str, *args: Any, name: str = name, **where: str) -> None:
            if asked == name:
                raise runtime.DriverError(asked, 1, "made to fail")
            call(self, asked, *args, **where)

        with monkeypatch.context() as patch:
            patch.setattr(Api, "call", failing)
            with pytest.raises(runtime.DriverError, match=name):
                device.load(bundle, "saxpy")
        assert fake.live() == held, name
    device.load(bundle, "saxpy")


def test_a_fault_map_that_failed_once_is_whole_the_next_time(
    device: runtime.Device, bundle: runtime.Bundle, fake: FakeRuntime
) -> None:
    fake.set(fail_alloc=1)
    held = fake.live()
    with pytest.raises(runtime.OutOfMemory):
        device.load(bundle, "checked_root")
    assert fake.live() == held
    fake.set(fail_alloc=0)
    y = np.zeros(4, np.float32)
    device.load(bundle, "checked_root")(np.full(4, 9, np.float32), y)
    assert set(y) == {3}


def test_the_process_ends_with_a_device_left_open_and_hanging(
    fake: FakeRuntime, bundle: runtime.Bundle, tmp_path: Path
) -> None:
    code = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent.parent)!r})
from pathlib import Path
import numpy as np
from fake_hsa import FakeRuntime
from gristmill import runtime
from gristmill.runtime import lifetime
lifetime.EXIT_SECONDS = 0.2
fake = FakeRuntime(Path({fake.path!r}))
device = runtime.open_device("hsa")
bundle = runtime.open_bundle({str(bundle.root)!r})
fake.isas("gfx1100")
x = device.upload(np.ones(4, np.float32))
saxpy = device.load(bundle, "saxpy")
fake.set(hang_after=0)
device.launch(saxpy, x, device.upload(np.ones(4, np.float32)), 1.0)
print("done")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
