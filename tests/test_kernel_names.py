"""A kernel may bear any name: no symbol of an emitter, a compiler or an assembler meets it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gristmill import runtime
from gristmill.backends.compile import CompileError, Options, compile_kernel
from gristmill.ir.core import Kernel
from gristmill.ir.lang import *
from gristmill.ir.text import print_kernel
from gristmill.store.bundle import Entry, write_bundle

SIZE = 64

# What emitters declare or call, what the C library and LLVM's own calls are named, words of PTX.
NAMES = (
    *("shared", "k_shared", "k_shared0", "faults", "fault_base", "grid_counter", "kernel", "args"),
    *("memset", "memcpy", "memmove", "fmod", "fmodf", "fma", "fmaf", "sqrtf", "floorf", "exp"),
    *("malloc", "free", "vprintf", "main", "abort", "_init", "__assertfail", "__nv_sqrt"),
    *("entry", "global", "reg", "add", "min", "ld", "st", "ret", "bar", "mma", "f32", "tex"),
    *("float", "void", "define", "declare", "undef", "i32"),
)


@kernel(workgroup=lambda: (SIZE, 1, 1), grid=lambda: (1, 1, 1))
def plain(x: Read[f32], y: Write[f32]):
    """Dynamic workgroup memory where that is a kind of its own, a large private array, maths."""
    tile = workgroup_array(f32, 16000)
    own = private_array(f32, 512)
    i = local_id(0)
    for n in range(SIZE):
        own[(n * i) & 511] = x[n]
    tile[i] = fma(x[i], 2.0, own[i])
    barrier()
    y[i] = tile[SIZE - 1 - i] + sqrt(x[i]) + floor(x[i]) + x[i] % 3.0 + exp(x[i])


@pytest.fixture(scope="module")
def traced() -> Kernel:
    return plain.trace("s")


@pytest.mark.parametrize("target", ["ptx-sm_80", "cpu-x86-64-v2", "cpu-aarch64", "hsaco-gfx1100"])
def test_every_name_compiles_to_the_same_code(traced: Kernel, target: str) -> None:
    def code(name: str) -> tuple[bytes, str]:
        blob, manifest = compile_kernel(print_kernel(replace(traced, name=name)), target, Options())
        return blob, manifest.entry

    usual, entry = code("qqq")
    for name in NAMES:
        blob, named = code(name)
        assert named == entry.replace("qqq", name)
        if target.startswith("ptx"):
            # Another name may collide with a word of the text itself, so words are compared.
            assert len(blob.split()) == len(usual.split()), name


def test_a_name_of_a_function_that_code_may_call_is_not_called(
    traced: Kernel, tmp_path: Path, require
) -> None:
    require("cpu")
    x = np.linspace(0.5, 9, SIZE, dtype=np.float32)
    results = []
    with runtime.open_device("cpu", workers=1) as device:
        for name in ("qqq", "memset", "memcpy", "fmodf", "floorf", "sqrtf", "fmaf", "exp"):
            text = print_kernel(replace(traced, name=name))
            target = device.capabilities.targets[0]
            blob, manifest = compile_kernel(text, target, Options())
            folder = tmp_path / name
            folder.mkdir()
            (folder / "k.so").write_bytes(blob)
            write_bundle(folder, [Entry(manifest, "k.so")])
            y = np.zeros(SIZE, np.float32)
            device.load(runtime.open_bundle(folder), name)(x, y)
            results.append(y.tobytes())
    assert len(set(results)) == 1


@pytest.mark.parametrize("target", ["ptx-sm_80", "cpu-x86-64-v2", "cpu-aarch64", "hsaco-gfx1100"])
def test_names_beyond_ascii_are_refused_where_symbols_have_none(
    traced: Kernel, target: str
) -> None:
    with pytest.raises(CompileError, match="has no kernel of the name 'größe': a name is made of"):
        compile_kernel(print_kernel(replace(traced, name="größe")), target, Options())
