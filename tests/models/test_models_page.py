"""The example of docs/MODELS.md runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest


def test_the_example_of_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    text = (Path(__file__).parents[2] / "docs/MODELS.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", text, re.S)
    exec(compile(code, "MODELS.md", "exec"), {})
    assert capsys.readouterr().out == "['token', 'logits']\n"
