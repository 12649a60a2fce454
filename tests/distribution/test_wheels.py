"""Packs as wheels: what they hold, that they install, that the runtime finds them and refuses what
does not fit."""

from __future__ import annotations

import base64
import csv
import hashlib
import importlib
import io
import platform
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from packaging.tags import sys_tags
from packaging.utils import parse_wheel_filename

from gristmill import __version__, runtime
from gristmill.store.distribution.errors import ArtifactInvalid
from gristmill.store.distribution.facts import PackFacts, facts
from gristmill.store.distribution.wheels import planned, wheel_of, write_wheel
from gristmill.store.files import WriteError
from gristmill.store.pack.writing import write_pack
from toy_packs import item

ROOT = Path(__file__).parents[2]


def pack(folder: Path, target: str, kernel: str = "shift") -> PackFacts:
    path = folder / f"gristmill-{target}.pack"
    write_pack(path, [item(kernel, target=target)])
    return facts(path)


def wheels(out: Path, *packs: PackFacts, version: str = __version__) -> list[Path]:
    return [write_wheel(wheel, out, version, ROOT / "LICENSE") for wheel in planned(packs)]


def install(wheel: Path, site: Path) -> None:
    """As pip does, without a network."""
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index"]
    subprocess.run([*command, "--target", str(site), str(wheel)], check=True, capture_output=True)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder from which this process imports; what came from it is forgotten afterwards."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    for name in [name for name in sys.modules if name.startswith("gristmill_kernels_")]:
        monkeypatch.delitem(sys.modules, name)
    return folder


