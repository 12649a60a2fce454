"""Kernels launched by `gristmill.js` in Chromium equal their references, and misuse is typed."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chromium import SWIFTSHADER, Chromium, Page
from gristmill.ir import abi
from gristmill.ir.core import Param
from gristmill.ir.dtypes import DTYPES
from gristmill.kernels import families
from gristmill.kernels.family import compare
from gristmill.store.manifest import Manifest
from site_server import Site

SEED = 20_240_229
LOAD = "import('/judge/harness.js').then((m) => (globalThis.harness = m).begin('/kernels.pack'))"
# SwiftShader takes seconds to compile these: all their specializations run in the long tests.
SLOW = {"matmul": "f32", "matmul_fragments": None}
# SwiftShader's subgroups are of 4 lanes.
NEED_WIDER_SUBGROUPS = {"matmul_fragments", "attention_decode"}


@pytest.fixture(scope="module")
def harness(browser: Chromium, site: Site) -> Iterator[tuple[Page, list[dict[str, Any]]]]:
    """A page beside the pack with the runtime, and what it can run."""
    page = browser.page(f"{site.address}/gristmill.js")
    yield page, page.evaluate(LOAD)
    page.close()


@pytest.fixture
def page(harness: tuple[Page, list[dict[str, Any]]]) -> Page:
    return harness[0]


def plain(value: Any, dtype: str) -> Any:
    """An argument as JSON has it."""
    if isinstance(value, np.ndarray):
        return {"dtype": dtype, "data": base64.b64encode(np.ascontiguousarray(value)).decode()}
    return value.item() if isinstance(value, np.generic) else value


def launch(
    page: Page, manifest: Manifest, args: dict[str, Any], grid: tuple[int, ...] | None = None
) -> None:
    """Launch in the browser; arrays that the kernel writes are updated in place."""
    kinds = {p.name: p for p in manifest.params}
    sent = {name: plain(value, kinds[name].dtype) for name, value in args.items()}
    outputs = [name for name, p in kinds.items() if p.kind != "scalar" and p.access != "read"]
    call = (manifest.kernel, manifest.specialization, sent, outputs, {"grid": grid} if grid else {})
    answer = page.invoke("(...a) => harness.launch(...a)", *call)
    for name in outputs:
        data = np.frombuffer(base64.b64decode(answer[name]), args[name].dtype)
        args[name][...] = data.reshape(args[name].shape)


def check(page: Page, manifest: Manifest) -> None:
    """All inputs of a kernel's family, judged by its reference."""
    family = families()[manifest.kernel]
    constexprs = dict(manifest.constexprs)
    dtypes = {p.name: DTYPES[p.dtype] for p in manifest.params}
    for args in family.inputs(np.random.default_rng(SEED), constexprs):
        expected = family.reference(args, constexprs)
        launch(page, manifest, args)
        for name, wanted in expected.items():
            found = compare(args[name], wanted, dtypes[name])
            place = f"{manifest.kernel} {manifest.specialization}, {name}[{found.first_wrong}]"
            assert found.ok, f"{place}: error {found.error:.3g}, bound {found.bound:.3g}"


def runnable(found: list[dict[str, Any]]) -> list[Manifest]:
    """The variants that the device runs."""
    return [Manifest.from_dict(row["manifest"]) for row in found if row["manifest"] is not None]


def is_slow(manifest: Manifest) -> bool:
    return SLOW.get(manifest.kernel, manifest.specialization) != manifest.specialization


def test_every_kernel_equals_its_reference(harness: tuple[Page, list[dict[str, Any]]]) -> None:
    page, found = harness
    chosen = [m for m in runnable(found) if not is_slow(m)]
    for manifest in chosen:
        check(page, manifest)
    assert {m.kernel for m in chosen} == {row["kernel"] for row in found} - NEED_WIDER_SUBGROUPS
    assert len(chosen) > 70


@pytest.mark.slow
def test_kernels_that_compile_slowly_equal_their_references(
    harness: tuple[Page, list[dict[str, Any]]],
) -> None:
    page, found = harness
    for manifest in filter(is_slow, runnable(found)):
        check(page, manifest)


def test_every_refusal_says_what_the_device_lacks(
    harness: tuple[Page, list[dict[str, Any]]],
) -> None:
    _, found = harness
    refused = {f"{r['kernel']} {r['specialization']}" for r in found if r["manifest"] is None}
    wide = {"saxpy f64", "cast f32_f64", "cast f64_f32", "scan_rows prod_f64", "scan_rows sum_f64"}
    assert wide < refused
    assert {name.partition(" ")[0] for name in refused - wide} == NEED_WIDER_SUBGROUPS
    for row in found:
        if row["manifest"] is None:
            assert row["missing"]
            assert all(row["missing"])


def test_a_grid_beyond_65535_groups_is_folded(harness: tuple[Page, list[dict[str, Any]]]) -> None:
    page, found = harness
    (manifest,) = [m for m in runnable(found) if m.kernel == "mandelbrot"]
    args = {"y": np.zeros((70_000, 1), np.int32), "width": 1}
    args |= {"left": 0.0, "top": 0.0, "step": 2.0**-15, "limit": 3}
    expected = families()["mandelbrot"].reference(args, dict(manifest.constexprs))
    assert len(np.unique(expected["y"].value)) > 1
    launch(page, manifest, args)
    assert np.array_equal(args["y"], expected["y"].value)


