/** What a device gives out: buffers and loaded kernels. */

import { DTYPES } from "./abi.js";

/** Memory of a device: `count` elements of a type. */
export class Buffer {
  /** Use `Device.upload` or `Device.allocate`. */
  constructor(device, gpu, dtype, count) {
    Object.assign(this, { device, gpu, dtype, count, live: true });
  }

  /** Bytes of its elements. @returns {number} */
  get bytes() {
    return this.count * DTYPES[this.dtype].bytes;
  }

  /** Give the memory back. Work that was launched before keeps it until it is done. */
  destroy() {
    if (!this.live) return;
    this.live = false;
    this.device.memory.live -= this.gpu.size;
    this.gpu.destroy();
  }
}

/** A kernel on a device. */
export class Kernel {
  /** Use `Device.load`. */
  constructor(device, entry, variant, pipeline, layout, faults) {
    Object.assign(this, { device, manifest: entry.manifest, sites: entry.sites, variant });
    Object.assign(this, { pipeline, layout, faults });
  }

  /** @returns {string} */
  get name() {
    return this.manifest.kernel;
  }
}
