"""`gristmill fatbin`: what it joins, what it refuses, and the file as other readers see it."""

from __future__ import annotations

import dataclasses
import json
import re
import struct
import subprocess
from pathlib import Path

import pytest

from gristmill.backends.compile import Options, compile_kernel
from gristmill.cli import fatbin
from gristmill.cli.main import main
from gristmill.ir.text import print_kernel
from gristmill.kernels.elementwise import saxpy
from gristmill.store.bundle import Entry, write_bundle
from gristmill.store.manifest import Manifest

MAGIC, PTX, ELF = 0xBA55ED50, 1, 2
TARGETS = ("cubin-sm_80", "cubin-sm_86", "cubin-sm_90a", "ptx-sm_80", "ptx-sm_90a")
Made = dict[str, tuple[bytes, Manifest]]


@pytest.fixture(scope="module")
def made() -> Made:
    text = print_kernel(saxpy.trace("f32"))
    wanted = [t for t in TARGETS if fatbin.nvidia_program("ptxas") or t.startswith("ptx")]
    return {t: compile_kernel(text, t, Options()) for t in (*wanted, "interp-kir")}


def bundle(folder: Path, *artifacts: tuple[bytes, Manifest]) -> Path:
    entries = []
    for number, (blob, manifest) in enumerate(artifacts):
        (folder / f"{number}.bin").write_bytes(blob)
        entries.append(Entry(manifest, f"{number}.bin"))
    write_bundle(folder, entries)
    return folder


def images(blob: bytes) -> list[tuple[int, int, bytes]]:
    """Kind, architecture and bytes of each image, by an own reading of the format: a header of
    magic, version, its size and that of the rest, then images behind a header of 64 bytes each."""
    magic, version, header, rest = struct.unpack_from("<IHHQ", blob)
    assert (magic, version, header, rest + header) == (MAGIC, 1, 16, len(blob))
    found, at = [], header
    while at < len(blob):
        kind, _, size, padded = struct.unpack_from("<HHIQ", blob, at)
        (arch,) = struct.unpack_from("<I", blob, at + 28)
        found.append((kind, arch, blob[at + size : at + size + padded]))
        at += size + padded
    assert at == len(blob)
    return found


def words_of(blob: bytes) -> list[bytes]:
    """A cubin's bytes; of PTX its words without comments, which the tool leaves out."""
    if blob.startswith(b"\x7fELF"):
        return [blob]
    return re.sub(rb"//.*", b"", blob.rstrip(b"\0")).split()


def test_cubins_and_ptx_become_one_file(
    made: Made, tmp_path: Path, require, capsys: pytest.CaptureFixture[str]
) -> None:
    require("fatbinary")
    require("ptxas")
    out = tmp_path / "x.fatbin"
    folder = bundle(tmp_path, *made.values())
    assert main(["fatbin", "saxpy", "-o", str(out), "--bundle", str(folder)]) == 0
    told = capsys.readouterr().out
    assert "workgroup" in told
    assert "interp" not in told
    found = images(out.read_bytes())
    expected = [(ELF, 80), (ELF, 86), (ELF, 90), (PTX, 80), (PTX, 90)]
    assert [(kind, arch) for kind, arch, _ in found] == expected
    for target, (kind, _, data) in zip(TARGETS, found, strict=True):
        if kind == ELF:
            assert data.startswith(made[target][0])
    again = tmp_path / "again"
    main(["fatbin", "saxpy", "f32", "-o", str(again), "--bundle", str(folder)])
    assert again.read_bytes() == out.read_bytes()


def test_nvidias_reader_finds_the_images_and_the_same_text(
    made: Made, tmp_path: Path, require
) -> None:
    require("fatbinary")
    require("ptxas")
    require("cuobjdump")
    out = tmp_path / "x.fatbin"
    main(["fatbin", "saxpy", "-o", str(out), "--bundle", str(bundle(tmp_path, *made.values()))])
    reader = fatbin.nvidia_program("cuobjdump")

    def ask(*words: str) -> str:
        command = [str(reader), *words, out.name]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        return done.stdout

    listed = ask("-lelf", "-lptx")
    for target in TARGETS:
        backend, _, arch = target.partition("-")
        assert f".{arch}.{backend}" in listed
    ask("-xptx", "all", "-xelf", "all")
    for target in TARGETS:
        backend, _, arch = target.partition("-")
        (file,) = tmp_path.glob(f"x.*.{arch}.{backend}")
        assert words_of(file.read_bytes()) == words_of(made[target][0])


