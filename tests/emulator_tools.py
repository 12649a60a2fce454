"""LLVM IR of small kernels -> code objects -> results of the emulator."""

from __future__ import annotations

import functools
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from amdgpu_emulator import CodeObject, EmulationError, Memory, Stats, dispatch
from gristmill.backends.llvm import external

Array = np.ndarray[Any, Any]

PROCESSORS = ("gfx1100", "gfx1201", "gfx942")
GROUP = 64  # work-items of a workgroup of an element-wise kernel
WIDE = 256  # several waves in either size
BARRIER = """
  fence syncscope("workgroup") release
  call void @llvm.amdgcn.s.barrier()
  fence syncscope("workgroup") acquire
"""
TYPES = {
    "half": np.float16,
    "float": np.float32,
    "double": np.float64,
    "i1": np.bool_,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
}
HEADER = """target triple = "amdgcn-amd-amdhsa"
declare i32 @llvm.amdgcn.workitem.id.x()
declare i32 @llvm.amdgcn.workgroup.id.x()
"""
FOOTER = """
attributes #0 = {{ "amdgpu-flat-work-group-size"="{size},{size}" "uniform-work-group-size"="true"
 {extra} }}
!llvm.module.flags = !{{!0}}
!0 = !{{i32 1, !"amdhsa_code_object_version", i32 500}}
"""


@functools.cache
def compile_ir(text: str, processor: str) -> bytes:
    """The relocatable object that LLVM makes of a module."""
    target = ["-mtriple=amdgcn-amd-amdhsa", f"-mcpu={processor}"]
    optimised = _run([external.program("opt")[0], "-O2", "-S", *target], text.encode())
    return _run([external.program("llc")[0], "-O2", "-filetype=obj", *target, "-o", "-"], optimised)


