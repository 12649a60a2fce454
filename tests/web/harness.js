// Launches kernels through the runtime of the page, for the tests: bytes travel as base64.

import * as abi from "/runtime/abi.js";
import { GristmillError, Pack, open } from "/gristmill.js";

const decoded = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer;

function encoded(array) {
  const bytes = new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
  let out = "";
  for (let at = 0; at < bytes.length; at += 32768) {
    out += String.fromCharCode(...bytes.subarray(at, at + 32768));
  }
  return btoa(out);
}

let device, pack;

export const words = abi.scalarWords;
export const block = abi.block;

/** Opens the device and a pack; says what can run and why the rest cannot. */
export async function begin(url) {
  device = await open();
  pack = await Pack.load(url);
  const found = [];
  for (const [kernel, specializations] of pack.kernels) {
    for (const specialization of specializations) {
      const { entry, lacks = [] } = device.select(pack, kernel, specialization);
      const missing = lacks.map((lack) => lack.missing);
      found.push({ kernel, specialization, manifest: entry?.manifest ?? null, missing });
    }
  }
  return found;
}

/** One launch: arguments by name, buffers as { dtype, data }; gives the buffers named. */
export async function launch(kernel, specialization, args, outputs, options) {
  const loaded = await device.load(pack, kernel, specialization);
  const bound = {};
  for (const [name, value] of Object.entries(args)) {
    const array = value?.dtype && new abi.DTYPES[value.dtype].array(decoded(value.data));
    bound[name] = array ? device.upload(array, value.dtype) : value;
  }
  try {
    device.launch(loaded, bound, options);
    await device.synchronize();
    const found = {};
    for (const name of outputs) found[name] = encoded(await device.download(bound[name]));
    return found;
  } finally {
    Object.values(bound).forEach((value) => value?.destroy?.());
  }
}

/** What a function throws, as plain values. The function gets the device, the pack and all names. */
export async function thrown(text) {
  const names = { device, pack, abi, ...(await import("/gristmill.js")) };
  const body = `return (async () => { ${text} })()`;
  try {
    const value = await new Function(...Object.keys(names), body)(...Object.values(names));
    return { name: null, value };
  } catch (error) {
    const known = error instanceof GristmillError;
    return { name: error.name, message: error.message, known, ...JSON.parse(JSON.stringify(error)) };
  }
}
