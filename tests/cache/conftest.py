"""Servers of S3 and of the Remote Execution API, on loopback: real ones, one of each for a session,
and doubles of them that do what no server should."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import cache_servers
from cache_doubles import BadObjects, BadReapi, bad_objects, bad_reapi
from need import Need


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A running S3 server: the environment that leads to it, with the bucket `bucket`."""
    with cache_servers.s3() as environment:
        yield environment


@pytest.fixture(scope="session")
def reapi_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a running server of the Remote Execution API."""
    with cache_servers.reapi(tmp_path_factory.mktemp("reapi")) as url:
        yield url


@pytest.fixture
def objects(monkeypatch: pytest.MonkeyPatch, require: Need) -> Iterator[BadObjects]:
    """A double of an S3 server; the environment leads to its bucket `bucket`."""
    require("obstore")
    with bad_objects() as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        yield server


@pytest.fixture
def reapi(require: Need) -> Iterator[BadReapi]:
    """A double of a server of the Remote Execution API."""
    require("grpc")
    with bad_reapi() as server:
        yield server


@pytest.fixture(params=["objects", "reapi"])
def bad(request: pytest.FixtureRequest) -> Any:
    """A double of either kind."""
    server = request.getfixturevalue(request.param)
    if request.param == "objects":
        server.url = "s3://bucket/x"
    return server
