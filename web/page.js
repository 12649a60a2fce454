/** The page: a device, a card for each demo, and the search for nearest words. */

import { demos, fault } from "./demos.js";
import { KernelFault, NoDevice, Pack, PackError, Refused, open } from "./gristmill.js";
import { judge } from "./references.js";
import { Words } from "./words.js";

const REPEATS = 5;

const at = (id) => document.getElementById(id);

function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

const number = (value) =>
  value === 0 || (value >= 0.01 && value < 1e6)
    ? String(Number(value.toPrecision(3)))
    : value.toExponential(2);
const milliseconds = (value) => `${value < 10 ? value.toFixed(2) : value.toFixed(0)} ms`;

/** What stands above everything, and what the page's state is. */
function notice(state, text) {
  document.body.dataset.state = state;
  at("notice").textContent = text;
  at("notice").hidden = text === "";
}

/** Rows of a table, each of some cells. */
function fill(table, rows) {
  const cells = (row) => row.map((cell) => element("td", {}, cell));
  at(table).tBodies[0].append(...rows.map((row) => element("tr", {}, ...cells(row))));
}

function showDevice(device) {
  const facts = {
    adapter: device.name,
    features: [...device.features].sort().join(", ") || "none",
    subgroups: device.subgroup === null ? "of no known size" : `of ${[...new Set(device.subgroup)].join(" to ")}`,
  };
  for (const [name, value] of Object.entries(facts)) {
    at("facts").append(element("dt", {}, name), element("dd", {}, value));
  }
  const rows = Object.entries(device.limits).map(([name, value]) => [
    name,
    value.toLocaleString("en"),
  ]);
  fill("limits", [...rows, ["WGSL features", [...device.language].sort().join(", ")]]);
  at("device").hidden = false;
}

/** What of a pack the device can run, and what not for lack of what. */
function showPack(device, pack) {
  const refused = [];
  let count = 0;
  for (const [kernel, specializations] of pack.kernels) {
    for (const specialization of specializations) {
      count += 1;
      const found = device.select(pack, kernel, specialization);
      if (!(found instanceof Refused)) continue;
      const missing = new Set(found.lacks.flatMap((lack) => lack.missing));
      refused.push([`${kernel} ${specialization}`, [...missing].join(", ")]);
    }
  }
  const checked = pack.verified ? "checked" : "not checked: the page is no secure context";
  at("pack").textContent =
    `${pack.size} modules from ${pack.place}, digests ${checked}. This device runs ` +
    `${count - refused.length} of ${count} specializations.`;
  fill("refused", refused);
  at("refused-details").hidden = refused.length === 0;
}

/** The kernels of a demo, its arguments, and buffers in the places of their arrays. */
async function prepared(device, pack, demo) {
  const kernels = [];
  for (const [kernel, specialization] of demo.kernels) {
    kernels.push(await device.load(pack, kernel, specialization));
  }
  const args = demo.args();
  const bound = {};
  for (const [name, value] of Object.entries(args)) {
    bound[name] = ArrayBuffer.isView(value) ? device.upload(value) : value;
  }
  const free = () => Object.values(bound).forEach((value) => value.destroy?.());
  return { kernels, args, bound, free };
}

/** Run a demo, hold its result against its reference, and time it. */
async function measure(device, pack, demo) {
  const { kernels, args, bound, free } = await prepared(device, pack, demo);
  try {
    demo.launch(device, kernels, bound);
    await device.synchronize();
    const result = await device.download(bound[demo.output]);
    const before = performance.now();
    const expected = demo.reference(args, kernels.map((kernel) => kernel.manifest.constexprs));
    const script = performance.now() - before;
    const times = [];
    for (let n = 0; n < REPEATS; n += 1) {
      const begin = performance.now();
      demo.launch(device, kernels, bound);
      await device.synchronize();
      times.push(performance.now() - begin);
    }
    const time = times.sort((a, b) => a - b)[Math.floor(REPEATS / 2)];
    return { ...judge(result, expected), result, time, script };
  } finally {
    free();
  }
}

function draw(canvas, counts, limit) {
  const image = new ImageData(canvas.width, canvas.height);
  counts.forEach((count, i) => {
    const share = count >= limit ? 0 : Math.sqrt(count / limit);
    const color = [255 * share ** 0.6, 200 * share, 120 * share ** 2 + 30 * (share > 0)];
    image.data.set([...color, 255], 4 * i);
  });
  canvas.getContext("2d").putImageData(image, 0, 0);
}

