"""What every test may use: fresh random numbers that can be repeated, and required devices."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from need import Need

_SEED = pytest.StashKey[int]()

# Every LLVM module of the tests, also in processes that they start.
os.environ.setdefault("GRISTMILL_VERIFY", "llvm")


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """A generator with a fresh seed; a failing test shows it, GRISTMILL_SEED repeats it."""
    text = os.environ.get("GRISTMILL_SEED")
    seed = int(text) if text else int.from_bytes(os.urandom(4), "little")
    request.node.stash[_SEED] = seed
    return np.random.default_rng(seed)


@pytest.fixture(scope="session")
def store_of_builds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store for builds of what ships. One that GRISTMILL_STORE names has what the run before
    the tests built, of these sources, as keys hold the digest of the compiler's; without it a store
    of this run, for all of its processes."""
    named = os.environ.get("GRISTMILL_STORE")
    own = tmp_path_factory.getbasetemp().parent / "store-of-shipped-kernels"
    return Path(named) if named else own


@pytest.fixture
def require() -> Callable[..., None]:
    """`require("vulkan")`: skip where it is missing, fail where GRISTMILL_REQUIRE lists it.

    `require("vulkan", "no f64")` says that it is missing for a reason the test found itself.
    """
    return Need.from_environment(os.environ)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report = yield
    seed = item.stash.get(_SEED, None)
    if report.failed and seed is not None:
        report.sections.append(("seed", f"repeat with GRISTMILL_SEED={seed}"))
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What tests tell by `record_property("summary", LINE)`, also from other processes."""
    reports = [r for kind in ("passed", "failed") for r in terminalreporter.stats.get(kind, [])]
    for line in (text for r in reports for name, text in r.user_properties if name == "summary"):
        terminalreporter.write_line(str(line))
