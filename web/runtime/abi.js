/**
 * The calling convention, as `ir/abi.py` has it: binding i is buffer i, binding n a uniform block
 * of 32-bit words (scalars, element counts, fault base, grid), binding n + 1 the fault bitmap.
 */

import { ArgumentError, LimitExceeded } from "./errors.js";

/**
 * Of each type: its bytes, and the array that holds it. f16, bf16 and 8-bit floats are held as
 * their bits.
 */
export const DTYPES = {
  bool: { bytes: 1, array: Uint8Array, bits: 1 },
  i8: { bytes: 1, array: Int8Array, signed: true },
  u8: { bytes: 1, array: Uint8Array },
  i16: { bytes: 2, array: Int16Array, signed: true },
  u16: { bytes: 2, array: Uint16Array },
  i32: { bytes: 4, array: Int32Array, signed: true },
  u32: { bytes: 4, array: Uint32Array },
  i64: { bytes: 8, array: BigInt64Array, signed: true },
  u64: { bytes: 8, array: BigUint64Array },
  f8e4m3: { bytes: 1, array: Uint8Array },
  f8e5m2: { bytes: 1, array: Uint8Array },
  f16: { bytes: 2, array: Uint16Array, float: { significand: 11, exponent: 5 } },
  bf16: { bytes: 2, array: Uint16Array, float: { significand: 8, exponent: 8 } },
  f32: { bytes: 4, array: Float32Array, float: { significand: 24, exponent: 8 } },
  f64: { bytes: 8, array: Float64Array, float: { significand: 53, exponent: 11 } },
};

/** The greatest element count and invocation number: kernels for browsers count in i32. */
export const INDEX_MAX = 2 ** 31 - 1;

/** The type that an array is taken for where none is said. */
export const OF_ARRAY = new Map([
  [Int8Array, "i8"],
  [Uint8Array, "u8"],
  [Int16Array, "i16"],
  [Uint16Array, "u16"],
  [Int32Array, "i32"],
  [Uint32Array, "u32"],
  [Float32Array, "f32"],
]);

const OPERATIONS = {
  add: (a, b) => a + b,
  sub: (a, b) => a - b,
  mul: (a, b) => a * b,
  floordiv: (a, b) => Math.floor(a / b),
  ceil_div: (a, b) => Math.ceil(a / b),
  min: Math.min,
  max: Math.max,
};

/**
 * The value of a grid expression.
 *
 * @param {number|Array} expression a number, ["count", buffer], ["scalar", name] or [op, a, b]
 * @param {Object<string, number>} counts elements of each buffer
 * @param {Object<string, number>} scalars
 * @returns {number}
 */
export function evaluate(expression, counts, scalars) {
  if (typeof expression === "number") return expression;
  const [kind, a, b] = expression;
  if (kind === "count" && Object.hasOwn(counts, a)) return counts[a];
  if (kind === "scalar" && Object.hasOwn(scalars, a)) return Number(scalars[a]);
  if (Object.hasOwn(OPERATIONS, kind)) {
    const operands = [evaluate(a, counts, scalars), evaluate(b, counts, scalars)];
    const value = OPERATIONS[kind](...operands);
    if (Number.isSafeInteger(value)) return value;
    throw new ArgumentError(`the grid has no value: ${kind} of ${operands.join(" and ")}`);
  }
  throw new ArgumentError(`not a grid expression: ${JSON.stringify(expression)}`);
}

/** Whether a parameter is a buffer; a slot is one of a single element. */
export const isMemory = (param) => param.kind !== "scalar";

