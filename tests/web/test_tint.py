"""Chromium's compiler takes every module that ships, and whatever else the emitter writes.

naga, by which wgpu reads WGSL, is laxer about uniformity and constants. Random programs are the
fuzzer's, one of whose targets is this browser.

No module that ships asks for `shader-f16`, which no adapter here has: SwiftShader lacks it, and
Dawn does not take Mesa 22.3's lavapipe, which cannot index arrays of images by what it computes.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from chromium_driver import ChromiumDriver
from elementwise import one_op
from gristmill.backends.compile import Options
from gristmill.backends.wgsl.emit import emit
from gristmill.fuzz.session import Choice, session
from gristmill.store.manifest import Manifest
from op_cases import cases, dot_cases

SEED = 1
# The folders of the targets that `scons target=wgsl` builds.
TARGETS = ("wgsl-webgpu", "wgsl-webgpu.component_stores")
# Types of wgpu's native form, of which WebGPU has none: no browser can compile such a module.
NATIVE_ONLY = frozenset({"f64", "i64", "atomic_i64", "atomic_shared_i64", "atomic_f32_add"})
# What is not compiled by Tint, with what it would need. A kernel that joins or leaves this table
# is a change of what runs in browsers.
NOT_FOR_BROWSERS = {
    "cast/f32_f64": ("f64",),
    "cast/f64_f32": ("f64",),
    "saxpy/f64": ("f64", "i64"),
    "scan_rows/prod_f64": ("f64", "i64"),
    "scan_rows/prod_f64.1": ("f64", "i64"),
    "scan_rows/prod_f64.2": ("f64",),
    "scan_rows/sum_f64": ("f64", "i64"),
    "scan_rows/sum_f64.1": ("f64", "i64"),
    "scan_rows/sum_f64.2": ("f64",),
}
# Their workgroup memory exceeds what SwiftShader has: compiled, but no pipeline is made of them.
TOO_LARGE = frozenset(
    f"matmul_fragments/{name}" for name in ("bf16", "f16", "f16_f32", "f8e4m3", "relu_f16")
)


def shipped(built: Path) -> dict[str, tuple[str, Manifest]]:
    """Text and manifest of every module that `scons target=wgsl` makes, by path."""
    found = {}
    for path in sorted(built.glob("wgsl-*/*/*.wgsl")):
        name = path.relative_to(built).with_suffix("").as_posix()
        manifest = Manifest.from_json(path.with_suffix(".json").read_bytes())
        found[name] = (path.read_text(), manifest)
    return found


def test_tint_takes_every_module_that_ships(built: Path, tint: ChromiumDriver) -> None:
    modules = shipped(built)
    needs = {name: NATIVE_ONLY.intersection(m.requires) for name, (_, m) in modules.items()}
    left_out = {name: tuple(sorted(lacks)) for name, lacks in needs.items() if lacks}
    assert left_out == {
        f"{target}/{name}": lacks for target in TARGETS for name, lacks in NOT_FOR_BROWSERS.items()
    }
    compiled = [name for name in modules if name not in left_out]
    has = tint.features | {"component_stores"}  # how stores are done, which no compiler asks about
    lacks = {name: set(modules[name][1].requires) - has for name in compiled}
    assert not any(lacks.values()), lacks
    wrong = tint.ask("check", [modules[name][0] for name in compiled])
    assert dict(zip(compiled, wrong, strict=True)) == dict.fromkeys(compiled)
    assert {name.partition("/")[0] for name in compiled} == set(TARGETS)
    assert len(compiled) > 200


@pytest.mark.slow
def test_every_module_that_ships_becomes_a_pipeline(built: Path, tint: ChromiumDriver) -> None:
    limit = tint.limits["maxComputeWorkgroupStorageSize"]
    for path, (text, manifest) in shipped(built).items():
        name = path.partition("/")[2]
        if name in NOT_FOR_BROWSERS:
            continue
        (wrong,) = tint.wrong([text], manifest.entry)
        if name in TOO_LARGE:
            assert manifest.shared_bytes > limit
            assert wrong is not None
            assert "workgroup storage" in wrong
        else:
            assert wrong is None, f"{path}: {wrong}"


@pytest.mark.parametrize("lanes", [1, 2, 4])
def test_tint_takes_every_op_on_every_type(tint: ChromiumDriver, lanes: int) -> None:
    names, texts = [], []
    for case in [*cases(), *(dot_cases() if lanes == 1 else ())]:
        emitted = emit(one_op(*case, lanes), "webgpu", Options())
        if not tint.lacks(emitted):
            names.append(case)
            texts.append(emitted.blob.decode())
        else:
            assert NATIVE_ONLY.issuperset(tint.lacks(emitted)), case
    assert len(texts) >= 200
    wrong = zip(names, tint.ask("check", texts), strict=True)
    assert [(case, message) for case, message in wrong if message] == []


def test_random_programs_in_chromium(require: Callable[..., None]) -> None:
    """The same in every run; fresh ones are those of the long run."""
    require("chromium")
    told: list[str] = []
    choice = Choice(SEED, programs=40, timeout=600)
    (tally,) = session(["python:fuzz_models.chromium"], choice, told.append)
    assert not tally.missing
    assert not tally.findings, "\n".join(told)
    assert set(tally.refused) <= {"reads of private zeros at known places"}
    assert tally.programs > 30
