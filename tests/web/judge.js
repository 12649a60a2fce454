// Compiles and runs WGSL for the tests: Chromium's compiler as a judge, apart from the runtime.

const words = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));

function text(bytes) {
  let out = "";
  for (let at = 0; at < bytes.length; at += 32768) {
    out += String.fromCharCode(...bytes.subarray(at, at + 32768));
  }
  return btoa(out);
}

let device, lost;

/** Opens the adapter; says what it is and has. */
export async function begin() {
  const adapter = await navigator.gpu.requestAdapter();
  if (adapter === null) throw new Error("no adapter");
  const limits = {};
  for (const name in adapter.limits) {
    if (/storage|compute/i.test(name)) limits[name] = adapter.limits[name];
  }
  const features = [...adapter.features].filter((name) => /^(shader-f16|subgroups)$/.test(name));
  device = await adapter.requestDevice({ requiredFeatures: features, requiredLimits: limits });
  device.lost.then((why) => (lost = why.message || why.reason));
  const info = adapter.info;
  return {
    name: [info.vendor, info.architecture, info.device, info.description].join(" ").trim(),
    features,
    language: [...(navigator.gpu.wgslLanguageFeatures ?? [])],
    subgroup: [info.subgroupMinSize, info.subgroupMaxSize],
    limits,
  };
}

async function parsed(code) {
  if (lost !== undefined) throw new Error(`the device was lost: ${lost}`);
  device.pushErrorScope("validation");
  const module = device.createShaderModule({ code });
  const lines = (await module.getCompilationInfo()).messages
    .filter((m) => m.type !== "info")
    .map((m) => `line ${m.lineNum}: ${m.message}: ${code.split("\n")[m.lineNum - 1]}`);
  const invalid = await device.popErrorScope();
  if (lines.length === 0 && invalid !== null) lines.push(invalid.message);
  return { module, wrong: lines.length > 0 ? lines.join("\n") : null };
}

/** What Tint has against each of some modules, warnings too; null where nothing. */
export async function check(codes) {
  const found = [];
  for (const code of codes) found.push((await parsed(code)).wrong);
  return found;
}

async function made(code, entry) {
  const { module, wrong } = await parsed(code);
  if (wrong !== null) return { wrong };
  try {
    const compute = { module, entryPoint: entry };
    return { pipeline: await device.createComputePipelineAsync({ layout: "auto", compute }) };
  } catch (error) {
    return { wrong: `${error.name}: ${error.message}` };
  }
}

/** The same, and what is against pipelines made of them. */
export async function compile(codes, entry) {
  const found = [];
  for (const code of codes) found.push((await made(code, entry)).wrong ?? null);
  return found;
}

/** Runs a job of `vulkan_driver.Driver`; gives its buffers as they are afterwards. */
export async function run(job) {
  const { wrong, pipeline } = await made(job.code, job.entry);
  if (wrong !== undefined) throw new Error(`${wrong}\n${job.code}`);
  device.pushErrorScope("validation");
  device.pushErrorScope("out-of-memory");
  const used = new Set(job.bindings);
  const entries = [];
  const results = [];
  const filled = (data, usage) => {
    const size = Math.max(16, Math.ceil(data.length / 16) * 16);
    const buffer = device.createBuffer({ size, usage, mappedAtCreation: true });
    new Uint8Array(buffer.getMappedRange()).set(data);
    buffer.unmap();
    return buffer;
  };
  const bind = (binding, buffer) => {
    if (used.has(binding)) entries.push({ binding, resource: { buffer } });
  };
  const encoder = device.createCommandEncoder();
  job.buffers.forEach((data, n) => {
    const bytes = words(data);
    const buffer = filled(bytes, GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC);
    bind(n < job.uniform[0] ? n : n + 1, buffer);
    results.push({ buffer, length: bytes.length });
  });
  bind(job.uniform[0], filled(words(job.uniform[1]), GPUBufferUsage.UNIFORM));
  const group = device.createBindGroup({ layout: pipeline.getBindGroupLayout(0), entries });
  const pass = encoder.beginComputePass();
  pass.setPipeline(pipeline);
  pass.setBindGroup(0, group);
  pass.dispatchWorkgroups(...job.groups);
  pass.end();
  for (const result of results) {
    const usage = GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST;
    result.copy = device.createBuffer({ size: result.buffer.size, usage });
    encoder.copyBufferToBuffer(result.buffer, 0, result.copy, 0, result.buffer.size);
  }
  device.queue.submit([encoder.finish()]);
  const errors = [await device.popErrorScope(), await device.popErrorScope()];
  const error = errors.find((e) => e !== null);
  if (error !== undefined) throw new Error(error.message);
  const out = [];
  for (const { buffer, copy, length } of results) {
    await copy.mapAsync(GPUMapMode.READ);
    out.push(text(new Uint8Array(copy.getMappedRange(), 0, length)));
    copy.destroy();
    buffer.destroy();
  }
  return out;
}
