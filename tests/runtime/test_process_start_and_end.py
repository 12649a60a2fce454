"""Imports stay small, starting is quick, ending is clean, nothing is left open."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

from left_open import LEFT_OPEN


def run(program: str, *args: str, **environment: str) -> subprocess.CompletedProcess[str]:
    import os

    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), *args],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    return done


def test_importing_the_runtime_brings_no_compiler():
    run(
        """
        import sys
        import gristmill.runtime
        banned = {"llvmlite", "SCons", "yaml", "vulkan", "cffi", "hashlib"}
        parts = ("gristmill.backends", "gristmill.kernels", "gristmill.ir.lang",
                 "gristmill.ir.passes", "gristmill.ir.ops", "gristmill.ir.interp")
        found = [m for m in sys.modules if m.split(".")[0] in banned or m.startswith(parts)]
        assert not found, found
        """
    )


def test_opening_a_bundle_imports_next_to_nothing(bundle_folder):
    """What devices need as well is imported when one is opened, beside the start of its driver."""
    run(
        """
        import sys
        there = set(sys.modules)
        from gristmill import runtime
        assert runtime.open_bundle(sys.argv[1]).kernels()
        assert not {"numpy", "ctypes", "dataclasses"} & sys.modules.keys() - there
        found = {m for m in sys.modules if m.startswith("gristmill.")}
        assert found <= {
            "gristmill.runtime", *(f"gristmill.runtime.{name}" for name in sys.argv[2:]),
            "gristmill.store", "gristmill.store.message", "gristmill.store.schema",
        }, found
        """,
        str(bundle_folder),
        *("bundle", "errors", "lifetime", "registry", "signed"),
    )


def test_every_name_of_the_runtime_is_there():
    run(
        """
        from gristmill import runtime
        assert set(runtime.__all__) <= set(dir(runtime))
        from gristmill.runtime import *
        assert all(globals()[name] is getattr(runtime, name) for name in runtime.__all__)
        assert Slot.__name__ == "Slot" and issubclass(Slot, Buffer)
        try:
            runtime.nothing
        except AttributeError as error:
            assert str(error) == "module 'gristmill.runtime' has no attribute 'nothing'"
        else:
            raise AssertionError
        """
    )


def test_import_takes_at_most_30_ms_over_numpy():
    """Processor time of the thread that imports, best of several processes: the machine may be
    busy, and the worker threads that numpy's BLAS starts spin for a while."""
    program = """
        import time
        import numpy
        begin = time.thread_time()
        import gristmill.runtime
        print(time.thread_time() - begin)
        """
    times = []
    for _ in range(15):
        times.append(float(run(program).stdout))
        if times[-1] <= 0.030:
            return
    pytest.fail(f"best of {len(times)}: {min(times) * 1e3:.1f} ms")


def test_first_result_on_the_cpu_within_300_ms(bundle_folder):
    """Processor time since the process began; other processes only add to the wall's."""
    program = """
        import sys, time
        import numpy as np
        from gristmill import runtime
        bundle = runtime.open_bundle(sys.argv[1])
        device = runtime.open_device("cpu")
        y = np.ones(100, np.float32)
        device.load(bundle, "saxpy", "f32")(np.ones(100, np.float32), y, 2.0)
        assert y[99] == 3
        print(time.process_time())
        """
    times = []
    for _ in range(10):
        times.append(float(run(program, str(bundle_folder)).stdout))
        if times[-1] <= 0.300:
            return
    pytest.fail(f"best of {len(times)}: {min(times) * 1e3:.0f} ms")


OPENED = """
import sys
import numpy as np
from gristmill import runtime
bundle = runtime.open_bundle(sys.argv[1])
device = runtime.open_device(sys.argv[2])
"""


@pytest.mark.parametrize("name", ["cpu", "interp", "null", "lavapipe", "swiftshader"])
def test_process_ends_well_with_everything_left_open(bundle_folder, elsewhere, name):
    spec, environment = elsewhere(name)
    done = run(OPENED + LEFT_OPEN, str(bundle_folder), spec, **environment)
    assert done.stdout.strip() == ("1.0" if name == "null" else "2.0")
    assert done.stderr == ""