@pytest.mark.parametrize("name", sorted(n for n, t in DTYPES.items() if t.computes))
def test_scalars_are_passed_as_the_calling_convention_has_it(
    page: Page, name: str, rng: np.random.Generator
) -> None:
    dtype = DTYPES[name]
    if dtype.is_float:
        low, high = np.log2(float(np.finfo(np.float32).tiny)) - 20, 128.0
        values = (rng.choice([-1.0, 1.0], 200) * 2 ** rng.uniform(low, high, 200)).tolist()
        small = (rng.standard_normal(200) * 2 ** rng.uniform(-26, 17, 200)).tolist()
        ties = [
            1 + 2.0**-11,
            1 + 3 * 2.0**-11,
            2.0**-25,
            3 * 2.0**-25,
            65519.99,
            65520.0,
            0.0,
            -0.0,
        ]
        values += [*small, *ties, 1 + 2.0**-8, 1 + 3 * 2.0**-8, 2.0**-133, 2.0**-134]
        values = [v for v in values if name != "f32" or abs(v) < 3e38]
    else:
        top = 1 if dtype.is_bool else dtype.max
        bottom = 0 if dtype.is_bool else dtype.min
        values = [bottom, top, 0, 1, *(int(v) for v in rng.integers(0, min(top, 100) + 1, 20))]
        values = [v for v in values if abs(v) < 2**53]  # what JSON carries
    got = page.invoke("(v, t) => v.map((x) => harness.words(x, t))", values, name)
    for value, words in zip(values, got, strict=True):
        bits = abi.scalar_bits(value, dtype)
        wanted = [bits & 0xFFFFFFFF, bits >> 32] if dtype.bits == 64 else [bits]
        assert [word & 0xFFFFFFFF for word in words] == wanted, value


def test_the_parameter_block_is_that_of_the_calling_convention(page: Page) -> None:
    params = [
        Param("x", "buffer", DTYPES["f32"]),
        Param("a", "scalar", DTYPES["f32"]),
        Param("n", "scalar", DTYPES["u16"]),
        Param("y", "buffer", DTYPES["f16"]),
    ]
    manifest = {
        "kernel": "k",
        "index": "i32",
        "params": [{"name": p.name, "kind": p.kind, "dtype": p.dtype.name} for p in params],
    }
    scalars = {"a": 1.5, "n": 7}
    args = (manifest, scalars, {"x": 10, "y": 20}, [3, 4, 5])
    got = page.invoke("(...a) => [...harness.block(...a)]", *args)
    bits = [abi.scalar_bits(scalars[p.name], p.dtype) for p in params if not p.is_memory]
    assert got == abi.words(params, DTYPES["i32"], bits, [10, 20], 0, (3, 4, 5)).tolist()


MISUSE = {
    "a name": ("device.launch(k, { x, y, a: 1, b: 2 })", "has no parameter b: it takes x, y, a"),
    "a missing one": ("device.launch(k, { x, y })", "argument a is missing"),
    "a type": ("device.launch(k, { x: i, y, a: 1 })", "expected a live buffer of f32 of this"),
    "an array": ("device.launch(k, { x: new Float32Array(4), y, a: 1 })", "got Float32Array"),
    "one buffer twice": ("device.launch(k, { x: y, y, a: 1 })", "x and y are one buffer"),
    "a scalar": ("device.launch(k, { x, y, a: 'one' })", "argument a: expected a number (f32)"),
    "a destroyed buffer": ("x.destroy(); device.launch(k, { x, y, a: 1 })", "a live buffer of f32"),
    "a grid": ("device.launch(k, { x, y, a: 1 }, { grid: [1, -1, 1] })", "three whole numbers"),
    "a kind of array": ("device.upload([1, 2])", "expected a typed array of a known dtype"),
    "a dtype": ("device.upload(new Float32Array(2), 'f16')", "expected Uint16Array, got Float32"),
    "a count": ("device.allocate(1.5, 'f32')", "a whole number of elements, got 1.5"),
    "no dtype": ("device.allocate(1, 'f31')", "no dtype is called f31"),
}
BUFFERS = """
const k = await device.load(pack, "saxpy", "f32");
const x = device.upload(new Float32Array(4)), y = device.upload(new Float32Array(4));
const i = device.upload(new Int32Array(4));
"""


@pytest.mark.parametrize("case", MISUSE)
def test_a_wrong_argument_is_told_before_anything_runs(page: Page, case: str) -> None:
    script, message = MISUSE[case]
    found = page.invoke("(text) => harness.thrown(text)", BUFFERS + script)
    assert found["name"] == "ArgumentError", found
    assert message in found["message"]


