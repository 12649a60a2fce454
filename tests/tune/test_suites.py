"""`gristmill bench --suite`: what a suite declares is measured beside its peers, and the suites
that are here fit the kernels."""

from __future__ import annotations

import builtins
import contextlib
import dataclasses
import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gristmill import runtime
from gristmill.cli import bench_suite, measuring, peers, problem, suite, suite_parts
from gristmill.cli.errors import CommandError
from gristmill.cli.main import main
from gristmill.kernels import families
from gristmill.store.manifest import ParamInfo
from gristmill_build import config
from project import ROOT, Project
from suite_refusals import WRONG

GEMV = """\
device: cpu
rows:
  - kernel: gemv
    specialization: f32
    sizes: [{y: 64, cols: 96}, {y: 8, cols: 16}]
    arguments: {a: [y, cols], x: cols}
    against: [numpy.gemv, copy]
    bound: 0.001
"""


@pytest.fixture(autouse=True)
def short_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "SAMPLE", 0.001)
    monkeypatch.setattr(measuring, "WARM", 0.0)


def run(tmp_path: Path, built: Project, text: str, *words: str) -> int:
    path = tmp_path / "own.yaml"
    path.write_text(text)
    bundle = ["--bundle", str(built.path("artifacts")), "--rounds", "3"]
    return main(["bench", "--suite", str(path), *bundle, *words])


def report(tmp_path: Path, built: Project, capsys: Any, text: str) -> dict[str, Any]:
    assert run(tmp_path, built, text, "--json") == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_rows_are_measured_beside_their_peers(tmp_path: Path, built: Project, capsys: Any) -> None:
    found = report(tmp_path, built, capsys, GEMV)
    assert (found["suite"], found["device"]) == ("own", "cpu")
    first, second = found["rows"]
    assert (first["name"], first["sizes"]) == ("gemv f32", {"y": 64, "cols": 96})
    assert first["bytes"] == 4 * (64 * 96 + 96 + 64)
    assert set(first["peers"]) == {"numpy.gemv", "copy"}
    assert first["ratio"] == pytest.approx(min(first["peers"].values()) / first["seconds"])
    assert (first["bound"], first["short"], first["status"]) == (0.001, False, "ok")
    assert second["sizes"] == {"y": 8, "cols": 16}


def test_the_table_tells_what_misses_its_bound(tmp_path: Path, built: Project, capsys: Any) -> None:
    assert run(tmp_path, built, GEMV.replace("0.001", "1000.0")) == 0
    out = capsys.readouterr().out
    assert out.count("1000.00 missed") == 4  # as it goes, and in the table
    assert "2 of 2 below their bound" in out