/** What became of a run, for the card: a status and a sentence. */
function failure(error) {
  if (error instanceof Refused) return ["refused", error.message];
  return ["failed", `${error.name}: ${error.message}`];
}

async function show(device, pack, demo, canvas) {
  try {
    const found = await measure(device, pack, demo);
    if (canvas !== undefined) draw(canvas, found.result, demo.args().limit);
    const times = `${milliseconds(found.time)} (reference: ${milliseconds(found.script)})`;
    const errors = `error ${number(found.error)} where ${number(found.bound)} is allowed`;
    if (found.wrong === null) return ["ok", `right in ${times}: ${errors}`];
    return ["wrong", `element ${found.wrong} is wrong: ${errors}`];
  } catch (error) {
    return failure(error);
  }
}

async function showFault(device, pack, demo) {
  try {
    const { kernels, bound, free } = await prepared(device, pack, demo);
    try {
      demo.launch(device, kernels, bound);
      await device.synchronize();
      return ["wrong", "no fault was reported"];
    } catch (error) {
      if (error instanceof KernelFault) return ["ok", `fault found: ${error.message}`];
      throw error;
    } finally {
      free();
    }
  } catch (error) {
    return failure(error);
  }
}

/** A card with a button; gives what the button does. */
function card(demo, run) {
  const result = element("p", { className: "result" }, "not run yet");
  result.setAttribute("role", "status");
  const button = element("button", { type: "button" }, "Run");
  button.setAttribute("aria-label", `Run ${demo.name}`);
  const made = element(
    "article",
    {},
    element("h3", {}, demo.name),
    element("p", { className: "about" }, demo.about),
  );
  if (demo.numerics) made.append(element("p", { className: "about" }, `Stated: ${demo.numerics}.`));
  let canvas;
  if (demo.picture !== undefined) {
    const [width, height] = demo.picture;
    canvas = element("canvas", { width, height });
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", `${demo.name}, ${width} by ${height} points`);
    made.append(canvas);
  }
  made.append(result, element("div", {}, button));
  Object.assign(made.dataset, { demo: demo.name, status: "idle" });
  at("demos").append(made);
  const start = async () => {
    button.disabled = true;
    made.dataset.status = "running";
    result.textContent = "running";
    const [status, text] = await run(demo, canvas);
    result.textContent = text;
    made.dataset.status = status;
    button.disabled = false;
  };
  button.addEventListener("click", start);
  return start;
}

function showWords(device, pack) {
  at("words-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    const result = at("words-result");
    result.dataset.status = "running";
    result.textContent = "reading the files";
    try {
      const files = [at("table").files[0], at("vocabulary").files[0]];
      const words = await Words.read(device, pack, ...files);
      const begin = performance.now();
      const found = await words.near(at("word").value.trim());
      const time = milliseconds(performance.now() - begin);
      words.free();
      result.textContent = `${found.map(([w, s]) => `${w} ${s.toFixed(2)}`).join(", ")} (${time})`;
      result.dataset.status = "ok";
    } catch (error) {
      [result.dataset.status, result.textContent] = failure(error);
    }
  });
  at("words").hidden = false;
}

async function main() {
  notice("loading", "Opening the device and fetching the kernels.");
  let device;
  try {
    device = await open();
  } catch (error) {
    if (!(error instanceof NoDevice)) throw error;
    notice("no-device", `Kernels cannot run here. Missing: ${error.missing.join("; ")}.`);
    return;
  }
  showDevice(device);
  let pack;
  try {
    pack = await Pack.load(new URLSearchParams(location.search).get("pack") ?? "kernels.pack");
  } catch (error) {
    if (!(error instanceof PackError)) throw error;
    notice("bad-pack", `${error.name}: ${error.message}`);
    return;
  }
  showPack(device, pack);
  const starts = demos.map((demo) =>
    card(demo, (which, canvas) => show(device, pack, which, canvas)),
  );
  starts.push(card(fault, (which) => showFault(device, pack, which)));
  at("all").addEventListener("click", async () => {
    at("all").disabled = true;
    for (const start of starts) await start();
    at("all").disabled = false;
  });
  at("kernels").hidden = false;
  showWords(device, pack);
  notice("ready", "");
}

main().catch((error) => notice("failed", `${error.name}: ${error.message}`));
