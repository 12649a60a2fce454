"""What a build takes in: the winners of its targets into the index, all points where it is to be
measured; and what of the files it refuses, with file and line."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from gristmill import runtime
from gristmill.kernels import families
from gristmill.store.manifest import ParamInfo
from gristmill_build import config, notes, options, plan
from gristmill_build.document import ConfigError
from gristmill_build.expressions import Expression
from project import ROOT, Project
from tune_project import FILES, GEMV, TARGET, TUNED


def entries(project: Project, index: str = "artifacts/bundle.json") -> list[dict[str, Any]]:
    found = json.loads(project.path(index).read_text())["entries"]
    return [e["manifest"] for e in found if e["manifest"]["kernel"] == "gemv"]


def test_the_winner_stands_behind_the_declared_variants(built: Project) -> None:
    declared, won = entries(built)
    assert (declared["constexprs"]["BLOCK"], won["constexprs"]["BLOCK"]) == (32, 8)
    row = {"device": "cpu", "matches": ["Some CPU*"]}
    assert won["facts"]["tuned"] == [{**row, "sizes": {"y": 1000, "cols": 64}}]
    assert declared["facts"]["tuned"] == [{**row, "sizes": {"y": 1000, "cols": 4096}}]
    assert declared["facts"]["cost"]["operations"][0] == "mul"  # of sizes and integers
    assert "tune" not in won["facts"]


def test_artifacts_are_the_same_whatever_was_measured(built: Project) -> None:
    manifest = json.loads(built.path(f"artifacts/{TARGET}/gemv/f32.json").read_text())
    assert not {"tuned", "cost", "tune"} & manifest["facts"].keys()


def test_a_bundle_to_be_measured_has_all_points_and_what_to_measure(built: Project) -> None:
    found = entries(built, "artifacts/tuning/bundle.json")
    points = [m["facts"]["tune"]["point"]["BLOCK"] for m in found]
    assert points == [32, 8, 16]  # the declared one first, and once
    tune = found[0]["facts"]["tune"]
    assert tune["sizes"] == [{"y": 64, "cols": 96}]
    assert tune["arguments"]["a"] == {"shape": [["scalar", "y"], ["scalar", "cols"]]}
    assert not any("tuned" in m["facts"] for m in found)
    pack = built.path(f"artifacts/tuning/packs/gristmill-{TARGET}.pack")
    packed = runtime.open_bundle(pack).artifacts("gemv", "f32")
    assert [a.manifest.facts["tune"]["point"]["BLOCK"] for a in packed] == points


def test_nothing_is_declared_for_a_target(project: Project) -> None:
    done = project.scons("tune=gemv", "target=interp-kir")
    assert done.status == 2
    assert "tune=gemv: configs/kernels/gemv.yaml declares no space for interp-kir" in done.err
    assert "leave kernel= out" in project.scons("tune=gemv", "kernel=gemv").err


def loaded(folder: Path, files: dict[str, str]) -> config.Config:
    for name, text in {**FILES, "kernels/gemv.py": "", **files}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return config.load(folder)


WRONG_TUNED = {
    "kernel: gemv|kernel: gemw": r"some.yaml:5: .*unknown value 'gemw'; did you mean 'gemv'",
    "specialization: f32|specialization: f16": r"some.yaml:6: .*unknown value 'f16'",
    f"target: {TARGET}|target: cpu-z80": r"some.yaml:7: .*unknown value 'cpu-z80'",
    f"target: {TARGET}|target: interp-kir": r"some.yaml:7: .*cpu devices load cpu, not interp",
    "{BLOCK: 8, SUBGROUP: 8}|{BLOCK: 8, SUBGROUPS: 8}": (
        r"some.yaml:10: .*unknown constexpr 'SUBGROUPS'; did you mean 'SUBGROUP'"
    ),
    "{BLOCK: 8, SUBGROUP: 8}|{BLOCK: 64, SUBGROUP: 64}": (
        r"some.yaml:10: .*BLOCK: 64 is no value of the space \(it has 16, 32, 8\); tune again"
    ),
    "{BLOCK: 8, SUBGROUP: 8}|{BLOCK: 8, SUBGROUP: 16}": (
        r"some.yaml:10: .*no point of the space and no variant has these values together"
    ),
    "cols: 64|cols: -1": r"some.yaml:9: .*expected a size, 0 to \d+, got -1",
    'matches: ["Some CPU*"]|matches: ["Other*"]': (
        r"some.yaml:3: matches: none of these patterns matches 'Some CPU 9000'"
    ),
    "device: cpu|device: gpu": r"some.yaml:1: device: unknown value 'gpu'",
    "        winner: {BLOCK: 8, SUBGROUP: 8}\n|": r"some.yaml:9: .*the key 'winner' is missing",
}


@pytest.mark.parametrize("change", WRONG_TUNED)
def test_measurements_that_fit_nothing_are_refused(tmp_path: Path, change: str) -> None:
    old, new = change.split("|")
    assert old in TUNED
    with pytest.raises(ConfigError, match=WRONG_TUNED[change]):
        loaded(tmp_path, {"configs/tuning/some.yaml": TUNED.replace(old, new, 1)})


WRONG_SPACES = {
    "BLOCK: [8, 16, 32], SUB|BLOCK: [8, 8, 32], SUB": r"gemv.yaml:12: .*8 stands here twice",
    "BLOCK: [8, 16, 32], SUB|BLOCK: [], SUB": r"gemv.yaml:12: .*a list without values",
    "BLOCK == SUBGROUP|BLOCK == SUBGRUOP": (
        r"gemv.yaml:13: unknown name 'SUBGRUOP' in .*did you mean 'SUBGROUP'"
    ),
    "BLOCK == SUBGROUP|BLOCK < 0": r"gemv.yaml:12: .*no point of the space meets",
    "BLOCK == SUBGROUP|BLOCK ==": r"gemv.yaml:13: 'BLOCK ==' is no expression",
    "BLOCK == SUBGROUP|open('x')": r"gemv.yaml:13: \"open\('x'\)\" is not for expressions",
    "BLOCK == SUBGROUP|BLOCK // 0": r"gemv.yaml:13: 'BLOCK // 0' cannot be computed",
    "    cpu:\n      const|    cup:\n      const": r"gemv.yaml:12: .*unknown target .* 'cup'",
    "bytes: 4|byte: 4": r"gemv.yaml:9: .*unknown key 'byte'; did you mean 'bytes'",
    "tune:\n  sizes: [{y: 64, cols: 96}]|tune:\n  sizes: [{}]": r"gemv.yaml:7: .*sizes of nothing",
}


@pytest.mark.parametrize("change", WRONG_SPACES)
def test_spaces_that_are_none_are_refused(tmp_path: Path, change: str) -> None:
    old, new = change.split("|")
    assert old in GEMV, old
    with pytest.raises(ConfigError, match=WRONG_SPACES[change]):
        loaded(tmp_path, {"configs/kernels/gemv.yaml": GEMV.replace(old, new, 1)})


LISTED = """\
    cpu:
      - {BLOCK: 8, SUBGROUP: 8}
      - {BLOCK: 16, SUBGROUP: 16}
