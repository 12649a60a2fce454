"""Memory shared with PyTorch and CuPy on a real device: values, order of streams, lifetimes.

    python benchmarks/cuda_interop.py [--bundle artifacts]

Needs a CUDA device, a bundle with PTX or cubin of saxpy f32, and torch or cupy. Prints a line for
each check; the exit status counts those that failed. Work of the other library is long enough that
a missing wait between streams shows.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from gristmill import runtime

COUNT = 1 << 24
FAILED: list[str] = []


def check(name: str, good: bool) -> None:
    print(f"{'ok    ' if good else 'FAILED'} {name}", flush=True)
    if not good:
        FAILED.append(name)


def busy(torch: Any, stream: Any) -> Any:
    """A tensor of twos that is filled late on a stream."""
    with torch.cuda.stream(stream):
        a = torch.ones(4096, 4096, device="cuda")
        for _ in range(20):
            a = a @ a * (1 / 4096)
        return torch.full((COUNT,), 2.0, device="cuda") * a[0, 0]


def with_torch(torch: Any, device: Any, saxpy: runtime.LoadedKernel) -> None:
    another = torch.cuda.Stream()
    launches_between(torch, device, saxpy, {"default": torch.cuda.default_stream(), "one": another})
    given_and_taken(torch, device, saxpy, another)
    other_ways(torch, device)
    recorded(torch, device, saxpy)


def launches_between(
    torch: Any, device: Any, saxpy: runtime.LoadedKernel, streams: dict[str, Any]
) -> None:
    """Launches that read what a stream of torch computes late, and write what it reads then."""
    for name, stream in streams.items():
        with torch.cuda.stream(stream):
            for _ in range(3):
                x, y = busy(torch, stream), busy(torch, stream)
                device.launch(saxpy, x, y, 3.0)  # waits for the stream by DLPack
                device.order_before(stream.cuda_stream or 1)
                total = (y + 0).double().sum().item() / COUNT
                check(f"torch, {name} stream: launch between torch's work", total == 8)


def given_and_taken(torch: Any, device: Any, saxpy: runtime.LoadedKernel, stream: Any) -> None:
    """A tensor that is adopted, and a buffer that torch takes and lets go of while it reads."""
    with torch.cuda.stream(stream):  # DLPack orders after torch's current stream
        held = device.adopt(busy(torch, stream))
    check("torch.adopt: shape and dtype", (held.shape, held.dtype.name) == ((COUNT,), "f32"))
    ours = device.upload(np.full(COUNT, 5, np.float32))
    for _ in range(50):
        device.launch(saxpy, ours, held, 0.0)
    device.launch(saxpy, held, ours, 1.0)  # 2 + 5
    with torch.cuda.stream(stream):
        view = torch.from_dlpack(ours)
        check("torch.from_dlpack sees launches", bool((view == 7).all()))
        sums = [view.sum() for _ in range(50)]
    del view, ours
    reused = device.upload(np.zeros(COUNT, np.float32))  # must not be seen by the sums
    check("given memory is not reused early", all(float(s) == 7 * COUNT for s in sums))
    del reused


def other_ways(torch: Any, device: Any) -> None:
    """The older interface, a type of its own, and what is refused."""
    again = torch.as_tensor(device.upload(np.arange(8, dtype=np.float32)), device="cuda")
    check("torch.as_tensor by __cuda_array_interface__", again.tolist() == list(range(8)))
    bf16 = torch.arange(8, device="cuda").to(torch.bfloat16)
    check("torch bf16 is adopted", device.adopt(bf16).dtype.name == "bf16")
    for wrong in (torch.ones(8, 8, device="cuda").T, torch.ones(8), torch.ones(8).numpy()):
        try:
            device.adopt(wrong)
            check("what does not fit is refused", False)
        except runtime.ArgumentError as error:
            print(f"ok     refused: {error}")


def recorded(torch: Any, device: Any, saxpy: runtime.LoadedKernel) -> None:
    """Tensors that nobody but a recording holds."""
    a = torch.ones(1024, device="cuda")
    with device.record() as recording:
        for _ in range(10):
            recording.launch(saxpy, device.adopt(torch.ones(1024, device="cuda")), a, 1.0)
    recording.replay()
    device.synchronize()
    check("torch tensors in a recording", a.tolist() == [11.0] * 1024)


def with_cupy(cupy: Any, device: Any, saxpy: runtime.LoadedKernel) -> None:
    x, y = cupy.arange(1000, dtype=cupy.float32), cupy.ones(1000, cupy.float32)
    saxpy(x, y, 2.0)
    check("cupy arrays as arguments", bool((y == 2 * x + 1).all()))
    buffer = device.upload(np.arange(1000, dtype=np.float32))
    check("cupy.from_dlpack", bool((cupy.from_dlpack(buffer) == x).all()))
    check("cupy.asarray", bool((cupy.asarray(buffer) == x).all()))


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--bundle", default="artifacts")
    options = parser.parse_args()
    libraries: list[tuple[str, Callable[..., None]]] = [("torch", with_torch), ("cupy", with_cupy)]
    with runtime.open_device("cuda") as device:
        saxpy = device.load(runtime.open_bundle(options.bundle), "saxpy", "f32")
        for name, run in libraries:
            try:
                library = __import__(name)
            except ImportError as error:
                print(f"no {name}: {error}")
                continue
            start = time.perf_counter()
            run(library, device, saxpy)
            print(f"{name}: {time.perf_counter() - start:.1f} s")
    return len(FAILED)


if __name__ == "__main__":
    sys.exit(main())
