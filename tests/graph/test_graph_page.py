"""docs/GRAPHS.md has the ops that there are, and its example runs."""

from __future__ import annotations

import re

import pytest

from graph_page import PAGE, TABLES, renewed
from language_page import BLOCK


def test_the_page_has_the_ops_that_there_are() -> None:
    text = PAGE.read_text()
    assert renewed(text) == text, "run python tests/graph_page.py"
    assert {m[1] for m in BLOCK.findall(text)} == set(TABLES)


def test_the_example_of_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    exec(compile(code, "GRAPHS.md", "exec"), {})
    shown = capsys.readouterr().out
    assert " donate" in shown
    assert "[[0. 0. 0. 0.]" in shown
