/**
 * gristmill in the browser: kernels compiled ahead of time to WGSL, run through WebGPU.
 *
 *     import { open, Pack } from "./gristmill.js";
 *
 *     const device = await open();
 *     const pack = await Pack.load("kernels.pack");
 *     const saxpy = await device.load(pack, "saxpy", "f32");
 *     const x = device.upload(new Float32Array([1, 2, 3]));
 *     const y = device.upload(new Float32Array([10, 20, 30]));
 *     device.launch(saxpy, { x, y, a: 2 });
 *     await device.synchronize(); // throws what kernels found wrong
 *     const result = await device.download(y); // Float32Array [12, 24, 36]
 *
 * No dependencies. Whatever goes wrong is a `GristmillError` of a kind of its own.
 */

export {
  ArgumentError,
  DeviceLost,
  GristmillError,
  KernelFault,
  LimitExceeded,
  NoDevice,
  OutOfMemory,
  PackError,
  Refused,
  ShaderError,
} from "./runtime/errors.js";
export { Pack } from "./runtime/pack.js";
export { Device, open } from "./runtime/device.js";
export { Buffer, Kernel } from "./runtime/objects.js";
