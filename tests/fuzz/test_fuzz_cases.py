"""What the fuzzer has found stays mended: every stored program on every target.

A file of `cases` is named after what went wrong, and its first remarks say what that was. A remark
`# not on TARGET: reason` excepts a target whose driver is at fault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fuzz_targets import NEEDS, SPECS, environment
from gristmill.fuzz.client import Client

CASES = sorted((Path(__file__).parent / "cases").glob("*.*"))


@pytest.fixture(scope="module")
def clients() -> Iterator[dict[str, Client]]:
    """Targets started so far."""
    started: dict[str, Client] = {}
    yield started
    for client in started.values():
        client.close()


@pytest.mark.parametrize("target", SPECS)
@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
def test_a_found_program_gives_on_every_target_what_the_oracle_gives(
    case: Path, target: str, clients: dict[str, Client], require: Callable[..., None]
) -> None:
    if (case.suffix == ".python") != (target == "python"):
        return  # a program in Python is the tracer's alone
    text = case.read_text()
    if f"# not on {target}: " in text:
        return
    for need in NEEDS.get(target, ()):
        require(need)
    if target not in clients:
        clients[target] = Client(SPECS[target], 300, environment(target))
    outcome = clients[target].ask("program", text)
    assert outcome.good, f"{case.name} on {target}: {outcome}"


def test_there_are_cases() -> None:
    assert CASES
