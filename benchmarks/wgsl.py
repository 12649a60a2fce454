"""Hand-written WGSL for the benchmark operations, run through wgpu on the same driver: the peer
that a careful author of a portable GPU program would have."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import wgpu

MATMUL = """
@group(0) @binding(0) var<storage, read> a: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> b: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> c: array<vec4<f32>>;
const N = {n}u;
@compute @workgroup_size(8, 8)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {{
  let col = id.x; let row = id.y * 4u;
  var s0 = vec4<f32>(); var s1 = vec4<f32>(); var s2 = vec4<f32>(); var s3 = vec4<f32>();
  for (var k = 0u; k < N / 4u; k++) {{
    let b0 = b[(4u * k) * (N / 4u) + col]; let b1 = b[(4u * k + 1u) * (N / 4u) + col];
    let b2 = b[(4u * k + 2u) * (N / 4u) + col]; let b3 = b[(4u * k + 3u) * (N / 4u) + col];
    let a0 = a[row * (N / 4u) + k]; let a1 = a[(row + 1u) * (N / 4u) + k];
    let a2 = a[(row + 2u) * (N / 4u) + k]; let a3 = a[(row + 3u) * (N / 4u) + k];
    s0 += a0.x * b0 + a0.y * b1 + a0.z * b2 + a0.w * b3;
    s1 += a1.x * b0 + a1.y * b1 + a1.z * b2 + a1.w * b3;
    s2 += a2.x * b0 + a2.y * b1 + a2.z * b2 + a2.w * b3;
    s3 += a3.x * b0 + a3.y * b1 + a3.z * b2 + a3.w * b3;
  }}
  c[row * (N / 4u) + col] = s0; c[(row + 1u) * (N / 4u) + col] = s1;
  c[(row + 2u) * (N / 4u) + col] = s2; c[(row + 3u) * (N / 4u) + col] = s3;
}}"""

_REDUCE = """
var<workgroup> part: array<f32, 64>;
fn reduce_{name}(lid: u32, v: f32) -> f32 {{
  part[lid] = v; workgroupBarrier();
  for (var s = 32u; s > 0u; s >>= 1u) {{
    if (lid < s) {{ part[lid] = {op}; }}
    workgroupBarrier();
  }}
  let r = part[0]; workgroupBarrier();
  return r;
}}"""
_SUM = _REDUCE.format(name="sum", op="part[lid] + part[lid + s]")
_MAX = _REDUCE.format(name="max", op="max(part[lid], part[lid + s])").replace(
    "var<workgroup> part: array<f32, 64>;", ""
)

SOFTMAX = (
    _SUM
    + _MAX
    + """
@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read_write> y: array<vec4<f32>>;
const N = {n}u / 4u;
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) g: vec3<u32>, @builtin(local_invocation_index) lid: u32) {{
  let base = g.x * N;
  var m = vec4<f32>(-3.4e38);
  for (var i = lid; i < N; i += 64u) {{ m = max(m, x[base + i]); }}
  let top = reduce_max(lid, max(max(m.x, m.y), max(m.z, m.w)));
  var s = vec4<f32>();
  for (var i = lid; i < N; i += 64u) {{ let e = exp(x[base + i] - top); y[base + i] = e; s += e; }}
  let scale = 1.0 / reduce_sum(lid, s.x + s.y + s.z + s.w);
  for (var i = lid; i < N; i += 64u) {{ y[base + i] *= scale; }}
}}""".replace("{{", "{").replace("}}", "}")
)

RMSNORM = (
    _SUM
    + """
@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> w: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> y: array<vec4<f32>>;
const N = {n}u / 4u;
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) g: vec3<u32>, @builtin(local_invocation_index) lid: u32) {{
  let base = g.x * N;
  var s = 0.0;
  for (var i = lid; i < N; i += 64u) {{ let v = x[base + i]; s += dot(v, v); }}
  let scale = inverseSqrt(reduce_sum(lid, s) / f32(4u * N) + 1e-5);
  for (var i = lid; i < N; i += 64u) {{ y[base + i] = x[base + i] * scale * w[i]; }}
}}""".replace("{{", "{").replace("}}", "}")
)

SUM = (
    _SUM
    + """
