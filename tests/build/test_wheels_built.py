"""`scons wheels` makes the wheels of a build in one command, with the signatures of its packs."""

from __future__ import annotations

import zipfile

from gristmill import __version__
from gristmill.store.pack.reading import Pack
from project import Project

WHEEL = f"artifacts/wheels/gristmill_kernels_interp-{__version__}-py3-none-any.whl"
PACK = "artifacts/packs/gristmill-interp-kir.pack"


def members(project: Project) -> dict[str, bytes]:
    with zipfile.ZipFile(project.path(WHEEL)) as archive:
        return {name.rpartition("/")[2]: archive.read(name) for name in archive.namelist()}


def test_one_command_makes_a_wheel_with_the_packs_of_a_backend(project: Project) -> None:
    project.write("LICENSE", "do what you like\n")
    done = project.scons("wheels", "target=all")
    assert done.status == 0, done.text
    assert done.steps("wheel") == 1
    found = members(project)
    for name in ("gristmill-interp-kir.pack", "gristmill-interp-second.pack"):
        assert found[name] == project.path(f"artifacts/packs/{name}").read_bytes()
    assert found["LICENSE"] == b"do what you like\n"
    again = project.scons("wheels", "target=all")
    assert (again.status, again.steps("wheel")) == (0, 0)


def test_two_builds_make_the_same_wheel(project: Project) -> None:
    project.scons("wheels")
    first = project.path(WHEEL).read_bytes()
    assert project.scons("wheels", "-c").status == 0
    assert not project.path(WHEEL).exists()
    assert project.scons("wheels").status == 0
    assert project.path(WHEEL).read_bytes() == first


def test_a_pack_that_was_signed_since_makes_it_again(project: Project) -> None:
    project.scons("wheels")
    assert "gristmill-interp-kir.pack.sig" not in members(project)
    with Pack.open(project.path(PACK)) as pack:
        digest = pack.digest
    project.write(f"{PACK}.sig", f"a signature of {digest}")
    assert project.scons("wheels").steps("wheel") == 1
    assert members(project)["gristmill-interp-kir.pack.sig"].decode().endswith(digest)


def test_cleaning_everything_takes_the_wheels_along(project: Project) -> None:
    project.scons("wheels")
    assert project.scons("-c").status == 0
    assert not project.path(WHEEL).exists()
