"""What is built again after an edit, and what is not."""

from __future__ import annotations

import os
import shutil

import pytest

from project import Project


def test_a_first_build_makes_every_artifact_and_the_bundle(project: Project) -> None:
    run = project.scons()
    assert run.status == 0, run.text
    assert run.steps("trace") == 3
    assert run.steps("compile") == 3
    entries = project.bundle()["entries"]
    assert [(e["manifest"]["kernel"], e["manifest"]["specialization"]) for e in entries] == [
        ("scale", "small"),
        ("scale", "big"),
        ("shift", "plain"),
    ]
    for entry in entries:
        assert (
            project.path(f"artifacts/{entry['path']}").stat().st_size == entry["manifest"]["size"]
        )


def test_a_second_build_does_nothing(project: Project) -> None:
    project.scons()
    run = project.scons()
    assert run.status == 0
    assert "up to date" in run.out
    assert run.built + run.stored == 0


def test_clean_and_build_comes_from_the_store(project: Project) -> None:
    project.scons()
    before = project.artifacts()
    assert project.scons("-c").status == 0
    assert not project.artifacts()
    run = project.scons()
    assert (run.built, run.stored) == (0, 6)
    assert (run.steps("fetch"), run.steps("trace"), run.steps("compile")) == (6, 0, 0)
    assert run.steps("bundle") == 1
    assert project.artifacts() == before


@pytest.mark.parametrize("words", [[], ["target=interp-kir"]])
def test_clean_takes_what_a_deleted_kernel_left_and_nothing_else(
    project: Project, words: list[str]
) -> None:
    project.scons("target=all")
    project.path("configs/kernels/shift.yaml").unlink()
    foreign = ["artifacts/notes.txt", "artifacts/interp-kir/scale/notes.txt", "artifacts/my/a.json"]
    for name in foreign:
        project.write(name, "mine")
    assert project.scons("-c", *words).status == 0
    left = {f"artifacts/{name}" for name in project.artifacts()} - set(foreign)
    names = ("scale/small", "scale/big", "shift/plain") if words else ()  # of another target
    assert left == {f"artifacts/interp-second/{n}.{e}" for n in names for e in ("kir", "json")}
    assert {f"artifacts/{name}" for name in project.artifacts()} >= set(foreign)


def test_a_comment_in_a_shared_helper_traces_but_compiles_nothing(project: Project) -> None:
    project.scons()
    project.edit("kernels/shared.py", "FACTOR = 3", "# why three\nFACTOR = 3")
    run = project.scons()
    assert run.steps("trace") == 3
    assert run.steps("compile") == 0


def test_an_edit_in_a_shared_helper_reaches_every_kernel(project: Project) -> None:
    project.scons()
    before = project.artifacts()
    project.edit("kernels/shared.py", "FACTOR = 3", "FACTOR = 4")
    run = project.scons()
    assert run.steps("compile") == 3
    assert all(
        before[name] != data for name, data in project.artifacts().items() if "interp" in name
    )


def test_going_back_to_an_earlier_source_is_answered_by_the_store(project: Project) -> None:
    project.scons()
    before = project.artifacts()
    project.edit("kernels/shared.py", "FACTOR = 3", "FACTOR = 4")
    project.scons()
    project.edit("kernels/shared.py", "FACTOR = 4", "FACTOR = 3")
    run = project.scons()
    assert run.built == 0
    assert project.artifacts() == before


def test_one_yaml_value_rebuilds_its_kernel_only(project: Project) -> None:
    project.scons()
    project.edit("configs/kernels/scale.yaml", "BLOCK: 32", "BLOCK: 16")
    run = project.scons()
    assert (run.steps("trace"), run.steps("compile")) == (1, 1)


def test_a_yaml_comment_rebuilds_nothing(project: Project) -> None:
    project.scons()
    project.edit("configs/kernels/scale.yaml", "kernel: scale", "# scales\nkernel: scale")
    assert "up to date" in project.scons().out


def test_a_new_target_leaves_the_artifacts_of_the_others_alone(project: Project) -> None:
    project.scons()
    run = project.scons("target=all")
    assert run.steps("trace") == 0
    assert run.steps("compile") == 3
    assert {e["manifest"]["target"] for e in project.bundle()["entries"]} == {
        "interp-kir",
        "interp-second",
    }


def test_an_old_date_does_not_hide_new_content(project: Project) -> None:
    """Dates say nothing: sources that all claim to be of 1970 are compared by content."""
    source = project.path("kernels/shared.py")
    os.utime(source, (0, 0))
    project.scons()
    project.edit("kernels/shared.py", "FACTOR = 3", "FACTOR = 5")
    os.utime(source, (0, 0))
    assert project.scons().steps("compile") == 3


def test_a_new_date_alone_rebuilds_nothing(project: Project) -> None:
    project.scons()
    os.utime(project.path("kernels/shared.py"))
    assert "up to date" in project.scons().out


def test_a_damaged_store_entry_is_built_again(project: Project) -> None:
    project.scons()
    before = project.artifacts()
    for blob in (project.store / "cas").rglob("*"):
        if blob.is_file():
            blob.write_bytes(b"garb")
    project.scons("-c")
    run = project.scons()
    assert run.status == 0
    assert run.built == 6
    assert "damaged store entries dropped" in run.out
    assert project.artifacts() == before


def test_the_bytes_depend_on_no_path_and_no_order(project: Project) -> None:
    project.scons(jobs=1)
    before = project.artifacts()
    elsewhere = project.root.with_name("elsewhere")
    project.root.rename(elsewhere)
    project.root = elsewhere
    shutil.rmtree(project.path("artifacts"))
    shutil.rmtree(project.store)
    run = project.scons("--random")
    assert run.built == 6
    assert project.artifacts() == before


def test_checks_are_another_action(project: Project) -> None:
    project.scons("kernel=shift")
    (off,) = project.bundle()["entries"]
    assert project.scons("kernel=shift", "checks=on").steps("compile") == 1
    (on,) = project.bundle()["entries"]
    assert off["manifest"]["key"] != on["manifest"]["key"]
    assert (off["manifest"]["checks"], on["manifest"]["checks"]) == (False, True)


def test_a_selection_gives_the_bundle_of_that_selection(project: Project) -> None:
    project.scons()
    run = project.scons("kernel=shift", "target=interp")
    assert run.steps("compile") == 0
    assert [e["manifest"]["kernel"] for e in project.bundle()["entries"]] == ["shift"]
    assert project.path("artifacts/interp-kir/scale/big.kir").exists()
