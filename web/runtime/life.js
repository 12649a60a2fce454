/** The life of a GPUDevice: what it refuses is told later, what it waits for may never come. */

import { DeviceLost, GristmillError, OutOfMemory } from "./errors.js";

const GRACE = 2_000; // milliseconds

/** Watches over the calls of one GPUDevice. */
export class Life {
  #gpu;
  #name;
  #lost;
  #pending = new Set(); // what the browser has not yet said of calls
  #refused = [];
  #poison = null;

  /**
   * @param {GPUDevice} gpu
   * @param {string} name what messages call it
   */
  constructor(gpu, name) {
    this.#gpu = gpu;
    this.#name = name;
    this.#lost = gpu.lost.then((why) => {
      throw this.end(`the device was lost: ${why.message || why.reason}`);
    });
    this.#lost.catch(() => {}); // who waits for something hears of it
  }

  /** Every later call fails with this, or with what ended the device before. */
  end(why) {
    this.#poison ??= new DeviceLost(`${this.#name}: ${why}`);
    return this.#poison;
  }

  /** @throws {DeviceLost} where the device has ended */
  check() {
    if (this.#poison !== null) throw this.#poison;
  }

  /** Make calls of WebGPU; `settle` throws what the browser says against them. */
  guarded(what, calls) {
    this.#gpu.pushErrorScope("validation");
    this.#gpu.pushErrorScope("out-of-memory");
    try {
      return calls();
    } catch (error) {
      if (error instanceof RangeError) throw new OutOfMemory(`${what}: ${error.message}`);
      throw error;
    } finally {
      const said = Promise.all([this.#gpu.popErrorScope(), this.#gpu.popErrorScope()]).then(
        ([full, invalid]) => {
          if (full !== null) this.#refused.push(new OutOfMemory(`${what}: ${full.message}`));
          if (invalid !== null) {
            this.#refused.push(new GristmillError(`${what} was refused: ${invalid.message}`));
          }
        },
        () => {}, // the device is lost, which `within` tells
      );
      this.#pending.add(said);
      said.then(() => this.#pending.delete(said));
    }
  }

  /** Wait for all that the browser has to say of calls so far; throws the first refusal. */
  async settle(timeout) {
    await this.within(Promise.all(this.#pending), timeout);
    const [first] = this.#refused.splice(0);
    if (first !== undefined) throw first;
  }

  /** What a promise gives, unless the device is lost or the milliseconds are over first. */
  async within(promise, timeout) {
    let timer;
    const late = new Promise((_, reject) => {
      const over = () => reject(this.end(`no answer within ${timeout / 1000} s`));
      timer = setTimeout(over, timeout);
    });
    try {
      return await Promise.race([promise, this.#lost, late]);
    } catch (error) {
      if (!["AbortError", "OperationError"].includes(error.name)) throw error;
      // Of a device that is lost, browsers may break promises before they tell of the loss.
      await Promise.race([this.#lost, new Promise((done) => setTimeout(done, GRACE))]);
      throw error;
    } finally {
      clearTimeout(timer);
    }
  }
}
