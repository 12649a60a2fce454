"""The linker makes what the system's loader takes, and refuses what kernels must not hold."""

from __future__ import annotations

import contextlib
import ctypes
import struct
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from gristmill.backends.link import LinkError, elf, link
from gristmill.backends.llvm.toolchain import Machine
from gristmill.backends.pool import Pool

X86 = Machine("x86_64-unknown-linux-gnu", "x86-64-v3")
ARM = Machine("aarch64-unknown-linux-gnu", "generic")

KERNEL = """
@table = internal unnamed_addr constant [4 x float] [float 1.0, float 2.0, float 3.0, float 4.0]
define void @pick(ptr %out, i64 %i) nounwind {
  %p = getelementptr [4 x float], ptr @table, i64 0, i64 %i
  %v = load float, ptr %p
  %w = fadd float %v, 0x3FB99999A0000000
  store float %w, ptr %out
  ret void
}
"""


@pytest.fixture(scope="module")
def assemble():
    """IR text to a relocatable object, in a compiler process."""
    with Pool(1) as pool:
        yield lambda ir, machine=X86: pool.run(
            "gristmill.backends.llvm.toolchain:emit_object", ir, machine
        )


def load(blob: bytes, folder: Path) -> ctypes.CDLL:
    path = folder / "kernel.so"
    path.write_bytes(blob)
    return ctypes.CDLL(str(path))


class Parsed:
    """What the tests look at, read apart from the code under test."""

    def __init__(self, blob: bytes) -> None:
        (self.type, self.machine) = struct.unpack_from("<HH", blob, 16)
        phoff, shoff = struct.unpack_from("<QQ", blob, 32)
        phnum, shent, shnum, names = struct.unpack_from("<HHHH", blob, 56)
        self.programs = [
            struct.unpack_from("<IIQQQQQQ", blob, phoff + 56 * n) for n in range(phnum)
        ]
        headers = [struct.unpack_from("<IIQQQQIIQQ", blob, shoff + shent * n) for n in range(shnum)]
        strings = headers[names][4]
        self.sections = {}
        for h in headers[1:]:
            start = strings + h[0]
            self.sections[blob[start : blob.index(b"\0", start)].decode()] = h
        dynamic = self.sections[".dynamic"]
        at = range(dynamic[4], dynamic[4] + dynamic[5], 16)
        self.dynamic = dict(struct.unpack_from("<QQ", blob, n) for n in at)

    def loads(self) -> list[tuple[int, ...]]:
        return [p for p in self.programs if p[0] == 1]


