"""Which CPU targets this machine can load, best first.

The C library's own view comes first: it knows what the operating system and a tool such as
valgrind leave usable. `/proc/cpuinfo` is the fallback, GRISTMILL_CPU_LEVEL (v2, v3, v4) overrides.
"""

from __future__ import annotations

import ctypes
import os
import platform
from pathlib import Path

from ...errors import ArgumentError, NoDevice

LEVELS = ("v2", "v3", "v4")
OVERRIDE = "GRISTMILL_CPU_LEVEL"

# level -> (leaf of glibc's table, register, bit) of each instruction set that it adds
_EBX, _ECX = 1, 2
_BITS: dict[str, tuple[tuple[int, int, int], ...]] = {
    "v2": (*((0, _ECX, bit) for bit in (0, 9, 13, 19, 20, 23)), (2, _ECX, 0)),
    "v3": (
        *((0, _ECX, bit) for bit in (12, 22, 28, 29)),
        *((1, _EBX, bit) for bit in (3, 5, 8)),
        (2, _ECX, 5),
    ),
    "v4": tuple((1, _EBX, bit) for bit in (16, 17, 28, 30, 31)),
}
_FLAGS: dict[str, tuple[str, ...]] = {
    "v2": ("pni", "ssse3", "cx16", "sse4_1", "sse4_2", "popcnt", "lahf_lm"),
    "v3": ("fma", "movbe", "avx", "f16c", "bmi1", "avx2", "bmi2", "abm"),
    "v4": ("avx512f", "avx512dq", "avx512cd", "avx512bw", "avx512vl"),
}


class _Leaf(ctypes.Structure):
    _fields_ = (("cpuid", ctypes.c_uint32 * 4), ("active", ctypes.c_uint32 * 4))


def targets() -> tuple[str, ...]:
    """Target names for this machine; NoDevice on a machine that no target fits."""
    machine = platform.machine()
    if os.name != "posix" or platform.system() != "Linux":
        raise NoDevice("the cpu device needs Linux", got=platform.system())
    if machine in ("aarch64", "arm64"):
        return ("cpu-aarch64",)
    if machine != "x86_64":
        raise NoDevice("no cpu target", expected="x86_64 or aarch64", got=machine)
    level = _override() or _from_libc() or _from_cpuinfo(Path("/proc/cpuinfo"))
    if level is None:
        raise NoDevice("the processor is older than x86-64-v2", got=model_name())
    usable = LEVELS[: LEVELS.index(level) + 1]
    return tuple(f"cpu-x86-64-{name}" for name in reversed(usable))


def model_name() -> str:
    """The processor's name, or the machine's kind where there is none."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _override() -> str | None:
    level = os.environ.get(OVERRIDE)
    if level and level not in LEVELS:
        raise ArgumentError(f"{OVERRIDE}={level}", expected=f"one of {', '.join(LEVELS)}")
    return level or None


def _highest(met: list[str]) -> str | None:
    """The highest level whose own features and those of all lower levels are there."""
    found = None
    for level in LEVELS:
        if level not in met:
            break
        found = level
    return found


def _from_libc() -> str | None:
    try:
        query = ctypes.CDLL(None)["__x86_get_cpuid_feature_leaf"]
    except AttributeError:  # a C library without it
        return None
    query.restype = ctypes.POINTER(_Leaf)
    query.argtypes = (ctypes.c_uint32,)
    active = [tuple(query(leaf).contents.active) for leaf in range(3)]
    return _highest(
        [
            level
            for level in LEVELS
            if all(active[leaf][register] >> bit & 1 for leaf, register, bit in _BITS[level])
        ]
    )


def _from_cpuinfo(file: Path) -> str | None:
    for line in file.read_text().splitlines():
        if line.startswith("flags"):
            flags = set(line.partition(":")[2].split())
            return _highest([level for level in LEVELS if flags.issuperset(_FLAGS[level])])
    return None
