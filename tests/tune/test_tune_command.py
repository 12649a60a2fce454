"""`gristmill tune` on the CPU: what it measures and writes a build takes in, and what is wrong or
unlikely does not win."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import yaml

from gristmill import runtime
from gristmill.cli import measuring, tune
from gristmill.cli.main import main
from gristmill.cli.measuring import Times
from gristmill.cli.references import References
from gristmill.cli.tuning_file import flow
from gristmill.kernels import families
from project import Project
from tune_project import TARGET

Command = Callable[..., int]


@pytest.fixture
def command(built: Project, monkeypatch: pytest.MonkeyPatch) -> Command:
    """`gristmill tune gemv` with short samples."""
    monkeypatch.setattr(measuring, "SAMPLE", 0.001)
    monkeypatch.setattr(measuring, "WARM", 0.0)
    bundle = str(built.path("artifacts/tuning"))

    def run(out: Path, *words: str, kernel: str = "gemv") -> int:
        common = ["--bundle", bundle, "--rounds", "5", "-o", str(out)]
        return main(["tune", kernel, *common, *words])

    return run


def ranked(monkeypatch: pytest.MonkeyPatch, order: dict[str, float]) -> None:
    """Let candidates take the given seconds, by part of their name."""

    def race(runners: Any, rounds: int) -> dict[str, Times]:
        times = {name: next(t for part, t in order.items() if part in name) for name in runners}
        return {name: Times((t,) * rounds) for name, t in times.items()}

    monkeypatch.setattr(tune, "race", race)


def read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(path.read_text())
    return found


def test_what_is_measured_is_built_and_chosen(
    project: Project, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the device to the build and back."""
    project.path("configs/tuning/some.yaml").unlink()
    ranked(monkeypatch, {"BLOCK: 8,": 2e-3, "BLOCK: 16,": 1e-3, "BLOCK: 32,": 3e-3})
    assert command(project.path("configs/tuning/this.yaml")) == 0
    done = project.scons()
    assert done.status == 0, done.text
    bundle = runtime.open_bundle(project.path("artifacts"))
    with runtime.open_device("cpu") as device:
        for kernel in (
            device.load(bundle, "gemv", "f32", sizes={"y": 64, "cols": 96}),
            device.load(bundle, "gemv").choice.of([None, None, np.zeros(100), 50]),
        ):
            assert kernel.manifest.constexprs["BLOCK"] == 16


def test_the_file_says_how_it_was_measured(command: Command, tmp_path: Path) -> None:
    out = tmp_path / "new/cpu.yaml"
    assert command(out, "--sizes", "y=5,cols=7", "--sizes", "y=640,cols=96") == 0
    found = read(out)
    with runtime.open_device("cpu") as device:
        has = device.capabilities
    assert (found["device"], found["name"]) == ("cpu", has.name)
    (entry,) = found["kernels"]
    assert (entry["target"], entry["driver"], entry["checked"]) == (
        TARGET,
        has.driver,
        "inputs, problems",
    )
    assert entry["command"].endswith("--sizes y=5,cols=7 --sizes y=640,cols=96 --rounds 5")
    assert [s["sizes"] for s in entry["shapes"]] == [{"y": 5, "cols": 7}, {"y": 640, "cols": 96}]
    for shape in entry["shapes"]:
        points = [row["constexprs"] for row in shape["measured"]]
        assert {p["BLOCK"] for p in points} == {8, 16, 32}
        assert shape["winner"] in [r["constexprs"] for r in shape["measured"] if r.get("equal")]
        scores = [r["score"] for r in shape["measured"]]
        assert scores == sorted(scores)


def test_what_is_measured_again_replaces_what_was(command: Command, tmp_path: Path) -> None:
    out = tmp_path / "cpu.yaml"
    assert command(out, "--sizes", "y=5,cols=7") == 0
    text = out.read_text().replace("\nkernels:", '\nmatches: ["*"]\nkernels:')
    other = "  - {kernel: other, specialization: f32, target: cpu-x86-64-v3, shapes: []}\n"
    out.write_text(text + other)
    assert command(out, "--sizes", "y=6,cols=8") == 0
    found = read(out)
    assert found["matches"] == ["*"]
    assert [e["kernel"] for e in found["kernels"]] == ["other", "gemv"]
    assert found["kernels"][1]["shapes"][0]["sizes"] == {"y": 6, "cols": 8}