def test_targets_can_be_named(
    made: Made, tmp_path: Path, require, capsys: pytest.CaptureFixture[str]
) -> None:
    require("fatbinary")
    out = str(tmp_path / "x.fatbin")
    words = ["fatbin", "saxpy", "-o", out, "--bundle", str(bundle(tmp_path, *made.values()))]
    assert main([*words, "--target", "ptx-sm_80", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["targets"] == ["ptx-sm_80"]
    assert told["entry"] == "saxpy"
    assert told["workgroup"] == list(made["ptx-sm_80"][1].workgroup)
    assert told["parameter_places"][0] == [0, 8]
    assert [(k, a) for k, a, _ in images(Path(out).read_bytes())] == [(PTX, 80)]
    assert main([*words, "--target", "ptx-sm_75"]) == 2
    assert "saxpy f32 has no ptx-sm_75; the bundle has" in capsys.readouterr().err


def test_the_first_variant_of_a_target_goes_in(
    made: Made, tmp_path: Path, require, capsys: pytest.CaptureFixture[str]
) -> None:
    require("fatbinary")
    blob, manifest = made["ptx-sm_80"]
    later = (blob, dataclasses.replace(manifest, workgroup=(1, 1, 1)))
    folder = bundle(tmp_path, (blob, manifest), later)
    out = tmp_path / "x.fatbin"
    assert main(["fatbin", "saxpy", "-o", str(out), "--bundle", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["workgroup"] == list(manifest.workgroup)
    assert len(images(out.read_bytes())) == 1


def test_images_that_are_launched_in_different_ways_are_refused(
    made: Made, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (a, one), (b, other) = made["ptx-sm_80"], made["ptx-sm_90a"]
    words = ["fatbin", "saxpy", "-o", str(tmp_path / "x"), "--bundle", str(tmp_path)]
    dynamic = {**other.facts, "dynamic_shared_bytes": 65536}
    for changes, said in (
        ({"workgroup": (64, 1, 1)}, "workgroup 256, 1, 1 and 64, 1, 1"),
        ({"facts": dynamic, "shared_bytes": 65536}, "shared bytes 0 and 65536"),
    ):
        bundle(tmp_path, (a, one), (b, dataclasses.replace(other, **changes)))
        assert main(words) == 2
        (line,) = capsys.readouterr().err.strip().splitlines()
        assert "ptx-sm_80 and ptx-sm_90a are launched in different ways" in line
        assert said in line
        assert not (tmp_path / "x").exists()


def test_a_bundle_without_code_for_nvidia_says_what_to_build(
    made: Made, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["-o", str(tmp_path / "x"), "--bundle", str(bundle(tmp_path, made["interp-kir"]))]
    assert main(["fatbin", "saxpy", *words]) == 2
    assert "scons target=ptx,cubin" in capsys.readouterr().err
    assert main(["fatbin", "saxpi", *words]) == 2
    assert "no kernel 'saxpi'" in capsys.readouterr().err


def test_without_the_tool_the_extra_is_named(
    made: Made,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = bundle(tmp_path, made["ptx-sm_80"])
    words = ["fatbin", "saxpy", "-o", str(tmp_path / "x"), "--bundle", str(folder)]
    monkeypatch.setattr(fatbin, "nvidia_program", lambda name: None)
    assert main(words) == 2
    assert "pip install 'gristmill[cubin]'" in capsys.readouterr().err
    tool = tmp_path / "fatbinary"
    tool.write_text("#!/bin/sh\necho no such image kind >&2; exit 3\n")
    tool.chmod(0o755)
    monkeypatch.setattr(fatbin, "nvidia_program", lambda name: tool)
    assert main(words) == 2
    assert "status 3): no such image kind" in capsys.readouterr().err
