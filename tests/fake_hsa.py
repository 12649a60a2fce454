"""The test double of libhsa-runtime64: built once, named to the device by its path, steered by
tests; and small code objects for it, whose kernels are host functions or a callback."""

from __future__ import annotations

import ctypes
import hashlib
import struct
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gristmill.ir.abi import gpu_layout, gpu_places
from gristmill.runtime.devices.parameters import parameters
from gristmill.store.manifest import Manifest

HERE = Path(__file__).parent / "hsa"
SETTINGS = (
    "init",
    "gpus",
    "ring",
    "memory",
    "hang_after",
    "fail_after",
    "fail_status",
    "event_after",
    "event_kind",
    "fail_alloc",
    "fail_host",
    "fail_load",
    "fail_copy",
    "tells",
    "calls",
    "slow",
)
KINDS = ("device memory", "host memory", "signals", "queues", "executables", "readers")
_EXECUTOR = ctypes.CFUNCTYPE(
    ctypes.c_int,
    *(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64),
    ctypes.c_uint32,
)
# Numbers in e_flags, as in fake_objects.h; the settings' bits: any, off, on.
MACHINES = {
    "gfx90a": 0x3F,
    "gfx942": 0x4C,
    "gfx1100": 0x41,
    "gfx1151": 0x4A,
    "gfx1201": 0x4E,
    "gfx11-generic": 0x54,
    "gfx9-4-generic": 0x5F,
}
_SETTINGS_AT = {"xnack": 8, "sramecc": 10}


def build(folder: Path) -> Path:
    """Compile the library into a folder; its file."""
    library = folder / "libhsa-runtime64.so.1"
    flags = ["-O1", "-shared", "-fPIC", "-fvisibility=hidden"]
    source = str(HERE / "fake_libhsa.c")
    subprocess.run(["gcc", *flags, "-o", library, source, "-ldl", "-lpthread"], check=True)
    return library


@dataclass(frozen=True)
class Dispatch:
    """What the double hands to an executor. grid in work-items."""

    packet: int
    elf: bytes
    base: int
    descriptor: int
    gpu: int
    workgroup: tuple[int, int, int] = field(init=False)
    grid: tuple[int, int, int] = field(init=False)
    kernarg: int = field(init=False)

    def __post_init__(self) -> None:
        fields = struct.unpack_from("<2H4H5I4Q", ctypes.string_at(self.packet, 64))
        object.__setattr__(self, "workgroup", fields[2:5])
        object.__setattr__(self, "grid", fields[6:9])
        object.__setattr__(self, "kernarg", fields[12])


class FakeRuntime:
    """The library in this process."""

    def __init__(self, library: Path) -> None:
        self.path = str(library)
        self.lib = ctypes.CDLL(self.path)
        self.lib.fake_misuse.restype = self.lib.fake_failure.restype = ctypes.c_char_p
        self.lib.fake_count.restype = self.lib.fake_dispatches.restype = ctypes.c_long
        self.lib.fake_bells.restype = self.lib.fake_allocations.restype = ctypes.c_long
        self.lib.fake_allocations.argtypes = [ctypes.c_void_p, ctypes.c_long]
        self.lib.fake_set.argtypes = [ctypes.c_int, ctypes.c_long]
        self.lib.fake_kernels.argtypes = self.lib.fake_failed.argtypes = [ctypes.c_char_p]
        self.lib.fakehsa_set_executor.argtypes = [_EXECUTOR, ctypes.c_char_p]
        self._kept: Any = None

    def set(self, **values: int) -> None:
        """Settings of the double, see `fake_set`; *_after count dispatches from now, -1: never."""
        for name, value in values.items():
            self.lib.fake_set(SETTINGS.index(name), value)

    def isas(self, *gpus: str) -> None:
        """What each GPU says it is, `gfx942:sramecc+:xnack-,gfx9-4-generic`; host functions run."""
        self.lib.fakehsa_set_executor(_EXECUTOR(), ";".join(gpus).encode())
        self.set(gpus=len(gpus))

    def executor(self, run: Callable[[Dispatch], None], *gpus: str) -> None:
        """Let a function run kernels, in the thread of a queue. What it raises fails the queue, as
        an access of memory that is not there; `failure` tells it."""

        def call(packet: int, elf: int, size: int, base: int, at: int, gpu: int) -> int:
            try:
                run(Dispatch(packet, ctypes.string_at(elf, size), base, at, gpu))
            except Exception as error:
                self.lib.fake_failed(f"{type(error).__name__}: {error}"[:500].encode())
                return 43
            return 0

        self._kept = _EXECUTOR(call)
        self.lib.fakehsa_set_executor(self._kept, ";".join(gpus).encode())
        self.set(gpus=len(gpus))

    def kernels(self, library: Path) -> None:
        """Let functions of a library run the kernels of their names."""
        self.lib.fake_kernels(str(library).encode())

    def allocations(self) -> list[tuple[int, int]]:
        """Address and size of all live memory, of GPUs and host."""
        room = self.lib.fake_allocations(None, 0) + 64  # others may allocate meanwhile
        pairs = (ctypes.c_uint64 * 2 * room)()
        count = min(room, self.lib.fake_allocations(pairs, room))
        return [(base, size) for base, size in pairs[:count]]

    def live(self) -> dict[str, int]:
        """Objects that exist, by kind."""
        return {k: n for i, k in enumerate(KINDS) if (n := self.lib.fake_count(i))}

    @property
    def users(self) -> int:
        """How often the library is initialised."""
        return int(self.lib.fake_users())

    @property
    def dispatches(self) -> int:
        """Kernels that ran."""
        return int(self.lib.fake_dispatches())

    @property
    def bells(self) -> int:
        """How often a doorbell was rung."""
        return int(self.lib.fake_bells())

    @property
    def misuse(self) -> str:
        """The first wrong use of the library, or nothing."""
        return str(self.lib.fake_misuse().decode())

    @property
    def failure(self) -> str:
        """Why the last packet failed."""
        return str(self.lib.fake_failure().decode())

    def reset(self) -> None:
        """Forget everything."""
        self.lib.fake_reset()


