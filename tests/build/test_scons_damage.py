"""What was changed after it was built is made again; cleaning leaves no empty folder."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gristmill_build import steps
from gristmill_build.workshop import StepError
from project import FILES, Project

TOLD = re.compile(r"\(changed after it was built: (.*)\)")


@pytest.fixture
def page(project: Project) -> Project:
    """A project with a page, all of it built."""
    project.write(
        "configs/targets.yaml",
        FILES["configs/targets.yaml"] + "  wgsl-webgpu: {baseline: true}\n",
    )
    project.write("configs/toolchain.yaml", "backends:\n  interp: []\n  wgsl: []\n")
    project.write("web/index.html", "<p>a page</p>\n")
    project.write("web/runtime/part.js", "export {};\n")
    assert project.scons("all", "web").status == 0
    return project


def test_a_damaged_file_of_the_output_counts_as_up_to_date(page: Project) -> None:
    """Whatever file it is."""
    good = page.artifacts()
    assert len(good) == 22
    for name in good:
        page.path(f"artifacts/{name}").write_bytes(good[name][:-1] + b"?")
    run = page.scons("all", "web")
    assert (run.status, run.err, run.built) == (0, "", 0)
    assert page.artifacts() == good
    told = [part for text in TOLD.findall(run.out) for part in text.split(", ")]
    assert sorted(told) == [f"artifacts/{name}" for name in good]


def test_one_damaged_file_is_made_again_and_what_is_made_of_it_is_not(page: Project) -> None:
    good = page.artifacts()
    for name in [n for n in good if "scale" not in n]:
        # After a build that does nothing, too: it must not forget what was built.
        assert not TOLD.search(page.scons("all", "web").out)
        page.path(f"artifacts/{name}").write_bytes(b"" if "kir/" in name else good[name] + b" ")
        run = page.scons("all", "web")
        assert (run.status, run.err) == (0, "")
        assert TOLD.findall(run.out) == [f"artifacts/{name}"]
        assert page.artifacts() == good
        verbs = ("trace", "compile", "fetch", "bundle", "pack", "copy")
        assert sum(map(run.steps, verbs)) == 1, run.out


def test_an_artifact_damaged_while_a_build_runs_does_not_get_into_a_bundle(page: Project) -> None:
    out = page.path("artifacts")
    row = [str(out / f"interp-kir/shift/plain.{suffix}") for suffix in ("kir", "json")]
    assert steps.entry([*row, ""], out).path == "interp-kir/shift/plain.kir"
    Path(row[0]).write_bytes(b"garbage")
    with pytest.raises(StepError, match=r"plain\.kir was changed after it was built"):
        steps.entry([*row, ""], out)


def test_a_damaged_file_is_told_by_a_dry_run_and_left_alone(page: Project) -> None:
    path = page.path("artifacts/web/index.html")
    path.write_text("garbage")
    assert "copy artifacts/web/index.html" in page.scons("-n", "web").out
    assert path.read_text() == "garbage"


def folders(project: Project) -> list[str]:
    out = project.path("artifacts")
    return sorted(path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_dir())


def test_cleaning_the_page_leaves_an_empty_folder(page: Project) -> None:
    assert page.scons("-n", "-c", "web").status == 0
    assert "web/runtime" in folders(page)
    assert page.scons("-c", "web").status == 0
    assert folders(page) == ["interp-kir", "interp-kir/scale", "interp-kir/shift"]


def test_cleaning_leaves_an_empty_folder(page: Project) -> None:
    foreign = page.path("artifacts/kir/mine/notes.txt")
    foreign.parent.mkdir()
    foreign.write_text("mine")
    assert page.scons("-c").status == 0
    assert folders(page) == ["kir", "kir/mine"]
    assert foreign.read_text() == "mine"