@pytest.mark.parametrize(
    ("machine", "page"), [(X86, 4096), (ARM, 65536)], ids=["x86-64", "aarch64"]
)
def test_layout_is_safe_to_map(assemble, machine: Machine, page: int) -> None:
    parsed = Parsed(link(assemble(KERNEL, machine)))
    assert parsed.type == 3
    assert not any(flags & 1 and flags & 2 for _, flags, *_ in parsed.programs)  # never W and X
    (stack,) = [p for p in parsed.programs if p[0] == 0x6474E551]
    assert stack[1] == 6
    ends = 0
    for _, _, offset, address, _, filesz, memsz, align in parsed.loads():
        assert align == page
        assert offset % page == address % page
        assert memsz >= filesz
        assert address // page * page >= ends  # no page has two protections
        ends = -(-(address + memsz) // page) * page
    (writable,) = [p for p in parsed.loads() if p[1] & 2]
    (relro,) = [p for p in parsed.programs if p[0] == 0x6474E552]
    assert (relro[3], relro[6]) == (writable[3], writable[6])  # all of it is closed again
    assert (relro[3] + relro[6]) % page == 0


def test_no_relocation_or_library_is_left_to_the_loader(assemble) -> None:
    parsed = Parsed(link(assemble(KERNEL)))
    assert parsed.dynamic.keys() == {0, 4, 5, 6, 10, 11}  # hash, strings and symbols only
    assert not [n for n in parsed.sections if n.startswith(".rela")]


def test_kernel_runs_and_constants_are_found(assemble, tmp_path: Path) -> None:
    library = load(link(assemble(KERNEL), ["pick"]), tmp_path)
    out = ctypes.c_float()
    for n in range(4):
        library.pick(ctypes.byref(out), ctypes.c_int64(n))
        assert out.value == np.float32(n + 1) + np.float32(0.1)


def test_jump_tables_and_local_calls_run(assemble, tmp_path: Path) -> None:
    cases = "\n".join(f"c{n}: br label %end" for n in range(40))
    table = " ".join(f"i32 {n}, label %c{n}" for n in range(40))
    values = ", ".join(f"[ {n * n * 7 + 3}, %c{n} ]" for n in range(40))
    ir = f"""
define internal i32 @square(i32 %i) noinline nounwind {{
  switch i32 %i, label %end [ {table} ]
{cases}
end:
  %v = phi i32 {values}, [ -1, %0 ]
  ret i32 %v
}}
define void @run(ptr %out, i32 %i) nounwind {{
  %v = call i32 @square(i32 %i)
  store i32 %v, ptr %out
  ret void
}}
"""
    library = load(link(assemble(ir)), tmp_path)
    out = ctypes.c_int32()
    for n in range(40):
        library.run(ctypes.byref(out), n)
        assert out.value == n * n * 7 + 3


def test_many_exports_are_all_found(assemble, tmp_path: Path) -> None:
    ir = "\n".join(
        f"define void @f{n}(ptr %p) nounwind {{ store i32 {n}, ptr %p\n ret void }}"
        for n in range(50)
    )
    library = load(link(assemble(ir)), tmp_path)
    out = ctypes.c_int32()
    for n in range(50):
        getattr(library, f"f{n}")(ctypes.byref(out))
        assert out.value == n
    with pytest.raises(AttributeError):
        _ = library.f50


MDWE = """
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
if libc.prctl(65, 1, 0, 0, 0) != 0:  # PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN
    sys.exit(77)
library = ctypes.CDLL(sys.argv[1])
out = ctypes.c_float()
library.pick(ctypes.byref(out), ctypes.c_int64(1))
maps = [line.split()[1] for line in open("/proc/self/maps") if sys.argv[1] in line]
print(out.value, *maps)
"""


def test_loads_where_no_memory_may_become_executable(assemble, require, tmp_path: Path) -> None:
    path = tmp_path / "kernel.so"
    path.write_bytes(link(assemble(KERNEL)))
    done = subprocess.run(
        [sys.executable, "-c", MDWE, str(path)], capture_output=True, text=True, timeout=60
    )
    if done.returncode == 77:
        require("mdwe", "this kernel has no PR_SET_MDWE")
    assert done.returncode == 0, done.stderr
    value, *maps = done.stdout.split()
    assert float(value) == pytest.approx(2.1)
    assert sorted(maps) == ["r--p", "r--p", "r-xp"]


def test_equal_objects_give_equal_bytes_fast(assemble) -> None:
    blob = assemble(KERNEL)
    assert link(blob) == link(blob)
    times = []
    for _ in range(200):
        start = time.perf_counter()
        link(blob)
        times.append(time.perf_counter() - start)
    assert min(times) < 0.005


REFUSED = {
    "undefined symbol expf": """
declare float @expf(float)
define void @k(ptr %p) nounwind { %x = load float, ptr %p
 %v = call float @expf(float %x)
 store float %v, ptr %p
 ret void }""",
    "writable": """
@counter = internal global i32 3
define void @k(ptr %p) nounwind { %v = load i32, ptr @counter
 store volatile i32 4, ptr @counter
 store i32 %v, ptr %p
 ret void }""",
    "thread-local": """
@t = internal thread_local global i32 3
define void @k(ptr %p) nounwind { %v = load volatile i32, ptr @t
 store i32 %v, ptr %p
 ret void }""",
    "exports no function": "define internal void @k() nounwind { ret void }",
    "not a function": """
@data = constant i32 7
define void @k() nounwind { ret void }""",
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_kernels_must_not_hold_is_refused(assemble, words: str) -> None:
    with pytest.raises(LinkError, match=words):
        link(assemble(REFUSED[words]))


def test_addresses_in_data_are_refused(assemble) -> None:
    ir = """
@a = internal constant i32 1
@b = internal constant i32 2
%pair = type { i64, ptr }
@table = internal constant [2 x %pair] [%pair { i64 1, ptr @a }, %pair { i64 2, ptr @b }]
define void @k(ptr %p, i64 %i) nounwind {
  %q = getelementptr [2 x %pair], ptr @table, i64 0, i64 %i, i32 1
  %r = load volatile ptr, ptr %q
  store ptr %r, ptr %p
  ret void
}"""
    with pytest.raises(LinkError):
        link(assemble(ir))


def test_missing_and_surplus_exports_are_refused(assemble) -> None:
    blob = assemble(KERNEL)
    for wanted in ((), ("pick", "other"), ("other",)):
        with pytest.raises(LinkError, match="expected"):
            link(blob, wanted)


def test_damaged_objects_are_refused_not_misread(assemble, rng: np.random.Generator) -> None:
    blob = assemble(KERNEL)
    for size in rng.integers(0, len(blob), 100):
        with pytest.raises(LinkError):
            link(blob[: int(size)])
    for _ in range(3000):  # a changed byte is refused or harmless, never another error
        changed = bytearray(blob)
        changed[int(rng.integers(len(blob)))] ^= int(rng.integers(1, 256))
        with contextlib.suppress(LinkError):
            link(bytes(changed))


def test_other_machines_and_files_are_refused() -> None:
    for blob in (b"", b"\x7fELF", b"MZ" + bytes(100), elf.IDENT + bytes(100)):
        with pytest.raises(LinkError):
            link(blob)
