"""Packs as Python wheels: one distribution for each backend, found through entry points.

    gristmill_kernels_ptx-0.1.0-py3-none-any.whl
        gristmill_kernels_ptx/__init__.py           VERSION, ABI, TARGETS, packs()
        gristmill_kernels_ptx/gristmill-ptx-sm_80.pack, and what lies beside it (signature, ...)
        gristmill_kernels_ptx-0.1.0.dist-info/      METADATA, WHEEL, RECORD, entry_points.txt

The entry point `BACKEND` of the group `gristmill.kernels` names the module. A wheel holds nothing
of the time or the machine, and its members are stored as they are (packs are compressed already,
and compressors differ): equal packs make equal wheels.

Machine code for a host says so in the wheel's tag: `gristmill-kernels-cpu` is one wheel for
x86-64 and one for aarch64. That code calls no library, so that it holds what every manylinux and
musllinux promises. All else is data for a device: `py3-none-any`.
"""

from __future__ import annotations

import base64
import hashlib
import os
import secrets
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ..files import WriteError
from .errors import ArtifactInvalid
from .facts import PackFacts, beside

GROUP = "gristmill.kernels"
_ANY = "py3-none-any"
_HOSTS = {  # the architecture of a cpu target begins so -> what pip calls such machines
    "x86-64": "py3-none-manylinux_2_17_x86_64.musllinux_1_1_x86_64",
    "aarch64": "py3-none-manylinux_2_17_aarch64.musllinux_1_1_aarch64",
}
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest that a zip can say
_MODULE = '''\
"""Kernels that gristmill compiled ahead of time, for {backend}; `gristmill.runtime` finds them."""

from pathlib import Path

VERSION = "{version}"  # of the gristmill that made the packs
ABI = {abi}  # of the packs
TARGETS = ({targets})


def packs():
    """The packs of this distribution."""
    return sorted(Path(__file__).parent.glob("*.pack"))
'''


@dataclass(frozen=True)
class Wheel:
    """A wheel to be: the backend whose packs it holds, its tag, its packs by target."""

    backend: str
    tag: str
    packs: tuple[PackFacts, ...]

    @property
    def module(self) -> str:
        return f"gristmill_kernels_{self.backend}"

    @property
    def distribution(self) -> str:
        return self.module.replace("_", "-")

    def name(self, version: str) -> str:
        """The file's name."""
        return f"{self.module}-{version}-{self.tag}.whl"


def wheel_of(target: str) -> tuple[str, str]:
    """Backend and tag of the wheel that a target's pack goes into. ArtifactInvalid where a host is
    not known."""
    backend, _, arch = target.partition("-")
    if backend != "cpu":
        return backend, _ANY
    for host, tag in _HOSTS.items():
        if arch.startswith(host):
            return backend, tag
    raise ArtifactInvalid(
        "no wheel tag for this host", where=target, expected=" or ".join(_HOSTS), got=arch
    )


def planned(packs: Iterable[PackFacts]) -> list[Wheel]:
    """The wheels for some packs. ArtifactInvalid where two are of one target."""
    found: dict[tuple[str, str], dict[str, PackFacts]] = {}
    for pack in packs:
        group = found.setdefault(wheel_of(pack.target), {})
        if pack.target in group:
            raise ArtifactInvalid(
                f"two packs of {pack.target}: {group[pack.target].path} and {pack.path}",
                do="merge them (gristmill pack merge), or leave one out",
            )
        group[pack.target] = pack
    return [
        Wheel(backend, tag, tuple(group[target] for target in sorted(group)))
        for (backend, tag), group in sorted(found.items())
    ]


def write_wheel(wheel: Wheel, folder: Path, version: str, license_file: Path | None) -> Path:
    """Write a wheel into a folder, all or nothing; gives its path.

    version: of this gristmill, and of the wheel. license_file: goes along. ArtifactInvalid where
    the packs are of several ABIs, WriteError where the disk refuses.
    """
    abis = sorted({pack.abi for pack in wheel.packs})
    if len(abis) > 1:
        raise ArtifactInvalid(
            f"packs of several ABIs: {', '.join(map(str, abis))}",
            where=wheel.name(version),
            do="build them with one version of gristmill",
        )
    path = folder / wheel.name(version)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            with zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as archive:
                _fill(archive, wheel, version, license_file)
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise WriteError(path, error) from error
    return path


def _fill(archive: zipfile.ZipFile, wheel: Wheel, version: str, license_file: Path | None) -> None:
    record = []

    def add(name: str, data: bytes) -> None:
        info = zipfile.ZipInfo(name, _EPOCH)
        info.external_attr = 0o100644 << 16
        info.create_system = 3  # the same on every machine
        archive.writestr(info, data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record.append(f"{name},sha256={digest},{len(data)}")

    module, about = wheel.module, f"{wheel.module}-{version}.dist-info"
    add(f"{module}/__init__.py", _source(wheel, version).encode())
    for pack in wheel.packs:
        for file in (pack.path, *beside(pack.path)):
            add(f"{module}/{file.name}", file.read_bytes())
    if license_file is not None:
        add(f"{about}/licenses/LICENSE", license_file.read_bytes())
    add(f"{about}/METADATA", _metadata(wheel, version, license_file is not None).encode())
    add(f"{about}/WHEEL", _wheel(wheel).encode())
    add(f"{about}/entry_points.txt", f"[{GROUP}]\n{wheel.backend} = {module}\n".encode())
    lines = [*record, f"{about}/RECORD,,"]
    add(f"{about}/RECORD", "".join(f"{line}\n" for line in lines).encode())


def _source(wheel: Wheel, version: str) -> str:
    targets = "".join(f'"{pack.target}", ' for pack in wheel.packs)
    return _MODULE.format(
        backend=wheel.backend, version=version, abi=wheel.packs[0].abi, targets=targets.rstrip()
    )


def _metadata(wheel: Wheel, version: str, licensed: bool) -> str:
    lines = [
        "Metadata-Version: 2.4",
        f"Name: {wheel.distribution}",
        f"Version: {version}",
        f"Summary: Kernels compiled ahead of time for gristmill: {wheel.backend}.",
        *(["License-File: LICENSE"] if licensed else []),
        "Requires-Python: >=3.11",
        # What else pip would pair it with, the runtime refuses.
        f"Requires-Dist: gristmill=={series(version)}.*",
        "",
        "Targets: " + ", ".join(pack.target for pack in wheel.packs),
    ]
    return "".join(f"{line}\n" for line in lines)


def _wheel(wheel: Wheel) -> str:
    python, abi, platforms = wheel.tag.split("-")
    tags = [f"Tag: {python}-{abi}-{platform}" for platform in platforms.split(".")]
    pure = "true" if wheel.tag == _ANY else "false"
    lines = ["Wheel-Version: 1.0", "Generator: gristmill", f"Root-Is-Purelib: {pure}", *tags]
    return "".join(f"{line}\n" for line in lines)


def series(version: str) -> str:
    """The part of a version within which kernels and runtimes fit: `0.1` of `0.1.3`."""
    return ".".join(version.split(".")[:2])
