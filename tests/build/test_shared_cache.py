"""`scons cache=`: builds of clean machines share what one of them has made."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import cache_servers
from cache_doubles import bad_objects, bad_reapi
from need import Need
from project import Project

STEPS = 6  # three traces, three compiles
STAGES = 2  # of the compiler, whose sources are kept beside what they made


def clean(project: Project) -> None:
    """As a machine that has built nothing yet."""
    shutil.rmtree(project.store, ignore_errors=True)
    shutil.rmtree(project.path("artifacts"), ignore_errors=True)


def report(project: Project) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(project.path("artifacts/.cache.json").read_text())
    return data


@pytest.mark.parametrize("kind", ["folder", "file", "s3", "reapi"])
def test_a_clean_machine_builds_nothing_that_another_has_built(
    kind: str, project: Project, tmp_path: Path, require: Need
) -> None:
    if kind == "folder":
        twice(project, str(tmp_path / "cache"))
    elif kind == "file":
        require("obstore")
        twice(project, f"file://{tmp_path}/cache")
    elif kind == "s3":
        require("obstore")
        require("moto_server")
        with cache_servers.s3() as environment:
            twice(project, "s3://bucket/builds", **environment)
    else:
        require("grpc")
        require("bgd")
        with cache_servers.reapi(tmp_path) as url:
            twice(project, url)


def twice(project: Project, url: str, **environment: str) -> None:
    """Build on two clean machines, the second one with the cache alone."""
    first = project.scons(f"cache={url}", **environment)
    assert (first.status, first.err) == (0, "")
    assert (first.built, first.stored) == (STEPS, 0)
    assert f"cache {url}: 0.0 % hits" in first.out
    assert report(project)["cache"]["published"] == STEPS + STAGES
    artifacts = project.artifacts()
    clean(project)
    second = project.scons(GRISTMILL_CACHE=url, GRISTMILL_CACHE_MODE="read", **environment)
    assert (second.status, second.err) == (0, "")
    assert (second.built, second.stored) == (0, STEPS)
    assert "from the store (100 %)" in second.out
    assert f"cache {url}: 100.0 % hits: 0 local, {STEPS} from it" in second.out
    assert project.artifacts() == artifacts
    said = report(project)
    assert (said["hit_rate"], said["cache"]["hits"], said["local"]["hits"]) == (1.0, STEPS, 0)
    assert said["cache"]["seconds"] > 0
    assert said["cache"]["bytes_read"] > 0
    assert (said["built"], said["stored"], said["cache"]["url"]) == (0, STEPS, url)


def test_builds_that_share_a_store_do_each_step_once(project: Project, tmp_path: Path) -> None:
    """Four checkouts at once, in different folders, and one empty store."""
    others = [Project(tmp_path / f"{n}", project.compiler) for n in range(3)]
    everyone = [project, *others]
    started = [p.start(GRISTMILL_STORE=str(project.store)) for p in everyone]
    said = [process.communicate(timeout=120) for process in started]
    assert [(p.returncode, err) for p, (_, err) in zip(started, said, strict=True)] == [(0, "")] * 4
    built = [int(out.split("gristmill: ")[1].split()[0]) for out, _ in said]
    assert sum(built) == STEPS
    assert all(other.artifacts() == project.artifacts() for other in others)


def test_readers_do_not_publish(project: Project, tmp_path: Path) -> None:
    """A pull request's build takes from the cache and puts nothing there."""
    cache = tmp_path / "cache"
    assert project.scons(f"cache={cache}", "cache_mode=read").built == STEPS
    assert not (cache / "ac").exists()
    clean(project)
    assert project.scons(f"cache={cache}", "cache_mode=off").built == STEPS
    assert not (cache / "ac").exists()


@pytest.mark.parametrize("kind", ["gone", "hang", "500"])
def test_a_cache_that_is_of_no_use_costs_one_warning(
    kind: str, project: Project, require: Need
) -> None:
    """The work is done here."""
    require("grpc")
    require("obstore")
    if kind == "500":
        with bad_objects() as server:
            server.behaviour = "500"
            run = project.scons("cache=s3://bucket/x", **server.environment)
    else:
        with bad_reapi() as double:
            double.behaviour = "hang"
            url = double.url if kind == "hang" else "grpc://127.0.0.1:9/main"
            run = project.scons(f"cache={url}", GRISTMILL_CACHE_TIMEOUT="0.5")
    assert (run.status, run.built) == (0, STEPS)
    (warning,) = run.err.splitlines()
    assert warning.startswith("scons: warning: cache ")
    assert "it is not asked any more" in warning
    assert report(project)["cache"]["warning"] in warning
    assert run.seconds < 60


def test_a_damaged_cache_costs_a_rebuild_and_heals(project: Project, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    project.scons(f"cache={cache}")
    artifacts = project.artifacts()
    for path in (cache / "cas").glob("*/*"):
        path.write_bytes(b"garbage")
    clean(project)
    second = project.scons(f"cache={cache}")
    assert (second.status, second.built) == (0, STEPS)
    assert report(project)["cache"]["mismatches"] >= STEPS // 2  # equal contents count once
    assert " damaged there" in second.out
    assert project.artifacts() == artifacts
    clean(project)
    assert project.scons(f"cache={cache}").stored == STEPS


@pytest.mark.parametrize(
    ("words", "environment", "message"),
    [
        (["cache=ftp://x/y"], {}, "unknown kind of cache 'ftp'"),
        (["cache=grpc:///x"], {}, "expected grpc://HOST:PORT/INSTANCE"),
        (["cache_mode=write"], {}, "unknown value cache_mode=write; did you mean"),
        ([], {"GRISTMILL_CACHE": "/x", "GRISTMILL_CACHE_MODE": "yes"}, "unknown cache mode 'yes'"),
        ([], {"GRISTMILL_STORE_LIMIT": "huge"}, "GRISTMILL_STORE_LIMIT=huge is no size"),
    ],
)
def test_what_cannot_be_understood_is_told_before_anything_is_built(
    words: list[str], environment: dict[str, str], message: str, project: Project, require: Need
) -> None:
    require("grpc")
    run = project.scons(*words, **environment)
    assert run.status == 2
    assert message in run.err
    assert "Traceback" not in run.err
    assert not project.path("artifacts/kir").exists()
