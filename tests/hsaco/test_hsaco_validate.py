"""A code object that is not what its label says, or does not fit the hardware, is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from code_objects import VERSIONS, Assembly
from gristmill.backends.compile import CompileError
from gristmill.backends.hsaco import link, validate
from gristmill.backends.hsaco.processors import PROCESSORS, e_flags, parse_target, target_of
from gristmill.backends.hsaco.validate import Label
from gristmill.ir.text import parse_kernel
from gristmill.store.manifest import Manifest, ParamInfo

PLACES = ((0, 8), (8, 4), (16, 8), (24, 4), (28, 4), (32, 4))
LABEL = Label("k", "gfx1100", PLACES, (64, 1, 1), None)
GOOD = Assembly()
GFX9 = Assembly("gfx942", wave32=(False, 64))


@pytest.fixture(autouse=True)
def _assembler(require: Callable[..., None]) -> None:
    require("llvm-mc")


def linked(made: Assembly) -> bytes:
    return link.link(made.object(), ["k"])


def refused(made: Assembly, label: Label, words: str) -> None:
    with pytest.raises(CompileError, match=words) as caught:
        validate.inspect(linked(made), label)
    assert caught.value.target == f"hsaco-{label.target}"
    assert caught.value.kernel == label.entry


@pytest.mark.parametrize("target", [*PROCESSORS, "gfx90a:sramecc+:xnack-", "gfx906:xnack+"])
def test_a_good_code_object_of_every_processor(target: str) -> None:
    gfx9 = parse_target(target)[0].wavefront == 64
    made = Assembly(target, wave32=(not gfx9, 64 if gfx9 else 32))
    facts = validate.inspect(linked(made), replace(LABEL, target=target))
    assert facts == {
        "vgprs": 8, "agprs": 0, "sgprs": 8, "vgpr_spills": 0, "sgpr_spills": 0, "lds_bytes": 0,
        "scratch_bytes": 0, "wavefront": 64 if gfx9 else 32,
        "code_object": VERSIONS[target.split(":")[0]], "kernarg_bytes": 36,
    }  # fmt: skip


def test_waves_of_64_on_processors_that_have_both() -> None:
    made = Assembly(wave32=(False, 64), vgprs=(12, 12))
    facts = validate.inspect(linked(made), replace(LABEL, subgroup=64))
    assert (facts["wavefront"], facts["vgprs"]) == (64, 12)
    refused(made, replace(LABEL, subgroup=32), "waves of 64 invocations, not subgroups of 32")
    refused(GOOD, replace(LABEL, subgroup=64), "waves of 32 invocations, not subgroups of 64")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"lds": (64, 128)}, "LDS bytes: 128 in the metadata, 64 in the kernel descriptor"),
        ({"scratch": (64, 128)}, "scratch bytes: 128 in the metadata, 64"),
        ({"kernarg": (36, 40)}, "kernarg bytes: 40 in the metadata, 36"),
        ({"vgprs": (8, 9)}, "9 vector registers in the metadata, 8"),
        ({"wave32": (True, 64)}, "lanes of a wave: 64 in the metadata, 32"),
        ({"dynamic_stack": (0, 1)}, "a dynamic stack: True in the metadata, False"),
    ],
)
def test_descriptor_and_metadata_say_the_same(change: dict[str, Any], words: str) -> None:
    refused(replace(GOOD, **change), LABEL, words)


def test_accumulation_registers_are_counted_where_they_are() -> None:
    apart = replace(GFX9, target="gfx908", agprs=20, vgprs=(20, 8))
    validate.inspect(linked(apart), replace(LABEL, target="gfx908"))
    refused(
        replace(apart, vgprs=(8, 8)), replace(LABEL, target="gfx908"), "20 vector registers .* 8 "
    )
    among = replace(GFX9, agprs=20, vgprs=(8, 28))
    validate.inspect(linked(among), replace(LABEL, target="gfx942"))


def test_more_registers_than_are_used_are_left_alone() -> None:
    """LLVM gives them to a wave where LDS keeps others away."""
    made = replace(GOOD, vgprs=(64, 9))
    assert validate.inspect(linked(made), LABEL)["vgprs"] == 9


@pytest.mark.parametrize(
    ("made", "target"),
    [
        (GOOD, "gfx1101"), (GOOD, "gfx11-generic"), (GFX9, "gfx90a"), (GFX9, "gfx942:xnack+"),
        (replace(GFX9, target="gfx942:xnack-"), "gfx942:xnack+"),
        (replace(GFX9, target="gfx942:xnack-"), "gfx942"),
        (replace(GOOD, target="gfx11-generic"), "gfx1100"),
    ],
)  # fmt: skip
def test_a_code_object_for_another_processor(made: Assembly, target: str) -> None:
    words = f"the code object is for {made.target}, its label says {target}"
    refused(made, replace(LABEL, target=target), words)


def test_a_processor_that_is_not_known() -> None:
    refused(GOOD, replace(LABEL, target="gfx700"), "no processor 'gfx700'; known: gfx906")


@pytest.mark.parametrize(
    ("change", "label", "words"),
    [
        ({}, {"entry": "other"}, "it holds k, not other"),
        ({}, {"workgroup": (32, 1, 1)}, "workgroups of 64 invocations, not 32"),
        ({}, {"parameters": PLACES[1:]}, r"\(0, 8\), not \(8, 4\)"),
        ({}, {"parameters": (*PLACES, (36, 4))}, r"None, not \(36, 4\)"),
        ({"arguments": GOOD.arguments[:-1]}, {}, r"None, not \(32, 4\)"),
        ({"kernarg": (44, 44)}, {}, "a kernarg block of 44 bytes for parameters of 36"),
        ({"kernarg": (32, 32)}, {}, "a kernarg block of 32 bytes for parameters of 36"),
        (
            {"arguments": (*GOOD.arguments, (40, 8, "hidden_queue_ptr")), "kernarg": (48, 48)},
            {},
            "arguments that no launch gives: hidden_queue_ptr",
        ),
    ],
)
def test_the_interface_is_that_of_the_label(
    change: dict[str, Any], label: dict[str, Any], words: str
) -> None:
    refused(replace(GOOD, **change), replace(LABEL, **label), words)


@pytest.mark.parametrize(
    ("target", "most"), [("gfx1100", 65536), ("gfx942", 65536), ("gfx950", 163840)]
)
def test_more_lds_than_the_processor_has(target: str, most: int) -> None:
    made = replace(GOOD if target == "gfx1100" else GFX9, target=target, lds=(most, most))
    label = replace(LABEL, target=target)
    assert validate.inspect(linked(made), label)["lds_bytes"] == most
    over = replace(made, lds=(most + 4, most + 4))
    refused(over, label, f"{most + 4} bytes of LDS, the processor has {most}")


@pytest.mark.parametrize(
    ("target", "size", "wave", "most"),
    [
        # Registers of a SIMD over the waves that share it, in whole granules.
        ("gfx1100", 1024, 32, 192), ("gfx1102", 1024, 32, 128), ("gfx1030", 1024, 32, 128),
        ("gfx1100", 1024, 64, 192), ("gfx1102", 1024, 64, 128),
        ("gfx1102", 640, 32, 192),  # the next step of a descriptor is half a granule
        ("gfx906", 1024, 64, 64), ("gfx908", 512, 64, 128), ("gfx942", 1024, 64, 128),
        ("gfx90a", 512, 64, 256), ("gfx906", 257, 64, 128),
    ],
)  # fmt: skip
def test_more_registers_than_a_whole_workgroup_may_have(
    target: str, size: int, wave: int, most: int
) -> None:
    made = Assembly(target, wave32=(wave == 32, wave), workgroup=size, vgprs=(most, most))
    label = replace(LABEL, target=target, workgroup=(size, 1, 1))
    assert validate.inspect(linked(made), label)["vgprs"] == most
    over = replace(made, vgprs=(most + 8, most + 8))
    refused(over, label, f"{size} invocations is {-(-size // wave)} waves on 4 SIMDs; .* of the")


def patched(blob: bytes, place: int, value: int) -> bytes:
    return blob[:place] + bytes([value]) + blob[place + 1 :]


def test_bytes_of_the_headers_that_only_the_loader_reads() -> None:
    blob = linked(GOOD)
    cases = [(8, 4, "code object version 6, not 5"), (12, 1, "e_ident"), (8, 2, "e_ident")]
    for n in range(4):  # the segment of code
        at = 64 + 56 * n
        if blob[at] == 1 and blob[at + 4] == 5:
            cases.append((at + 4, 4, "in no loaded segment fit for them"))
    assert len(cases) == 4
    # Reserved bytes of the descriptor, which follows 36 bytes of arguments.
    descriptor = blob.index(bytes(8) + b"\x24" + bytes(7))
    for at in (12, 24, 43, 60, 63):
        cases.append((descriptor + at, 1, "reserved bytes of the kernel descriptor"))
    for place, value, words in cases:
        with pytest.raises(CompileError, match=words):
            validate.inspect(patched(blob, place, value), LABEL)


def test_a_descriptor_that_the_metadata_does_not_know() -> None:
    more = """.amdhsa_kernel two
  .amdhsa_next_free_vgpr 8
  .amdhsa_next_free_sgpr 8
