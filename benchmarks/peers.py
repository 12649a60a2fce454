"""The same operations on a gristmill device and on its peers, side by side in one run.

    python benchmarks/peers.py cpu       # beside ONNX Runtime and IREE llvm-cpu, two threads
    python benchmarks/peers.py vulkan    # beside hand-written WGSL through wgpu on the same driver

Prints one row per operation: the best time of each, and ours over the best peer. Every result is
checked before it is timed. Needs `scons` to have built the bundle; the peers come from PyPI
(onnx, onnxruntime, iree-base-compiler, iree-base-runtime, wgpu).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

import graphs
import numpy as np
import timing

from gristmill import runtime

SIZES = {"matmul": 1024, "softmax": 4096, "rmsnorm": 4096, "sum": 1 << 24}


def ours(
    device: runtime.Device, bundle: runtime.Bundle, op: str, arrays: dict[str, np.ndarray]
) -> tuple[Callable[[], object], Callable[[], np.ndarray]]:
    """A recording of the operation on resident buffers, and how to read its result."""
    n = SIZES[op]
    buffers = [device.upload(a) for a in arrays.values()]
    if op == "matmul":
        out = device.allocate((n, n), "f32")
        launches = [("matmul", "f32", [*buffers, out, n, n, n])]
    elif op == "softmax":
        out = device.allocate((n, n), "f32")
        launches = [("softmax", "f32", [*buffers, out, n])]
    elif op == "rmsnorm":
        out = device.allocate((n, n), "f32")
        launches = [("rmsnorm", "f32", [*buffers, out, n, 1e-5])]
    else:
        parts, out = device.allocate((512,), "f32"), device.allocate((1,), "f32")
        launches = [
            ("reduce_partials", "sum_f32", [*buffers, parts]),
            ("reduce_rows", "sum_f32", [parts, out, 512]),
        ]
    with device.record() as recording:
        for kernel, specialization, arguments in launches:
            recording.launch(device.load(bundle, kernel, specialization), *arguments)

    def run() -> None:
        recording.replay()
        device.synchronize()

    return run, out.numpy


def onnxruntime(op: str, arrays: dict[str, np.ndarray]) -> Callable[[], np.ndarray]:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = 2
    model = getattr(graphs, f"onnx_{op}")(SIZES[op])
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, arrays)[0]


def iree(op: str, arrays: dict[str, np.ndarray]) -> Callable[[], object]:
    from iree import compiler
    from iree import runtime as rt

    code = compiler.compile_str(
        getattr(graphs, f"mlir_{op}")(SIZES[op]),
        target_backends=["llvm-cpu"],
        extra_args=["--iree-llvmcpu-target-cpu=host"],
    )
    config = rt.Config("local-task")
    module = rt.load_vm_module(rt.VmModule.copy_buffer(config.vm_instance, code), config)
    resident = [rt.asdevicearray(config.device, a) for a in arrays.values()]
    return lambda: module.main(*resident)


def expected(op: str, arrays: dict[str, np.ndarray]) -> np.ndarray:
    wide = [a.astype(np.float64) for a in arrays.values()]
    if op == "matmul":
        return wide[0] @ wide[1]
    if op == "softmax":
        e = np.exp(wide[0] - wide[0].max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)
    if op == "rmsnorm":
        x, w = wide
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * w
    return wide[0].sum(keepdims=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("device", choices=("cpu", "vulkan"))
    parser.add_argument("--bundle", default="artifacts")
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--only", choices=tuple(SIZES))
    arguments = parser.parse_args()
    rng = np.random.default_rng()
    bundle = runtime.open_bundle(arguments.bundle)
    device = runtime.open_device(arguments.device)
    print(f"device {device.capabilities.name} ({device.capabilities.driver})")
    worst = 0.0
    for op in SIZES:
        if arguments.only not in (None, op):
            continue
        arrays = graphs.inputs(op, SIZES[op], rng)
        run, read = ours(device, bundle, op, arrays)
        run()
        want = expected(op, arrays)
        error = np.abs(read().reshape(want.shape) - want).max() / np.abs(want).max()
        if not error < 1e-4:
            print(f"{op}: wrong result, relative error {error:.2e}", file=sys.stderr)
            return 1
        runners: dict[str, Callable[[], object]] = {"gristmill": run}
        if arguments.device == "cpu":
            runners["onnxruntime"] = onnxruntime(op, arrays)
            runners["iree"] = iree(op, arrays)
        else:
            import wgsl

            runners["wgsl"], _ = wgsl.Peer(device.capabilities.name).runner(op, SIZES[op], arrays)
        worst = max(
            worst, timing.report(f"{op} {SIZES[op]}", timing.race(runners, arguments.seconds))
        )
    print(f"worst ratio {worst:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
