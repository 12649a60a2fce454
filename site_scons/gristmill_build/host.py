"""What executes the modules of kernels here: another Python, numpy, C library or CPU may give their
constants other values. It stands in the key of a trace unless `backends.portable` shows that the
trace does not depend on it."""

from __future__ import annotations

import functools
import hashlib
import platform
import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")


@functools.cache
def host() -> tuple[str, ...]:
    """Names with their versions, as tools have them."""
    return (
        "python " + ".".join(platform.python_version_tuple()[:2]),
        f"numpy {_numpy()}",
        " ".join(("libc", *filter(None, platform.libc_ver()))),
        f"cpu {platform.machine()} {_features(_CPUINFO)}".rstrip(),
    )


def _numpy() -> str:
    """The version of numpy, asked for without importing it where it is installed."""
    try:
        return version("numpy")
    except PackageNotFoundError:
        import numpy

        return numpy.__version__


def _features(cpuinfo: Path) -> str:
    """A word for the instructions that a CPU has: libraries choose by them how they compute."""
    try:
        text = cpuinfo.read_text()
    except OSError:
        return ""
    found = re.search(r"^(?:flags|Features)\s*:(.*)$", text, re.M)
    words = " ".join(sorted(found[1].split())) if found else ""
    return hashlib.sha256(words.encode()).hexdigest()[:16] if words else ""
