"""Clusters of processes for the tests of the farm."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from farm_cluster import Loopback
from need import Need


@pytest.fixture
def cluster(tmp_path: Path, require: Need) -> Iterator[Loopback]:
    """A scheduler without workers."""
    require("distributed")
    found = Loopback(tmp_path)
    yield found
    found.close()