TYPED = {
    "a kernel that is not there": (
        "await device.load(pack, 'saxpi', 'f32')",
        "PackError",
        "has no saxpi f32: it has no kernel saxpi",
    ),
    "a kernel that cannot run": (
        "await device.load(pack, 'saxpy', 'f64')",
        "Refused",
        "kernel saxpy f64 is refused: variant 0 lacks f64 (no browser has it)",
    ),
    "a buffer that is too large": (
        "device.allocate(2 ** 29, 'f32')",
        "LimitExceeded",
        "bytes of a buffer (maxStorageBufferBindingSize): 2147483648 is more than the",
    ),
    "too many elements": (
        "device.allocate(2 ** 31, 'u8')",
        "LimitExceeded",
        "elements of a buffer",
    ),
    "a closed device": (
        "const other = await open(); other.close(); other.allocate(1, 'f32')",
        "DeviceLost",
        "the device is closed",
    ),
    "a call that the browser refuses": (
        """
        const k = await device.load(pack, "saxpy", "f32");
        const x = device.upload(new Float32Array(4)), y = device.upload(new Float32Array(4));
        x.gpu.destroy();
        device.launch(k, { x, y, a: 1 });
        await device.synchronize();
        """,
        "GristmillError",
        "a launch of saxpy was refused: ",
    ),
    "no adapter": (
        "await open({ gpu: { requestAdapter: async () => null } })",
        "NoDevice",
        "the browser has WebGPU, but found no adapter for it",
    ),
    "no WebGPU": ("await open({ gpu: null })", "NoDevice", "this browser has no navigator.gpu"),
}


@pytest.mark.parametrize("case", TYPED)
def test_what_cannot_be_done_is_an_error_of_its_own(page: Page, case: str) -> None:
    script, kind, message = TYPED[case]
    found = page.invoke("(text) => harness.thrown(text)", script)
    assert (found["name"], found["known"]) == (kind, True), found
    assert message in found["message"]


def test_a_fault_names_its_kernel_and_line_and_is_told_once(page: Page) -> None:
    script = """
    const gather = await device.load(pack, "gather", "f32");
    const table = device.upload(new Float32Array(6).fill(1)), y = device.allocate(4, "f32");
    const rows = device.upload(new Int32Array([1, 3]));
    device.launch(gather, { table, rows, y, cols: 2 });
    const faults = await device.synchronize().then(() => [], (error) => error.faults);
    const inside = device.upload(new Int32Array([1, 2]));
    device.launch(gather, { table, rows: inside, y: device.allocate(4, "f32"), cols: 2 });
    await device.synchronize();
    return [faults, [...(await device.download(y))]];
    """
    found = page.invoke("(text) => harness.thrown(text)", script)
    assert found["name"] is None, found
    (fault,), values = found["value"]
    assert (fault["kernel"], fault["specialization"]) == ("gather", "f32")
    assert fault["message"] == "gather: row number outside the table"
    assert fault["file"] == "kernels/gather.py"
    assert fault["line"] > 1
    assert values == [1, 1, 0, 0]


def test_the_example_of_the_readme_runs(page: Page) -> None:
    text = (Path(__file__).parents[2] / "README.md").read_text()
    (script,) = re.findall(r"^```js\nimport [^\n]*\n(.*?)^```$", text, re.M | re.S)
    # The names of the import are there already, and so are a device and a pack, under these names.
    found = page.invoke("(text) => harness.thrown(text)", f"{{ {script} return [...result]; }}")
    assert found == {"name": None, "value": [12, 24, 36]}


def test_empty_buffers_and_empty_grids_are_launches_of_nothing(page: Page) -> None:
    script = """
    const k = await device.load(pack, "saxpy", "f32");
    const x = device.upload(new Float32Array(0)), y = device.allocate(0, "f32");
    device.launch(k, { x, y, a: 2 });
    device.launch(k, { x, y, a: 2 }, { grid: [1, 1, 1] });
    await device.synchronize();
    return (await device.download(y)).length;
    """
    assert page.invoke("(text) => harness.thrown(text)", script) == {"name": None, "value": 0}


def test_memory_is_accounted_and_given_back(page: Page) -> None:
    script = """
    const own = await open();
    const a = own.allocate(1000, "f32"), b = own.upload(new Uint8Array(3));
    const before = { ...own.memory };
    a.destroy();
    a.destroy();
    b.destroy();
    own.close();
    return [before, own.memory];
    """
    found = page.invoke("(text) => harness.thrown(text)", script)["value"]
    assert found == [{"live": 4016, "peak": 4016}, {"live": 0, "peak": 4016}]


def test_a_device_that_vanishes_is_lost_and_says_so(
    site: Site, require: Callable[..., None]
) -> None:
    """The browser's process for the GPU ends in the midst."""
    require("chromium")
    with Chromium(SWIFTSHADER) as own:
        page = own.page(f"{site.address}/judge/harness.js")
        page.evaluate(LOAD)
        own.call("Browser.crashGpuProcess")
        found = page.invoke("(text) => harness.thrown(text)", "await device.synchronize()")
        assert found["name"] == "DeviceLost", found
        again = page.invoke("(text) => harness.thrown(text)", "device.allocate(1, 'f32')")
        assert again["name"] == "DeviceLost"
        assert again["message"] == found["message"]