def test_opening_and_closing_leaks_no_descriptor_thread_or_mapping(opened, bundle):
    import os
    import threading

    import numpy as np

    def once() -> tuple[int, int, int]:
        device = opened("cpu")
        y = np.ones(10, np.float32)
        device.load(bundle, "saxpy", "f32")(y, np.ones(10, np.float32), 1.0)
        device.close()
        with open("/proc/self/maps") as maps:
            mapped = sum("memfd:gristmill" in line for line in maps)
        return len(os.listdir("/proc/self/fd")), threading.active_count(), mapped

    before = once()
    for _ in range(20):
        assert once() == before


def test_forked_process_is_told_and_ends_well(bundle_folder):
    program = """
        import os, sys
        import numpy as np
        from gristmill import runtime
        bundle = runtime.open_bundle(sys.argv[1])
        device = runtime.open_device("cpu")
        y = np.zeros(3, np.int32)
        kernel = device.load(bundle, "shift")
        kernel(y, y)
        child = os.fork()
        if child == 0:
            try:
                kernel(y, y)
            except runtime.StateError as error:
                print(error)
                sys.exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        kernel(y, y)
        assert y.tolist() == [2, 2, 2]
        """
    assert "open it after the fork" in run(program, str(bundle_folder)).stdout


def test_a_fork_closes_its_own_devices_at_its_end_and_not_the_parents():
    program = """
        import os, sys
        from gristmill import runtime
        from gristmill.runtime.devices.cpu.device import CpuDevice
        parents = runtime.open_device("cpu")
        close = CpuDevice._close
        def noted(device):
            print("the parent's" if device is parents else "its own", os.getpid() == start)
            close(device)
        CpuDevice._close, start = noted, os.getpid()
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            own = runtime.open_device("cpu")
            sys.exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        """
    assert run(program).stdout == "its own False\nthe parent's True\n"


@pytest.mark.parametrize("name", ["lavapipe", "swiftshader"])
def test_a_fork_of_a_process_that_uses_vulkan_is_told_and_ends_well(bundle_folder, elsewhere, name):
    """Threads of the drivers are not there: a call would wait for ever, or the exit crash."""
    program = """
        import os, signal, sys
        import numpy as np
        from gristmill import runtime
        bundle = runtime.open_bundle(sys.argv[1])
        device = runtime.open_device(sys.argv[2])
        kernel, y = device.load(bundle, "shift"), np.zeros(3, np.int32)
        kernel(y, y)
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            try:
                runtime.open_device(sys.argv[2])
            except runtime.NoDevice as error:
                print(error)
            found = [d for d in runtime.find_devices() if d.spec.startswith("vulkan")]
            assert "was forked" in found[0].missing
            with runtime.open_device("cpu") as cpu:
                cpu.load(bundle, "shift")(y, y)
            sys.exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        kernel(y, y)
        """
    spec, environment = elsewhere(name)
    done = run(program, str(bundle_folder), spec, **environment)
    assert "Vulkan was in use when this process was forked" in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize("name", ["wgpu", "vulkan"])
def test_a_missing_package_is_told_before_a_fork_and_counts_as_no_use_of_a_driver(name):
    """An attempt without the package must not keep a later child from opening a device."""
    program = """
        import os, sys
        from gristmill import runtime
        from gristmill.runtime.devices import forks
        def told(name):
            sys.modules[name] = None
            try:
                runtime.open_device(name)
            except runtime.NoDevice as error:
                del sys.modules[name]
                assert f"the {name} package is not installed" in str(error), error
        told(sys.argv[1])
        child = os.fork()
        if child == 0:
            forks.use("a driver")  # NoDevice where one was in use
            os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        forks.use("a driver")
        child = os.fork()
        if child == 0:
            told(sys.argv[1])
            os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        """
    run(program, name)


def test_a_fork_that_comes_first_may_open_vulkan(bundle_folder, elsewhere):
    program = """
        import os, sys
        import numpy as np
        from gristmill import runtime
        bundle, y = runtime.open_bundle(sys.argv[1]), np.zeros(3, np.int32)
        child = os.fork()
        device = runtime.open_device(sys.argv[2])
        device.load(bundle, "shift")(y, y)
        if child:
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        """
    spec, environment = elsewhere("lavapipe")
    assert run(program, str(bundle_folder), spec, **environment).stderr == ""
