/** The kernels that the page shows: inputs, launches and references. */

import * as references from "./references.js";

/** Normally distributed f32, the same in every run. */
function normal(count, seed, scale = 1) {
  let state = seed;
  const uniform = () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
  return Float32Array.from({ length: count }, () => {
    const radius = Math.sqrt(-2 * Math.log(1 - uniform()));
    return scale * radius * Math.cos(2 * Math.PI * uniform());
  });
}

const single = (device, [kernel], args) => device.launch(kernel, args);

/**
 * One demo. `args()` gives arrays and scalars by parameter; of arrays buffers are made. `launch`
 * gets the kernels in order and the arguments with buffers in the arrays' places. `output` names
 * the argument that `reference(args, constexprs of each kernel)` speaks of. `numerics` is what the
 * kernel's family states.
 *
 * @typedef {{name: string, about: string, numerics: string, kernels: string[][],
 *   args: function(): object, launch: function, output: string, reference: function,
 *   picture?: number[]}} Demo
 */

/** @type {Demo[]} */
export const demos = [
  {
    name: "saxpy",
    about: "y = a x + y on a million elements.",
    numerics: "one multiplication, one addition, each rounded",
    kernels: [["saxpy", "f32"]],
    args: () => ({ x: normal(1 << 20, 1), y: normal(1 << 20, 2), a: 1.25 }),
    launch: single,
    output: "y",
    reference: (args) => references.saxpy(args),
  },
  {
    name: "sum",
    about: "The sum of a million elements: 256 workgroups add a run each, one adds their sums.",
    numerics: "sums: one rounding per addition on the longest path; max, min: exact; order fixed",
    kernels: [
      ["reduce_partials", "sum_f32"],
      ["reduce_rows", "sum_f32"],
    ],
    args: () => ({
      x: normal(1_000_003, 3),
      partials: new Float32Array(256),
      y: new Float32Array(1),
    }),
    launch: (device, [partials, rows], args) => {
      device.launch(partials, { x: args.x, partials: args.partials });
      device.launch(rows, { x: args.partials, y: args.y, cols: 256 });
    },
    output: "y",
    reference: (args, [first, second]) =>
      references.sum(args, args.partials.length, first.BLOCK, second.BLOCK),
  },
  {
    name: "softmax",
    about: "256 rows of 1,000 elements, each less its greatest, exponentiated and normalised.",
    numerics: "f32 inside: exp 2 ulp, sum in fixed order; rounded once",
    kernels: [["softmax", "f32"]],
    args: () => ({ x: normal(256_000, 4, 4), y: new Float32Array(256_000), cols: 1000 }),
    launch: single,
    output: "y",
    reference: (args, [constexprs]) => references.softmax(args, constexprs),
  },
  {
    name: "rmsnorm",
    about: "256 rows of 768 elements over their root mean square, times a weight.",
    numerics: "f32 inside, sums in fixed order; rounded to T once",
    kernels: [["rmsnorm", "f32"]],
    args: () => ({
      x: normal(256 * 768, 5),
      weight: normal(768, 6),
      y: new Float32Array(256 * 768),
      cols: 768,
      eps: 1e-5,
    }),
    launch: single,
    output: "y",
    reference: (args, [constexprs]) => references.rmsnorm(args, constexprs),
  },
  {
    name: "matmul",
    about: "A product of two matrices of 256 x 256, tile by tile through workgroup memory.",
    numerics: "f32 accumulation in the order of k; rounded once",
    kernels: [["matmul", "f32"]],
    args: () => ({
      a: normal(256 * 256, 7),
      b: normal(256 * 256, 8),
      c: new Float32Array(256 * 256),
      m: 256,
      n: 256,
      k: 256,
    }),
    launch: single,
    output: "c",
    reference: (args) => references.matmul(args),
  },
  {
    name: "mandelbrot",
    about:
      "Escape times of 512 x 384 points. WGSL may fuse a product and a sum, so a count is right " +
      "within what that can change.",
    numerics: "exact: additions and multiplications of f32 only",
    kernels: [["mandelbrot", "f32"]],
    args: () => ({
      y: new Int32Array(512 * 384),
      width: 512,
      left: -2.2,
      top: -1.2,
      step: 3.2 / 512,
      limit: 200,
    }),
    launch: single,
    output: "y",
    reference: (args) => references.mandelbrot(args),
    picture: [512, 384],
  },
];

/** A launch that must fail: a row number outside the table. */
export const fault = {
  name: "fault",
  about: "Rows picked out of a table, one of which is not in it: the kernel's assert must tell.",
  kernels: [["gather", "f32"]],
  args: () => ({
    table: normal(30, 9),
    rows: new Int32Array([2, 7, 0]),
    y: new Float32Array(15),
    cols: 5,
  }),
  launch: single,
};
