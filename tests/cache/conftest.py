"""Real servers of S3 and of the Remote Execution API, on loopback, one of each for a session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import cache_servers


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A running S3 server: the environment that leads to it, with the bucket `bucket`."""
    with cache_servers.s3() as environment:
        yield environment


@pytest.fixture(scope="session")
def reapi(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a running server of the Remote Execution API."""
    with cache_servers.reapi(tmp_path_factory.mktemp("reapi")) as url:
        yield url
