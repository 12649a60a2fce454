"""Code objects in the build: what is picked, settings of target ids, variants of families."""

from __future__ import annotations

import pytest

from gristmill_build import config, options, plan
from project import ROOT, Project

CONFIG = config.load(ROOT)
AMD = "targets:\n  interp-kir: {default: true}\n  hsaco-gfx1100: {}\n  hsaco-gfx90a: {}\n"
TOOLS = "backends:\n  interp: []\n  hsaco: [llvmlite]\n"


def chosen(**words: str) -> list[str]:
    return [row.name for row in options.choose(words, CONFIG).targets]


def test_a_backend_alone_means_its_baselines() -> None:
    assert chosen(target="hsaco") == ["hsaco-gfx942", "hsaco-gfx1100", "hsaco-gfx1201"]
    assert not [name for name in chosen() if name.startswith("hsaco")]


def test_every_processor_is_a_target() -> None:
    from gristmill.backends.hsaco.processors import PROCESSORS

    assert {row.arch for row in CONFIG.targets.values() if row.backend == "hsaco"} == {*PROCESSORS}


def test_a_target_id_may_say_its_settings() -> None:
    words = {"target": "hsaco", "arch": "gfx1100,gfx942:xnack-"}
    assert chosen(**words) == ["hsaco-gfx1100", "hsaco-gfx942:xnack-"]
    assert chosen(target="hsaco-gfx90a:sramecc+:xnack-") == ["hsaco-gfx90a:sramecc+:xnack-"]


@pytest.mark.parametrize("word", ["gfx1100:xnack+", "gfx942:xnack", "gfx90a:xnack+:sramecc+"])
def test_settings_that_a_processor_has_not(word: str) -> None:
    with pytest.raises(
        options.UsageError, match=r"the settings of gfx|has no settings|no processor"
    ):
        chosen(target=f"hsaco-{word}")


@pytest.mark.parametrize("name", ["cpu-x86-64-v3", "ptx-sm_80", "spirv-vulkan1.1"])
def test_settings_of_a_target_that_is_not_amds_are_an_unknown_target(name: str) -> None:
    with pytest.raises(options.UsageError, match=f"did you mean '{name}'"):
        chosen(target=f"{name}:xnack-")


def test_devices_name_what_they_load() -> None:
    with pytest.raises(options.UsageError, match="hsa devices load what 'hsaco' builds"):
        chosen(target="hsa")


def test_variants_of_a_family_go_before_those_of_all() -> None:
    row = config.KernelRow(
        "k", "k", "k.yaml", {"a": {}, "b": {}},
        variants={"hsaco": ({"N": 1},), "hsaco-gfx9*": ({"N": 2},), "hsaco-gfx906": ({"N": 3},)},
        own={"b": {"hsaco": ({"N": 4},)}},
    )  # fmt: skip

    def where(target: str, specialization: str = "a") -> tuple[str, object]:
        found, variants = row.variants_for(specialization, config.TargetRow(target))
        return found, variants[0]["N"]

    assert where("hsaco-gfx1100") == ("hsaco", 1)
    assert where("hsaco-gfx942") == ("hsaco-gfx9*", 2)
    assert where("hsaco-gfx942:xnack-") == ("hsaco-gfx9*", 2)
    assert where("hsaco-gfx906:xnack+") == ("hsaco-gfx906", 3)
    assert where("hsaco-gfx1100", "b") == ("hsaco", 4)
    assert where("hsaco-gfx942", "b") == ("hsaco-gfx9*", 2)


def test_paths_hold_neither_colons_nor_stars() -> None:
    words = {"target": "hsaco-gfx90a:sramecc+:xnack-,hsaco-gfx942"}
    nodes = plan.plan(options.choose(words, CONFIG), CONFIG)
    written = [p for c in nodes.compiles for p in (c.artifact, c.manifest)]
    written += [p for t in nodes.traces for p in (t.ir, t.locs)]
    assert not [p for p in written if ":" in p or "*" in p]
    assert "artifacts/hsaco-gfx90a.sramecc+.xnack-/saxpy/f32.hsaco" in written
    assert "artifacts/kir/softmax/f32.hsaco-gfx9.0.kir" in written


def test_a_build_with_settings_says_them_in_manifest_and_bundle(project: Project) -> None:
    (project.root / "configs/targets.yaml").write_text(AMD)
    (project.root / "configs/toolchain.yaml").write_text(TOOLS)
    run = project.scons("target=hsaco-gfx90a:xnack-,hsaco-gfx1100", "kernel=scale")
    assert run.status == 0, run.text
    found = {e["manifest"]["target"]: e["path"] for e in project.bundle()["entries"]}
    assert set(found) == {"hsaco-gfx90a:xnack-", "hsaco-gfx1100"}
    assert found["hsaco-gfx90a:xnack-"].startswith("hsaco-gfx90a.xnack-/")
    for path in found.values():
        assert (project.root / "artifacts" / path).read_bytes()[:4] == b"\x7fELF"