.end_amdhsa_kernel
.globl two
.type two,@function
.text
.p2align 8
two:
  s_endpgm
.size two, .-two
"""
    blob = link.link(replace(GOOD, more=more).object(), ["k", "two"])
    with pytest.raises(CompileError, match=r"metadata and descriptors differ: two\.kd"):
        validate.inspect(blob, LABEL)


def test_spills_are_told() -> None:
    facts = validate.inspect(linked(replace(GOOD, spills=(3, 5))), LABEL)
    assert (facts["vgpr_spills"], facts["sgpr_spills"]) == (3, 5)


def test_a_stack_without_a_bound() -> None:
    refused(replace(GOOD, dynamic_stack=(1, 1)), LABEL, "a function calls itself")


KERNEL = """kernel k case
param x: f32 buffer readwrite
param a: i32 scalar
workgroup 64 1 1
index i32
body(%x.0: buffer<f32,readwrite>, %a.1: i32) {
return
}
"""


def test_against_the_kernel_and_against_its_manifest() -> None:
    blob = linked(GOOD)
    facts = dict(validate.validate(blob, "gfx1100", parse_kernel(KERNEL)))
    manifest = Manifest(
        kernel="k", specialization="case", target="hsaco-gfx1100", entry="k",
        params=(ParamInfo("x", "buffer", "f32", "readwrite", False),
                ParamInfo("a", "scalar", "i32", "read", False)),
        workgroup=(64, 1, 1), index="i32", key="", sha256="", size=len(blob), facts=facts,
    )  # fmt: skip
    validate.check_label(blob, manifest)
    validate.check_label(blob, replace(manifest, facts=json.loads(json.dumps(facts))))
    for name in facts:
        other = replace(manifest, facts={**facts, name: 12345})
        with pytest.raises(CompileError, match=f"its {name} are .*, the manifest says 12345"):
            validate.check_label(blob, other)
    with pytest.raises(CompileError, match="its label says gfx1101"):
        validate.check_label(blob, replace(manifest, target="hsaco-gfx1101"))
    with pytest.raises(CompileError, match=r"not \(24, 8\)"):
        validate.check_label(blob, replace(manifest, sites=("k.py:1:1: index",)))
    with pytest.raises(CompileError, match="not a code object"):
        validate.check_label(b"\x7fELF", manifest)


@pytest.mark.parametrize("target", [*PROCESSORS, "gfx90a:sramecc+:xnack-", "gfx9-generic:xnack+"])
def test_flags_and_target_ids_are_each_others(target: str) -> None:
    assert target_of(e_flags(target)) == target
    assert int.from_bytes(
        linked(replace(GFX9, target=target, wave32=(False, 64)))[48:52], "little"
    ) == e_flags(target)


@pytest.mark.parametrize(
    "target",
    [
        "gfx1100:xnack+", "gfx9-generic:sramecc+", "gfx90a:xnack-:sramecc+", "gfx90a:xnack",
        "gfx90a:xnack+:xnack-", "gfx90a:tgsplit+", "", "gfx90a:",
    ],
)  # fmt: skip
def test_target_ids_that_are_none(target: str) -> None:
    with pytest.raises(ValueError, match=r"no processor|the settings of|has no settings"):
        e_flags(target)


def test_flags_of_no_known_processor() -> None:
    for flags in (0, 0x42, 0x141, 0x3F, 0x51, 0x2000054):
        with pytest.raises(ValueError, match="no processor"):
            target_of(flags)