/** The bits of a number as a float of so many bits, rounded to nearest, ties to even. */
function floatBits(value, { significand, exponent }) {
  const bias = 2 ** (exponent - 1) - 1;
  const field = 2 ** (significand - 1); // of the mantissa: its values
  const sign = value < 0 || Object.is(value, -0) ? field * 2 ** exponent : 0;
  if (Number.isNaN(value)) return (2 ** exponent - 1) * field + field / 2;
  const size = Math.abs(value);
  const infinite = (2 ** exponent - 1) * field;
  if (size === Infinity) return sign + infinite;
  // The power of two of its last bit; that of denormals is the least.
  let power = 1 - bias;
  if (size >= 2 ** power) {
    power = Math.floor(Math.log2(size));
    if (2 ** power > size) power -= 1;
    else if (2 ** (power + 1) <= size) power += 1;
  }
  const scaled = size / 2 ** power * field;
  let whole = Math.floor(scaled);
  const rest = scaled - whole;
  if (rest > 0.5 || (rest === 0.5 && whole % 2 === 1)) whole += 1;
  return sign + Math.min(infinite, whole + (power + bias - 1) * field);
}

/**
 * The words that pass a number by value: one, or two for 64 bits, low first.
 *
 * @param {number|bigint|boolean} value
 * @param {string} dtype
 * @param {string} place what messages call it
 * @returns {number[]}
 */
export function scalarWords(value, dtype, place = "scalar") {
  const type = DTYPES[dtype];
  const wrong = (expected) =>
    new ArgumentError(`${place}: expected ${expected}, got ${String(value)}`);
  if (type.float !== undefined) {
    if (typeof value !== "number") throw wrong(`a number (${dtype})`);
    if (dtype === "f32" || dtype === "f64") {
      const array = new type.array([value]);
      return [...new Uint32Array(array.buffer)];
    }
    return [floatBits(value, type.float)];
  }
  if (!["number", "bigint", "boolean"].includes(typeof value)) throw wrong(`a number (${dtype})`);
  if (typeof value === "number" && !Number.isSafeInteger(value)) throw wrong(`a whole ${dtype}`);
  const bits = BigInt(type.bits ?? 8 * type.bytes);
  const least = type.signed ? -(1n << (bits - 1n)) : 0n;
  const most = least + (1n << bits) - 1n;
  const whole = BigInt(value);
  if (whole < least || whole > most) throw wrong(`${least} to ${most} (${dtype})`);
  const pattern = BigInt.asUintN(Number(bits), whole);
  const low = Number(pattern & 0xffffffffn);
  return type.bytes === 8 ? [low, Number(pattern >> 32n)] : [low];
}

/**
 * The uniform block of a launch.
 *
 * @param {object} manifest
 * @param {Object<string, number|bigint|boolean>} scalars
 * @param {Object<string, number>} counts
 * @param {number[]} grid
 * @returns {Uint32Array} a multiple of four words
 */
export function block(manifest, scalars, counts, grid) {
  const found = [];
  for (const param of manifest.params) {
    if (isMemory(param)) continue;
    const place = `kernel ${manifest.kernel}, argument ${param.name}`;
    found.push(...scalarWords(scalars[param.name], param.dtype, place));
  }
  for (const param of manifest.params) {
    if (isMemory(param)) found.push(...scalarWords(counts[param.name], manifest.index));
  }
  found.push(0, ...grid); // the fault base: each kernel has a bitmap of its own
  const words = new Uint32Array(Math.ceil(found.length / 4) * 4);
  words.set(found.map((word) => word >>> 0));
  return words;
}

/** Kernels rely on it that no launch has more workgroups in z. */
const MOST_Z = 0x7fffffff;

/**
 * The groups to dispatch for a grid: itself, or folded where the device has no such dimension.
 * Kernels undo the folding.
 *
 * @param {number[]} grid
 * @param {number} limit groups in one dimension
 * @returns {number[]}
 */
export function folded(grid, limit) {
  if (Math.max(...grid) <= limit) return grid;
  if (grid[2] > MOST_Z) throw new LimitExceeded("workgroups of a launch in z", MOST_Z, grid[2]);
  const total = grid[0] * grid[1] * grid[2];
  const most = Math.min(limit * limit, 0xffffffff);
  if (total > most) throw new LimitExceeded("workgroups of a launch", most, total);
  return [Math.min(total, limit), Math.ceil(total / limit), 1];
}
