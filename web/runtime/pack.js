/** Packs of kernels; `store/wgsl_pack.py` writes them and says how they are laid out. */

import { PackError } from "./errors.js";

const KIND = "gristmill wgsl pack";
const SCHEMA = 1;

/** @returns {Promise<?string>} sha256 in hexadecimal; null where the context has no digests */
async function sha256(bytes) {
  if (globalThis.crypto?.subtle === undefined) return null;
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return [...digest].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

async function check(bytes, expected, what) {
  const found = await sha256(bytes);
  if (found !== null && found !== expected) {
    throw new PackError(`${what} is damaged: sha256 ${found}, expected ${expected}`);
  }
  return found !== null;
}

/** @typedef {{manifest: object, sites: Array, offset: number}} Entry */

/** The kernels of one file. Modules are checked against their digests when they are used. */
export class Pack {
  #bytes;
  #index;
  #texts = new Map();

  /** Use `Pack.load` or `Pack.parse`. */
  constructor(bytes, index, place, verified) {
    this.#bytes = bytes;
    this.#index = index;
    /** Where it came from. */
    this.place = place;
    /** Whether digests could be checked; only secure contexts can. @type {boolean} */
    this.verified = verified;
  }

  /**
   * Fetch a pack and check its index.
   *
   * @param {string|URL} url
   * @returns {Promise<Pack>}
   * @throws {PackError}
   */
  static async load(url) {
    let answer;
    try {
      answer = await fetch(url);
    } catch (error) {
      throw new PackError(`${url} cannot be fetched: ${error.message}`);
    }
    if (!answer.ok) throw new PackError(`${url} cannot be fetched: status ${answer.status}`);
    return Pack.parse(await answer.arrayBuffer(), String(url));
  }

  /**
   * Read a pack from its bytes.
   *
   * @param {ArrayBuffer} buffer
   * @param {string} place what messages call it
   * @returns {Promise<Pack>}
   * @throws {PackError}
   */
  static async parse(buffer, place = "pack") {
    const bytes = new Uint8Array(buffer);
    const end = bytes.subarray(0, 1024).indexOf(10);
    const head = end < 0 ? null : json(bytes.subarray(0, end));
    if (head === null || head.kind !== KIND) throw new PackError(`${place} is no ${KIND}`);
    if (head.schema !== SCHEMA) {
      throw new PackError(`${place}: schema ${head.schema}, but this page reads ${SCHEMA}`);
    }
    const start = end + 1;
    if (bytes.length !== start + head.bytes) {
      throw new PackError(`${place} has ${bytes.length} bytes, expected ${start + head.bytes}`);
    }
    const index = bytes.subarray(start, start + head.index_bytes);
    const verified = await check(index, head.index_sha256, `${place}: its index`);
    const entries = json(index);
    if (!Array.isArray(entries)) throw new PackError(`${place}: its index is no JSON list`);
    const modules = bytes.subarray(start + head.index_bytes);
    return new Pack(modules, entries, place, verified);
  }

  /** Names of kernels with those of their specializations. @returns {Map<string, string[]>} */
  get kernels() {
    const found = new Map();
    for (const { manifest } of this.#index) {
      const names = found.get(manifest.kernel) ?? [];
      if (!names.includes(manifest.specialization)) names.push(manifest.specialization);
      found.set(manifest.kernel, names);
    }
    return found;
  }

  /** How many modules there are, variants counted. @returns {number} */
  get size() {
    return this.#index.length;
  }

  /**
   * The variants of a kernel, best first.
   *
   * @param {string} kernel
   * @param {string} specialization
   * @returns {Entry[]}
   * @throws {PackError} where there is none
   */
  variants(kernel, specialization) {
    const found = this.#index.filter(
      ({ manifest: m }) => m.kernel === kernel && m.specialization === specialization,
    );
    if (found.length === 0) {
      const known = this.kernels.get(kernel);
      const has = known ? `it has ${known.join(", ")} of it` : `it has no kernel ${kernel}`;
      throw new PackError(`${this.place} has no ${kernel} ${specialization}: ${has}`);
    }
    return found;
  }

  /**
   * The WGSL of an entry, checked against the digest in its manifest.
   *
   * @param {Entry} entry
   * @returns {Promise<string>}
   * @throws {PackError}
   */
  async text({ manifest, offset }) {
    if (!this.#texts.has(manifest.sha256)) {
      const bytes = this.#bytes.subarray(offset, offset + manifest.size);
      const what = `${this.place}: kernel ${manifest.kernel} ${manifest.specialization}`;
      await check(bytes, manifest.sha256, what);
      this.#texts.set(manifest.sha256, new TextDecoder().decode(bytes));
    }
    return this.#texts.get(manifest.sha256);
  }
}

function json(bytes) {
  try {
    return JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    return null; // the caller says what was expected
  }
}
