"""Metadata is read as LLVM's own reader has it; anything else in MessagePack is read or refused."""

from __future__ import annotations

import struct
import subprocess
from typing import Any

import pytest
import yaml

from code_objects import PLAIN, TABLE, Assembly, built
from gristmill.backends.hsaco import code_object, link, metadata
from gristmill.backends.hsaco.metadata import MetadataError, parse, read_note
from gristmill.backends.link import elf
from need import llvm_tool


def notes(blob: bytes) -> bytes:
    reader = elf.Reader(blob, elf.ET_DYN)
    (header,) = [h for h in reader.headers if h[1] == elf.SHT_NOTE]
    return reader.bytes_of(header)


def told(blob: bytes) -> Any:
    """The metadata as llvm-readelf prints it."""
    command = [llvm_tool("llvm-readelf") or "llvm-readelf", "--notes", "-"]
    done = subprocess.run(command, input=blob, capture_output=True, timeout=60, check=True)
    return yaml.safe_load(done.stdout.decode().split("---", 1)[1].split("\n...", 1)[0])


@pytest.mark.parametrize(
    "target", ["gfx906", "gfx942", "gfx90a:sramecc+", "gfx1100", "gfx12-generic"]
)
def test_the_tree_is_what_llvm_reads(target: str, require: Any) -> None:
    require("llvm-readelf")
    for text, entry in ((TABLE, "pick"), (PLAIN, "plain")):
        blob = link.link(built(text, target), [entry])
        tree = read_note(notes(blob))
        assert tree == told(blob)
        assert tree["amdhsa.target"] == f"amdgcn-amd-amdhsa--{target}"


def test_the_kernel_is_what_its_tree_says(require: Any) -> None:
    require("llvm-mc")
    made = Assembly(
        "gfx908", lds=(256, 256), scratch=(16, 16), vgprs=(24, 21), agprs=9,
        wave32=(False, 64), workgroup=192,
    )  # fmt: skip
    k = code_object.read(link.link(made.object(), ["k"])).kernels["k"]
    assert k.info == metadata.KernelInfo(
        name="k", symbol="k.kd",
        arguments=tuple(metadata.Argument("", *row) for row in made.arguments),
        kernarg_bytes=36, lds_bytes=256, scratch_bytes=16, dynamic_stack=False, wavefront=64,
        workgroup_processor=False, max_workgroup=192, sgprs=8, vgprs=21, agprs=9, sgpr_spills=0,
        vgpr_spills=0,
    )  # fmt: skip
    assert (k.descriptor.lds_bytes, k.descriptor.scratch_bytes) == (256, 16)
    assert (k.descriptor.kernarg_bytes, k.descriptor.vgprs) == (36, 24)


def note(data: bytes, name: bytes = b"AMDGPU\0", kind: int = 32) -> bytes:
    padded = name + bytes(-len(name) % 4)
    return struct.pack("<III", len(name), len(data), kind) + padded + data + bytes(-len(data) % 4)


def test_notes_of_others_are_passed_over() -> None:
    own = note(b"\x07")
    others = note(b"abc", b"GNU\0", 3), note(b"\x08", kind=1), note(b"\x08", b"AMD\0")
    assert read_note(b"".join((others[0], own, *others[1:]))) == 7
    for data, words in ((b"".join(others), "0 notes"), (own + own, "2 notes")):
        with pytest.raises(MetadataError, match=words):
            read_note(data)
    with pytest.raises(MetadataError, match="cut off at byte 24"):
        read_note(own + b"\0")
    with pytest.raises(MetadataError, match="ends beyond"):
        read_note(struct.pack("<III", 7, 900, 32) + bytes(20))


KERNEL: dict[str, Any] = {
    ".name": "k", ".symbol": "k.kd", ".args": [], ".kernarg_segment_size": 0,
    ".group_segment_fixed_size": 0, ".private_segment_fixed_size": 0, ".wavefront_size": 32,
    ".max_flat_workgroup_size": 64, ".sgpr_count": 1, ".vgpr_count": 1,
}  # fmt: skip
TREE: dict[str, Any] = {
    "amdhsa.target": "amdgcn-amd-amdhsa--gfx1100",
    "amdhsa.version": [1, 2],
    "amdhsa.kernels": [KERNEL],
}


@pytest.mark.parametrize("key", [*TREE, *KERNEL])
def test_a_key_that_is_missing_or_odd_is_named(key: str) -> None:
    assert parse(TREE).kernels[0].name == "k"
    whole = {**TREE, "amdhsa.kernels": [dict(KERNEL)]}
    place = whole if key in whole else whole["amdhsa.kernels"][0]
    for value in (None, 1.5, {}, -1):
        place[key] = value
        with pytest.raises(MetadataError, match=key.replace(".", r"\.")):
            parse(whole)
    del place[key]
    if key == ".args":  # a kernel without arguments may have none
        assert parse(whole).kernels[0].arguments == ()
        return
    with pytest.raises(MetadataError, match=key.replace(".", r"\.")):
        parse(whole)


@pytest.mark.parametrize(
    "tree",
    [
        7, [], {**TREE, "amdhsa.kernels": [7]}, {**TREE, "amdhsa.version": [1]},
        {**TREE, "amdhsa.version": [1, "2"]}, {**TREE, "amdhsa.target": "nvptx"},
        {**TREE, "amdhsa.kernels": [{**KERNEL, ".args": [7]}]},
        {**TREE, "amdhsa.kernels": [{**KERNEL, ".args": [{".offset": 0, ".size": 8}]}]},
    ],
)  # fmt: skip
def test_a_tree_of_another_shape_is_refused(tree: Any) -> None:
    with pytest.raises(MetadataError):
        parse(tree)
