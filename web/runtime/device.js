/** A WebGPU device that loads kernels of packs and launches them. */

import { DTYPES, INDEX_MAX, OF_ARRAY, block, folded, isMemory } from "./abi.js";
import { bindings, workgroups } from "./arguments.js";
import { WANTED_FEATURES, WANTED_LIMITS, lacks } from "./capabilities.js";
import {
  ArgumentError,
  GristmillError,
  KernelFault,
  LimitExceeded,
  NoDevice,
  Refused,
  ShaderError,
} from "./errors.js";
import { Life } from "./life.js";
import { Buffer, Kernel } from "./objects.js";

const ALIGN = 16; // sizes of buffers are multiples of it, and none is empty

/**
 * Open the browser's WebGPU device, with all that its adapter offers to kernels.
 *
 * @param {{gpu?: GPU, powerPreference?: string, label?: string}} options gpu: another than the
 *   browser's own
 * @returns {Promise<Device>}
 * @throws {NoDevice} says what is missing
 */
export async function open({ gpu = globalThis.navigator?.gpu, powerPreference } = {}) {
  if (!gpu) {
    const missing = ["this browser has no navigator.gpu"];
    if (globalThis.isSecureContext === false) {
      missing.unshift("the page is no secure context: serve it over https or from localhost");
    }
    throw new NoDevice(missing);
  }
  const adapter = await gpu.requestAdapter({ powerPreference });
  if (adapter === null) throw new NoDevice(["the browser has WebGPU, but found no adapter for it"]);
  const requiredFeatures = WANTED_FEATURES.filter((name) => adapter.features.has(name));
  const requiredLimits = {};
  for (const name of WANTED_LIMITS) {
    if (adapter.limits[name] !== undefined) requiredLimits[name] = adapter.limits[name];
  }
  try {
    const device = await adapter.requestDevice({ requiredFeatures, requiredLimits });
    return new Device(device, adapter.info ?? {}, gpu.wgslLanguageFeatures ?? []);
  } catch (error) {
    throw new NoDevice([`the adapter gave no device: ${error.message}`]);
  }
}

/** An open device. Calls of one device happen in their order. */
export class Device {
  #gpu;
  #life;
  #faulty = new Set(); // kernels with asserts that were launched since the last synchronize
  #loaded = new Map();

  /** Use `open`. */
  constructor(gpu, info, language) {
    this.#gpu = gpu;
    /** Words of the adapter on itself. @type {string} */
    this.name =
      [info.vendor, info.architecture, info.device, info.description].filter(Boolean).join(" ") ||
      "unnamed adapter";
    /** WebGPU's features that are on. @type {Set<string>} */
    this.features = new Set(gpu.features);
    /** WGSL's language features. @type {Set<string>} */
    this.language = new Set(language);
    /** @type {Object<string, number>} */
    this.limits = Object.fromEntries(WANTED_LIMITS.map((name) => [name, gpu.limits[name]]));
    const sizes = [info.subgroupMinSize, info.subgroupMaxSize];
    /** Least and greatest size of its subgroups, where it tells them. @type {?number[]} */
    this.subgroup = this.features.has("subgroups") && sizes.every(Boolean) ? sizes : null;
    /** Bytes of buffers: now, and at most so far. */
    this.memory = { live: 0, peak: 0 };
    this.#life = new Life(gpu, this.name);
  }

  /** Give everything back; every later call fails. */
  close() {
    this.#life.end("the device is closed");
    this.#gpu.destroy();
  }

  // memory

  /**
   * A buffer of zeros.
   *
   * @param {number} count elements
   * @param {string} dtype a name of `DTYPES`
   * @returns {Buffer}
   */
  allocate(count, dtype) {
    return this.#buffer(count, dtype, null);
  }

  /**
   * A buffer that holds what an array does.
   *
   * @param {ArrayBufferView} array
   * @param {string} [dtype] where the array's type does not say it: f16 and bf16 are Uint16Arrays
   * @returns {Buffer}
   */
  upload(array, dtype = OF_ARRAY.get(array?.constructor)) {
    const type = DTYPES[dtype];
    if (type === undefined || !(array instanceof type.array)) {
      const expected = type === undefined ? "a typed array of a known dtype" : type.array.name;
      throw new ArgumentError(`upload: expected ${expected}, got ${array?.constructor?.name}`);
    }
    return this.#buffer(array.length, dtype, array);
  }

