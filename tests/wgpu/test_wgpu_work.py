"""Copies, launches and recordings at the edges that WebGPU has and other devices have not."""

from __future__ import annotations

from wgpu_processes import HEAD, Runner


def test_narrow_elements_are_copied_anywhere(run: Runner, driver: str) -> None:
    """WebGPU copies whole words at whole words."""
    program = """
        rng = np.random.default_rng()
        for size in (0, 1, 2, 3, 5, 8, 67):
            array = rng.integers(0, 255, size, np.uint8)
            buffer = device.upload(array)
            assert np.array_equal(buffer.numpy(), array)
            for _ in range(12):
                start = int(rng.integers(0, size + 1))
                count = int(rng.integers(0, size - start + 1))
                part, new = buffer.view(start, count), rng.integers(0, 255, count, np.uint8)
                assert np.array_equal(part.numpy(), array[start : start + count])
                part.write(new)
                array[start : start + count] = new
                assert np.array_equal(buffer.numpy(), array), (size, start, count)
        device.close()
        """
    run(program, driver)


def test_large_copies_go_in_parts(run: Runner, driver: str) -> None:
    program = """
        from gristmill.runtime.devices.wgpu import buffers
        buffers.HALF, buffers._MOST_WRITTEN = 1 << 12, 3 << 12
        array = np.random.default_rng().integers(0, 255, 10 * (1 << 12) + 13, np.uint8)
        buffer = device.upload(array)
        assert np.array_equal(buffer.numpy(), array)
        assert np.array_equal(buffer.view(4095, 20001).numpy(), array[4095 : 4095 + 20001])
        device.close()
        """
    run(program, driver)


def test_limits_of_bindings_and_memory_are_typed(run: Runner, driver: str) -> None:
    program = """
        limits = device.capabilities.limits
        allocate = lambda: device.allocate(limits.buffer_bytes + 1, "u8")
        expect(runtime.LimitExceeded, "bytes of a buffer", allocate)
        kernel, y = device.load(bundle, "saxpy", "f32"), device.allocate(4, "f32")
        object.__setattr__(limits, "binding_bytes", 1 << 20)
        large = device.allocate((1 << 18) + 1, "f32")
        launch = lambda: device.launch(kernel, large, y, 1.0)
        expect(runtime.LimitExceeded, "bytes of a binding", launch)
        device.close()
        with runtime.open_device("wgpu", budget=1 << 20) as small:
            allocate = lambda: small.allocate((1 << 20) + 1, "u8")
            error = expect(runtime.OutOfMemory, "out of memory", allocate)
            assert (error.requested, error.available) == ((1 << 20) + 16, 1 << 20)
            assert small.memory().estimated
            small.allocate(1 << 20, "u8").free()
        expect(runtime.ArgumentError, "budget -1", lambda: runtime.open_device("wgpu", budget=-1))
        """
    run(program, driver)


def test_a_driver_without_memory_left_is_out_of_memory(run: Runner, driver: str) -> None:
    program = """
        import resource
        device = runtime.open_device("wgpu", budget=1 << 40)
        with open("/proc/self/statm") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + (600 << 20), -1))
        error = expect(runtime.OutOfMemory, "requested", lambda: device.allocate(800 << 20, "u8"))
        assert error.requested == 800 << 20
        resource.setrlimit(resource.RLIMIT_AS, (-1, -1))
        assert device.upload(np.arange(9)).numpy()[8] == 8
        device.close()
        """
    run(program, driver, head=HEAD)


def test_empty_buffers_are_read_and_written_in_one_launch(run: Runner, driver: str) -> None:
    """They have no memory, but WebGPU binds some: not the same for both."""
    program = """
        kernel = device.load(bundle, "saxpy", "f32")
        for _ in range(2):
            none = [device.allocate(0, "f32") for _ in range(2)]
            device.launch(kernel, *none, 1.0, grid=(1,))
            y = device.upload(np.ones(4, np.float32))
            device.launch(kernel, device.allocate(0, "f32"), y, 0.0)
            device.synchronize()
        kernel(np.zeros(0, np.float32), np.zeros(0, np.float32), 1.0, grid=(1,))
        device.close()
        """
    run(program, driver)


