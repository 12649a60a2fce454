/**
 * What the demos' kernels must give: each result in float64 with the error that the kernel's
 * family in `kernels/` allows. Bounds count roundings, `gamma(n)` being that of n of them.
 */

const U = 2 ** -24; // unit roundoff of f32
const LEAST = 2 ** -149;
const FLUSHED = 2 ** -126; // what is below may come out as zero

const gamma = (n) => (n * U) / (1 - n * U);

/** Roundings on the longest path of a sum of n elements by a workgroup. */
const terms = (n, block) => Math.ceil(n / block) + (Math.floor(Math.log2(block)) + 1) + 64;

const rounding = (value) => Math.abs(value) * U + LEAST;

/** @typedef {{value: Float64Array, tolerance: Float64Array}} Expected */

function expected(length) {
  return { value: new Float64Array(length), tolerance: new Float64Array(length) };
}

/** @returns {Expected} */
export function saxpy({ x, y, a }) {
  const found = expected(y.length);
  const factor = Math.fround(a);
  y.forEach((old, i) => {
    const product = factor * x[i];
    found.value[i] = product + old;
    found.tolerance[i] = 2 * rounding(product) + rounding(found.value[i]);
  });
  return found;
}

/** The sum of x by `groups` workgroups of `block`, whose sums one of `last` adds. */
export function sum({ x }, groups, block, last) {
  const found = expected(1);
  let magnitude = 0;
  for (const value of x) {
    found.value[0] += value;
    magnitude += Math.abs(value);
  }
  const path = terms(Math.ceil(x.length / groups), block) + terms(groups, last) + 8;
  found.tolerance[0] = magnitude * gamma(path) + rounding(found.value[0]);
  return found;
}

/** @returns {Expected} */
export function softmax({ x, cols }, { BLOCK }) {
  const found = expected(x.length);
  for (let start = 0; start < x.length; start += cols) {
    const row = x.subarray(start, start + cols);
    const top = row.reduce((a, b) => Math.max(a, b), -Infinity);
    let total = 0;
    let spread = 0;
    for (const value of row) {
      const e = Math.exp(value - top);
      total += e;
      spread += Math.abs(value - top) * e;
    }
    const worst = (spread / total) * U + gamma(terms(cols, BLOCK) + 16);
    row.forEach((value, c) => {
      const result = Math.exp(value - top) / total;
      const relative = Math.abs(value - top) * U + worst + U;
      found.value[start + c] = result;
      found.tolerance[start + c] = result * relative + LEAST + FLUSHED;
    });
  }
  return found;
}

/** @returns {Expected} */
export function rmsnorm({ x, weight, cols, eps }, { BLOCK }) {
  const found = expected(x.length);
  const relative = gamma(terms(cols, BLOCK) / 2 + 16) + U;
  for (let start = 0; start < x.length; start += cols) {
    let squares = 0;
    for (let c = 0; c < cols; c += 1) squares += x[start + c] ** 2;
    const scale = 1 / Math.sqrt(squares / cols + Math.fround(eps));
    for (let c = 0; c < cols; c += 1) {
      const result = x[start + c] * scale * weight[c];
      found.value[start + c] = result;
      found.tolerance[start + c] = Math.abs(result) * relative + LEAST + FLUSHED;
    }
  }
  return found;
}

/** @returns {Expected} */
export function matmul({ a, b, m, n, k }) {
  const found = expected(m * n);
  const sizes = new Float64Array(m * n);
  for (let i = 0; i < m; i += 1) {
    for (let l = 0; l < k; l += 1) {
      const left = a[i * k + l];
      for (let j = 0; j < n; j += 1) {
        const product = left * b[l * n + j];
        found.value[i * n + j] += product;
        sizes[i * n + j] += Math.abs(product);
      }
    }
  }
  const error = gamma(2 * k + 2);
  sizes.forEach((size, i) => {
    found.tolerance[i] = size * error + rounding(found.value[i]);
  });
  return found;
}

/**
 * Escape times. WGSL may fuse a product and a sum, so a step is known up to its roundings only:
 * a count is right between the first step that may have escaped and the first that must have.
 *
 * @returns {Expected} the middle of that range, and half of its length
 */
export function mandelbrot({ y, width, left, top, step, limit }) {
  const found = expected(y.length);
  const [x0, y0, by] = [left, top, step].map(Math.fround);
  for (let i = 0; i < y.length; i += 1) {
    const px = x0 + (i % width) * by;
    const py = y0 + Math.floor(i / width) * by;
    const size = Math.abs(px) + Math.abs(py) + Math.abs(x0) + Math.abs(y0);
    let [zx, zy, error] = [0, 0, 0];
    let [count, first] = [0, limit];
    for (; count < limit; count += 1) {
      const m = Math.abs(zx) + Math.abs(zy);
      const square = zx * zx + zy * zy;
      const moved = 2 * error * (m + error);
      const doubt = moved + 4 * U * m * m;
      if (square + doubt > 4) first = Math.min(first, count);
      if (square - doubt > 4) break;
      [zx, zy] = [zx * zx - zy * zy + px, 2 * zx * zy + py];
      error = moved + 8 * U * (m * m + size);
      if (error > 2) {
        first = Math.min(first, count + 1); // from here on anything may be
        count = limit;
        break;
      }
    }
    first = Math.min(first, count);
    found.value[i] = (first + count) / 2;
    found.tolerance[i] = (count - first) / 2;
  }
  return found;
}

/**
 * Hold a result against what is expected.
 *
 * @param {ArrayLike<number>} actual
 * @param {Expected} expected
 * @returns {{error: number, bound: number, wrong: ?number}} error and bound of the element that is
 *   nearest to its bound or furthest beyond it, and the first element that is out of bounds
 */
export function judge(actual, { value, tolerance }) {
  const found = { error: 0, bound: 0, wrong: null };
  let worst = -1;
  for (let i = 0; i < value.length; i += 1) {
    const error = actual[i] === value[i] ? 0 : Math.abs(actual[i] - value[i]);
    const inside = error <= tolerance[i]; // a NaN is not
    if (!inside && found.wrong === null) found.wrong = i;
    const share = error === 0 ? 0 : error / tolerance[i];
    if (share > worst || Number.isNaN(share)) {
      worst = Number.isNaN(share) ? Infinity : share;
      Object.assign(found, { error, bound: tolerance[i] });
    }
  }
  return found;
}