def altered(wheel: Path, site: Path, old: str, new: str) -> None:
    """Unpack a wheel with one text in its module replaced."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    (module,) = site.glob("gristmill_kernels_*/__init__.py")
    text = module.read_text()
    assert old in text
    module.write_text(text.replace(old, new))
    importlib.invalidate_caches()


def test_a_wheel_is_the_same_bytes_each_time(tmp_path: Path) -> None:
    made = []
    for folder, order in (("a", 1), ("b", -1)):
        (tmp_path / folder).mkdir()
        packs = [pack(tmp_path / folder, name) for name in ("ptx-sm_80", "ptx-sm_90")]
        (wheel,) = wheels(tmp_path / folder / "dist", *packs[::order])
        made.append(wheel.read_bytes())
    assert made[0] == made[1]
    with zipfile.ZipFile(tmp_path / "a/dist" / wheel.name) as archive:
        infos = archive.infolist()
    assert {info.date_time for info in infos} == {(1980, 1, 1, 0, 0, 0)}
    assert {info.compress_type for info in infos} == {zipfile.ZIP_STORED}


def test_pip_installs_it_and_the_runtime_finds_it(tmp_path: Path, site: Path) -> None:
    packs = [pack(tmp_path, t) for t in ("ptx-sm_80", "spirv-vulkan1.1", "interp-kir")]
    for wheel in wheels(tmp_path / "dist", *packs):
        install(wheel, site)
    importlib.invalidate_caches()
    assert {a.manifest.target for a in runtime.open_bundle()} == {p.target for p in packs}
    bundle = runtime.open_bundle("installed:interp")
    (artifact,) = bundle
    assert artifact.read() == item(target="interp-kir").blob
    assert len(runtime.open_bundle("installed:")) == 3


def test_its_record_holds_every_file(tmp_path: Path) -> None:
    signed = pack(tmp_path, "ptx-sm_80")
    signed.path.with_name(signed.path.name + ".sig").write_bytes(b"signature")
    (wheel,) = wheels(tmp_path / "dist", signed)
    with zipfile.ZipFile(wheel) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    (record,) = [name for name in files if name.endswith("/RECORD")]
    rows = {row[0]: row[1:] for row in csv.reader(io.StringIO(files[record].decode()))}
    assert rows.keys() == files.keys()
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        wanted = ["", ""] if name == record else [f"sha256={digest}", str(len(data))]
        assert rows[name] == wanted
    assert "gristmill_kernels_ptx/gristmill-ptx-sm_80.pack.sig" in files
    about = files[record.replace("RECORD", "METADATA")].decode()
    assert f"Requires-Dist: gristmill=={__version__.rpartition('.')[0]}.*" in about
    assert "License-File: LICENSE" in about


def test_machine_code_of_a_host_says_so_in_the_tag(tmp_path: Path) -> None:
    targets = ("cpu-x86-64-v3", "cpu-x86-64-v2", "cpu-aarch64", "hsaco-gfx942")
    made = wheels(tmp_path / "dist", *(pack(tmp_path, target) for target in targets))
    assert [path.name.partition("-py3-")[2] for path in made] == [
        "none-manylinux_2_17_aarch64.musllinux_1_1_aarch64.whl",
        "none-manylinux_2_17_x86_64.musllinux_1_1_x86_64.whl",
        "none-any.whl",
    ]
    names = [parse_wheel_filename(path.name)[0] for path in made]
    assert names == ["gristmill-kernels-cpu"] * 2 + ["gristmill-kernels-hsaco"]
    for path in made:
        with zipfile.ZipFile(path) as archive:
            (name,) = [n for n in archive.namelist() if n.endswith("/WHEEL")]
            text = archive.read(name).decode()
        tags = parse_wheel_filename(path.name)[3]
        assert {str(tag) for tag in tags} == {
            line.removeprefix("Tag: ") for line in text.splitlines() if line.startswith("Tag: ")
        }
        assert f"Root-Is-Purelib: {'true' if 'none-any' in path.name else 'false'}" in text


def test_pip_takes_the_wheel_of_its_own_host_alone(tmp_path: Path) -> None:
    hosts = {"x86_64": "cpu-x86-64-v3", "aarch64": "cpu-aarch64"}
    here = set(sys_tags())
    for machine, target in hosts.items():
        (wheel,) = wheels(tmp_path / machine, pack(tmp_path, target))
        fits = bool(here & parse_wheel_filename(wheel.name)[3])
        assert fits == (machine == platform.machine()), wheel.name


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (f'VERSION = "{__version__}"', 'VERSION = "9.1.0"'),
        ("ABI = 1", "ABI = 7"),
        ("ABI = 1", 'ABI = "1"'),
    ],
)
def test_kernels_of_another_version_are_refused(
    tmp_path: Path, site: Path, old: str, new: str
) -> None:
    (wheel,) = wheels(tmp_path / "dist", pack(tmp_path, "ptx-sm_80"))
    altered(wheel, site, old, new)
    with pytest.raises(runtime.VersionMismatch) as caught:
        runtime.open_bundle()
    text = str(caught.value)
    assert "gristmill-kernels-ptx" in text
    assert f"the runtime is {__version__}" in text
    assert ("9.1.0" in text) == ("9.1.0" in new)
    assert "pip install" in text


def test_a_later_patch_of_the_same_series_fits(tmp_path: Path, site: Path) -> None:
    version = f"{__version__.rpartition('.')[0]}.99"
    (wheel,) = wheels(tmp_path / "dist", pack(tmp_path, "ptx-sm_80"), version=version)
    install(wheel, site)
    importlib.invalidate_caches()
    assert len(runtime.open_bundle("installed:ptx")) == 1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("def packs():", "def others():"),
        ("def packs():", "raise RuntimeError('broken')\ndef packs():"),
        ("VERSION = ", "OTHER = "),
        ("    return sorted", "    return 1 / 0, sorted"),
    ],
)
def test_a_distribution_that_breaks_its_promise_is_named(
    tmp_path: Path, site: Path, old: str, new: str
) -> None:
    (wheel,) = wheels(tmp_path / "dist", pack(tmp_path, "ptx-sm_80"))
    altered(wheel, site, old, new)
    with pytest.raises(runtime.ManifestInvalid, match=r"gristmill-kernels-ptx.*promises"):
        runtime.open_bundle()


def test_a_damaged_pack_is_refused(tmp_path: Path, site: Path) -> None:
    (wheel,) = wheels(tmp_path / "dist", pack(tmp_path, "ptx-sm_80"))
    install(wheel, site)
    (file,) = site.glob("*/*.pack")
    data = bytearray(file.read_bytes())
    data[200] ^= 1
    file.write_bytes(data)
    with pytest.raises(runtime.ArtifactCorrupt):
        runtime.open_bundle()
    file.unlink()
    with pytest.raises(runtime.ArtifactMissing, match="a distribution without packs"):
        runtime.open_bundle()


def test_what_is_not_installed_is_told(tmp_path: Path, site: Path) -> None:
    with pytest.raises(runtime.ArtifactMissing, match="no kernels are installed"):
        runtime.open_bundle()
    (wheel,) = wheels(tmp_path / "dist", pack(tmp_path, "ptx-sm_80"))
    install(wheel, site)
    importlib.invalidate_caches()
    with pytest.raises(runtime.ArtifactMissing, match=r"under the name hsaco.*got ptx.*hsaco"):
        runtime.open_bundle("installed:hsaco")


def test_unsigned_wheels_are_refused_where_signatures_are_required(
    tmp_path: Path, site: Path, require: Callable[..., None]
) -> None:
    require("cryptography")
    (wheel,) = wheels(tmp_path / "dist", pack(tmp_path, "ptx-sm_80"))
    install(wheel, site)
    importlib.invalidate_caches()
    with pytest.raises(runtime.Untrusted):
        runtime.open_bundle(verify="require", keys=[tmp_path])


def test_what_makes_no_wheel_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArtifactInvalid, match=r"no wheel tag for this host.*riscv64"):
        wheel_of("cpu-riscv64")
    twin = pack(tmp_path, "ptx-sm_80")
    with pytest.raises(ArtifactInvalid, match="two packs of ptx-sm_80"):
        planned([twin, twin])
    both = tmp_path / "both.pack"
    write_pack(both, [item(target="ptx-sm_80"), item(target="ptx-sm_90")])
    with pytest.raises(ArtifactInvalid, match=r"not of one target.*ptx-sm_80, ptx-sm_90"):
        facts(both)
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(WriteError):
        wheels(tmp_path / "file", twin)
