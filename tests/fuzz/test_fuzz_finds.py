"""The fuzzer finds a broken emitter, makes the finding small and repeats it; a target's process
that crashes or hangs is a finding, and not the end."""

from __future__ import annotations

import json
import shlex
import tempfile
from pathlib import Path

import pytest

from gristmill.cli.main import main
from gristmill.fuzz import program, session, shrink
from gristmill.fuzz.client import Client, TargetError
from gristmill.ir.core import walk


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict]:
    status = main(["fuzz", *words, "--json"])
    return status, json.loads(capsys.readouterr().out)


def test_a_broken_emitter_is_found_made_small_and_repeated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    device = "python:fuzz_doubles.broken"
    found: list[dict] = []
    # Short programs; about every second one has an xor whose result shows. Not on its way to a
    # small program by the clock: a busy machine must not make the finding large.
    for number in range(6, 800, 8):
        words = ["--seed", "3", "--program", str(number), "--out", str(tmp_path)]
        status, report = run(capsys, "--device", device, "--shrink", "900", *words)
        if found := report["targets"][0]["findings"]:
            break
    assert status == 1
    assert report["targets"][0]["mismatches"] == 1
    assert found[0]["ops"] <= 8
    stored = program.read(Path(found[0]["file"]))
    assert "xor" in {op.name for op in walk(stored.kernel.body)}
    command = shlex.split(found[0]["command"])
    assert command[:2] == ["gristmill", "fuzz"]
    status, again = run(capsys, *command[2:])
    assert (status, again["results"][0]["kind"]) == (1, "mismatch")
    status, again = run(capsys, "--replay", found[0]["file"], "--device", "cpu")
    assert (status, again["results"][0]["kind"]) == (0, "ok")


@pytest.mark.parametrize(
    ("double", "kind"), [("crashing", "crash (SIGABRT)"), ("hanging", "hang: no answer within 30")]
)
def test_a_process_that_ends_or_hangs_is_a_finding_and_the_next_program_runs(
    double: str, kind: str, tmp_path: Path
) -> None:
    told: list[str] = []
    choice = session.Choice(1, programs=4, timeout=30, shrink_seconds=1, out=tmp_path)
    (tally,) = session.session([f"python:fuzz_doubles.{double}"], choice, told.append)
    assert tally.programs == 4
    assert tally.outcomes["ok"] == 3
    (finding,) = tally.findings
    assert finding.number == 1
    assert str(finding.outcome).startswith(kind)
    assert program.read(Path(finding.file)).variant == 1
    assert f"python:fuzz_doubles.{double}" in told[0]


def test_refusals_are_counted_by_reason_and_other_complaints_are_findings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--device", "python:fuzz_doubles.complaining", "--out", str(tmp_path))
    status, report = run(capsys, *words, "--programs", "4", "--seed", "1")
    (target,) = report["targets"]
    assert status == 1
    assert target["refused"] == {"feature f64": 1}
    counts = [target[n] for n in ("programs", "mismatches", "invalid", "crashes")]
    assert counts == [3, 0, 1, 1]


def test_a_compiler_that_is_lost_is_a_crash_and_no_refusal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--device", "python:fuzz_doubles.losing", "--out", str(tmp_path), "--shrink", "0")
    status, report = run(capsys, *words, "--programs", "3", "--seed", "1")
    (target,) = report["targets"]
    assert (status, target["refused"], target["crashes"]) == (1, {"no f64": 1}, 1)
    assert target["findings"][0]["outcome"].startswith("crash (CrashError: signal #): signal 6")


def test_a_process_that_crashes_leaves_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    choice = session.Choice(1, programs=2, shrink_seconds=0, out=tmp_path)
    (tally,) = session.session(["python:fuzz_doubles.littering"], choice, lambda text: None)
    assert tally.outcomes["crash"] == 1
    assert [*(tmp_path / "temporary").iterdir()] == []