def test_a_recording_is_submitted_in_parts_of_the_budget(run: Runner, driver: str) -> None:
    program = """
        from gristmill.runtime.devices.wgpu import encode
        kernel = device.load(bundle, "checked_root")
        good, bad = device.upload(np.ones(9, np.float32)), device.upload(np.full(9, -1, np.float32))
        y, count = device.upload(np.zeros(9, np.int32)), device.load(bundle, "add_slot")
        step, out = device.slot("i32", 1), device.allocate(9, "f32")
        for launches, work in ((7, 1 << 30), (512, 64 * 5)):
            encode.MOST_LAUNCHES, encode.MOST_INVOCATIONS = launches, work
            for timed in (False, True):
                y.write(np.zeros(9, np.int32))
                with device.record(timed=timed) as recording:
                    for n in range(20):
                        recording.launch(count, y, step)
                        recording.launch(kernel, bad if n == 13 else good, out)
                parts = [end - first for first, end, _ in recording.handle._parts]
                assert sum(parts) == 40 and max(parts) <= 7 and len(parts) in (6, 8)
                recording.replay()
                recording.replay()
                error = expect(runtime.KernelFault, "x is negative", device.synchronize)
                assert error.launch == 27
                assert set(y.numpy()) == {40}
                if timed:
                    assert (recording.timestamps() >= 0).all() and recording.timestamps().sum() > 0
                recording.close()
        device.close()
        """
    run(program, driver)


def test_bind_groups_and_parameters_are_made_once(run: Runner, driver: str) -> None:
    program = """
        made = {}
        class Counting:
            def __init__(self, real): self.real = real
            def __getattr__(self, name):
                made[name] = made.get(name, 0) + 1
                return getattr(self.real, name)
        kernel = device.load(bundle, "saxpy", "f32")
        code = kernel.code
        x, y = device.upload(np.ones(9, np.float32)), device.upload(np.zeros(9, np.float32))
        code._lib = Counting(code._lib)
        code._logical.lib = Counting(code._logical.lib)
        for n in range(30):
            device.launch(kernel, x, y, float(n % 3))
        assert set(y.numpy()) == {30.0}
        assert made["wgpuDeviceCreateBindGroup"] == 1
        assert made["wgpuQueueWriteBuffer"] == 3
        for n in range(200):  # more than are kept
            device.launch(kernel, x, y, float(n))
        device.launch(kernel, x, y, 1.0)
        assert set(y.numpy()) == {30.0 + sum(range(200)) + 1}
        assert len(code._groups) == 1
        y.free()
        device.memory()
        assert not code._groups
        groups = [(device.allocate(4, "f32"), device.allocate(4, "f32")) for _ in range(300)]
        for pair in groups:
            device.launch(kernel, *pair, 0.0)
        assert len(code._groups) == 256
        assert sum(len(b.allocation.handle.groups) for pair in groups for b in pair) == 512
        device.close()
        """
    run(program, driver)


def test_work_that_nobody_waits_for_does_not_pile_up(run: Runner, driver: str) -> None:
    program = """
        from gristmill.runtime.devices.wgpu import logical
        kernel = device.load(bundle, "add_slot")
        y, one = device.upload(np.zeros(9, np.int32)), device.slot("i32", 1)
        most = 0
        for n in range(1500):
            device.launch(kernel, y, one)
            most = max(most, device._logical._marks)
        assert 0 < most <= logical.MOST_MARKS
        assert set(y.numpy()) == {1500}
        device.close()
        """
    run(program, driver)


def test_a_fault_is_told_once_whatever_runs_next(run: Runner, driver: str) -> None:
    program = """
        checked_root = device.load(bundle, "checked_root", "f32")
        good, bad = (device.upload(np.array([x], np.float32)) for x in (4, -1))
        y, recordings = device.allocate(1, "f32"), []
        for n in range(40):  # so that the bits of the last lie in another word than the first's
            with device.record() as recording:
                recording.launch(checked_root, bad if n == 39 else good, y)
            recordings.append(recording)
        recordings[39].replay()
        expect(runtime.KernelFault, "x is negative", device.synchronize)
        recordings[0].replay()
        device.synchronize()
        device.close()
        """
    run(program, driver)