@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
const N = {n}u / 4u;
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) g: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) lid: u32) {{
  var s = vec4<f32>();
  for (var i = g.x * 64u + lid; i < N; i += 64u * groups.x) {{ s += x[i]; }}
  let total = reduce_sum(lid, s.x + s.y + s.z + s.w);
  if (lid == 0u) {{ y[g.x] = total; }}
}}""".replace("{{", "{").replace("}}", "}")
)

SUM_TAIL = """
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(1)
fn main() {
  var s = 0.0;
  for (var i = 0u; i < 256u; i++) { s += x[i]; }
  y[0] = s;
}"""


class Peer:
    """One wgpu device; `runner` gives a function that runs an operation and waits for it."""

    def __init__(self, adapter_name: str) -> None:
        adapters = wgpu.gpu.enumerate_adapters_sync()
        found = [a for a in adapters if adapter_name.lower() in a.info["device"].lower()]
        if not found:
            raise RuntimeError(f"wgpu has no adapter named like {adapter_name!r}")
        limits = {"max-storage-buffer-binding-size": 1 << 27}
        self.device = found[0].request_device_sync(required_limits=limits)

    def runner(
        self, op: str, n: int, arrays: dict[str, np.ndarray]
    ) -> tuple[Callable[[], object], Callable[[], np.ndarray]]:
        """(run and wait, read the result) for an operation of `peers.SIZES`."""
        device, usage = self.device, wgpu.BufferUsage
        flags = usage.STORAGE | usage.COPY_SRC | usage.COPY_DST
        buffers = [device.create_buffer_with_data(data=a, usage=flags) for a in arrays.values()]
        count = 256 if op == "sum" else n * n
        out = device.create_buffer(size=4 * count, usage=flags)
        steps = [
            self._step(
                _SHADERS[op].replace("{n}", str(n)).replace("{{", "{").replace("}}", "}"),
                [*buffers, out],
                _GRIDS[op](n),
            )
        ]
        result = out
        if op == "sum":
            result = device.create_buffer(size=16, usage=flags)
            steps.append(self._step(SUM_TAIL, [out, result], (1, 1, 1)))

        def run() -> None:
            encoder = device.create_command_encoder()
            for pipeline, group, grid in steps:
                work = encoder.begin_compute_pass()
                work.set_pipeline(pipeline)
                work.set_bind_group(0, group)
                work.dispatch_workgroups(*grid)
                work.end()
            device.queue.submit([encoder.finish()])
            device.queue.read_buffer(result, 0, 16)  # wgpu-py's own wait raises in 0.32

        def read() -> np.ndarray:
            size = 4 if op == "sum" else 4 * count
            return np.frombuffer(device.queue.read_buffer(result, 0, size), np.float32)

        return run, read

    def _step(self, code: str, buffers: list, grid: tuple[int, int, int]) -> tuple:
        module = self.device.create_shader_module(code=code)
        pipeline = self.device.create_compute_pipeline(
            layout="auto", compute={"module": module, "entry_point": "main"}
        )
        entries = [
            {"binding": i, "resource": {"buffer": b, "offset": 0, "size": b.size}}
            for i, b in enumerate(buffers)
        ]
        layout = pipeline.get_bind_group_layout(0)
        return pipeline, self.device.create_bind_group(layout=layout, entries=entries), grid


_SHADERS = {"matmul": MATMUL, "softmax": SOFTMAX, "rmsnorm": RMSNORM, "sum": SUM}
_GRIDS = {
    "matmul": lambda n: (n // 32, n // 32, 1),
    "softmax": lambda n: (n, 1, 1),
    "rmsnorm": lambda n: (n, 1, 1),
    "sum": lambda n: (256, 1, 1),
}