def _packed(value: Any) -> bytes:
    """A value in MessagePack, in the longest forms."""
    if isinstance(value, int):
        return b"\xcf" + value.to_bytes(8, "big")
    if isinstance(value, str):
        raw = value.encode()
        return b"\xdb" + len(raw).to_bytes(4, "big") + raw
    items = [i for pair in value.items() for i in pair] if isinstance(value, dict) else value
    head = b"\xdf" if isinstance(value, dict) else b"\xdd"
    return head + len(value).to_bytes(4, "big") + b"".join(map(_packed, items))


def e_flags(target: str) -> int:
    """The flags of an ELF header for a target id."""
    name, *settings = target.split(":")
    flags = MACHINES[name]
    for setting in settings:
        flags |= (3 if setting[-1] == "+" else 2) << _SETTINGS_AT[setting[:-1]]
    return flags


def metadata(
    entry: str,
    places: Sequence[tuple[int, int]],
    target: str,
    workgroup: int = 1024,
    wave: int = 32,
    **changes: Any,
) -> dict[str, Any]:
    """A code object's metadata, with changes to those of its kernel (`kernarg_segment_size=8`)."""
    arguments = [{".offset": at, ".size": n, ".value_kind": "by_value"} for at, n in places]
    kernel = {
        ".name": entry,
        ".symbol": f"{entry}.kd",
        ".args": arguments,
        ".kernarg_segment_size": max(at + n for at, n in places),
        ".group_segment_fixed_size": 0,
        ".private_segment_fixed_size": 0,
        ".wavefront_size": wave,
        ".max_flat_workgroup_size": workgroup,
    } | {f".{name}": value for name, value in changes.items()}
    return {
        "amdhsa.target": f"amdgcn-amd-amdhsa--{target}",
        "amdhsa.version": [1, 2],
        "amdhsa.kernels": [kernel],
    }


def code_object(entry: str, told: dict[str, Any], target: str, symbol: str = "") -> bytes:
    """A code object of one kernel, whose code is nothing. symbol: of its descriptor."""
    kernel = told["amdhsa.kernels"][0]
    note = b"AMDGPU\0\0" + _packed(told)
    note = struct.pack("<III", 7, len(note) - 8, 32) + note
    descriptor = struct.pack("<III", 0, 0, kernel[".kernarg_segment_size"]).ljust(64, b"\0")
    names = b"\0" + (symbol or f"{entry}.kd").encode() + b"\0"
    section_names = b"\0.note\0.rodata\0.symtab\0.strtab\0.shstrtab\0"
    body, places = bytearray(64 + 56), {}
    parts = {".note": note, ".rodata": descriptor, ".symtab": bytes(48), ".strtab": names}
    for name, data in (parts | {".shstrtab": section_names}).items():
        body += bytes(-len(body) % 64)
        places[name] = len(body), len(data)
        body += data
    at = places[".rodata"][0]
    struct.pack_into("<IBBHQQ", body, places[".symtab"][0] + 24, 1, 0x11, 0, 2, at, 64)
    kinds = {".note": 7, ".rodata": 1, ".symtab": 2, ".strtab": 3, ".shstrtab": 3}
    body += bytes(-len(body) % 64)
    table = len(body)
    body += bytes(64)
    for name, kind in kinds.items():
        start, size = places[name]
        link = 4 if name == ".symtab" else 0
        name_at = section_names.index(name.encode() + b"\0")
        body += struct.pack("<IIQQQQIIQQ", name_at, kind, 2, start, start, size, link, 0, 1, 0)
    ident = b"\x7fELF\2\1\1\x40\3" + bytes(7)
    header = (3, 224, 1, 0, 64, table, e_flags(target), 64, 56, 1, 64, 6, 5)
    struct.pack_into("<16sHHIQQQIHHHHHH", body, 0, ident, *header)
    struct.pack_into("<IIQQQQQQ", body, 64, 1, 7, 0, 0, 0, table, table, 4096)
    return bytes(body)


def made_for(manifest: Manifest, target: str, **changes: Any) -> tuple[bytes, Manifest]:
    """A code object of the double for a target id, and its manifest. changes: to its metadata."""
    params = parameters(manifest)
    places = gpu_places(params, gpu_layout(params, bool(manifest.sites)))
    wave = 64 if target.startswith("gfx9") else 32
    told = metadata(manifest.entry, places, target, wave=wave, **changes)
    blob = code_object(manifest.entry, told, target)
    return blob, labelled(manifest, target, blob)


def labelled(manifest: Manifest, target: str, blob: bytes) -> Manifest:
    """The manifest of a code object for a target id."""
    return replace(
        manifest,
        target=f"hsaco-{target}",
        sha256=hashlib.sha256(blob).hexdigest(),
        size=len(blob),
        facts={"code_object": 5},
    )
