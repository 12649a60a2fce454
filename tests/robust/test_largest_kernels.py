"""The largest kernels of each kind compile for every backend within seconds, and compute right."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from gristmill.backends.compile import CompileError, CompileLimitError, Options
from gristmill.backends.pool import Pool
from gristmill.ir import interp
from gristmill.ir.limits import MAX_DEPTH, MAX_PARAMS
from gristmill.ir.text import parse_kernel
from gristmill.runtime.devices.cpu.level import targets
from long_kernels import long_code, many_buffers, many_values, nested_ifs, nested_loops

TARGETS = ("spirv-vulkan1.1", "wgsl-webgpu", "cpu-x86-64-v3", "ptx-sm_80", "hsaco-gfx1100")
SECONDS = 30.0  # of a processor: ten times what the slowest takes
KERNELS = {
    "long code": long_code(5000),
    "many values": many_values(500),
    "nested ifs": nested_ifs(MAX_DEPTH),
    "nested loops": nested_loops(MAX_DEPTH),
    "many buffers": many_buffers(MAX_PARAMS),
}
COMPILE = "gristmill.backends.compile:compile_kernel"


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with Pool(1, timeout=600) as made:
        yield made


@pytest.mark.parametrize("target", TARGETS)
def test_large_kernels_compile_within_seconds(target: str, pool: Pool) -> None:
    for name, text in KERNELS.items():
        seconds = pool.run("robust.judge:seconds_to_compile", text, target, subject=(name, target))
        assert seconds < SECONDS, name


def test_wgsl_takes_no_more_braces_than_its_specification_says(pool: Pool) -> None:
    with pytest.raises(CompileError, match="nest deeper than WGSL's 127 levels"):
        pool.run(COMPILE, nested_ifs(130), "wgsl-webgpu", Options())


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_the_largest_kernels_compile(target: str) -> None:
    with Pool(1, timeout=1800) as pool:
        for text in (long_code(90_000), many_values(4000)):
            pool.run(COMPILE, text, target, Options(), subject=("the largest", target))


@pytest.mark.parametrize("text", [long_code(2000), many_values(350)], ids=["code", "values"])
def test_long_code_without_optimisation_is_right_on_the_cpu(
    text: str, rng: np.random.Generator, require: Callable[..., None]
) -> None:
    from cpu_runner import Artifact

    if "cpu-x86-64-v3" not in targets():
        require("x86-64-v3", "this processor is below it")
    kernel = parse_kernel(text)
    expected, got = (_arguments(kernel, seed) for seed in [int(rng.integers(1 << 30))] * 2)
    interp.run(kernel, expected, (1, 1, 1))
    Artifact(kernel, "x86-64-v3").run(got, (1, 1, 1))
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_array_equal(a, b)


def _arguments(kernel: object, seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    size = 64 * 350
    return [rng.uniform(-1, 1, size).astype(np.float32) for _ in kernel.params]  # type: ignore[attr-defined]


def test_an_artifact_too_large_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    from gristmill.backends import compile

    monkeypatch.setattr(compile, "MAX_ARTIFACT", 100)
    with pytest.raises(CompileLimitError, match=r"an artifact of \d+ bytes exceeds 100") as caught:
        compile.compile_kernel(nested_ifs(3), "interp-kir", Options())
    assert caught.value.kernel == "nested_ifs"


def test_nesting_beyond_what_compilers_do_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    from gristmill.backends import compile
    from gristmill.ir import recursion

    monkeypatch.setattr(recursion, "FRAMES", 0)
    with pytest.raises(CompileLimitError, match="nest too deeply"):
        _within(600, lambda: compile.compile_kernel(nested_ifs(90), "spirv-vulkan1.1", Options()))


def _within(frames: int, call: Callable[[], object]) -> object:
    return call() if frames == 0 else _within(frames - 1, call)