def test_a_run_that_is_cut_off_leaves_what_it_has_measured(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class CutOffError(Exception):
        pass

    usual, raced = tune.race, 0

    def race(runners: Any, rounds: int) -> dict[str, Times]:
        nonlocal raced
        raced += 1
        if raced > 2:
            raise CutOffError
        return usual(runners, rounds)

    monkeypatch.setattr(tune, "race", race)
    out = tmp_path / "cpu.yaml"
    sizes = [word for n in (5, 6, 7) for word in ("--sizes", f"y={n},cols=8")]
    with pytest.raises(CutOffError):
        command(out, *sizes)
    (entry,) = read(out)["kernels"]
    assert [s["sizes"]["y"] for s in entry["shapes"]] == [5, 6]
    assert all(s["winner"] for s in entry["shapes"])


def test_several_problems_are_written_where_no_yaml_is_installed(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "cpu.yaml"
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "yaml", None)
        assert command(out, "--sizes", "y=5,cols=7", "--sizes", "y=6,cols=7") == 0
    assert [s["sizes"]["y"] for s in read(out)["kernels"][0]["shapes"]] == [5, 6]


@pytest.mark.parametrize(
    ("old", "message"),
    [
        ("device: cpu\nname: Another\nkernels: []\n", "is of Another, not of"),
        ("device: [\n", "cannot be read"),
        ("device: cpu\nname: x\nkernels: [1]\n", "holds no measurements"),
    ],
)
def test_other_files_are_left_alone(
    command: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str], old: str, message: str
) -> None:
    out = tmp_path / "cpu.yaml"
    out.write_text(old)
    assert command(out, "--sizes", "y=5,cols=7") == 2
    assert message in capsys.readouterr().err
    assert out.read_text() == old


@pytest.mark.parametrize("at", ["inputs", "problem"])
def test_a_wrong_candidate_is_told_and_cannot_win(
    command: Command,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    at: str,
) -> None:
    """One whose reference disagrees, on all inputs or on those of the problem alone."""
    real = families()["gemv"]

    def reference(args: Any, constexprs: Any) -> Any:
        found = real.reference(args, constexprs)
        odd = constexprs["BLOCK"] == 16 and (at == "inputs" or args["cols"] == 777)
        if odd:
            found["y"] = dataclasses.replace(found["y"], value=found["y"].value + 1)
        return found

    wrong = {"gemv": dataclasses.replace(real, reference=reference)}
    monkeypatch.setattr(tune, "families", lambda: wrong)
    ranked(monkeypatch, {"BLOCK: 8,": 2e-3, "BLOCK: 16,": 1e-3, "BLOCK: 32,": 3e-3})
    out = tmp_path / "cpu.yaml"
    assert command(out, "--sizes", "y=9,cols=777") == 0
    assert "out of its bound" in capsys.readouterr().out
    (entry,) = read(out)["kernels"]
    assert entry["shapes"][0]["winner"]["BLOCK"] == 8
    if at == "inputs":
        assert entry["excluded"][0].startswith("{BLOCK: 16, SUBGROUP: 16}: wrong: case 0")
    else:
        assert entry["shapes"][0]["measured"][-1]["wrong"] == "y is out of its bound"


def test_a_candidate_that_fails_on_the_problem_alone_cannot_win(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = runtime.LoadedKernel.__call__

    def call(kernel: Any, *args: Any, **named: Any) -> Any:
        if kernel.manifest.facts["tune"]["point"]["BLOCK"] == 16 and 777 in [
            a for a in args if isinstance(a, int)
        ]:
            raise runtime.OutOfMemory(1, 0)
        return real(kernel, *args, **named)

    monkeypatch.setattr(runtime.LoadedKernel, "__call__", call)
    ranked(monkeypatch, {"BLOCK: 8,": 2e-3, "BLOCK: 16,": 1e-3, "BLOCK: 32,": 3e-3})
    out = tmp_path / "cpu.yaml"
    assert command(out, "--sizes", "y=9,cols=777") == 0
    (entry,) = read(out)["kernels"]
    assert entry["shapes"][0]["winner"]["BLOCK"] == 8
    assert "out of memory" in entry["shapes"][0]["measured"][-1]["wrong"]


@pytest.mark.parametrize(("name", "limit"), [("LARGE", 10), ("LONG", -1.0)])
def test_large_problems_are_not_judged_as_a_whole(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, limit: float
) -> None:
    monkeypatch.setattr(tune, name, limit)
    assert command(tmp_path / "cpu.yaml", "--sizes", "y=5,cols=7") == 0
    assert read(tmp_path / "cpu.yaml")["kernels"][0]["checked"] == "inputs"


def test_nothing_right_is_an_error(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    real = families()["gemv"]
    none = dataclasses.replace(real, inputs=lambda rng, constexprs: iter(()))
    monkeypatch.setattr(tune, "families", lambda: {"gemv": none})
    assert command(tmp_path / "cpu.yaml") == 2
    assert "every candidate is wrong or fails" in capsys.readouterr().err
    assert not (tmp_path / "cpu.yaml").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--sizes", "cols=5"], "argument a cannot be computed of {'cols': 5}"),
        (["--rounds", "4"], "4 rounds tell nothing apart; at least 5"),
        (["--sizes", "y=5,cols=7,rows=1"], "no parameter rows"),
        (["--device", "interp"], "has no points of gemv that this device takes"),
        (["--kernel"], "no kernel 'gemw' in"),
    ],
)
def test_what_cannot_be_measured(
    command: Command, tmp_path: Path, capsys: Any, words: list[str], message: str
) -> None:
    kernel = "gemw" if words == ["--kernel"] else "gemv"
    words = [] if words == ["--kernel"] else words
    assert command(tmp_path / "cpu.yaml", *words, kernel=kernel) == 2
    assert message in capsys.readouterr().err


