/** Nearest words in an embedding table: rmsnorm, gather, gemv and topk on files that the user picks. */

import { GristmillError } from "./gristmill.js";

const TENSOR = "embeddings.word_embeddings.weight";
const SPARE = 24; // neighbours that are looked at beyond those shown

/** One f32 tensor of a safetensors file: a 64-bit header length, a JSON header, the data. */
async function tensor(file) {
  const wrong = (why) => new GristmillError(`${file.name} is not such a table: ${why}`);
  const length = Number(new DataView(await file.slice(0, 8).arrayBuffer()).getBigUint64(0, true));
  if (length > 100 << 20) throw wrong(`its header would have ${length} bytes`);
  let entry;
  try {
    entry = JSON.parse(await file.slice(8, 8 + length).text())[TENSOR];
  } catch (error) {
    throw wrong(`its header is no JSON (${error.message})`);
  }
  if (entry?.dtype !== "F32" || entry.shape.length !== 2) {
    throw wrong(`expected ${TENSOR} of F32 with two dimensions`);
  }
  const [begin, end] = entry.data_offsets.map((offset) => 8 + length + offset);
  const bytes = await file.slice(begin, end).arrayBuffer();
  const [rows, cols] = entry.shape;
  if (bytes.byteLength !== 4 * rows * cols) throw wrong("it is cut short");
  return { values: new Float32Array(bytes), rows, cols };
}

/** A table on a device, with rows of length one. */
export class Words {
  #device;
  #kernels;
  #table;
  #cols;
  #words;

  /**
   * Read a table and the words of its rows, and normalise it.
   *
   * @param {Device} device
   * @param {Pack} pack
   * @param {File} table
   * @param {File} vocabulary
   * @returns {Promise<Words>}
   */
  static async read(device, pack, table, vocabulary) {
    const { values, rows, cols } = await tensor(table);
    const words = (await vocabulary.text()).trimEnd().split(/\r?\n/);
    if (words.length !== rows) {
      throw new GristmillError(`the table has ${rows} rows, but there are ${words.length} words`);
    }
    const made = new Words();
    made.#device = device;
    made.#words = words;
    made.#cols = cols;
    made.#kernels = {};
    for (const name of ["rmsnorm", "gather", "gemv", "topk"]) {
      made.#kernels[name] = await device.load(pack, name, "f32");
    }
    // A row over its root mean square has length sqrt(cols); the weight makes that 1.
    const weight = device.upload(new Float32Array(cols).fill(1 / Math.sqrt(cols)));
    const x = device.upload(values);
    made.#table = device.allocate(rows * cols, "f32");
    device.launch(made.#kernels.rmsnorm, { x, weight, y: made.#table, cols, eps: 1e-12 });
    await device.synchronize();
    x.destroy();
    weight.destroy();
    return made;
  }

  /**
   * The words nearest to one, with their cosine, best first: whole words, itself left out.
   *
   * @param {string} word
   * @param {number} count
   * @returns {Promise<Array<[string, number]>>}
   */
  async near(word, count = 8) {
    const row = this.#words.indexOf(word);
    if (row < 0) throw new GristmillError(`the table has no row for ${word}`);
    const device = this.#device;
    const rows = this.#words.length;
    const k = Math.min(rows, count + SPARE);
    const picked = device.upload(new Int32Array([row]));
    const x = device.allocate(this.#cols, "f32");
    const y = device.allocate(rows, "f32");
    const values = device.allocate(k, "f32");
    const indices = device.allocate(k, "i32");
    const { gather, gemv, topk } = this.#kernels;
    device.launch(gather, { table: this.#table, rows: picked, y: x, cols: this.#cols });
    device.launch(gemv, { a: this.#table, x, y, cols: this.#cols });
    device.launch(topk, { x: y, values, indices, cols: rows, k });
    await device.synchronize();
    const scores = await device.download(values);
    const places = await device.download(indices);
    [picked, x, y, values, indices].forEach((buffer) => buffer.destroy());
    const found = [...places].map((place, n) => [this.#words[place], scores[n]]);
    const whole = ([name]) => name !== word && !/^(##|\[)/.test(name) && name.length > 1;
    return found.filter(whole).slice(0, count);
  }

  /** Give the table's memory back. */
  free() {
    this.#table.destroy();
  }
}