def test_what_is_missing_refused_or_wrong_is_told(
    tmp_path: Path, built: Project, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = GEMV + "  - {kernel: gemv, specialization: f16, sizes: {y: 4, cols: 4}}\n"
    assert [r["status"] for r in report(tmp_path, built, capsys, odd)["rows"]] == [
        "ok",
        "ok",
        "missing",
    ]
    verdict = bench_suite.judge

    def wrong(*args: Any) -> Any:
        return dataclasses.replace(verdict(*args), status="wrong", reason="out of bound")

    monkeypatch.setattr(bench_suite, "judge", wrong)
    assert run(tmp_path, built, GEMV) == 2
    assert "nothing was measured; gemv f32: out of bound" in capsys.readouterr().err
    assert run(tmp_path, built, GEMV, "interp") == 2
    assert "is refused on interp" in capsys.readouterr().err
    assert run(tmp_path, built, GEMV, "--kernel", "softmax") == 2
    assert "suite own has no rows of softmax" in capsys.readouterr().err


def test_a_row_that_fails_leaves_the_others_measured(
    tmp_path: Path, built: Project, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = bench_suite._times

    def fails_on_the_first(device: Any, row: Any, *more: Any) -> None:
        if row.sizes["y"] == 64:
            raise runtime.OutOfMemory(1, 0)
        times(device, row, *more)

    monkeypatch.setattr(bench_suite, "_times", fails_on_the_first)
    first, second = report(tmp_path, built, capsys, GEMV)["rows"]
    assert first["status"] == "failed"
    assert "out of memory" in first["reason"]
    assert second["status"] == "ok"


def test_sizes_that_no_memory_holds_leave_the_other_rows_measured(
    tmp_path: Path, built: Project, capsys: Any
) -> None:
    first, second = report(tmp_path, built, capsys, GEMV.replace("cols: 96", f"cols: {2**34}"))[
        "rows"
    ]
    assert first["status"] == "failed"
    assert "out of memory: Unable to allocate 4.00 TiB" in first["reason"]
    assert second["status"] == "ok"


def test_suites_whose_launches_all_stay_out_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text("""\
rows:
  - launches: [{kernel: gemv, specialization: f32, arguments: {a: [y, cols], x: cols}, when: n > 1}]
    sizes: {y: 8, cols: 16}
    best_of: {n: [2, 1]}
""")
    with pytest.raises(CommandError, match=r"row 1: no launch .* {'y': 8, 'cols': 16, 'n': 1}"):
        suite.load(str(path))


def test_launches_share_arguments_and_the_fastest_of_some_sizes_counts(
    tmp_path: Path, built: Project, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = """\
rows:
  - launches:
      - &gemv
        kernel: gemv
        specialization: f32
        arguments: {a: [y, cols], x: {shape: cols, fill: n}, y: {shape: y, fill: zeros}}
      - {kernel: gemv, specialization: f32, when: n > 1,
         arguments: {a: {of: a}, x: {of: x}, y: {of: y}, cols: cols}}
    sizes: {y: 32, cols: 8}
    best_of: {n: [1, 2, 3]}
    where: n != 2
    operations: 2 * y * cols * n
"""

    def race(runners: Any, rounds: int) -> dict[str, measuring.Times]:
        return {name: measuring.Times((1.0 if "3" in name else 2.0,)) for name in runners}

    monkeypatch.setattr(bench_suite, "race", race)
    (row,) = report(tmp_path, built, capsys, text)["rows"]
    assert (row["best"], row["seconds"], row["operations"]) == ({"n": 3}, 1.0, 2 * 32 * 8 * 3)
    assert row["ratio"] is None
    (made,) = suite.load(str(tmp_path / "own.yaml")).rows
    with runtime.open_device("cpu") as device:
        kernel = device.load(runtime.open_bundle(built.path("artifacts")), "gemv", sizes={"y": 1})
        pool = bench_suite._Pool(device)
        for n, count in ((1, 1), (3, 2)):
            sizes = {**made.sizes, "n": n}
            launches, host, total = bench_suite._prepared(pool, made, [kernel, kernel], sizes)
            assert (len(launches), total) == (count, count * 4 * (32 * 8 + 8 + 32))
            assert (host["x"] == n).all()
        (_, first), (_, second) = launches
        assert all(a is b for a, b in zip(first[:3], second[:3], strict=True))


def test_copies_of_what_rotates_take_turns(
    tmp_path: Path, built: Project, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many as no cache holds; the peers are told."""
    monkeypatch.setattr(problem, "COLD", 3 * 4 * 64 * 96 - 1)
    seen: list[list[list[Any]]] = []
    told: list[int] = []
    recorded = measuring.recorded

    def spied(device: Any, *turns: Any) -> Any:
        seen.append([args for turn in turns for _, args in turn])
        matrices = [args[0].numpy() for args in seen[-1]]
        assert all((a == matrices[0]).all() for a in matrices)
        return recorded(device, *turns)

    monkeypatch.setattr(bench_suite, "recorded", spied)
    copy = peers.PEERS["copy"]
    monkeypatch.setitem(peers.PEERS, "copy", lambda s: told.append(s.copies) or copy(s))
    report(tmp_path, built, capsys, GEMV.replace("against:", "rotating: a\n    against:"))
    turns, small = seen
    assert told == [3, len(small)]
    assert [len({id(args[n]) for args in turns}) for n in range(3)] == [3, 1, 1]


@pytest.mark.parametrize(
    ("count", "copies"), [(0, 1), (1, 64), (8, 64), (1 << 20, 64), (1 << 24, 4), (1 << 27, 2)]
)
def test_what_is_small_is_not_uploaded_by_the_million(count: int, copies: int) -> None:
    args = {"a": np.empty(count, np.float32), "x": np.empty(4, np.float32)}
    assert problem.rotations(args, ["a"]) == copies
    assert problem.rotations(args, []) == 1


def test_the_geometric_mean_over_the_sizes_of_a_row_is_judged(
    tmp_path: Path, built: Project, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def race(runners: Any, rounds: int) -> dict[str, measuring.Times]:
        ours = next(iterate)
        return {n: measuring.Times((ours if n == "kernel" else 4.0,)) for n in runners}

    monkeypatch.setattr(bench_suite, "race", race)
    text = GEMV.replace("bound: 0.001", "mean: 2.1")
    iterate = iter((1.0, 4.0))
    (mean,) = report(tmp_path, built, capsys, text)["means"]
    assert mean == {
        "name": "gemv f32",
        "mean": 2.0,
        "of": 2,
        "rows": 2,
        "bound": 2.1,
        "short": True,
    }
    iterate = iter((1.0, 4.0))
    assert run(tmp_path, built, text.replace("2.1", "1.9")) == 0
    assert "gemv f32: geometric mean of the ratios 2.000 (2 of 2 rows), bound 1.90\n" in (
        capsys.readouterr().out
    )


def test_torch_is_imported_for_who_asks_for_it(
    tmp_path: Path, built: Project, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    real = builtins.__import__

    def importing(name: str, *rest: Any, **named: Any) -> Any:
        if name == "torch":
            asked.append(name)
            raise ImportError("no torch")
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", importing)
    report(tmp_path, built, capsys, GEMV)
    assert not asked
    (row, _) = report(tmp_path, built, capsys, GEMV.replace("copy", "torch.matmul"))["rows"]
    assert asked
    assert row["absent"] == {"torch.matmul": "torch is not installed"}
    assert list(row["peers"]) == ["numpy.gemv"]


def test_arguments_are_filled_as_declared_and_their_bytes_counted(built: Project) -> None:
    (manifest, *_) = (a.manifest for a in runtime.open_bundle(built.path("artifacts")))
    kinds = [("a", "i32", "read"), ("b", "i32", "readwrite"), ("c", "f16", "write")]
    params = tuple(ParamInfo(name, "buffer", t, access) for name, t, access in kinds)
    made = dataclasses.replace(manifest, params=(*params, ParamInfo("s", "scalar", "i32")))
    declared = {
        "a": {"shape": [5], "fill": {"steps": 3}},
        "b": {"shape": [2, ("scalar", "n")], "fill": "shuffled"},
        "c": ("mul", ("scalar", "n"), 2),
    }
    args = problem.arguments(made, {"n": 4, "s": 9}, declared, np.random.default_rng(0))
    assert args["a"].tolist() == [0, 3, 6, 9, 12]
    assert args["b"].shape == (2, 4)
    assert sorted(args["b"].ravel()) == list(range(8))
    assert (args["c"].shape, args["s"]) == ((8,), 9)
    assert problem.moved(made, args) == 4 * 5 + 2 * 4 * 8 + 2 * 8


def test_a_copy_that_is_not_known_is_told() -> None:
    with runtime.open_device("null") as device, pytest.raises(peers.AbsentError, match="null"):
        peers.PEERS["copy"](peers.Setting(device, None, {}, {}, 1024))  # type: ignore[arg-type]


def test_a_copy_on_a_gpu_moves_as_many_bytes() -> None:
    """Half of them are read, half written, in the device's own queue, which is waited for; and the
    buffers last as long as that can be asked for."""
    calls: list[Any] = []

    class Buffer:
        def __init__(self, address: int) -> None:
            self.allocation = SimpleNamespace(handle=SimpleNamespace(address=address))

        def __del__(self) -> None:
            calls.append("freed")

    class Gpu:
        name = "cuda:1"
        _context = contextlib.nullcontext()
        _queue = SimpleNamespace(stream="stream", busy=False)
        api = SimpleNamespace(call=lambda *args: calls.append(args))
        places = iter((1000, 2000))

        def allocate(self, nbytes: int, dtype: str) -> Any:
            assert (nbytes, dtype) == (5120, "u8")
            return Buffer(next(self.places))

        def synchronize(self) -> None:
            assert self._queue.busy
            self._queue.busy = False

    runner = peers.PEERS["copy"](peers.Setting(Gpu(), None, {}, {}, 10_300))  # type: ignore[arg-type]
    assert "freed" not in calls
    calls.clear()
    runner.run()
    assert calls == [("cuMemcpyDtoDAsync", 2000, 1000, 5120, "stream")] * runner.times


@pytest.mark.parametrize("change", WRONG)
def test_suites_that_say_nothing_sensible(
    tmp_path: Path, built: Project, capsys: Any, change: str
) -> None:
    """They are refused before a device is opened, by a line that says the file and the row."""
    old, new = change.split("|", 1)
    assert old in GEMV
    assert run(tmp_path, built, GEMV.replace(old, new, 1)) == 2
    told = capsys.readouterr()
    assert "own.yaml" in told.err
    assert re.search(WRONG[change], told.err)
    assert not told.out


def test_a_suite_that_is_not_there(capsys: Any) -> None:
    assert main(["bench", "--suite", "h300"]) == 2
    assert "no suite 'h300' (there are cpu, h200)" in capsys.readouterr().err
    with pytest.raises(OSError, match=r"nowhere\.yaml"):
        suite.load("nowhere.yaml")


@pytest.mark.parametrize("name", sorted(p.stem for p in (ROOT / "configs/bench").glob("*.yaml")))
def test_the_suites_fit_the_kernels(name: str) -> None:
    """Every launch names all parameters of its kernel, and all its expressions can be computed."""
    rows = config.load(ROOT).kernels
    signatures: dict[tuple[str, str], list[str]] = {}
    loaded = suite.load(str(ROOT / f"configs/bench/{name}.yaml"))
    assert loaded.rows
    for row in loaded.rows:
        shared: set[str] = set()
        for launch in row.launches:
            key = launch.kernel, launch.specialization
            if key not in signatures:
                constexprs = dict(rows[launch.kernel].specializations[launch.specialization])
                traced = families()[launch.kernel].kernel.trace(launch.specialization, **constexprs)
                signatures[key] = [p.name for p in traced.params]
            names = set(signatures[key])
            for sizes in row.best_of:
                known = {**row.sizes, **sizes}
                for argument, value in launch.arguments.items():
                    assert argument in names, (row.where, argument)
                    if isinstance(value, dict) and "of" in value:
                        assert value["of"] in shared
                        continue
                    stated = suite.stated(row.where, value, known)
                    parts = stated["shape"] if isinstance(stated, dict) else [stated]
                    assert all(isinstance(part, int | float) and part >= 0 for part in parts)
                assert names <= {*launch.arguments, *known}, (row.where, names)
            shared |= names
        for expression in (row.bytes, row.operations):
            if expression is not None:
                names_known = {**row.sizes, **row.best_of[0], "size": 4}
                assert suite_parts.computed(row.where, expression, names_known) > 0
