"""The test double of libcuda.so.1: built once, put before the real one, steered by tests."""

from __future__ import annotations

import ctypes
import hashlib
import subprocess
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).parent / "cuda"
SETTINGS = (
    "step",
    "sticky",
    "sticky_after",
    "hang_after",
    "fail_alloc",
    "fail_load",
    "memory",
    "pools",
    "driver",
    "devices",
    "capability",
    "fail_launch",
    "init",
    "unavailable",
    "capturing",
    "fail_pinned",
    "blocking",
)
KINDS = (
    "allocations",
    "pinned",
    "streams",
    "events",
    "modules",
    "graphs",
    "execs",
    "pools",
)
_FLAGS = ("-O1", "-shared", "-fPIC", "-fvisibility=hidden")
_TYPES = {"bool": "u8", "i8": "s8", "bf16": "b16", "f16": "b16"}


def build(folder: Path) -> Path:
    """Compile the library into a folder; its file."""
    library = folder / "libcuda.so.1"
    soname = "-Wl,-soname,libcuda.so.1"
    source = str(HERE / "fake_libcuda.c")
    subprocess.run(["gcc", *_FLAGS, soname, "-o", library, source, "-ldl", "-lpthread"], check=True)
    return library


def build_kernels(folder: Path) -> Path:
    """Compile the sample kernels for the host; their file."""
    library = folder / "host_kernels.so"
    subprocess.run(["gcc", *_FLAGS, "-o", library, str(HERE / "host_kernels.c"), "-lm"], check=True)
    return library


class FakeDriver:
    """The library in this process. Once it is loaded, whoever asks for libcuda.so.1 gets it: the
    dynamic linker goes by the name that a library gives itself."""

    def __init__(self, library: Path) -> None:
        self.lib = ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
        self.lib.fake_misuse.restype = ctypes.c_char_p
        self.lib.fake_count.restype = self.lib.fake_launches.restype = ctypes.c_long
        self.lib.fake_set.argtypes = [ctypes.c_int, ctypes.c_long]

    def set(self, **values: int) -> None:
        """Settings of the double, see `fake_set`; *_after count kernels from now, -1: never."""
        for name, value in values.items():
            self.lib.fake_set(SETTINGS.index(name), value)

    def live(self) -> dict[str, int]:
        """Objects that exist, by kind."""
        return {k: n for i, k in enumerate(KINDS) if (n := self.lib.fake_count(i))}

    def users(self, device: int = 0) -> int:
        """How often the primary context is retained."""
        return int(self.lib.fake_users(device))

    @property
    def depth(self) -> int:
        """Contexts on the calling thread's stack."""
        return int(self.lib.fake_depth())

    @property
    def launches(self) -> int:
        """Kernels that ran."""
        return int(self.lib.fake_launches())

    @property
    def misuse(self) -> str:
        """The first wrong use of the driver, or nothing."""
        return str(self.lib.fake_misuse().decode())

    def parameters(self, ptx: bytes, entry: str) -> list[tuple[int, int]]:
        """Offset and size of each parameter of an entry, as a driver reads them from PTX."""
        offsets, sizes = (ctypes.c_uint32 * 512)(), (ctypes.c_uint32 * 512)()
        count = self.lib.fake_parameters(ptx, entry.encode(), offsets, sizes)
        return list(zip(offsets[:count], sizes[:count], strict=True))

    def reset(self) -> None:
        """Forget everything."""
        self.lib.fake_reset()


def ptx(entry: str, params: Sequence[str], arch: str = "sm_80", isa: str = "7.0") -> bytes:
    """PTX that declares an entry with parameters of these PTX types, and no code."""
    declared = ",\n".join(f"  .param .{kind} {entry}_{n}" for n, kind in enumerate(params))
    text = f".version {isa}\n.target {arch}\n.address_size 64\n"
    return f"{text}.visible .entry {entry}(\n{declared}\n)\n{{\n  ret;\n}}\n".encode()


def ptx_type(dtype: str) -> str:
    """The PTX type of a by-value scalar."""
    return _TYPES.get(dtype, dtype.replace("i", "s"))


def serve(blob: bytes, kernels: Path, folder: Path) -> None:
    """Let the double run a host library's functions for a module of these bytes."""
    link = folder / f"{hashlib.sha256(blob).hexdigest()}.so"
    if not link.exists():
        link.symlink_to(kernels)
