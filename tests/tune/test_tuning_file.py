"""The file of measurements: what it keeps of older ones, written by one process at a time."""

from __future__ import annotations

import multiprocessing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from gristmill.cli import tuning_file
from gristmill.cli.errors import CommandError

HAS: Any = SimpleNamespace(device="cpu", name="A processor")


def entry(kernel: str, **more: Any) -> dict[str, Any]:
    shape = {"sizes": {"y": 4}, "winner": {"BLOCK": 8}}
    return {"kernel": kernel, "specialization": "f32", "target": "cpu", **more, "shapes": [shape]}


def test_processes_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "cpu.yaml"
    context = multiprocessing.get_context("spawn")
    names = [f"kernel{n}" for n in range(6)]
    processes = [
        context.Process(target=tuning_file.write, args=(path, HAS, [entry(name)])) for name in names
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    kept = yaml.safe_load(path.read_text())["kernels"]
    assert sorted(e["kernel"] for e in kept) == names
    assert [p.name for p in tmp_path.iterdir()] == ["cpu.yaml"]


def test_an_entry_without_measurements_and_with_a_plain_date_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "cpu.yaml"
    path.write_text(
        "device: cpu\nname: A processor\nkernels:\n- kernel: one\n  specialization: f32\n"
        "  target: cpu\n  date: 2026-11-30\n  shapes: [{sizes: {y: 1}, winner: {BLOCK: 8}}]\n"
    )
    for name in ("two", "three"):
        tuning_file.write(path, HAS, [entry(name)])
    one, *more = yaml.safe_load(path.read_text())["kernels"]
    assert one["date"] == "2026-11-30"
    assert one["shapes"] == [{"sizes": {"y": 1}, "winner": {"BLOCK": 8}}]
    assert [e["kernel"] for e in more] == ["two", "three"]


@pytest.mark.parametrize("value", [1e-07, 1e20, -3e-9, 1.5e-12, 0.25, 32.0, float("inf"), "1e5"])
def test_what_is_written_is_read_as_what_it_was(value: Any) -> None:
    read = yaml.safe_load(tuning_file.flow([value]))[0]
    if value != float("inf"):  # nothing that is measured
        assert read == value
        assert type(read) is type(value)


def test_a_folder_in_place_of_the_file_is_told_before_anything_is_measured(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="cannot be read"):
        tuning_file.check(tmp_path, HAS)


@pytest.mark.parametrize("shapes", ["3", "[1]", "[{sizes: {}}]", "[{winner: {}, sizes: 1}]"])
def test_entries_of_another_form_are_told_before_anything_is_measured(
    tmp_path: Path, shapes: str
) -> None:
    path = tmp_path / "cpu.yaml"
    start = "device: cpu\nname: A processor\nkernels:\n"
    path.write_text(f"{start}- {{kernel: a, specialization: b, target: c, shapes: {shapes}}}\n")
    with pytest.raises(CommandError, match="holds no measurements in the form"):
        tuning_file.check(path, HAS)