def test_words_that_are_no_sizes(command: Command, tmp_path: Path) -> None:
    for word in ("y", "y=x", "1=2", "y=-1", ""):
        with pytest.raises(SystemExit):
            command(tmp_path / "cpu.yaml", "--sizes", word)


def test_points_that_make_one_kernel_are_measured_once(
    built: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a point states what the plain kernel has by default."""
    bundle = runtime.open_bundle(built.path("artifacts/tuning"))
    artifacts = bundle.artifacts("gemv", "f32")
    monkeypatch.setattr(bundle, "artifacts", lambda *names: artifacts + artifacts[::-1])
    with runtime.open_device("cpu") as device:
        assert tune._offered(bundle, "gemv", "f32", device) == list(artifacts)


def test_ties_are_broken_by_the_declared_order(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranked(monkeypatch, {"BLOCK: 8,": 1e-3, "BLOCK: 16,": 1.5e-3, "BLOCK: 32,": 1.01e-3})
    monkeypatch.setattr(tune, "estimate", lambda manifest, has, sizes: None)
    assert command(tmp_path / "cpu.yaml") == 0
    assert read(tmp_path / "cpu.yaml")["kernels"][0]["shapes"][0]["winner"]["BLOCK"] == 32


# The measure


def test_a_difference_that_is_likely_by_chance_is_none() -> None:
    fast = [1.0] * 15
    assert measuring.apart([1.1] * 15, fast)
    assert not measuring.apart([1.01] * 15, fast)  # too small to matter
    assert not measuring.apart([1.5] * 9 + [0.9] * 6, fast)  # 9 of 15: chance 0.30
    assert measuring.apart([1.5] * 12 + [0.9] * 3, fast)  # 12 of 15: chance 0.018
    assert not measuring.apart([1.1] * 4, fast[:4])  # 1/16: four rounds tell nothing


def test_ties_leave_out_what_was_dropped() -> None:
    times = {"a": Times((1.0,) * 15), "b": Times((1.01,) * 15), "c": Times((0.5, 2.0, 2.0))}
    assert measuring.ties(times) == ["a", "b"]


def test_what_slows_a_round_slows_all_of_it() -> None:
    """b is slower in each round, though its median is less: it left before the machine was busy."""
    times = {"a": Times((1.0, 1.0, 9.0, 9.0, 9.0)), "b": Times((2.0, 2.0, 18.0))}
    assert measuring.scores(times) == pytest.approx({"a": 1.0, "b": 2.0})


def test_by_minima_the_least_samples_count() -> None:
    times = {"a": Times((9.0, 1.0, 9.0)), "b": Times((2.0, 2.0, 1.04)), "c": Times((1.5,) * 3)}
    assert measuring.ties(times, "minimum") == ["a", "b"]
    assert measuring.scores(times, "minimum") == {"a": 1.0, "b": 1.04, "c": 1.5}


def test_runners_take_turns_and_slow_ones_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, order = [0.0], []
    monkeypatch.setattr(measuring.time, "perf_counter", lambda: clock[0])

    def runner(name: str, seconds: float) -> measuring.Runner:
        def run() -> None:
            order.append(name)
            clock[0] += seconds

        return measuring.Runner(run, 2)

    found = measuring.race({"a": runner("a", 2.0), "b": runner("b", 2.4), "c": runner("c", 9.0)}, 5)
    assert [len(found[name].rounds) for name in "abc"] == [5, 5, measuring.FIRST]
    assert found["a"].median == pytest.approx(1.0)
    assert "".join(order) == "abccbaabcbaab"


def test_times() -> None:
    times = Times((1.0, 2.0, 3.0, 4.0, 5.0))
    assert (times.median, times.best) == (3.0, 1.0)
    assert times.spread == pytest.approx(1 / 3)


def test_words_of_the_file_are_yaml() -> None:
    for value in ({"y": 1, "n": [True, 2.5]}, {"A": "no"}, "a b", "x: y", "-", {"T": "f32"}, "1"):
        assert yaml.safe_load(flow(value)) == value


def test_a_reference_is_computed_again_where_variants_differ_in_what_it_reads() -> None:
    asked: list[int] = []

    def reference(args: Any, constexprs: Any) -> Any:
        asked.append(constexprs["N"])
        return {**constexprs} if constexprs.get("ALL") else {"y": constexprs["N"]}

    family: Any = SimpleNamespace(reference=reference)
    found = References(family, {})
    assert [found.of({"N": n, "BLOCK": b}) for n, b in ((1, 8), (1, 16), (2, 8))] == [
        {"y": 1},
        {"y": 1},
        {"y": 2},
    ]
    assert asked == [1, 2]
    assert found.of({"N": 1, "ALL": 1, "BLOCK": 8})["BLOCK"] == 8
    assert found.of({"N": 1, "ALL": 1, "BLOCK": 9})["BLOCK"] == 9
