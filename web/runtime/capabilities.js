/** What a WebGPU device has, in the words of manifests, and what a kernel wants of it. */

import { isMemory } from "./abi.js";

const subgroups = (device) => device.features.has("subgroups");

/** Of each feature that a manifest may require: what it needs here. Others no browser has. */
const FEATURES = {
  f16: { name: "shader-f16", has: (device) => device.features.has("shader-f16") },
  dot4: {
    name: "packed_4x8_integer_dot_product",
    has: (device) => device.language.has("packed_4x8_integer_dot_product"),
  },
  subgroup_basic: { name: "subgroups", has: subgroups },
  subgroup_vote: { name: "subgroups", has: subgroups },
  subgroup_arithmetic: { name: "subgroups", has: subgroups },
  subgroup_ballot: { name: "subgroups", has: subgroups },
  subgroup_shuffle: { name: "subgroups", has: subgroups },
};

/** The features of WebGPU that kernels can use. */
export const WANTED_FEATURES = ["shader-f16", "subgroups"];

/** The limits that kernels can meet: a device gets all that its adapter has of them. */
export const WANTED_LIMITS = [
  "maxBufferSize",
  "maxStorageBufferBindingSize",
  "maxStorageBuffersPerShaderStage",
  "maxComputeWorkgroupStorageSize",
  "maxComputeInvocationsPerWorkgroup",
  "maxComputeWorkgroupSizeX",
  "maxComputeWorkgroupSizeY",
  "maxComputeWorkgroupSizeZ",
  "maxComputeWorkgroupsPerDimension",
];

/**
 * What a variant of a kernel needs and a device lacks.
 *
 * @param {object} manifest
 * @param {{features: Set<string>, language: Set<string>, limits: object,
 *   subgroup: ?number[]}} device
 * @returns {string[]} empty where it can run
 */
export function lacks(manifest, device) {
  const found = [];
  for (const name of manifest.requires) {
    const feature = FEATURES[name];
    if (feature === undefined) found.push(`${name} (no browser has it)`);
    else if (!feature.has(device)) found.push(`${name} (WebGPU's ${feature.name})`);
  }
  if (manifest.subgroup !== null && manifest.requires.some((n) => n.startsWith("subgroup"))) {
    const [least, most] = device.subgroup ?? [0, 0];
    if (least !== manifest.subgroup || most !== manifest.subgroup) {
      const has = least === most ? `has ${least || "none"}` : `has ${least} to ${most}`;
      found.push(`subgroups of ${manifest.subgroup} (the device ${has})`);
    }
  }
  const limit = (name, wanted, what) => {
    const most = device.limits[name];
    if (wanted > most) found.push(`${what} (${wanted}, the device has ${most})`);
  };
  const size = manifest.workgroup;
  // Kernels with subgroups are declared in a row.
  const row = size[0] * size[1] * size[2];
  const inRow = manifest.requires.some((name) => name.startsWith("subgroup"));
  limit("maxComputeInvocationsPerWorkgroup", row, "invocations of a workgroup");
  limit("maxComputeWorkgroupSizeX", inRow ? row : size[0], "a workgroup's width");
  limit("maxComputeWorkgroupSizeY", inRow ? 1 : size[1], "a workgroup's height");
  limit("maxComputeWorkgroupSizeZ", inRow ? 1 : size[2], "a workgroup's depth");
  limit("maxComputeWorkgroupStorageSize", manifest.shared_bytes, "bytes of workgroup memory");
  const buffers = manifest.params.filter(isMemory).length + (manifest.sites.length > 0 ? 1 : 0);
  limit("maxStorageBuffersPerShaderStage", buffers, "buffers of a kernel");
  return found;
}
