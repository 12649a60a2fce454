/** The arguments of a launch, checked before the browser sees them. */

import { INDEX_MAX, evaluate, isMemory } from "./abi.js";
import { ArgumentError, LimitExceeded } from "./errors.js";
import { Buffer } from "./objects.js";

/**
 * The buffers of a launch with their parameters' names, in order of their bindings.
 *
 * @param {Device} device
 * @param {object} manifest
 * @param {Object<string, *>} args
 * @returns {Array<[string, Buffer]>}
 * @throws {ArgumentError} what is wrong with which argument
 */
export function bindings(device, manifest, args) {
  const place = (name) => `kernel ${manifest.kernel}, argument ${name}`;
  const known = manifest.params.map((param) => param.name);
  const odd = Object.keys(args).filter((name) => !known.includes(name));
  if (odd.length > 0) {
    const takes = `it takes ${known.join(", ")}`;
    throw new ArgumentError(`kernel ${manifest.kernel} has no parameter ${odd[0]}: ${takes}`);
  }
  const users = new Map();
  const found = [];
  for (const param of manifest.params) {
    const value = args[param.name];
    if (value === undefined) throw new ArgumentError(`${place(param.name)} is missing`);
    if (!isMemory(param)) continue;
    const fits = value instanceof Buffer && value.device === device && value.live;
    if (!fits || value.dtype !== param.dtype) {
      const got = fits ? `one of ${value.dtype}` : String(value?.constructor?.name ?? value);
      const wanted = `expected a live buffer of ${param.dtype} of this device`;
      throw new ArgumentError(`${place(param.name)}: ${wanted}, got ${got}`);
    }
    if (param.kind === "slot" && value.count !== 1) {
      throw new ArgumentError(`${place(param.name)}: expected one element, got ${value.count}`);
    }
    const other = users.get(value);
    if (other !== undefined && (other.access !== "read" || param.access !== "read")) {
      const both = `${other.name} and ${param.name}`;
      const why = "WebGPU binds a buffer that is written once in a launch";
      throw new ArgumentError(`kernel ${manifest.kernel}: ${both} are one buffer; ${why}`);
    }
    users.set(value, param);
    found.push([param.name, value]);
  }
  return found;
}

/**
 * The workgroups of a launch in each dimension.
 *
 * @param {object} manifest
 * @param {Object<string, number>} counts elements of each buffer
 * @param {Object<string, *>} scalars
 * @param {?number[]} grid what the caller states
 * @returns {number[]}
 * @throws {ArgumentError|LimitExceeded}
 */
export function workgroups(manifest, counts, scalars, grid) {
  const stated = grid ?? manifest.grid?.map((part) => evaluate(part, counts, scalars));
  const whole = (n) => Number.isSafeInteger(n) && n >= 0;
  if (!Array.isArray(stated) || stated.length !== 3 || !stated.every(whole)) {
    const got = stated === undefined ? "none" : `[${stated}]`;
    const wanted = "expected three whole numbers";
    throw new ArgumentError(`kernel ${manifest.kernel}: its grid: ${wanted}, got ${got}`);
  }
  stated.forEach((size, d) => {
    const invocations = size * manifest.workgroup[d];
    if (invocations > INDEX_MAX) {
      throw new LimitExceeded(`invocations along ${"xyz"[d]}`, INDEX_MAX, invocations);
    }
  });
  return stated;
}
