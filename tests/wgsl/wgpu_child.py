"""A process that runs WGSL modules through wgpu on the first Vulkan device of its driver.

Jobs arrive pickled on standard input, results leave pickled on standard output. The driver is
chosen by VK_DRIVER_FILES, which the loader reads once: hence a process for each driver.
"""

from __future__ import annotations

import os
import pickle
import sys
from typing import Any, BinaryIO

FEATURES = {  # of an adapter -> of ir.targets
    "shader-f16": "f16",
    "shader-f64": "f64",
    "shader-int64": "i64",
    "shader-int64-atomic-all-ops": "atomic_i64",
    "shader-float32-atomic": "atomic_f32_add",
    "subgroup": "subgroup",
}
SUBGROUP = ("basic", "vote", "arithmetic", "ballot", "shuffle")


class Device:
    def __init__(self) -> None:
        import wgpu

        self.wgpu = wgpu
        adapter = wgpu.gpu.request_adapter_sync()
        wanted = sorted(set(FEATURES) & set(adapter.features))
        offered = dict(adapter.limits)
        self.device = adapter.request_device_sync(
            required_features=wanted,
            required_limits={
                name: offered[name]
                for name in offered
                if name.startswith("max-") and ("storage" in name or "compute" in name)
            },
        )
        self.features = {FEATURES[name] for name in wanted} | {"dot4"}
        if "subgroup" in self.features:
            self.features |= {f"subgroup_{name}" for name in SUBGROUP}
        self.name = adapter.info["device"]

    def run(self, job: dict[str, Any]) -> list[bytes]:
        wgpu, device = self.wgpu, self.device
        # naga knows subgroups without the line that the standard asks for.
        text = job["blob"].decode().replace("enable subgroups;\n", "")
        module = device.create_shader_module(code=text)
        pipeline = device.create_compute_pipeline(
            layout="auto", compute={"module": module, "entry_point": job["entry"]}
        )
        usage = wgpu.BufferUsage
        number, block = job["uniform"]
        entries, buffers = [], []
        for n, data in enumerate([*job["buffers"][:number], None, *job["buffers"][number:]]):
            uniform = data is None
            data = block if data is None else data
            padded = data + bytes(-len(data) % 16 or (0 if data else 16))
            kind = usage.UNIFORM if uniform else usage.STORAGE | usage.COPY_SRC
            buffer = device.create_buffer_with_data(data=padded, usage=kind)
            entries.append({"binding": n, "resource": {"buffer": buffer}})
            if not uniform:
                buffers.append((buffer, len(data)))
        used = set(job["bindings"])
        group = device.create_bind_group(
            layout=pipeline.get_bind_group_layout(0),
            entries=[e for e in entries if e["binding"] in used],
        )
        encoder = device.create_command_encoder()
        work = encoder.begin_compute_pass()
        work.set_pipeline(pipeline)
        work.set_bind_group(0, group)
        work.dispatch_workgroups(*job["groups"])
        work.end()
        device.queue.submit([encoder.finish()])
        return [
            bytes(device.queue.read_buffer(buffer))[:size] if size else b""
            for buffer, size in buffers
        ]

    def subgroup(self) -> int | None:
        """The size of its subgroups, as a kernel sees it."""
        if "subgroup" not in self.features:
            return None
        text = (
            "@group(0) @binding(0) var<storage, read_write> x: array<u32>;\n"
            "@compute @workgroup_size(64) fn main(@builtin(subgroup_size) n: u32)"
            " { x[0] = n; }"
        )
        job = {"blob": text.encode(), "entry": "main", "buffers": [bytes(16)], "groups": (1, 1, 1)}
        (data,) = self.run({**job, "uniform": (1, bytes(16)), "bindings": [0]})
        return int.from_bytes(data[:4], "little")


def main() -> None:
    out: BinaryIO = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what drivers print must not mix with the results
    device = Device()
    pickle.dump((device.name, device.features, device.subgroup()), out)
    out.flush()
    while True:
        try:
            job = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            answer: Any = device.run(job)
        except Exception as error:  # whatever wgpu says goes to the test
            answer = f"{type(error).__name__}: {error}"
        pickle.dump(answer, out)
        out.flush()


main()