def _run(command: list[str], given: bytes) -> bytes:
    done = subprocess.run(command, input=given, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    return done.stdout


@dataclass(frozen=True)
class Case:
    """An element-wise kernel: `body` computes %r of type `result` from %a, %b, %c (`arguments`)."""

    name: str
    result: str
    arguments: tuple[str, ...]
    body: str


def _kernel(case: Case) -> str:
    names = "abc"[: len(case.arguments)]
    parameters = [f"ptr addrspace(1) noalias readonly %p{n}" for n in names]
    lines = [
        f"define amdgpu_kernel void @{case.name}({', '.join(parameters)},"
        " ptr addrspace(1) noalias %out) #0 {",
        "  %thread = call i32 @llvm.amdgcn.workitem.id.x()",
        "  %group = call i32 @llvm.amdgcn.workgroup.id.x()",
        f"  %first = mul i32 %group, {GROUP}",
        "  %index32 = add i32 %first, %thread",
        "  %index = zext i32 %index32 to i64",
    ]
    for n, t in zip(names, case.arguments, strict=True):
        lines += [
            f"  %q{n} = getelementptr {t}, ptr addrspace(1) %p{n}, i64 %index",
            f"  %{n} = load {t}, ptr addrspace(1) %q{n}",
        ]
    lines += [
        case.body,
        f"  %qo = getelementptr {_stored(case.result)}, ptr addrspace(1) %out, i64 %index",
        "  %stored = zext i1 %r to i8\n  store i8 %stored, ptr addrspace(1) %qo"
        if case.result == "i1"
        else f"  store {case.result} %r, ptr addrspace(1) %qo",
        "  ret void\n}",
    ]
    return "\n".join(lines)


def _stored(kind: str) -> str:
    return "i8" if kind == "i1" else kind


def module(cases: Sequence[Case], declarations: str = "", wave: int | None = None) -> str:
    """One module with a kernel for each case. `wave`: 64 for the wide mode of gfx10 and later."""
    extra = '"target-features"="+wavefrontsize64"' if wave == 64 else ""
    kernels = "\n".join(_kernel(case) for case in cases)
    return HEADER + declarations + kernels + FOOTER.format(size=GROUP, extra=extra)


def numpy_type(kind: str) -> Any:
    """The dtype and lanes of `float` or `<2 x half>`."""
    if kind.startswith("<"):
        count, element = kind.strip("<>").split(" x ")
        return np.dtype((TYPES[element], (int(count),)))
    return np.dtype(TYPES[kind])


def run_case(data: bytes, case: Case, inputs: Sequence[Array], rng: np.random.Generator) -> Array:
    """The case's results for arrays of one length, a multiple of GROUP."""
    kind = numpy_type(case.result)
    n = len(inputs[0])
    out = np.zeros((n, *kind.shape), kind.base)
    launch(data, case.name, (n, 1, 1), (GROUP, 1, 1), [*inputs, out], rng)
    return out


def launch(
    data: bytes,
    kernel: str,
    grid: tuple[int, int, int],
    workgroup: tuple[int, int, int],
    arguments: Sequence[Array | np.generic],
    rng: np.random.Generator,
    dynamic_lds: int = 0,
    read_only: Sequence[int] = (),
) -> Stats:
    """Run a kernel; arrays go as pointers, numpy scalars by value at their natural alignment."""
    memory = Memory()
    block = bytearray()
    for position, argument in enumerate(arguments):
        if isinstance(argument, np.ndarray):
            assert argument.flags.c_contiguous
            writable = position not in read_only
            memory.add(argument.ctypes.data, argument.nbytes, f"argument {position}", writable)
            argument = np.uint64(argument.ctypes.data)
        block += bytes(-len(block) % argument.nbytes) + argument.tobytes()
    kernarg = np.frombuffer(bytes(block + bytes(-len(block) % 8)), np.uint8).copy()
    memory.add(kernarg.ctypes.data, kernarg.nbytes, "kernarg", writable=False)
    return dispatch(
        CodeObject.read(data), kernel, grid, workgroup, kernarg.ctypes.data, memory, dynamic_lds,
        rng=rng,
    )  # fmt: skip


def check_all(
    data: bytes, cases: Iterable[tuple[Case, Any]], rng: np.random.Generator, **options: Any
) -> None:
    """Every (case, oracle); all failures in one message."""
    failures = []
    for case, wanted in cases:
        try:
            check_case(data, case, wanted, rng, **options)
        except (AssertionError, EmulationError) as error:
            failures.append(str(error))
    assert not failures, "\n".join(failures)


SPECIAL_FLOATS = [
    0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 3.0, 1e-3, 7.25, 65504.0, -65519.0, 1e5, 2.0**24,
    2.0**31, -(2.0**31), 2.0**32, 2.0**63, 1e30, -1e38, 1e300, np.inf, -np.inf, np.nan,
    2.0**-14, 2.0**-24, 2.0**-126, 2.0**-149, -(2.0**-130), 2.0**-1022, 2.0**-1074, 3e-310,
]  # fmt: skip


def specials(kind: str) -> Array:
    """Values where operations have corners, of a scalar type."""
    dtype = np.dtype(TYPES[kind])
    if dtype.kind == "f":
        info = np.finfo(dtype)
        extra = [info.max, -info.max, info.smallest_normal, info.smallest_subnormal, info.eps]
        with np.errstate(over="ignore"):
            return np.array([*SPECIAL_FLOATS, *map(float, extra)]).astype(dtype)
    bits = 8 * dtype.itemsize
    values = [0, 1, 2, 3, 5, 7, 31, 32, 33, 63, 100, 127, 128, 255, 2 ** (bits // 2), 12345]
    values += [-v for v in values] + [2 ** (bits - 1) - 1, -(2 ** (bits - 1)), 2 ** (bits - 2)]
    wrapped = [((v + 2 ** (bits - 1)) % 2**bits) - 2 ** (bits - 1) for v in values]
    return np.array(wrapped, dtype)


def random_values(kind: str, n: int, rng: np.random.Generator) -> Array:
    """Half of them random bits, half (of floats) of moderate size."""
    dtype = np.dtype(TYPES[kind])
    if kind == "i1":
        return rng.integers(0, 2, n).astype(np.bool_)
    bits = rng.integers(0, 256, n * dtype.itemsize, dtype=np.uint8).view(dtype)
    if dtype.kind == "f":
        near = rng.normal(0, 4, n).astype(dtype)
        return np.where(rng.integers(0, 2, n) == 0, bits, near)
    small = rng.integers(-40, 40, n).astype(dtype)
    return np.where(rng.integers(0, 3, n) == 0, small, bits)


def inputs(arguments: Sequence[str], rng: np.random.Generator, n: int = 4096) -> list[Array]:
    """Every combination of two special values (a third at random), then random values; the
    length is a multiple of GROUP."""
    scalars = [a.strip("<>").split(" x ")[-1] for a in arguments]
    lanes = [int(a[1:].split(" x ")[0]) if a.startswith("<") else 1 for a in arguments]
    found = []
    first = [specials(s) for s in scalars]
    grid = np.indices([len(f) for f in first[:2]]).reshape(min(len(first), 2), -1)
    total = -(-(grid.shape[1] + n) // GROUP) * GROUP
    for k, (scalar, width) in enumerate(zip(scalars, lanes, strict=True)):
        values = random_values(scalar, total * width, rng)
        corner = first[k][grid[k]] if k < 2 else rng.choice(first[k], grid.shape[1])
        if width == 1:
            values[: len(corner)] = corner
            found.append(values)
        else:
            vectors = values.reshape(total, width)
            vectors[: len(corner), 0] = corner
            vectors[: len(corner), -1] = rng.permutation(corner)
            found.append(vectors)
    return found


def same(got: Array, wanted: Array) -> Array:
    """Where they are equal; all NaNs are, zeros differ by their sign."""
    if got.dtype.kind != "f":
        return got == wanted
    raw = f"u{got.dtype.itemsize}"
    return (got.view(raw) == wanted.view(raw)) | (np.isnan(got) & np.isnan(wanted))


def check_case(
    data: bytes,
    case: Case,
    wanted: Any,
    rng: np.random.Generator,
    values: list[Array] | None = None,
    count: int = 4096,
) -> None:
    """The emulator's results are those of `wanted(*inputs)`, bit for bit."""
    given = inputs(case.arguments, rng, count) if values is None else values
    got = run_case(data, case, given, rng)
    with np.errstate(all="ignore"):
        expected = wanted(*given).astype(got.dtype)
    wrong = np.nonzero(~same(got, expected).reshape(len(got), -1).all(axis=1))[0]
    assert not len(wrong), (
        f"{case.name}: {len(wrong)} of {len(got)} wrong, first: "
        f"{[g[wrong[0]] for g in given]} -> {got[wrong[0]]!r}, wanted {expected[wrong[0]]!r}"
    )
