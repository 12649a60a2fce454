"""What docs/NUMERICS.md claims: formulas are what references evaluate, and the same bits where it
says so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from gristmill import runtime
from gristmill.backends.compile import Options, compile_kernel
from gristmill.ir.dtypes import DTYPES
from gristmill.ir.text import print_kernel
from gristmill.kernels import families
from gristmill.kernels.family import Bound, bound, decode
from gristmill.store.bundle import Entry, write_bundle
from kernel_facts import (
    ANY,
    FIXED,
    ORDER,
    Specialization,
    configuration,
    every,
    reproducible,
    specializations,
)
from need import Need, driver_file
from nv_kernels import FOR_NVIDIA

TARGETS = {"interp": "interp-kir", "cpu": "cpu-x86-64-v2", "lavapipe": "spirv-vulkan1.1"}


# What takes long to compile as it is written, without variants.
SMALL = {"matmul_fragments": {"BM": 32, "BN": 32, "BK": 16, "WM": 16, "WN": 16, "SUBGROUP": 16}}


def picked() -> Iterator[Specialization]:
    """The first specialization of each kernel and class, of those that are built for a CPU."""
    seen = set()
    for spec in every():
        kind = spec.family.name, reproducible(spec)
        if kind in seen or spec.family.name in FOR_NVIDIA:
            continue
        seen.add(kind)
        if small := SMALL.get(spec.family.name):
            kernel = spec.family.kernel.trace(spec.name, **small)
            spec = Specialization(spec.family, spec.name, kernel)
        yield spec


PICKED = {f"{s.family.name}-{s.name}": s for s in picked()}
EQUAL = [name for name, s in PICKED.items() if reproducible(s) in (FIXED, ORDER)]


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> runtime.Bundle:
    """Each of PICKED, with the oracle's constexprs everywhere."""
    folder = tmp_path_factory.mktemp("numerics")
    entries = []
    for name, spec in PICKED.items():
        text = print_kernel(spec.kernel)
        for target in TARGETS.values() if name in EQUAL else [TARGETS["cpu"]]:
            blob, manifest = compile_kernel(text, target, Options())
            place = f"{name}.{target}"
            (folder / place).write_bytes(blob)
            entries.append(Entry(manifest, place))
    write_bundle(folder, entries)
    return runtime.open_bundle(folder)


@pytest.fixture(scope="session")
def device() -> Iterator[runtime.Device]:
    with runtime.open_device("cpu") as opened:
        yield opened


@pytest.fixture(scope="session")
def oracle(built: runtime.Bundle) -> dict[str, list[bytes]]:
    """What the interpreter makes of what is claimed to be equal."""
    with runtime.open_device("interp") as opened:
        return {name: results(opened, built, PICKED[name]) for name in EQUAL}


def cases(spec: Specialization) -> list[dict[str, Any]]:
    """The first inputs, and the last, which are NaNs and infinities."""
    found = list(spec.family.inputs(np.random.default_rng(3), spec.constexprs))
    return [*found[:2], *found[2:][-1:]]


def results(device: runtime.Device, bundle: runtime.Bundle, spec: Specialization) -> list[bytes]:
    """What a device makes of all cases, NaNs as one of them and zeros without a sign."""
    kernel = device.load(bundle, spec.family.name, spec.name)
    found = []
    for args in cases(spec):
        kernel(*args.values())
        for param in kernel.params:
            if param.is_memory and param.access.writes:
                values = decode(args[param.name], DTYPES[str(param.dtype)])
                if values.dtype.kind == "f":
                    values = np.where(np.isnan(values), np.nan, values + 0.0)
                found.append(values.tobytes())
    return found


@pytest.mark.parametrize("name", PICKED)
def test_a_device_gives_the_same_bits_twice(
    name: str, built: runtime.Bundle, device: runtime.Device
) -> None:
    spec = PICKED[name]
    first = results(device, built, spec)
    assert any(first)
    if reproducible(spec) != ANY:
        assert results(device, built, spec) == first


@pytest.mark.parametrize("name", EQUAL)
def test_what_is_fixed_or_in_a_fixed_order_has_the_bits_of_the_oracle(
    name: str, built: runtime.Bundle, device: runtime.Device, oracle: dict[str, list[bytes]]
) -> None:
    assert results(device, built, PICKED[name]) == oracle[name]


def test_vulkan_has_the_bits_of_the_oracle_as_well(
    built: runtime.Bundle,
    oracle: dict[str, list[bytes]],
    require: Need,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    require("vulkan")
    require("lavapipe")
    monkeypatch.setenv("VK_DRIVER_FILES", str(driver_file("lavapipe")))
    with runtime.open_device("vulkan:llvmpipe") as opened:
        other = [name for name in EQUAL if results(opened, built, PICKED[name]) != oracle[name]]
    assert other == []


def _same(given: Any, found: Any) -> bool:
    given, found = (np.nan_to_num(a, nan=0.0, posinf=0.0).reshape(-1) for a in (given, found))
    return given.size in (1, found.size) and bool((given == found).all())


@pytest.mark.parametrize("kernel", sorted(configuration().kernels))
def test_tolerances_come_from_the_formulas_of_the_page_and_no_other(
    kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each formula of a family is evaluated for some specialization, and no output that may err at
    all has an error that no formula gave."""
    family, used = families()[kernel], set()
    evaluate = Bound.__call__
    told = [spec.constexprs for spec in specializations(kernel)]
    for constexprs in [*told, *({**c, "FAST": True} for c in told if "FAST" in c)]:
        given: list[np.ndarray] = []

        def noted(self: Bound, **values: Any) -> np.ndarray:
            used.add(self.formula)
            given.append(evaluate(self, **values))  # noqa: B023
            return given[-1]  # noqa: B023

        for args in family.inputs(np.random.default_rng(0), constexprs):
            given.clear()
            with monkeypatch.context() as patch:
                patch.setattr(Bound, "__call__", noted)
                expected = family.reference(args, constexprs)
            for output in expected.values():
                if np.nan_to_num(np.asarray(output.tolerance)).any():
                    assert given, f"{constexprs}: an error without a formula"
                    assert kernel in COMPOSED or any(_same(g, output.tolerance) for g in given)
    assert {found.formula for found in family.bounds.values()} <= used


# What is made of several results of formulas, of a part of one, or of one and zeros.
COMPOSED = {
    *("attention_decode", "gated", "gated_packed", "reduce_partials", "unary"),
    *("rotary", "sample_threshold", "scan_blocks"),
}


def test_a_formula_takes_the_values_of_its_terms_and_no_others() -> None:
    formula = bound("2 * x + gamma(n, f32)", x="an array", n="a number")
    assert formula(x=np.ones(2), n=1).tolist() == [2 + 2.0**-24 / (1 - 2.0**-24)] * 2
    with pytest.raises(TypeError, match="expected"):
        formula(x=1)
    with pytest.raises(NameError):
        bound("open(x)", x="a path")(x=1)
