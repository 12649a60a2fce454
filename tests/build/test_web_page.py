"""`scons web` makes a page and a pack of WGSL modules, beside whatever else is built."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from gristmill.store.bundle import Entry
from gristmill.store.manifest import Manifest
from gristmill.store.wgsl_pack import wgsl_pack
from project import FILES, Project

WGSL = "  wgsl-webgpu: {baseline: true}\n"


@pytest.fixture
def page(project: Project) -> Project:
    """A project with a page of two files, whose default targets are without WGSL."""
    project.write("configs/targets.yaml", FILES["configs/targets.yaml"] + WGSL)
    project.write("configs/toolchain.yaml", "backends:\n  interp: []\n  wgsl: []\n")
    project.write("web/index.html", "<p>a page</p>\n")
    project.write("web/runtime/part.js", "export {};\n")
    return project


def read_pack(data: bytes) -> tuple[dict[str, Any], list[dict[str, Any]], bytes]:
    """Head, index and modules of a pack."""
    line, _, rest = data.partition(b"\n")
    head = json.loads(line)
    index = rest[: head["index_bytes"]]
    assert len(rest) == head["bytes"]
    assert hashlib.sha256(index).hexdigest() == head["index_sha256"]
    return head, json.loads(index), rest[head["index_bytes"] :]


def test_the_page_and_its_pack_are_made(page: Project) -> None:
    done = page.scons("web")
    assert done.status == 0, done.text
    assert page.path("artifacts/web/index.html").read_text() == "<p>a page</p>\n"
    assert page.path("artifacts/web/runtime/part.js").exists()
    _, index, modules = read_pack(page.path("artifacts/web/kernels.pack").read_bytes())
    names = [(e["manifest"]["kernel"], e["manifest"]["specialization"]) for e in index]
    assert names == [("scale", "small"), ("scale", "big"), ("shift", "plain")]
    for entry in index:
        manifest = entry["manifest"]
        module = modules[entry["offset"] :][: manifest["size"]]
        assert hashlib.sha256(module).hexdigest() == manifest["sha256"]
        assert b"@compute" in module
    assert not page.path("artifacts/bundle.json").exists()
    assert not page.path("artifacts/interp-kir").exists()


def test_what_is_unchanged_is_left_alone_and_equal_inputs_give_equal_packs(page: Project) -> None:
    page.scons("web")
    first = page.path("artifacts/web/kernels.pack").read_bytes()
    again = page.scons("web")
    assert (again.status, again.built, again.steps("pack"), again.steps("copy")) == (0, 0, 0, 0)
    page.write("web/index.html", "<p>another</p>\n")
    edited = page.scons("web")
    assert (edited.steps("pack"), edited.steps("copy")) == (0, 1)
    page.scons("-c", "web")
    assert not page.path("artifacts/web/kernels.pack").exists()
    page.scons("web")
    assert page.path("artifacts/web/kernels.pack").read_bytes() == first


def test_a_pack_holds_the_kernels_that_are_chosen(page: Project) -> None:
    assert page.scons("web", "kernel=shift").status == 0
    _, index, _ = read_pack(page.path("artifacts/web/kernels.pack").read_bytes())
    assert [e["manifest"]["kernel"] for e in index] == ["shift"]


def test_cleaning_everything_takes_the_page_too(page: Project) -> None:
    page.scons("web")
    assert page.scons("-c").status == 0
    assert not page.path("artifacts/web/index.html").exists()
    assert not page.path("artifacts/web/kernels.pack").exists()


def test_a_project_without_wgsl_is_told_so(project: Project) -> None:
    done = project.scons("web")
    assert done.status == 2
    assert "web needs the target wgsl-webgpu in configs/targets.yaml" in done.err
    assert project.scons().status == 0


def _entry(kernel: str, module: bytes) -> Entry:
    digest = hashlib.sha256(module).hexdigest()
    manifest = Manifest(
        *(kernel, "f32", "wgsl-webgpu", "main", (), (1, 1, 1), "i32", "key"),
        *(digest, len(module)),
    )
    return Entry(manifest, f"wgsl-webgpu/{kernel}/f32.wgsl")


def test_equal_modules_are_kept_once() -> None:
    entries = [
        (_entry(name, text), text) for name, text in (("a", b"x"), ("b", b"yy"), ("c", b"x"))
    ]
    _, index, modules = read_pack(wgsl_pack(entries))
    assert [e["offset"] for e in index] == [0, 1, 0]
    assert modules == b"xyy"


@pytest.mark.parametrize("module", [b"y", b"xx", b""])
def test_a_module_that_is_not_its_manifests_is_refused(module: bytes) -> None:
    entry = _entry("a", b"x")
    with pytest.raises(ValueError, match=r"wgsl-webgpu/a/f32\.wgsl: .* not those of its manifest"):
        wgsl_pack([(entry, module)])
