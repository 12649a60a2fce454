"""The page runs its kernels, and says what is missing, damaged or wrong."""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from chromium import Chromium, Page
from gristmill.kernels import families
from gristmill.store.bundle import Entry
from gristmill.store.manifest import Manifest
from gristmill.store.wgsl_pack import wgsl_pack
from site_server import Site

DEMOS = ("saxpy", "sum", "softmax", "rmsnorm", "matmul", "mandelbrot", "fault")
STATE = "document.body.dataset.state"
NOTICE = "document.getElementById('notice').textContent"
KINDS = {"sum": "reduce_rows"}  # demo -> kernel, where they are called differently


def wait_for(page: Page, condition: str, seconds: float = 600.0) -> None:
    """Until a condition of the page holds."""
    end = time.monotonic() + seconds
    while not page.evaluate(condition):
        assert time.monotonic() < end, f"{condition} did not come true: {page.evaluate(NOTICE)}"
        time.sleep(0.05)


def opened(browser: Chromium, address: str) -> Page:
    """The page once it is past loading."""
    page = browser.page(address)
    wait_for(page, f"{STATE} !== 'loading'")
    return page


@pytest.fixture
def page(browser: Chromium, site: Site) -> Iterator[Page]:
    tab = opened(browser, f"{site.address}/index.html")
    assert tab.evaluate(STATE) == "ready", tab.evaluate(NOTICE)
    yield tab
    tab.close()


def results(page: Page) -> dict[str, tuple[str, str]]:
    """Of each demo: status and sentence."""
    cards = page.evaluate(
        "[...document.querySelectorAll('article')].map((card) => [card.dataset.demo,"
        " card.dataset.status, card.querySelector('.result').textContent])"
    )
    return {name: (status, text) for name, status, text in cards}


def test_every_demo_is_right_and_the_fault_is_shown(page: Page) -> None:
    page.evaluate("document.getElementById('all').click()")
    wait_for(page, "!document.getElementById('all').disabled")
    found = results(page)
    assert tuple(found) == DEMOS
    assert {name: status for name, (status, _) in found.items()} == dict.fromkeys(DEMOS, "ok")
    for name, (_, text) in found.items():
        assert ("fault found" if name == "fault" else "right in ") in text
    assert "gather: row number outside the table (kernels/gather.py:" in found["fault"][1]
    painted = "document.querySelector('canvas').getContext('2d').getImageData(0, 0, 512, 384).data"
    assert page.evaluate(f"new Set({painted}).size") > 20


def test_the_page_states_what_the_families_do(page: Page) -> None:
    stated = page.evaluate(
        "import('/demos.js').then((m) => m.demos.map((d) => [d.name, d.numerics]))"
    )
    assert [name for name, _ in stated] == list(DEMOS[:-1])
    for name, numerics in stated:
        assert numerics == families()[KINDS.get(name, name)].numerics


def test_the_page_lists_what_the_device_cannot_run(page: Page) -> None:
    rows = page.evaluate(
        "[...document.querySelectorAll('#refused tbody tr')]"
        ".map((row) => [...row.cells].map((cell) => cell.textContent))"
    )
    lacking = dict(rows)
    assert lacking["saxpy f64"].startswith("f64 (no browser has it)")
    assert (
        "bytes of workgroup memory (44032, the device has 32768)" in lacking["matmul_fragments f16"]
    )
    assert "digests checked" in page.evaluate("document.getElementById('pack').textContent")
    assert "swiftshader" in page.evaluate("document.getElementById('facts').textContent")


def test_a_wrong_result_is_told(page: Page) -> None:
    """The page's own judge finds an element that is off, and a NaN."""
    judge = (
        "import('/references.js').then((m) => m.judge({}, {{value: [1, 2], tolerance: [0, 0.5]}}))"
    )
    assert page.evaluate(judge.format("[1, 2.25]")) == {"error": 0.25, "bound": 0.5, "wrong": None}
    assert page.evaluate(judge.format("[1, 2.75]"))["wrong"] == 1
    assert page.evaluate(judge.format("[NaN, 2]"))["wrong"] == 0
    assert page.evaluate(judge.format("[1.001, 2]"))["wrong"] == 0


def test_nearest_words_of_a_table_that_the_user_picks(
    page: Page, tmp_path: Path, rng: np.random.Generator
) -> None:
    table = rng.standard_normal((60, 24)).astype(np.float32)
    words = [f"word{n}" for n in range(60)]
    header = json.dumps(
        {
            "embeddings.word_embeddings.weight": {
                "dtype": "F32",
                "shape": [60, 24],
                "data_offsets": [0, table.nbytes],
            }
        }
    ).encode()
    (tmp_path / "model.safetensors").write_bytes(
        struct.pack("<Q", len(header)) + header + table.tobytes()
    )
    (tmp_path / "vocab.txt").write_text("\n".join(words) + "\n")
    for box, name in (("table", "model.safetensors"), ("vocabulary", "vocab.txt")):
        page.pick_file(f"#{box}", tmp_path / name)
    page.evaluate("document.getElementById('word').value = 'word7'")
    page.evaluate("document.querySelector('#words-form button').click()")
    wait_for(
        page, "['ok', 'failed'].includes(document.getElementById('words-result').dataset.status)"
    )
    text = page.evaluate("document.getElementById('words-result').textContent")
    rows = table.astype(np.float64)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    cosines = rows @ rows[7]
    nearest = [n for n in np.argsort(-cosines) if n != 7][:8]
    expected = ", ".join(f"{words[n]} {cosines[n]:.2f}" for n in nearest)
    assert [part.split()[0] for part in text.split(", ")] == [words[n] for n in nearest], expected