def test_a_device_that_computes_nothing_is_refused_by_type(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fuzz", "--device", "null", "--programs", "1"]) == 2
    assert "null: NoTargetError: the device null computes nothing" in capsys.readouterr().err


def test_a_name_that_no_target_has_is_told_with_all_of_them() -> None:
    with pytest.raises(TargetError, match=r"no device 'scaler' \(did you mean 'scalar'\?\); exp"):
        Client("scaler")
    with pytest.raises(TargetError, match=r"no device 'python:x'; expected one of cpu, .*python"):
        Client("python:x")


def test_a_finding_is_stored_where_its_target_does_not_open_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FUZZ_DOUBLE_OPENED", str(tmp_path / "opened"))
    words = ["--device", "python:fuzz_doubles.leaving", "--out", str(tmp_path), "--seed", "1"]
    status, report = run(capsys, *words, "--programs", "4")
    (target,) = report["targets"]
    assert (status, target["programs"], target["crashes"]) == (1, 2, 1)
    assert "FileExistsError" in target["missing"]
    assert program.read(Path(target["findings"][0]["file"])).variant == 1


def test_a_finding_that_cannot_be_stored_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    words = ("--device", "python:fuzz_doubles.complaining", "--out", str(tmp_path / "file/folder"))
    status, report = run(capsys, *words, "--programs", "4", "--seed", "1", "--shrink", "0")
    found = report["targets"][0]["findings"]
    assert status == 1
    assert [f["file"] for f in found] == ["", ""]
    assert found[0]["command"].startswith("gristmill fuzz --seed 1 --program 1 ")


def test_a_device_that_is_not_there_costs_the_others_no_results(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["--device", "scalar", "--device", "odd", "--programs", "1"]
    assert main(["fuzz", *words, "--json"]) == 2
    told = capsys.readouterr()
    assert json.loads(told.out)["targets"][0]["programs"] == 1
    assert "odd" in told.err


def test_equal_seeds_give_equal_programs() -> None:
    from gristmill.fuzz.plan import program as planned
    from gristmill.fuzz.targets import Traits

    texts = [program.to_text(planned(7, n, Traits())) for n in (0, 1, 0)]
    assert texts[0] == texts[2] != texts[1]


def test_a_run_goes_on_where_another_of_its_seed_ended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "_TOLD", 0.0)
    device = ("--device", "python:fuzz_doubles.broken", "--shrink", "0", "--out", str(tmp_path))
    numbers: list[list[int]] = []
    for first, programs in ((0, 16), (0, 8), (8, 8)):
        words = ("--seed", "3", "--first", str(first), "--programs", str(programs), "--json")
        main(["fuzz", *device, *words])
        captured = capsys.readouterr()
        report = json.loads(captured.out)
        assert report["first"] == first
        assert report["targets"][0]["programs"] == programs
        assert f"{programs} programs, the next is {first + programs}" in captured.err
        numbers.append([f["number"] for f in report["targets"][0]["findings"]])
    assert numbers[0] == numbers[1] + numbers[2]
    assert numbers[1]
    assert numbers[2]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--first", "8", "--program", "3"), "one program"),
        (("--first", "8", "--programs", "3"), "--seed"),
    ],
)
def test_a_start_that_does_not_fit_is_refused(
    words: tuple[str, ...], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fuzz", "--device", "cpu", *words]) == 2
    assert text in capsys.readouterr().err


def test_a_device_that_is_not_there_ends_the_command_by_type(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["fuzz", "--device", "vulkan:no such", "--programs", "1"]) == 2
    assert "NoDevice" in capsys.readouterr().err
    assert main(["fuzz", "--device", "python:nothing.here", "--programs", "1"]) == 2
    with pytest.raises(TargetError, match="no device"):
        Client("odd")


def test_a_file_that_is_no_program_ends_the_command_by_type(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.kir"
    assert main(["fuzz", "--replay", str(path)]) == 2
    path.write_text("kernel a b\n")
    assert main(["fuzz", "--replay", str(path)]) == 2
    assert "expected one line" in capsys.readouterr().err
    assert main(["fuzz", "--replay", ""]) == 2


def test_without_a_compiler_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import importlib.util

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert main(["fuzz", "--programs", "1"]) == 2
    assert "gristmill[build]" in capsys.readouterr().err


def test_a_tracer_that_differs_from_python_is_made_small(tmp_path: Path) -> None:
    from gristmill.fuzz import source
    from gristmill.fuzz.outcome import Outcome

    def judge(text: str) -> Outcome:  # as if `//` were wrong
        return Outcome("mismatch", "bits") if "//" in text else Outcome("ok")

    number = next(n for n in range(100) if "//" in source.source(1, n))
    text, outcome = shrink.shrink_source(
        source.source(1, number), Outcome("mismatch", "bits"), judge, 600
    )
    assert outcome.kind == "mismatch"
    assert len(text.splitlines()) < len(source.source(1, number).splitlines()) / 2