  #buffer(count, dtype, array) {
    this.#life.check();
    const type = DTYPES[dtype];
    if (type === undefined) throw new ArgumentError(`no dtype is called ${dtype}`);
    if (!Number.isSafeInteger(count) || count < 0) {
      throw new ArgumentError(`a buffer has a whole number of elements, got ${count}`);
    }
    if (count > INDEX_MAX) throw new LimitExceeded("elements of a buffer", INDEX_MAX, count);
    const size = Math.max(ALIGN, Math.ceil((count * type.bytes) / ALIGN) * ALIGN);
    for (const name of ["maxStorageBufferBindingSize", "maxBufferSize"]) {
      if (size > this.limits[name]) {
        throw new LimitExceeded(`bytes of a buffer (${name})`, this.limits[name], size);
      }
    }
    const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST;
    const gpu = this.#life.guarded(`a buffer of ${size} bytes`, () => {
      const made = this.#gpu.createBuffer({ size, usage, mappedAtCreation: array !== null });
      if (array !== null) {
        const source = new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
        new Uint8Array(made.getMappedRange()).set(source);
        made.unmap();
      }
      return made;
    });
    this.memory.live += size;
    this.memory.peak = Math.max(this.memory.peak, this.memory.live);
    return new Buffer(this, gpu, dtype, count);
  }

  /**
   * What a buffer holds once all that was launched before is done.
   *
   * @param {Buffer} buffer
   * @returns {Promise<ArrayBufferView>} a typed array of its own
   */
  async download(buffer) {
    this.#life.check();
    if (buffer?.device !== this || !buffer.live) {
      throw new ArgumentError("download: expected a live buffer of this device");
    }
    const bytes = await this.#read(buffer.gpu, false);
    return new DTYPES[buffer.dtype].array(bytes, 0, buffer.count);
  }

  /** The bytes of a GPU buffer, which is zero afterwards if `clear`. */
  async #read(source, clear) {
    const usage = GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST;
    const staging = this.#life.guarded("a copy", () => {
      const made = this.#gpu.createBuffer({ size: source.size, usage });
      const encoder = this.#gpu.createCommandEncoder();
      encoder.copyBufferToBuffer(source, 0, made, 0, source.size);
      if (clear) encoder.clearBuffer(source);
      this.#gpu.queue.submit([encoder.finish()]);
      return made;
    });
    try {
      await this.#life.within(staging.mapAsync(GPUMapMode.READ), 60_000);
      return staging.getMappedRange().slice(0);
    } finally {
      staging.destroy();
    }
  }

  // kernels

  /**
   * The first variant of a kernel that this device can run, or why it can run none.
   *
   * @param {Pack} pack
   * @param {string} kernel
   * @param {string} specialization
   * @returns {{variant: number, entry: Entry}|Refused}
   * @throws {PackError} where the pack has no such kernel
   */
  select(pack, kernel, specialization) {
    const found = [];
    for (const [variant, entry] of pack.variants(kernel, specialization).entries()) {
      const missing = lacks(entry.manifest, this);
      if (missing.length === 0) return { variant, entry };
      found.push({ variant, constexprs: entry.manifest.constexprs, missing });
    }
    return new Refused(kernel, specialization, found);
  }

  /**
   * What `select` finds, compiled by the browser.
   *
   * @param {Pack} pack
   * @param {string} kernel
   * @param {string} specialization
   * @returns {Promise<Kernel>}
   * @throws {Refused|ShaderError|PackError}
   */
  async load(pack, kernel, specialization) {
    this.#life.check();
    const found = this.select(pack, kernel, specialization);
    if (found instanceof Refused) throw found;
    const { variant, entry } = found;
    const key = `${kernel} ${specialization} ${entry.manifest.sha256}`;
    if (!this.#loaded.has(key)) {
      const made = pack.text(entry).then((text) => this.#compile(entry, variant, text));
      made.catch(() => this.#loaded.delete(key)); // the next one tries again
      this.#loaded.set(key, made);
    }
    return this.#loaded.get(key);
  }

  async #compile(entry, variant, text) {
    const { manifest } = entry;
    const memory = manifest.params.filter(isMemory);
    const kinds = memory.map((p) => (p.access === "read" ? "read-only-storage" : "storage"));
    kinds.push("uniform");
    if (manifest.sites.length > 0) kinds.push("storage");
    const failed = (messages) => new ShaderError(manifest.kernel, manifest.specialization, messages);
    this.#gpu.pushErrorScope("validation");
    const module = this.#gpu.createShaderModule({ code: text });
    const layout = this.#gpu.createBindGroupLayout({
      entries: kinds.map((type, binding) => ({
        binding,
        visibility: GPUShaderStage.COMPUTE,
        buffer: { type },
      })),
    });
    const pipelines = this.#gpu.createPipelineLayout({ bindGroupLayouts: [layout] });
    const scope = this.#gpu.popErrorScope();
    const info = await this.#life.within(module.getCompilationInfo(), 60_000);
    const lines = text.split("\n");
    const messages = info.messages
      .filter((message) => message.type === "error")
      .map((message) => ({
        line: message.lineNum,
        column: message.linePos,
        text: message.message,
        source: (lines[message.lineNum - 1] ?? "").trim(),
      }));
    const invalid = await scope;
    if (messages.length === 0 && invalid !== null) {
      messages.push({ line: 0, column: 0, text: invalid.message, source: "" });
    }
    if (messages.length > 0) throw failed(messages);
    let pipeline;
    try {
      const compute = { module, entryPoint: manifest.entry };
      const made = this.#gpu.createComputePipelineAsync({ layout: pipelines, compute });
      pipeline = await this.#life.within(made, 120_000);
    } catch (error) {
      if (error instanceof GristmillError) throw error;
      throw failed([{ line: 0, column: 0, text: error.message, source: "" }]);
    }
    const words = Math.ceil(manifest.sites.length / 32);
    const faults = words > 0 ? this.allocate(words, "u32").gpu : null;
    return new Kernel(this, entry, variant, pipeline, layout, faults);
  }

  /**
   * Launch a kernel; returns before it is done.
   *
   * @param {Kernel} kernel
   * @param {Object<string, Buffer|number|bigint|boolean>} args by the names of its parameters
   * @param {{grid?: number[]}} options grid: workgroups, where the kernel does not compute them
   * @throws {ArgumentError|LimitExceeded}
   */
  launch(kernel, args, { grid } = {}) {
    this.#life.check();
    if (kernel?.device !== this) throw new ArgumentError("launch: the kernel is another device's");
    const { manifest } = kernel;
    const buffers = bindings(this, manifest, args);
    const counts = Object.fromEntries(buffers.map(([name, buffer]) => [name, buffer.count]));
    const groups = workgroups(manifest, counts, args, grid);
    const words = block(manifest, args, counts, groups);
    if (Math.min(...groups) === 0) return;
    const dispatched = folded(groups, this.limits.maxComputeWorkgroupsPerDimension);
    this.#life.guarded(`a launch of ${manifest.kernel}`, () => {
      const usage = GPUBufferUsage.UNIFORM;
      const uniform = this.#gpu.createBuffer({
        size: words.byteLength,
        usage,
        mappedAtCreation: true,
      });
      new Uint32Array(uniform.getMappedRange()).set(words);
      uniform.unmap();
      const bound = [...buffers.map(([, buffer]) => buffer.gpu), uniform];
      if (kernel.faults !== null) bound.push(kernel.faults);
      const group = this.#gpu.createBindGroup({
        layout: kernel.layout,
        entries: bound.map((buffer, binding) => ({ binding, resource: { buffer } })),
      });
      const encoder = this.#gpu.createCommandEncoder();
      const pass = encoder.beginComputePass();
      pass.setPipeline(kernel.pipeline);
      pass.setBindGroup(0, group);
      pass.dispatchWorkgroups(...dispatched);
      pass.end();
      this.#gpu.queue.submit([encoder.finish()]);
      uniform.destroy(); // the submitted work keeps it
    });
    if (kernel.faults !== null) this.#faulty.add(kernel);
  }

  // waiting

  /**
   * Wait until all that was launched is done.
   *
   * @param {{timeout?: number}} options timeout: milliseconds, after which the device is given up
   * @throws {KernelFault} where asserts of kernels failed
   * @throws {OutOfMemory|GristmillError} where the browser refused a call since the last time
   * @throws {DeviceLost}
   */
  async synchronize({ timeout = 60_000 } = {}) {
    this.#life.check();
    await this.#life.within(this.#gpu.queue.onSubmittedWorkDone(), timeout);
    await this.#life.settle(timeout);
    const faults = [];
    const kernels = [...this.#faulty];
    this.#faulty.clear();
    for (const kernel of kernels) {
      const words = new Uint32Array(await this.#read(kernel.faults, true));
      kernel.manifest.sites.forEach((message, site) => {
        if (((words[site >> 5] >>> (site & 31)) & 1) === 0) return;
        const { file = null, line = null, column = null } = kernel.sites[site] ?? {};
        const { kernel: name, specialization } = kernel.manifest;
        faults.push({ kernel: name, specialization, site, message, file, line, column });
      });
    }
    if (faults.length > 0) throw new KernelFault(faults);
  }
}
