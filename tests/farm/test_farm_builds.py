"""`scons farm=`: a build by a cluster of processes of this machine."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from farm_cluster import Loopback
from need import Need
from project import Project, copy_compiler


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "checkout", copy_compiler(tmp_path / "compiler"))


def test_a_build_by_a_farm_is_the_same_build(cluster: Loopback, project: Project) -> None:
    cache = project.path("cache")
    where = str(project.compiler.parent)
    cluster.worker(GRISTMILL_CACHE=str(cache), PYTHONPATH=where)
    run = project.scons(f"farm={cluster.address}", f"cache={cache}")
    assert (run.status, run.err, run.built) == (0, "", 6)
    did = rf"gristmill: farm {re.escape(cluster.address)}: 3 steps by it, [1-3] of them compiled he"
    assert re.search(did, run.out), run.out  # which ones beside the first, is drawn
    farmed = project.artifacts()
    alone = Project(project.root.parents[1] / "alone", project.compiler)
    assert alone.scons().status == 0
    assert alone.artifacts() == farmed


def test_without_a_cluster_it_is_the_local_pool(project: Project, require: Need) -> None:
    require("distributed")
    run = project.scons("farm=tcp://127.0.0.1:9")
    assert (run.status, run.built) == (0, 6)
    (warning,) = run.err.splitlines()
    assert warning.startswith("scons: warning: farm tcp://127.0.0.1:9: no scheduler answers")
    assert "0 steps by it" in run.out


def test_what_is_no_farm_is_told_before_anything_is_built(project: Project) -> None:
    run = project.scons("farm=http://x:1")
    assert run.status == 2
    assert run.err == "scons: farm=http://x:1: expected tcp://HOST:PORT or tls://HOST:PORT\n"
