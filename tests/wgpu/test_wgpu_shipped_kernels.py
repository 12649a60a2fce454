"""Every kernel that ships, as WGSL through wgpu on both drivers: right or refused with a reason."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gristmill import runtime
from gristmill.kernels import families
from nv_kernels import FOR_NVIDIA
from wgpu_processes import TESTS, Runner, environment

CHECK = "import sys; from gristmill.cli.main import main; sys.exit(main())"
PROCESSES = 6  # one after the other
# What the drivers lack, for all who want it: kernel, or kernel and specialization -> the reason.
REFUSED = {
    "matmul_fragments": "lacks subgroups of 32",
    "attention_decode": "subgroups of 8 (the device has 4)",
    "cast f32_f64": "lacks feature f64",
    "cast f64_f32": "lacks feature f64",
    "saxpy f64": "lacks feature f64",
    "scan_rows prod_f64": "lacks feature f64",
    "scan_rows sum_f64": "lacks feature f64",
}


@pytest.fixture(scope="session")
def build(store_of_builds: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """`build("on")`: the folder of the shipped kernels as WGSL with checks, made once."""

    @functools.cache
    def made(checks: str) -> Path:
        out = tmp_path_factory.mktemp(f"wgsl-checks-{checks}")
        command = [sys.executable, "-m", "SCons", "-Q", "target=wgsl", f"checks={checks}"]
        done = subprocess.run(
            [*command, f"out={out}"],
            cwd=TESTS.parent,
            env={**os.environ, "GRISTMILL_STORE": str(store_of_builds)},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        return out

    return made


def check(bundle: Path, driver: str) -> list[dict[str, Any]]:
    """The results of `gristmill check wgpu --json` on a driver, a few kernels to a process:
    SwiftShader keeps what it compiled, which is gigabytes for all of them."""
    names = sorted(runtime.open_bundle(bundle).kernels())
    parts = [names[n::PROCESSES] for n in range(PROCESSES)]
    return [result for part in parts for result in checked(bundle, driver, part)]


def checked(bundle: Path, driver: str, kernels: list[str]) -> list[dict[str, Any]]:
    """The results of some kernels."""
    command = [sys.executable, "-c", CHECK, "check", "wgpu", "--json", "--bundle", str(bundle)]
    done = subprocess.run(
        [*command, *(f"--kernel={name}" for name in kernels)],
        env=environment(driver),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    assert done.stderr == ""
    results: list[dict[str, Any]] = json.loads(done.stdout)["results"]
    return results


# With checks they run on SwiftShader through Vulkan; here its compiler takes minutes for them.
@pytest.mark.parametrize(
    ("driver", "checks"),
    [
        ("lavapipe", "off"),
        ("lavapipe", "on"),
        ("swiftshader", "off"),
        pytest.param("swiftshader", "on", marks=pytest.mark.slow),
    ],
    indirect=["driver"],
)
def test_every_specialization_agrees_with_its_reference(
    build: Callable[[str], Path], driver: str, checks: str
) -> None:
    found = check(build(checks), driver)
    assert {result["kernel"] for result in found} == set(families()) - FOR_NVIDIA
    for result in found:
        if result["status"] == "ok":
            continue
        assert result["status"] == "refused", result
        names = (result["kernel"], f"{result['kernel']} {result['specialization']}")
        (reason,) = {REFUSED[name] for name in names if name in REFUSED}
        assert reason in result["reason"], result
    ok = sum(result["status"] == "ok" for result in found)
    assert ok >= len(found) - {"lavapipe": 5, "swiftshader": 16}[driver]


@pytest.mark.parametrize("checks", ["off", "on"])
def test_a_row_outside_the_table_is_a_fault(
    build: Callable[[str], Path], driver: str, checks: str
) -> None:
    program = """
        gather = device.load(bundle, "gather", "f32")
        for row in (-1, 3, 2**31 - 1, -(2**31)):
            table, y = np.ones((3, 5), np.float32), np.full((4, 5), 7, np.float32)
            rows = np.array([2, row, 0, 1], np.int32)
            call = lambda: gather(table, rows, y, 5)
            fault = expect(runtime.KernelFault, "row number outside the table", call)
            assert fault.loc.file == "kernels/gather.py"
            gather(table, np.array([2, 0, 0, 1], np.int32), y, 5)
            assert y.sum() == 20
        device.close()
        """
    Runner(build(checks))(program, driver)