BROKEN = {
    "missing": (None, "cannot be fetched: status 404"),
    "other": (b"<!doctype html>\n", "is no gristmill wgsl pack"),
    "short": (lambda pack: pack[:-1], "bytes, expected"),
    "index": (lambda pack: pack.replace(b'"grid"', b'"gird"', 1), "its index is damaged: sha256"),
    "schema": (
        lambda pack: pack.replace(b'"schema":1', b'"schema":9', 1),
        "schema 9, but this page",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_pack_is_an_error_of_its_own(
    browser: Chromium, site: Site, built: Path, other: Path, case: str
) -> None:
    change, message = BROKEN[case]
    if change is not None:
        whole = (built / "web/kernels.pack").read_bytes()
        (other / f"{case}.pack").write_bytes(change(whole) if callable(change) else change)
    page = opened(browser, f"{site.address}/index.html?pack=/other/{case}.pack")
    assert page.evaluate(STATE) == "bad-pack"
    text = page.evaluate(NOTICE)
    assert text.startswith("PackError: ")
    assert message in text
    page.close()


def run_saxpy(browser: Chromium, address: str) -> tuple[str, str]:
    """Status and sentence of the demo saxpy."""
    page = opened(browser, address)
    assert page.evaluate(STATE) == "ready", page.evaluate(NOTICE)
    page.evaluate("document.querySelector('article[data-demo=saxpy] button').click()")
    wait_for(
        page, "document.querySelector('article[data-demo=saxpy] .result').textContent !== 'running'"
    )
    found = results(page)["saxpy"]
    page.close()
    return found


def test_a_damaged_module_is_found_before_it_is_compiled(
    browser: Chromium, site: Site, built: Path, other: Path
) -> None:
    line, _, rest = (built / "web/kernels.pack").read_bytes().partition(b"\n")
    count = json.loads(line)["index_bytes"]
    damaged = rest[count:].replace(b"fn main", b"fn mail")  # in every module
    (other / "module.pack").write_bytes(line + b"\n" + rest[:count] + damaged)
    status, text = run_saxpy(browser, f"{site.address}/index.html?pack=/other/module.pack")
    assert status == "failed"
    assert "PackError: /other/module.pack: kernel saxpy f32 is damaged: sha256" in text


def test_wgsl_that_does_not_compile_is_told_with_kernel_and_line(
    browser: Chromium, site: Site, built: Path, other: Path
) -> None:
    folder = built / "wgsl-webgpu/saxpy"
    manifest = Manifest.from_json((folder / "f32.json").read_bytes())
    text = (folder / "f32.wgsl").read_bytes().replace(b"fn main(", b"fn main(x y ")
    digest = sha256(text).hexdigest()
    entry = Entry(replace(manifest, sha256=digest, size=len(text)), "f32.wgsl")
    (other / "shader.pack").write_bytes(wgsl_pack([(entry, text)]))
    status, said = run_saxpy(browser, f"{site.address}/index.html?pack=/other/shader.pack")
    line = 1 + text[: text.index(b"fn main(")].count(b"\n")
    assert status == "failed"
    assert f"ShaderError: kernel saxpy f32: its WGSL does not compile: line {line}: " in said


def test_without_webgpu_the_page_says_what_is_missing(
    site: Site, require: Callable[..., None]
) -> None:
    """No adapter, no WebGPU, and a page that browsers do not trust with it."""
    require("chromium")
    port = site.address.rpartition(":")[2]
    with Chromium(["--host-resolver-rules=MAP example.test 127.0.0.1"]) as plain:
        page = opened(plain, f"http://example.test:{port}/index.html")
        assert page.evaluate(STATE) == "no-device"
        assert "the page is no secure context: serve it over https" in page.evaluate(NOTICE)
        page = opened(plain, f"{site.address}/index.html")
        assert page.evaluate(STATE) == "no-device"
        missing = "Missing: the browser has WebGPU, but found no adapter for it."
        assert missing in page.evaluate(NOTICE)


def test_without_scripts_the_page_says_how_to_serve_it(browser: Chromium, built: Path) -> None:
    """Browsers load no modules from files."""
    page = browser.page((built / "web/index.html").as_uri())
    assert page.evaluate(STATE) == "loading"
    assert "python -m http.server" in page.evaluate(NOTICE)
    page.close()
