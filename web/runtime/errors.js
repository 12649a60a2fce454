/** What can go wrong, by kind. Every message says what, where, what was expected and what came. */

/** The common kind. */
export class GristmillError extends Error {
  /** @param {string} message */
  constructor(message) {
    super(message);
    this.name = this.constructor.name;
  }
}

/** There is no device to open. */
export class NoDevice extends GristmillError {
  /** @param {string[]} missing what lacks, one sentence each */
  constructor(missing) {
    super(`no WebGPU device: ${missing.join("; ")}`);
    this.missing = missing;
  }
}

/** A pack that is damaged, cut short or of another version. */
export class PackError extends GristmillError {}

/** An argument that a call does not take. */
export class ArgumentError extends GristmillError {}

/** More than the device or the format of kernels has. */
export class LimitExceeded extends GristmillError {
  /**
   * @param {string} what of which there is too much
   * @param {number} limit
   * @param {number} wanted
   */
  constructor(what, limit, wanted) {
    super(`${what}: ${wanted} is more than the ${limit} that there are`);
    Object.assign(this, { what, limit, wanted });
  }
}

/**
 * No variant of a kernel fits the device.
 *
 * @typedef {{variant: number, constexprs: object, missing: string[]}} Lack
 */
export class Refused extends GristmillError {
  /**
   * @param {string} kernel
   * @param {string} specialization
   * @param {Lack[]} lacks one for each variant of the pack
   */
  constructor(kernel, specialization, lacks) {
    const each = lacks.map((l) => `variant ${l.variant} lacks ${l.missing.join(", ")}`);
    super(`kernel ${kernel} ${specialization} is refused: ${each.join("; ")}`);
    Object.assign(this, { kernel, specialization, lacks });
  }
}

/**
 * The browser does not take a kernel's WGSL.
 *
 * @typedef {{line: number, column: number, text: string, source: string}} Message
 */
export class ShaderError extends GristmillError {
  /**
   * @param {string} kernel
   * @param {string} specialization
   * @param {Message[]} messages of the browser's compiler; line 0 where it names none
   */
  constructor(kernel, specialization, messages) {
    const each = messages.map((m) => `line ${m.line}: ${m.text}${m.source && `: ${m.source}`}`);
    super(`kernel ${kernel} ${specialization}: its WGSL does not compile: ${each.join("; ")}`);
    Object.assign(this, { kernel, specialization, messages });
  }
}

/**
 * Asserts of kernels that failed since the last `synchronize`.
 *
 * @typedef {{kernel: string, specialization: string, site: number, message: string,
 *   file: ?string, line: ?number, column: ?number}} Fault
 */
export class KernelFault extends GristmillError {
  /** @param {Fault[]} faults */
  constructor(faults) {
    const each = faults.map(
      (f) => `kernel ${f.kernel}: ${f.message}${f.file === null ? "" : ` (${f.file}:${f.line})`}`,
    );
    super(each.join("; "));
    this.faults = faults;
    this.kernel = faults[0].kernel;
    this.file = faults[0].file;
    this.line = faults[0].line;
  }
}

/** The device is gone, or gave no answer in time: every later call fails alike. */
export class DeviceLost extends GristmillError {}

/** The browser has no memory left for a buffer. */
export class OutOfMemory extends GristmillError {}
