"""The recipes of docs/ci, step by step, against servers on this machine.

Stubbed is what only the services have: the checkout (a clone), secrets, and `pip install`, for
which this Python's packages stand in.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gristmill.store.trust.keys import new_key, write_key
from registries import MAIN, docker_registry

from .bucket import WRITER, Bucket
from .recipes import READERS, Event, Site, Step

ROOT = Path(__file__).parents[2]
SERVICES = sorted(READERS)
SELECTION = "target=interp-kir,spirv-vulkan1.1 kernel=saxpy,scan_offsets"


@dataclass
class House:
    """A repository, and the servers that its CI uses."""

    folder: Path
    origin: Path
    commit: str
    host: str
    bucket: Bucket
    secrets: dict[str, str]
    count: int = 0
    log: list[str] = field(default_factory=list)

    def variables(self, service: str) -> dict[str, str]:
        """What is set up for all, each service with a cache and a repository of its own."""
        return {
            "KERNEL_SELECTION": SELECTION,
            "SELECTION": SELECTION,
            "KERNEL_REGISTRY": f"{self.host}/{service}/kernels",
            "KERNEL_CACHE": f"s3://bucket/{service}",
        }

    def steps(self, service: str, event: Event) -> list[Step]:
        self.count += 1
        place = self.folder / f"run{self.count}"
        place.mkdir()
        steps: list[Step] = READERS[service](
            event, Site(self.variables(service), self.secrets, place)
        )
        return steps

    def run(
        self, service: str, event: Event, change: Callable[[Path], None] = lambda checkout: None
    ) -> tuple[Path, str]:
        """All steps of an event on a fresh machine; gives the checkout and what was said. change:
        what the event changes in the checkout."""
        steps = self.steps(service, event)
        machine = Machine(self, self.folder / f"run{self.count}")
        change(machine.checkout)
        return machine.checkout, "".join(machine.run(step) for step in steps)

    def published(self) -> dict[str, str]:
        """Everything that the registry and the cache hold, by digest."""
        data = self.folder / "registry/data"
        files = {
            str(path): path.read_bytes()
            for path in data.rglob("*")
            if path.is_file() and "_uploads" not in path.parts
        }
        found = {**files, **self.bucket.content}
        return {name: hashlib.sha256(text).hexdigest() for name, text in found.items()}


class Machine:
    """A machine of a CI service: a checkout, an empty store, the commands that pip installs."""

    def __init__(self, house: House, folder: Path) -> None:
        self.checkout = folder / "checkout"
        clone = ["git", "clone", "-q", "--shared", str(house.origin), str(self.checkout)]
        subprocess.run(clone, check=True)
        programs = folder / "bin"
        programs.mkdir()
        python = shlex.quote(sys.executable)
        for name, module in (("scons", "SCons"), ("gristmill", "gristmill.cli.main")):
            _program(programs / name, f'exec {python} -m {module} "$@"')
        # A `pip install` is noted; all else is this Python.
        _program(
            programs / "python",
            f'if [ "$1 $2" = "-m pip" ]; then echo "pip: $*"; else exec {python} "$@"; fi',
        )
        kept = ("LANG", "LC_ALL", "TMPDIR")
        self.environment = {
            **{name: os.environ[name] for name in kept if name in os.environ},
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(self.checkout / "src"),
            "HOME": str(folder),
            "GRISTMILL_STORE": str(folder / "store"),
            "AWS_ENDPOINT_URL": house.bucket.endpoint,
            "AWS_REGION": "us-east-1",
        }

    def run(self, step: Step, good: bool = True) -> str:
        """What a step says. good: it must end well, else it must not."""
        script = self.checkout.parent / "step.sh"
        script.write_text(step.script)
        done = subprocess.run(
            [*step.shell, str(script)],
            cwd=self.checkout,
            env={**self.environment, **step.environment},
            capture_output=True,
            text=True,
            timeout=300,
        )
        said = done.stdout + done.stderr
        assert (done.returncode == 0) == good, f"{step.name}: {done.returncode}\n{said}"
        return said


def _program(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def _git(folder: Path, *words: str) -> str:
    who = ["-c", "user.name=test", "-c", "user.email=test@example.com"]
    done = subprocess.run(
        ["git", "-C", str(folder), *who, *words], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def _repository(folder: Path) -> str:
    """This tree as it is, with the public key of the signing one, as a repository; its commit."""
    folder.mkdir()
    _git(folder, "init", "-q", "-b", "main")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        source, place = ROOT / name, folder / name
        if source.exists() and not name.startswith(("tests/", "benchmarks/")):
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, place, follow_symlinks=False)
    _git(folder, "add", "-A")
    _git(folder, "commit", "-q", "-m", "kernels")
    return _git(folder, "rev-parse", "HEAD")


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    folder = tmp_path_factory.mktemp("ci")
    key = new_key("release", 10)
    write_key(folder / "release.key", key)
    write_key(folder / "origin.keys/release.pub", key)
    (folder / "users").write_text(MAIN)
    secrets = {
        "AWS_ACCESS_KEY_ID": WRITER,
        "AWS_SECRET_ACCESS_KEY": "of the cache",
        "SIGNING_KEY": (folder / "release.key").read_text(),
        "GRISTMILL_OCI_USER": "main",
        "GRISTMILL_OCI_PASSWORD": "secret",
    }
    origin = folder / "origin"
    _repository(origin)
    shutil.copytree(folder / "origin.keys", origin / "keys")
    _git(origin, "add", "-A")
    _git(origin, "commit", "-q", "-m", "keys")
    commit = _git(origin, "rev-parse", "HEAD")
    with docker_registry(folder / "registry", folder / "users") as host, Bucket() as bucket:
        yield House(folder, origin, commit, host, bucket, secrets)


@pytest.fixture(autouse=True)
def _needed(require: Callable[..., None]) -> None:
    for name in ("docker-registry", "oras", "cryptography", "obstore", "git", "SCons"):
        require(name)


def edit(checkout: Path) -> None:
    """A patch to one of the kernels."""
    kernel = checkout / "kernels/elementwise.py"
    text = kernel.read_text()
    assert "= a * x[i] + y[i]" in text
    kernel.write_text(text.replace("= a * x[i] + y[i]", "= a * x[i] * a + y[i]"))


def report(checkout: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((checkout / "artifacts/.cache.json").read_text())
    return found


@pytest.mark.parametrize("service", SERVICES)
def test_a_recipe_from_an_empty_cache_to_a_release(house: House, service: str) -> None:
    main, pull = Event("main", house.commit), Event("pull", house.commit)
    checkout, said = house.run(service, main)
    assert "pushed 2 packs" in said
    packs = {p.name: p.read_bytes() for p in (checkout / "artifacts/packs").glob("*.pack")}
    assert len(packs) == 2

    # Another machine: all from the cache, the same packs, nothing new in registry or cache.
    before = house.published()
    again, _ = house.run(service, main)
    assert report(again)["hit_rate"] == 1.0
    assert {p.name: p.read_bytes() for p in (again / "artifacts/packs").glob("*.pack")} == packs
    assert house.published() == before

    # A pull request reads what it left alone, compiles the rest, and does not try to write.
    other, said = house.run(service, pull, edit)
    assert 0.0 < report(other)["hit_rate"] < 1.0
    assert {p.name: p.read_bytes() for p in (other / "artifacts/packs").glob("*.pack")} != packs
    assert "pushed" not in said
    assert house.published() == before
    assert house.bucket.refused == 0

    # A release makes everything again, and publishes what is the same.
    released, said = house.run(service, Event("tag", house.commit, "v1.0"))
    assert report(released)["cache"] is None
    assert {p.name: p.read_bytes() for p in (released / "published").glob("*.pack")} == packs
    assert len(list((released / "artifacts/wheels").glob("*.whl"))) == 2
    assert f"{service}/kernels:v1.0@sha256:" in said


def test_a_pull_request_that_rewrites_the_recipe_cannot_write(house: House) -> None:
    """It may change any step, and has no secrets: what it is given are the steps of main."""
    service = "gitlab"
    house.run(service, Event("main", house.commit))
    before = house.published()
    secrets, house.secrets = house.secrets, dict.fromkeys(house.secrets, "")
    try:
        steps = house.steps(service, Event("main", house.commit))
    finally:
        house.secrets = secrets
    machine = Machine(house, house.folder / f"run{house.count}")
    edit(machine.checkout)
    push = re.findall(r"gristmill push.*", "\n".join(step.script for step in steps))
    assert len(push) == 1
    script = f"scons pack $SELECTION\n{push[0]} --unsigned"
    environment = {k: v for k, v in steps[-1].environment.items() if not k.startswith("AWS_")}
    environment |= {"AWS_SKIP_SIGNATURE": "true", "GRISTMILL_CACHE_MODE": "readwrite"}
    said = machine.run(Step("attack", steps[-1].shell, script, environment), good=False)
    assert "the registry wants a login" in said
    assert house.bucket.refused
    house.bucket.refused = 0
    assert house.published() == before


def test_what_a_recipe_installs_exists(house: House) -> None:
    """The extras that `pip install` is told are those of pyproject.toml."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    known = set(extras["optional-dependencies"])
    for service in SERVICES:
        for kind in ("pull", "main", "tag"):
            text = "\n".join(s.script for s in house.steps(service, Event(kind, "c", "v1")))
            found = re.findall(r"pip install -e '\.\[([\w,]+)\]'", text)
            assert len(found) == 1
            assert set(found[0].split(",")) <= known


@pytest.mark.parametrize("service", SERVICES)
def test_secrets_are_in_no_step_of_a_pull_request(house: House, service: str) -> None:
    for step in house.steps(service, Event("pull", house.commit)):
        assert not set(step.environment.values()) & set(house.secrets.values())
        assert "push" not in step.script
        assert "sign" not in step.script.replace("SKIP_SIGNATURE", "")
