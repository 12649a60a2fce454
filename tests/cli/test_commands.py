"""The `gristmill` command: what it prints, and its exit status."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from code_objects import Assembly
from gristmill.backends.hsaco.link import link
from gristmill.cli.check import Result, _closing
from gristmill.cli.main import main, parser
from gristmill.cli.show import describe, disassembly, written
from gristmill.cli.table import milliseconds, table
from gristmill.store.bundle import Entry, write_bundle
from gristmill.store.manifest import Manifest, ParamInfo

IR = """\
kernel unknown f32
param x: f32 buffer read
workgroup 64 1 1
index i32
body(%x.0: buffer<f32,read>) {
  return
}
"""
MANIFEST = Manifest(
    kernel="unknown",
    specialization="f32",
    target="interp-kir",
    entry="unknown",
    params=(ParamInfo("x", "buffer", "f32"),),
    workgroup=(64, 1, 1),
    index="i32",
    key="0" * 64,
    sha256=hashlib.sha256(IR.encode()).hexdigest(),
    size=len(IR),
    grid=(1, 1, 1),
)


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """A bundle with one kernel that no family knows."""
    file = tmp_path / "interp-kir/unknown/f32.kir"
    file.parent.mkdir(parents=True)
    file.write_text(IR)
    file.with_suffix(".json").write_text(MANIFEST.to_json())
    write_bundle(tmp_path, [Entry(MANIFEST, "interp-kir/unknown/f32.kir")])
    return tmp_path


def test_inspect_says_what_is_wrong_with_a_manifest(
    bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = bundle / "interp-kir/unknown/f32.kir"
    for text, said in (("{", "not JSON"), ('{"schema": 7}', "schema 7, but this version reads 1")):
        file.with_suffix(".json").write_text(text)
        assert main(["inspect", str(file)]) == 2
        (line,) = capsys.readouterr().err.strip().splitlines()
        assert said in line


def test_inspect_lists_a_bundle(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(bundle)]) == 0
    out = capsys.readouterr().out
    assert "unknown  f32             interp-kir" in out
    assert f"interp-kir: 1 artifacts, {len(IR)} bytes" in out


def test_inspect_shows_manifest_and_code(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(bundle / "interp-kir/unknown/f32.kir")]) == 0
    out = capsys.readouterr().out
    assert "x: f32 buffer read" in out
    assert IR.strip() in out


def saved(folder: Path, target: str, suffix: str, blob: bytes) -> str:
    """An artifact with its manifest, by path."""
    file = folder / f"unknown{suffix}"
    file.write_bytes(blob)
    digest = hashlib.sha256(blob).hexdigest()
    manifest = dataclasses.replace(MANIFEST, target=target, sha256=digest, size=len(blob))
    file.with_suffix(".json").write_text(manifest.to_json())
    return str(file)


@pytest.mark.parametrize(
    ("target", "suffix", "text"),
    [
        ("ptx-sm_80", ".ptx", ".version 7.0\n.target sm_80\n"),
        ("wgsl-webgpu", ".wgsl", "@compute @workgroup_size(64)\nfn main() {}\n"),
    ],
)
def test_inspect_shows_text_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], target: str, suffix: str, text: str
) -> None:
    assert main(["inspect", saved(tmp_path, target, suffix, text.encode())]) == 0
    assert text in capsys.readouterr().out


def test_inspect_of_a_cubin_names_the_tools(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = saved(tmp_path, "cubin-sm_80", ".cubin", b"\x7fELF")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["inspect", path]) == 0
    assert "nvdisasm, or cuobjdump -sass" in capsys.readouterr().out
    tool = tmp_path / "nvdisasm"
    tool.write_text('#!/bin/sh\necho "code of $2, $1"\n')
    tool.chmod(0o755)
    assert main(["inspect", path]) == 0
    assert f"code of {path}, -c" in capsys.readouterr().out


@pytest.mark.parametrize("padding", ["s_nop 0", "s_code_end"])
def test_what_amd_processors_read_ahead_is_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, padding: str
) -> None:
    tool = tmp_path / "llvm-objdump-22"
    code = "\ts_nop 0 // 00\n\ts_endpgm // 04"
    tool.write_text(f"#!/bin/sh\ncat <<'END'\n{code}\n" + f"\t{padding} // 08\n" * 3 + "END\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert disassembly(tmp_path / "k.hsaco").strip() == code.strip()


def test_inspect_of_a_code_object_shows_what_it_takes(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    require: Any,
) -> None:
    require("llvm-mc")
    require("llvm-objdump")
    made = Assembly("gfx908", lds=(256, 256), vgprs=(24, 21), agprs=9, spills=(3, 5),
                    wave32=(False, 64))  # fmt: skip
    blob = link(made.object(), ["k"])
    path = saved(tmp_path, "hsaco-gfx908", ".hsaco", blob)
    assert main(["inspect", path]) == 0
    out = capsys.readouterr().out
    lines = [" ".join(line.split()) for line in out.splitlines()]
    for line in (
        *("target id gfx908", "code object version 5", "wavefront 64 lanes", "LDS 256 bytes"),
        *("VGPR 21, 24 allocated, 3 spilled", "AGPR 9", "SGPR 8, 5 spilled", "scratch 0 bytes"),
        *("kernarg 36 bytes", "- 0 8 global_buffer", "- 32 4 by_value"),
    ):
        assert line in lines
    assert "s_endpgm" in out
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["inspect", path]) == 0
    assert "llvm-objdump-22 or llvm-objdump is not installed" in capsys.readouterr().out
    damaged = saved(tmp_path, "hsaco-gfx908", ".hsaco", blob[:-1])
    assert main(["inspect", damaged]) == 2
    assert "not a code object, or a damaged one" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (3, "3"),
        (("ceil_div", ("count", "y"), 256), "ceil_div(len(y), 256)"),
        (("mul", ("add", ("scalar", "n"), -1), 4), "(n - 1) * 4"),
        (("sub", ("count", "x"), ("sub", 7, ("scalar", "n"))), "len(x) - (7 - n)"),
        (["floordiv", ["mul", ["grid", 0], 8], ["max", 1, ["scalar", "n"]]],
         "num_groups(0) * 8 // max(1, n)"),
        (("floordiv", 8, ("mul", 2, ("scalar", "n"))), "8 // (2 * n)"),
        ("7.0", "7.0"),
    ],
)  # fmt: skip
def test_inspect_writes_expressions_as_a_kernel_does(expression: Any, text: str) -> None:
    assert written(expression) == text


def test_inspect_shows_the_grid_as_an_expression() -> None:
    grid = (("ceil_div", ("count", "y"), 256), ("scalar", "n"), 1)
    text = describe(dataclasses.replace(MANIFEST, grid=grid))
    assert "ceil_div(len(y), 256) x n x 1" in text


def test_a_demo_without_words_looks_up_the_usual_ones() -> None:
    assert parser().parse_args(["demo"]).words == ("king", "paris", "piano", "seven")
    assert parser().parse_args(["demo", "a", "b"]).words == ["a", "b"]


def test_inspect_as_json_is_the_manifest(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(bundle / "interp-kir/unknown/f32.kir")
    assert main(["inspect", path, "--json"]) == 0
    assert Manifest.from_json(capsys.readouterr().out) == MANIFEST


def test_inspect_of_a_damaged_artifact_says_so(
    bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = bundle / "interp-kir/unknown/f32.kir"
    path.write_text(IR.replace("64", "32"))
    assert main(["inspect", str(path)]) == 2
    err = capsys.readouterr().err
    assert MANIFEST.sha256 in err
    assert len(err.strip().splitlines()) == 1


@pytest.mark.parametrize("command", ["inspect nowhere", "check cpu --bundle nowhere"])
def test_what_does_not_exist_is_one_line_and_status_2(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command.split()) == 2
    err = capsys.readouterr().err
    assert "nowhere" in err
    assert len(err.strip().splitlines()) == 1


def test_an_unknown_device_names_the_known_ones(
    bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "gpu", "--bundle", str(bundle)]) == 2
    assert "one of cpu, cuda, hsa, interp, null, vulkan" in capsys.readouterr().err


def test_a_check_without_a_reference_is_no_pass(
    bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "interp", "--bundle", str(bundle), "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["passed"] is False
    assert report["counts"] == {"unchecked": 1}
    assert "FAMILIES" in report["results"][0]["reason"]  # what to do about it


def test_a_check_of_an_unknown_kernel_names_those_of_the_bundle(
    bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "interp", "--bundle", str(bundle), "--kernel", "sofmax"]) == 2
    assert "it has unknown" in capsys.readouterr().err


@pytest.mark.parametrize("near", ["unknwn", "unknown/f23"])
def test_a_misspelt_kernel_gets_the_nearest_one(
    bundle: Path, capsys: pytest.CaptureFixture[str], near: str
) -> None:
    assert main(["check", "interp", "--bundle", str(bundle), "--kernel", near]) == 2
    meant = "unknown/f32" if "/" in near else "unknown"
    assert f"did you mean {meant!r}?" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["check", "bench"])
def test_help_names_the_devices(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([command, "--help"])
    assert "cpu, cuda, hsa, vulkan, vulkan:NAME, wgpu" in " ".join(capsys.readouterr().out.split())


def test_an_empty_bundle_has_nothing_to_check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_bundle(tmp_path, [])
    assert main(["check", "interp", "--bundle", str(tmp_path)]) == 1
    assert "nothing was checked" in capsys.readouterr().out


def test_the_null_device_has_nothing_to_check(
    bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "null", "--bundle", str(bundle)]) == 2
    assert "computes nothing" in capsys.readouterr().err


def test_a_bundle_path_with_a_nul_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "interp", "--bundle", "a\0b"]) == 2
    assert "no bundle" in capsys.readouterr().err


def test_devices_lists_every_driver(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["devices", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {"cpu", "interp", "null"} <= {device["device"] for device in found}
    assert any(device["device"].startswith("vulkan") for device in found)
    assert all(device["missing"] or "limits" in device["capabilities"] for device in found)


def test_devices_for_readers(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["devices", "--long"]) == 0
    out = capsys.readouterr().out
    assert "device" in out
    assert "features" in out


def test_a_reader_that_leaves_early_is_no_error(bundle: Path) -> None:
    command = [sys.executable, "-m", "gristmill.cli.main", "inspect", str(bundle), "--json"]
    done = subprocess.run(
        f"{shlex.join(command)} | true; exit ${{PIPESTATUS[0]}}",
        shell=True,
        executable="/bin/bash",
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""
    assert done.returncode == 0


def test_a_table_is_aligned() -> None:
    assert table([["a", "b"], ["long", "1"], ["x", "12"]], right=(1,)) == (
        "a      b\nlong   1\nx     12"
    )
    assert [milliseconds(s) for s in (1e-4, 1.5e-3, 0.25, 3.0)] == [
        "0.10 ms",
        "1.50 ms",
        "250 ms",
        "3000 ms",
    ]


@pytest.mark.parametrize(
    "words", ["check --seed -1", "bench --seconds nan", "bench --seconds inf", "demo x --count -1"]
)
def test_a_number_out_of_range_is_refused(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(shlex.split(words))
    assert stopped.value.code == 2
    assert "expected" in capsys.readouterr().err


def test_a_closed_output_is_no_traceback(bundle: Path) -> None:
    command = f"{shlex.quote(sys.executable)} -c 'from gristmill.cli.main import main; main()'"
    done = subprocess.run(
        f"{command} inspect {bundle} >&-", shell=True, capture_output=True, text=True, check=False
    )
    assert "Traceback" not in done.stderr


def test_kernels_that_are_all_wrong_are_counted() -> None:
    result = Result("k", "f32", "wrong", cases=1)
    assert _closing([result, result], 7, False) == "the check failed: 2 wrong (seed 7)"
    assert _closing([result], 7, True) == "1 wrong (seed 7)"
    assert "nothing was checked" in _closing([Result("k", "f32", "refused")], 7, False)


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("--timeout=0", "expected more than 0 seconds"),
        ("--timeout=nan", "expected 0 to 86400 seconds, got 'nan'"),
        ("--jobs=0", "expected a whole number of at least 1, got '0'"),
        ("--seconds=abc", "expected 0 to 86400 seconds, got 'abc'"),
        ("--seed=-3", "expected a whole number of at least 0, got '-3'"),
    ],
)
def test_numbers_that_make_no_sense_are_told_so(
    option: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["fuzz", option])
    assert words in capsys.readouterr().err