"""


def test_a_space_may_list_its_points(tmp_path: Path) -> None:
    head = GEMV.partition("    cpu:\n      const")[0]
    settings = loaded(tmp_path, {"configs/kernels/gemv.yaml": head + LISTED})
    tune = settings.kernels["gemv"].tune
    assert tune is not None
    assert [dict(point) for point in tune.spaces["cpu"].points] == [
        {"BLOCK": 8, "SUBGROUP": 8},
        {"BLOCK": 16, "SUBGROUP": 16},
    ]
    twice = LISTED.replace("16", "8")
    with pytest.raises(ConfigError, match=r"gemv.yaml:13: .*this point stands here twice"):
        loaded(tmp_path, {"configs/kernels/gemv.yaml": head + twice})
    with pytest.raises(ConfigError, match=r"gemv.yaml:11: .*a space without points"):
        loaded(tmp_path, {"configs/kernels/gemv.yaml": head + "    cpu: []\n"})


def test_a_space_is_bounded(tmp_path: Path) -> None:
    many = GEMV.replace("BLOCK: [8, 16, 32],", f"BLOCK: {list(range(1, 600))},")
    with pytest.raises(ConfigError, match="599 points; at most 512"):
        loaded(tmp_path, {"configs/kernels/gemv.yaml": many.replace("BLOCK == SUBGROUP", "BLOCK")
                          .replace("SUBGROUP: [8, 16, 32]", "SUBGROUP: 8")})  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("x: cols", "x: rows", "gemv.yaml:8: unknown name 'rows' in 'rows'"),
        (", x: cols", "", "odd or missing: x"),
        ("  spaces:", "  rotating: [b]\n  spaces:", "the kernel has no parameter 'b'"),
        ("2 * y *", "2 * z *", "gemv.yaml:9: unknown name 'z'"),
        (
            "BLOCK: [8, 16, 32], SUB",
            "BLOK: [8], BLOCK: [8, 16, 32], SUB",
            "specialized by configs/kernels/gemv.yaml:12",
        ),
    ],
)
def test_what_does_not_fit_the_kernel_is_refused(
    project: Project, old: str, new: str, message: str
) -> None:
    project.path("configs/tuning/some.yaml").unlink()
    project.edit("configs/kernels/gemv.yaml", old, new)
    done = project.scons("tune=gemv")
    assert done.status == 2
    assert message in done.err


def test_sizes_of_no_parameter_are_refused(project: Project) -> None:
    project.edit("configs/tuning/some.yaml", "{y: 1000, cols: 64}", "{rows: 1000, cols: 64}")
    done = project.scons()
    assert done.status == 2
    assert "some.yaml:9: the kernel has no parameter 'rows'" in done.err


def test_expressions() -> None:
    names = {"A": 6, "B": 4, "on": True}
    for text in ("A // B + A % B", "max(A, B) * 2 - min(A, 1)", "ceil_div(A, B)"):
        known = {"max": max, "min": min, "ceil_div": lambda a, b: -(-a // b)}
        assert Expression(text, "f:1").value(names) == eval(text, known, dict(names))
    assert Expression("A > B and not (A == 7) or on", "f:1").value(names) is True
    assert Expression("A < B or on", "f:1").value(names) is True
    assert Expression("2 < B < A", "f:1").value(names) is True
    made = Expression("ceil_div(m, A) * on", "f:1").of_sizes(names, {"m"})
    assert made == ("mul", ("ceil_div", ("scalar", "m"), 6), 1)
    with pytest.raises(ConfigError, match="f:1: 'm % 2' is not for expressions"):
        Expression("m % 2", "f:1").of_sizes({}, {"m"})


def test_a_choice_names_its_folder(tmp_path: Path) -> None:
    settings = loaded(tmp_path, {})
    assert options.choose({"tune": "gemv"}, settings).out == "artifacts/tuning"
    assert options.choose({"tune": "gemv", "out": "there"}, settings).out == "there"
    assert options.choose({}, settings).out == "artifacts"


def test_only_what_declares_a_space_is_built_to_be_measured(tmp_path: Path) -> None:
    settings = loaded(tmp_path, {})
    nodes = plan.plan(options.choose({"tune": "gemv", "target": "all"}, settings), settings)
    assert {step.target.name for step in nodes.compiles} == {TARGET}


@pytest.mark.parametrize(
    ("kernel", "where"),
    [(r.kernel, w) for r in config.load(ROOT).kernels.values() if r.tune for w in r.tune.spaces],
)
def test_the_declared_spaces_fit_the_kernels(built: Project, kernel: str, where: str) -> None:
    """The kernel has all constexprs of a point, and sizes and arguments name its parameters."""
    row = config.load(ROOT).kernels[kernel]
    assert row.tune is not None
    point = row.tune.spaces[where].points[-1]
    (first, *_) = runtime.open_bundle(built.path("artifacts")).artifacts("gemv", "f32")
    for specialization in row.tune.specializations or row.specializations:
        constexprs = {**row.specializations[specialization], **point}
        traced = families()[kernel].kernel.trace(specialization, **constexprs)
        params = tuple(ParamInfo(p.name, p.kind, p.dtype.name) for p in traced.params)
        manifest = dataclasses.replace(
            first.manifest, params=params, constexprs=dict(traced.constexprs)
        )
        facts = notes.noted(manifest, notes.of(row, point, None, True)).facts
        assert {*facts["tune"]["arguments"], *facts["tune"]["sizes"][0]} == {p.name for p in params}
